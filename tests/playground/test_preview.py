"""The live preview of a new run: the same prompt, body and figures as the dry run and the run itself."""

from __future__ import annotations

import html
import json
import re
from decimal import Decimal

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from llmcore.context.budget import WindowUse
from llmcore.context.tokens import Share
from llmcore.models import Skill
from llmcore.providers.scripted.scenario import Turn
from llmcore.tools.base import Tool
from playground.models import Run, RunContent
from playground.reading.preview import Preview
from playground.reading.window_bar import WindowBar
from playground.services.preview_run import preview_run
from playground.services.start_run import RunRequest
from tests.factories import (
    ConfigurationFactory,
    LanguageModelFactory,
    ProviderFactory,
    SkillFactory,
    SnippetFactory,
    UserFactory,
)
from tests.playground.driven import script, site_tool
from tests.playground.new_run_form import client_with, form_data, preview_of

pytestmark = pytest.mark.django_db

MAY_RUN = "playground.add_run"


@pytest.fixture
def client() -> Client:
    return client_with(MAY_RUN, "playground.view_run", "demo.view_order", "demo.view_payment", "demo.view_refund")


def preview(request: RunRequest) -> Preview:
    return preview_run(request=request, user=UserFactory(is_superuser=True))


def notices(request: RunRequest) -> list[str]:
    return [notice.title for notice in preview(request).notices]


def sha256_in(page: str) -> str:
    found = re.search(r"data-sha256>([0-9a-f]{64})<", page)
    assert found
    return found[1]


@pytest.mark.django_db(transaction=True)
def test_preview_dry_run_and_real_run_have_the_same_bytes_and_figures() -> None:  # A5
    skill, snippet = SkillFactory(), SnippetFactory()
    with script(Turn(text="It is on its way."), tool_groups=["orders"], skills=[SkillFactory()]) as scripted:
        client = client_with(MAY_RUN, "playground.view_run", "demo.view_order")
        data = form_data(
            scripted.configuration,
            prompt="Where is\r\nmy order?",
            override="append",
            system_override="Answer in German.",
            skills=[skill.slug],
            snippets=[snippet.slug],
            tools=["get_order", "search_orders"],
            max_tokens="700",
            temperature="0.5",
        )
        shown = preview_of(client, data, view="json")
        client.post(reverse("playground:new_run"), {**data, "dry_run": "1"})
        client.post(reverse("playground:new_run"), data)
        real, dry = Run.objects.order_by("-pk")[:2]
        assert (dry.dry_run, real.dry_run) == (True, False)
        dry_step = scripted.drive(dry).steps.get(kind="assembled").data
        real_step = scripted.drive(real).steps.get(kind="request").data
        [sent] = [request for request in scripted.model.requests if request.method == "POST"]
        figures = preview_run(request=RunRequest.from_json(real.request), user=real.user).window
    exact = RunContent.objects.get(run=dry, digest=dry_step["body"]).value
    assert sent.body == exact.encode()
    assert sha256_in(shown) == dry_step["body_sha256"] == real_step["body_sha256"]
    assert figures.total == dry_step["input_tokens_estimate"] == real_step["input_tokens_estimate"]
    assert [tool["function"]["name"] for tool in json.loads(sent.body)["tools"]] == ["get_order", "search_orders"]


def test_exact_view_shows_the_body_as_it_would_be_sent(client: Client) -> None:
    data = form_data(ConfigurationFactory(), prompt="Grüße & <b>Küsse</b>")
    shown = re.search(r"<pre data-body>(.*?)</pre>", preview_of(client, data, view="exact"), re.DOTALL)
    indented = re.search(r"<pre data-body>(.*?)</pre>", preview_of(client, data, view="json"), re.DOTALL)
    assert shown and indented
    body = html.unescape(shown[1])
    assert json.loads(body) == json.loads(html.unescape(indented[1]))
    assert json.loads(body)["messages"][-1]["content"] == "Grüße & <b>Küsse</b>"
    assert "\n" not in body


def test_prompt_is_never_markup(client: Client) -> None:
    data = form_data(ConfigurationFactory(), prompt="<script>alert(1)</script>")
    for view in ("source", "plain", "json", "exact"):
        assert "<script>" not in preview_of(client, data, view=view)


def test_shares_of_the_window_add_up_to_the_whole(client: Client) -> None:
    model = LanguageModelFactory(context_window=16_384, max_output_tokens=1_000)
    configuration = ConfigurationFactory(model=model, tool_groups=["orders"], skills=[SkillFactory()])
    # Longer than what the recorded request counts piece by piece.
    window = preview(RunRequest(configuration=configuration.slug, prompt="One more word, please. " * 3_000)).window
    assert sum(share.value for share in window.shares) == window.total
    assert {share.css for share in window.shares} >= {"tooldef", "config", "skill", "user"}
    assert (window.size, window.use.reserve) == (16_384, 1_000)
    assert window.total + window.use.reserve + window.use.margin + window.use.free == 16_384  # C1


def test_bar_ends_with_the_margin_and_the_reserve() -> None:
    window = WindowBar(WindowUse(shares={Share.USER: 300}, window=1_000, reserve=200, margin=30))
    drawn = [(part.css, part.value) for part in window.segments]
    assert drawn == [("user", 300), ("skel", 470), ("margin", 30), ("reserve", 200)]
    assert [(mark.x, mark.text) for mark in window.marks] == [("0", "0"), ("100", "1,000"), ("30.0", "300")]
    assert window.label == "300 of 1,000 tokens taken by the prompt, 200 reserved for the answer"
    assert (window.percent, window.x, window.over) == ("30\u00a0%", "30.0", 0)


def test_prompt_that_is_too_long_says_by_how_much() -> None:
    window = WindowBar(WindowUse(shares={Share.USER: 900}, window=1_000, reserve=200, margin=90))
    assert window.over == 190 and "skel" not in [part.css for part in window.legend]


def test_estimate_is_exact_in_the_models_prices() -> None:  # M2
    model = LanguageModelFactory(
        context_window=10_000,
        input_price=Decimal("0.25"),
        cache_read_price=Decimal("0.025"),
        output_price=Decimal(2),
    )
    configuration = ConfigurationFactory(model=model, max_tokens=500)
    seen = preview(RunRequest(configuration=configuration.slug, prompt="Hello"))
    assert seen.estimate.prompt == seen.window.total * Decimal("0.25") / 1_000_000
    assert seen.estimate.cached == seen.window.total * Decimal("0.025") / 1_000_000
    assert seen.estimate.completion == Decimal("0.001")


def test_unpriced_model_has_no_estimate_and_an_unknown_window_no_bound() -> None:  # M2
    seen = preview(RunRequest(configuration=ConfigurationFactory().slug, prompt="Hello"))
    assert (seen.estimate.prompt, seen.estimate.cached, seen.estimate.completion) == (None, None, None)
    assert (seen.window.size, seen.window.use.reserve, seen.window.use.margin) == (None, None, None)


def test_segments_are_labelled_with_their_source(client: Client) -> None:
    snippet = SnippetFactory(name="House tone", body="Friendly.")
    page = preview_of(client, form_data(ConfigurationFactory(snippets=[snippet])))
    assert "House tone" in page and "Configuration prompt" in page and "User prompt" in page
    assert '<section class="pg-seg p-snippet">' in page


def test_sources_can_be_edited_by_those_who_may() -> None:
    data = form_data(ConfigurationFactory(skills=[SkillFactory()]))
    assert "Edit" not in preview_of(client_with(MAY_RUN), data)
    page = preview_of(client_with(MAY_RUN, "llmcore.change_skill"), data)
    assert "Edit skill" in page and "Edit configuration" not in page


def test_long_text_is_folded_and_bounded(client: Client) -> None:
    data = form_data(ConfigurationFactory(), prompt="word " * 10_000)
    page = preview_of(client, data)
    assert "Show all (50.0\u00a0kB)" in page
    assert "more characters are in the plain view" in page
    assert len(page) < 60_000
    assert preview_of(client, data, view="plain").count("word ") >= 9_999


def test_a_parameter_that_does_not_go_out_is_told_before_the_run() -> None:
    provider = ProviderFactory(adapter="anthropic", base_url="https://api.anthropic.com/v1")
    model = LanguageModelFactory(provider=provider, supports_thinking=True)
    configuration = ConfigurationFactory(model=model, temperature=0.5, seed=7, thinking="high")

    assert notices(RunRequest(configuration=configuration.slug, prompt="Go")) == [
        "Seed is left out of the request",
        "Temperature is left out of the request",
    ]


def test_what_is_left_out_is_listed_with_its_reason(client: Client) -> None:  # A4
    skills = [SkillFactory(name="Small"), SkillFactory(name="Huge", body="x" * 3_000), SkillFactory(name="Last")]
    changed = SkillFactory(name="Changed", sha256="0" * 64)
    configuration = ConfigurationFactory(skill_budget_bytes=2_000)
    data = form_data(configuration, skills=[changed.slug, *(skill.slug for skill in skills)])
    page = html.unescape(preview_of(client, data))
    assert "2 skills are left out" in page and "After it: Last." in page
    assert "Skill Changed is left out" in page
    assert page.count("pg-seg--dropped") == 3
    assert f'data-left-out="skills {changed.slug}|skills {skills[1].slug}|skills {skills[2].slug}"' in page


def test_skill_that_the_configuration_has_anyway_is_not_called_left_out() -> None:  # A3
    skill = SkillFactory()
    seen = preview(
        RunRequest(configuration=ConfigurationFactory(skills=[skill]).slug, prompt="Hello", skills=(skill.slug,))
    )
    assert [item.reason.value for item in seen.dropped] == ["duplicate"]
    assert ([notice.id for notice in seen.notices], seen.forced_in_vain) == (["chosen_twice"], "")


def test_empty_override_is_said_to_replace_the_system_prompt_with_nothing() -> None:  # A8
    request = RunRequest(configuration=ConfigurationFactory().slug, prompt="Hello", system_override="")
    assert notices(request) == ["The override is empty: it replaces the system prompt with nothing"]
    assert [message.message.role for message in preview(request).messages] == ["user"]


def test_prompt_that_does_not_fit_the_window_is_an_error() -> None:
    configuration = ConfigurationFactory(model=LanguageModelFactory(context_window=200), max_tokens=100)
    assert notices(RunRequest(configuration=configuration.slug, prompt="word " * 400)) == [
        "The prompt doesn't fit the model's window"
    ]
    assert notices(RunRequest(configuration=configuration.slug, prompt="word " * 100)) == [
        "The answer doesn't fit the model's window"
    ]
    assert notices(RunRequest(configuration=configuration.slug, prompt="word")) == []


def test_tools_that_are_not_offered_are_named_with_the_reason() -> None:  # L2
    approval = Tool(
        name="wipe", description="Wipes.", parameters={"type": "object"}, run=str, group="test", requires_approval=True
    )
    skill = SkillFactory(name="Narrow", allowed_tools=["get_order", "no_such_tool"])
    configuration = ConfigurationFactory(tool_groups=["orders", "test"])
    with site_tool(approval):
        tools = ("get_order", "list_refunds", "wipe", "gone")
        found = notices(RunRequest(configuration=configuration.slug, prompt="Hello", tools=tools))
        narrowed = notices(
            RunRequest(configuration=configuration.slug, prompt="Hello", tools=tools[:2], skills=(skill.slug,))
        )
    assert found == ["1 tool not offered: gone", "1 tool needs approval: wipe"]
    assert narrowed[0] == "1 tool not offered: list_refunds"
    assert "no_such_tool" in narrowed[1]


def test_preview_needs_no_key_and_says_that_the_run_would() -> None:  # A5
    provider = ProviderFactory(key_env="A_KEY_THAT_IS_NOT_SET")
    configuration = ConfigurationFactory(model=LanguageModelFactory(provider=provider))
    seen = preview(RunRequest(configuration=configuration.slug, prompt="Hello"))
    assert [notice.title for notice in seen.notices] == ["A run would fail, a dry run wouldn't"]
    assert seen.prepared.wire.body


def test_preview_works_before_there_is_a_prompt(client: Client) -> None:
    page = preview_of(client, form_data(ConfigurationFactory(), prompt=""))
    assert "There is no user prompt yet" in page
    assert "Configuration prompt" in page


def test_invalid_values_are_named_in_place_of_the_preview(client: Client) -> None:
    page = html.unescape(preview_of(client, form_data(ConfigurationFactory(), max_rounds="many")))
    assert "There is no preview of this yet." in page
    assert '<a href="#id_max_rounds" data-go>Max rounds</a>: Enter a whole number.' in page


def test_what_cannot_be_run_is_said_in_place_of_the_preview(client: Client, settings: Settings) -> None:
    settings.LLM_MAX_REQUEST_BYTES = 500
    page = html.unescape(preview_of(client, form_data(ConfigurationFactory(), prompt="word " * 200)))
    assert "This can't be run as it stands." in page and "this site allows 500" in page


def test_preview_is_for_those_who_may_start_runs() -> None:
    data = form_data(ConfigurationFactory())
    url = reverse("playground:preview")
    assert client_with("playground.view_run").post(url, data).status_code == 403
    assert Client().post(url, data).status_code == 302


def test_preview_changes_nothing_and_is_asked_for_by_post(client: Client) -> None:
    data = form_data(ConfigurationFactory(skills=[SkillFactory()]))
    before = list(Skill.objects.values())
    preview_of(client, data)
    assert client.get(reverse("playground:preview")).status_code == 405
    assert not Run.objects.exists()
    assert list(Skill.objects.values()) == before


def test_preview_of_another_site_is_refused() -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(UserFactory(is_superuser=True))
    assert client.post(reverse("playground:preview"), form_data(ConfigurationFactory())).status_code == 403
