"""The form that starts a run."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from llmcore.models import Configuration, ToolGroupSwitch, ToolPreset, ToolSwitch
from llmcore.tools.base import Tool
from playground.models import Run
from playground.services.start_run import RunRequest, write_run
from tests.factories import (
    ConfigurationFactory,
    LanguageModelFactory,
    ProviderFactory,
    SkillFactory,
    SnippetFactory,
    UserFactory,
)
from tests.playground.driven import site_tool
from tests.playground.new_run_form import client_with, form_data

pytestmark = pytest.mark.django_db

MAY_RUN = ("playground.add_run", "playground.view_run", "demo.view_order", "demo.view_payment", "demo.view_refund")
URL = "/admin/playground/new/"


@pytest.fixture
def client() -> Client:
    return client_with(*MAY_RUN)


def page_of(response: HttpResponse) -> str:
    assert response.status_code == 200
    return html.unescape(response.content.decode())


def sent(client: Client, data: dict[str, Any]) -> RunRequest:
    """The request of the run that the form starts."""
    response = client.post(URL, data)
    run = Run.objects.latest("pk")
    assert response.headers["Location"] == reverse("playground:run", args=[run.pk]), response.content.decode()
    return RunRequest.from_json(run.request)


def refused(client: Client, data: dict[str, Any]) -> str:
    page = page_of(client.post(URL, data))
    assert not Run.objects.exists()
    assert "Nothing was started." in page
    return page


def ticked(page: str, name: str) -> list[str]:
    return re.findall(rf'<input type="checkbox" name="{name}" value="([^"]+)"[^>]* checked>', page)


def test_form_is_for_those_who_may_start_runs() -> None:
    ConfigurationFactory()
    assert Client().get(URL).status_code == 302
    assert client_with("playground.view_run").get(URL).status_code == 403
    assert client_with("playground.view_run").post(URL, {}).status_code == 403
    assert client_with("playground.add_run").get(URL).status_code == 200


def test_opening_the_form_starts_nothing(client: Client) -> None:
    client.get(URL, form_data(ConfigurationFactory()))
    assert not Run.objects.exists()


def chosen_at_first(client: Client) -> str:
    return re.findall(r'<option value="([^"]+)" selected', page_of(client.get(URL)))[0]


def test_form_begins_with_the_configuration_that_the_user_ran_last() -> None:
    for slug in ("a-first", "b-mine", "c-theirs"):
        ConfigurationFactory(name=slug, slug=slug)
    me, other = (UserFactory(permissions=["playground.add_run"]) for _ in range(2))
    client = Client()
    client.force_login(me)
    assert chosen_at_first(client) == "a-first"

    for slug, by in (("b-mine", me), ("c-theirs", other)):
        write_run(request=RunRequest(configuration=slug, prompt="Hello?"), by=by)
    assert chosen_at_first(client) == "b-mine"

    Configuration.objects.filter(slug="b-mine").update(enabled=False)
    assert chosen_at_first(client) == "a-first"


def test_form_begins_for_a_new_user_with_what_has_worked() -> None:
    for slug in ("a-first", "b-worked", "c-failed"):
        ConfigurationFactory(name=slug, slug=slug)
    for slug, status in (("b-worked", "completed"), ("c-failed", "failed")):
        run = write_run(request=RunRequest(configuration=slug, prompt="Hello?"), by=None)
        Run.objects.filter(pk=run.pk).update(status=status)

    assert chosen_at_first(client_with("playground.add_run")) == "b-worked"


def test_form_of_another_site_is_refused() -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(UserFactory(is_superuser=True))
    assert client.post(URL, form_data(ConfigurationFactory())).status_code == 403


def test_untouched_form_shows_the_first_usable_configuration_with_its_facts_and_tools(client: Client) -> None:
    model = LanguageModelFactory(
        context_window=16_384, input_price="0.25", cache_read_price="0.025", output_price="2.00"
    )
    ConfigurationFactory(name="A", enabled=False)
    ConfigurationFactory(name="B", model=LanguageModelFactory(provider=ProviderFactory(enabled=False)))
    ConfigurationFactory(name="C", model=LanguageModelFactory(enabled=False))
    first = ConfigurationFactory(name="D", model=model, tool_groups=["orders"], tools=["get_order", "list_refunds"])
    second = ConfigurationFactory(name="E")
    page = page_of(client.get(URL))
    assert re.findall(r'<option value="(configuration-\d+)"', page) == [first.slug, second.slug]
    assert f'<option value="{first.slug}" selected>' in page
    assert "16,384" in page and "$0.25 in, $2.00 out" in page and "cached $0.025" in page
    assert ticked(page, "tools") == ["get_order", "list_refunds"]


def test_form_as_it_stands_starts_a_run_of_that_user(client: Client) -> None:
    configuration = ConfigurationFactory()
    request = sent(client, form_data(configuration))
    assert request == RunRequest(configuration=configuration.slug, prompt="Where is my order?", tools=())
    run = Run.objects.get()
    assert str(run.user_id) == client.session["_auth_user_id"]
    assert (run.status, run.dry_run, run.parent) == ("queued", False, None)


def test_everything_that_was_chosen_reaches_the_request(client: Client) -> None:
    model = LanguageModelFactory(supports_thinking=True)
    configuration = ConfigurationFactory(model=model, tool_groups=["orders"])
    skills = [SkillFactory(), SkillFactory(enabled=False), SkillFactory()]
    snippets = [SnippetFactory(), SnippetFactory()]
    request = sent(
        client,
        form_data(
            configuration,
            prompt="  Two lines,\r\nkept as typed.  ",
            override="append",
            system_override="In German.",
            skills=[skills[2].slug, skills[0].slug, skills[1].slug],
            snippets=[snippets[1].slug, snippets[0].slug],
            tools=["list_refunds", "get_order"],
            max_rounds="8",
            max_tokens="900",
            temperature="0.3",
            thinking="high",
            capture_raw="on",
            dry_run="1",
        ),
    )
    assert request == RunRequest(
        configuration=configuration.slug,
        prompt="  Two lines,\nkept as typed.  ",
        system_override="In German.",
        override_mode="append",
        skills=(skills[2].slug, skills[0].slug, skills[1].slug),
        snippets=(snippets[1].slug, snippets[0].slug),
        tools=("list_refunds", "get_order"),
        max_rounds=8,
        max_tokens=900,
        temperature=0.3,
        thinking="high",
        capture_raw=True,
        dry_run=True,
    )


def test_no_ticked_tool_means_no_tool(client: Client) -> None:  # L3
    assert sent(client, form_data(ConfigurationFactory(tool_groups=["orders"]))).tools == ()


def test_tools_follow_a_configuration_that_they_were_not_shown_for(client: Client) -> None:
    shown, chosen = ConfigurationFactory(tool_groups=["orders"]), ConfigurationFactory(tool_groups=["policies"])
    data = form_data(chosen, tools_of=shown.slug, tools=["get_order"])
    assert sent(client, data).tools is None


def test_override_given_but_empty_is_not_the_same_as_none(client: Client) -> None:  # A8
    configuration = ConfigurationFactory()
    assert sent(client, form_data(configuration)).system_override is None
    request = sent(client, form_data(configuration, override="replace"))
    assert (request.system_override, request.override_mode) == ("", "replace")


def test_text_of_an_override_that_is_not_given_is_not_sent(client: Client) -> None:
    assert sent(client, form_data(ConfigurationFactory(), system_override="A draft.")).system_override is None


def test_nothing_of_the_form_is_lost_when_something_is_wrong(client: Client) -> None:
    configuration = ConfigurationFactory(tool_groups=["orders"])
    ConfigurationFactory(name="A")
    skills = [SkillFactory(name="One"), SkillFactory(name="Two")]
    snippet = SnippetFactory()
    page = refused(
        client,
        form_data(
            configuration,
            prompt=" \n",
            override="replace",
            system_override="  <In German>.",
            skills=[skills[1].slug, skills[0].slug],
            snippets=[snippet.slug],
            tools=["get_order"],
            max_rounds="many",
            temperature="3",
            capture_raw="on",
        ),
    )
    assert f'<option value="{configuration.slug}" selected>' in page
    assert "Enter a user prompt." in page
    assert "Enter a whole number." in page and 'name="max_rounds" id="id_max_rounds" value="many"' in page
    assert "less than or equal to 2" in page and 'id="id_temperature" value="3"' in page
    assert '<input type="radio" name="override" value="replace" checked>' in page
    assert "  <In German>.</textarea>" in page
    assert ticked(page, "skills") == [skills[1].slug, skills[0].slug]
    assert ticked(page, "snippets") == [snippet.slug]
    assert ticked(page, "tools") == ["get_order"]
    assert 'name="capture_raw" checked' in page
    assert '<details class="pg-adv" data-advanced open>' in page


@pytest.mark.parametrize("name", ["prompt", "system_override"])
def test_text_that_is_too_long_is_refused_and_kept(client: Client, name: str) -> None:
    data = form_data(ConfigurationFactory(), override="append") | {name: "ä" * 500_001}
    page = refused(client, data)
    assert "This is longer than 1 MB." in page
    assert "ä" * 500_001 in page


def test_rounds_are_bounded_by_the_site(client: Client, settings: Settings) -> None:  # L1
    settings.LLM_MAX_ROUNDS = 12
    assert "This site allows at most 12 rounds." in refused(client, form_data(ConfigurationFactory(), max_rounds="13"))
    assert "greater than or equal to 1" in refused(client, form_data(ConfigurationFactory(), max_rounds="0"))


def test_what_the_model_cannot_do_is_shown_and_refused(client: Client) -> None:
    model = LanguageModelFactory(supports_temperature=False, supports_thinking=False, max_output_tokens=1_000)
    configuration = ConfigurationFactory(model=model)
    assert page_of(client.get(URL)).count('value="not supported" disabled') == 2
    refused(client, form_data(configuration, temperature="0.5"))
    refused(client, form_data(configuration, thinking="low"))
    page = refused(client, form_data(configuration, max_tokens="1001"))
    assert "This model gives at most 1,000 tokens." in page


@pytest.mark.parametrize("name", ["skills", "snippets", "tools", "configuration"])
def test_what_does_not_exist_cannot_be_chosen(client: Client, name: str) -> None:
    refused(client, form_data(ConfigurationFactory()) | {name: "gone"})


def test_configuration_that_is_disabled_meanwhile_starts_nothing(client: Client) -> None:
    configuration = ConfigurationFactory()
    ConfigurationFactory()
    Configuration.objects.filter(pk=configuration.pk).update(enabled=False)
    page = refused(client, form_data(configuration))
    assert f"{configuration.slug} is not one of the available choices" in page


def test_tools_that_cannot_be_used_are_disabled_with_the_reason() -> None:  # L2
    wipe = Tool(name="wipe", description="Wipes.", parameters={"type": "object"}, run=str, requires_approval=True)
    ConfigurationFactory(tool_groups=["orders", "customers", "policies", "general"])
    ToolSwitch.objects.create(name="get_order", enabled=False)
    ToolGroupSwitch.objects.create(name="policies", enabled=False)
    with site_tool(wipe):
        page = page_of(client_with(*MAY_RUN).get(URL))
    off = set(re.findall(r'name="tools" value="([^"]+)"[^>]* disabled', page))
    assert off >= {"get_order", "get_customer", "list_policies", "read_policy", "sales_summary"}
    assert off.isdisjoint(ticked(page, "tools"))
    assert ticked(page, "tools") == ["wipe", "list_payments", "list_refunds", "search_orders"]
    assert "The tool is disabled on this site" in page
    assert "Its group 'policies' is disabled on this site" in page
    assert "You lack the permission 'demo.view_customer'" in page
    assert "The configuration doesn't have its group 'reports'" in page
    assert "needs approval" in page
    assert page.count('href="#i-lock"') == 3, "one explains them, one is the tool's, one the preview's"


def test_what_a_workspace_switches_off_is_said_before_the_run(
    client: Client, settings: Settings, tmp_path: Path
) -> None:
    settings.LLM_WORKSPACES = {"shop": {"root": str(tmp_path)}}  # K4
    ConfigurationFactory(tool_groups=["workspace"], workspace="shop")
    page = page_of(client.get(URL))
    assert "Writing is off in the workspace 'shop' (setting LLM_WORKSPACES)" in page
    assert "The terminal is off in the workspace 'shop' (setting LLM_WORKSPACES)" in page
    assert ticked(page, "tools") == ["read_file", "search_workspace"]


def test_lock_is_explained_only_where_there_is_one(client: Client) -> None:
    ConfigurationFactory(tool_groups=["orders"])
    assert "needs approval" not in page_of(client.get(URL))


def test_choosing_another_configuration_brings_its_tools_and_facts_and_keeps_the_rest(client: Client) -> None:
    skill = SkillFactory()
    before = ConfigurationFactory(tool_groups=["orders"])
    after = ConfigurationFactory(
        tool_groups=["policies"], model=LanguageModelFactory(context_window=4_096), skills=[skill]
    )
    data = form_data(after, tools_of=before.slug, tools=["get_order"], skills=[skill.slug], max_rounds="7")
    response = client.post(reverse("playground:new_run_choices"), data, headers={"HX-Request": "true"})
    page = page_of(response)
    assert ticked(page, "tools") == ["list_policies", "read_policy"]
    assert f'name="tools_of" value="{after.slug}"' in page
    assert 'id="facts" hx-swap-oob="true"' in page and "4,096" in page
    assert ticked(page, "skills") == [skill.slug] and "in the configuration" in page
    assert 'id="id_max_rounds" value="7"' in page
    assert "<html" not in page
    assert client.get(reverse("playground:new_run_choices")).status_code == 405


def earlier_run(client: Client, **changes: Any) -> Run:
    request = RunRequest(**{"prompt": "Again?", **changes})
    return write_run(request=request, by=None if client is None else user_of(client))


def user_of(client: Client) -> Any:
    return UserFactory._meta.model.objects.get(pk=client.session["_auth_user_id"])


def test_form_is_filled_like_an_earlier_run(client: Client) -> None:
    ConfigurationFactory(name="A")
    configuration = ConfigurationFactory(name="B", tool_groups=["orders"])
    skills = [SkillFactory(), SkillFactory()]
    run = earlier_run(
        client,
        configuration=configuration.slug,
        system_override="",
        skills=(skills[1].slug, skills[0].slug),
        tools=("get_order",),
        temperature=0.2,
        capture_raw=True,
    )
    page = page_of(client.get(URL, {"from": run.pk}))
    assert f'<option value="{configuration.slug}" selected>' in page
    assert "Again?</textarea>" in page
    assert '<input type="radio" name="override" value="replace" checked>' in page
    assert ticked(page, "skills") == [skills[1].slug, skills[0].slug]
    assert ticked(page, "tools") == ["get_order"]
    assert 'id="id_temperature" value="0.2"' in page and 'name="capture_raw" checked' in page
    assert f"run {run.pk}</a>" in page and "Not as it was then" not in page


def test_run_that_named_no_tools_is_repeated_with_the_configurations(client: Client) -> None:
    configuration = ConfigurationFactory(tool_groups=["orders"], tools=["get_order"])
    run = earlier_run(client, configuration=configuration.slug)
    assert ticked(page_of(client.get(URL, {"from": run.pk})), "tools") == ["get_order"]


def test_what_no_longer_exists_of_an_earlier_run_is_said(client: Client, settings: Settings) -> None:
    settings.LLM_MAX_ROUNDS = 10
    other = ConfigurationFactory(model=LanguageModelFactory(supports_temperature=False, name="plain"))
    configuration = ConfigurationFactory(name="Z")
    run = earlier_run(
        client,
        configuration=configuration.slug,
        skills=("no-skill",),
        snippets=("no-snippet",),
        tools=("no_tool", "get_order"),
        temperature=1.0,
        max_rounds=10,
    )
    settings.LLM_MAX_ROUNDS = 4
    configuration.delete()
    page = page_of(client.get(URL, {"from": run.pk}))
    assert f'<option value="{other.slug}" selected>' in page
    for missing in (
        f"configuration {configuration.slug}",
        "skill no-skill",
        "snippet no-snippet",
        "temperature (not supported by plain)",
        "max rounds 10 (at most 4 now)",
    ):
        assert missing in page
    assert 'id="id_max_rounds" value="4"' in page


def test_tools_that_cannot_be_used_any_more_are_said(client: Client) -> None:
    configuration = ConfigurationFactory(tool_groups=["orders"])
    run = earlier_run(client, configuration=configuration.slug, tools=("no_tool", "get_order", "list_refunds"))
    ToolSwitch.objects.create(name="get_order", enabled=False)
    page = page_of(client.get(URL, {"from": run.pk}))
    assert "tool no_tool, tool get_order (the tool is disabled on this site)" in page
    assert ticked(page, "tools") == ["list_refunds"]


def test_repeated_run_knows_its_parent(client: Client) -> None:
    configuration = ConfigurationFactory()
    run = earlier_run(client, configuration=configuration.slug)
    client.post(f"{URL}?from={run.pk}", form_data(configuration))
    assert Run.objects.latest("pk").parent == run


@pytest.mark.parametrize("given", ["0", "999999", "x", "", "99999999999999999999999"])
def test_run_that_does_not_exist_cannot_be_repeated(client: Client, given: str) -> None:
    ConfigurationFactory()
    assert client.get(URL, {"from": given}).status_code == 404


def test_run_of_somebody_else_cannot_be_repeated(client: Client) -> None:  # R3
    run = write_run(request=RunRequest(configuration=ConfigurationFactory().slug, prompt="Mine"), by=UserFactory())
    assert client.get(URL, {"from": run.pk}).status_code == 404
    user_of(client).user_permissions.add(Permission.objects.get(codename="view_all_runs"))
    assert client.get(URL, {"from": run.pk}).status_code == 200


def test_page_without_a_usable_configuration_says_what_is_needed(client: Client) -> None:
    page = page_of(client.get(URL))
    assert "No configuration can be run yet" in page
    assert 'id="new_run"' not in page
    assert page_of(client.post(URL, {"configuration": "gone", "prompt": "x"}))


def test_recent_runs_are_below_the_form(client: Client) -> None:
    configuration = ConfigurationFactory()
    for number in range(7):
        earlier_run(client, configuration=configuration.slug, prompt=f"Run number {number}")
    write_run(request=RunRequest(configuration=configuration.slug, prompt="Of somebody else"), by=UserFactory())
    page = page_of(client.get(URL))
    assert [f"Run number {number}" in page for number in range(7)] == [False, False, True, True, True, True, True]
    assert "Of somebody else" not in page


def test_number_of_queries_does_not_grow_with_the_choices(client: Client, django_assert_max_num_queries: Any) -> None:
    def queries() -> int:
        with django_assert_max_num_queries(60) as captured:
            client.get(URL)
        return len(captured)

    ConfigurationFactory(tool_groups=["orders"], skills=[SkillFactory()], snippets=[SnippetFactory()])
    few = queries()
    for _ in range(10):
        ConfigurationFactory(skills=[SkillFactory()], snippets=[SnippetFactory()])
    assert queries() == few


def test_presets_tick_what_of_them_can_be_offered(client: Client) -> None:
    ToolPreset.objects.create(slug="lookup", name="Look up", tools=["search_orders", "get_customer", "terminal"])
    ToolPreset.objects.create(slug="files", name="Files", tools=["read_file"])
    ConfigurationFactory(tool_groups=["orders"])
    page = page_of(client.get(URL))
    assert 'data-preset="search_orders"' in page and "Look up" in page
    assert "Files" not in page


def test_the_preset_of_a_configuration_is_what_it_offers_by_default(client: Client) -> None:
    preset = ToolPreset.objects.create(slug="lookup", name="Look up", tools=["search_orders"])
    ConfigurationFactory(tool_groups=["orders"], tool_preset=preset)
    page = page_of(client.get(URL))
    assert ticked(page, "tools") == ["search_orders"]


def test_groups_of_which_nothing_is_offered_are_folded_with_their_reasons(client: Client) -> None:
    ConfigurationFactory(tool_groups=["orders", "workspace"])
    page = page_of(client.get(URL))
    offered, closed = page.split("Why are the other tools not offered?")
    assert 'value="search_orders"' in offered and 'value="read_file"' not in offered
    assert "The configuration has no workspace" in closed and "doesn't have its group" in closed
