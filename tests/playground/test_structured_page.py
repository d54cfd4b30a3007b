"""The form of a structured completion: its fields, what it sends, what it refuses, and who may see it."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from pytest_django import Settings

from llmcore.models import Configuration, LanguageModel
from llmcore.providers.scripted.scenario import Turn
from llmcore.structured.packs import Prompt, site_prompts
from playground.models import Run
from playground.services.purge import purge
from playground.services.start_run import RunRequest, write_run
from tests.factories import ConfigurationFactory, SkillFactory, UserFactory
from tests.llmcore.prompt_packs import INPUTS, INVALID, VALID
from tests.playground.driven import script
from tests.playground.shown import text_of
from tests.playground.structured import TEXT, site_prompt, structured

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("prompt")]

HOSTILE = "<img src=x onerror=alert(1)>\"'</pre><script>alert(2)</script>"


URL = "/admin/playground/structured/"


def form_of(configuration: Configuration, **fields: str) -> dict[str, str]:
    sent = {"prompt": "test.names", "configuration": configuration.slug, "repairs": "1", "input-text": TEXT}
    return {**sent, "variable-language": "English", **fields}


def test_a_run_is_started_with_what_was_entered(starter: Client) -> None:
    configuration = ConfigurationFactory()
    sent = form_of(configuration, title="Names of today", session="Tuesday", repairs="2", dry_run="1", capture_raw="on")
    sent["input-known"] = '{"known": [{"name": "Ada"}]}\r\n'

    response = starter.post(URL, sent)

    run = Run.objects.get()
    assert response.url == reverse("playground:run", args=[run.pk])  # type: ignore[attr-defined]
    assert (run.title, run.dry_run, run.capture_raw) == ("Names of today", True, True)
    request = RunRequest.from_json(run.request)
    assert request.variables == {"language": "English"} and request.structured is not None
    assert (request.structured.repairs, request.structured.session) == (2, "Tuesday")
    # A blank optional input is not given.
    assert [(given.name, given.text) for given in request.structured.inputs] == [
        ("known", '{"known": [{"name": "Ada"}]}\n'),
        ("text", TEXT),
    ]


@pytest.mark.htmx
def test_a_script_that_sends_the_form_is_told_the_address_or_that_nothing_was_started(starter: Client) -> None:
    form = form_of(ConfigurationFactory())
    refused = starter.post(URL, {**form, "input-text": " "})
    assert (refused.status_code, refused.content, Run.objects.count()) == (204, b"", 0)
    started = starter.post(URL, form)
    assert (started.status_code, started.content) == (201, b"")
    assert started.headers["Location"] == reverse("playground:run", args=[Run.objects.get().pk])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"input-text": " "}, "Enter this input, or choose a file."),
        ({"variable-language": "", "input-known": "{"}, "The fields below say why. Configuration"),
        ({"input-known": "{"}, "The input “known” of the prompt “test.names” is no JSON"),
        ({"repairs": "9"}, "less than or equal to 5"),
        ({"configuration": "gone"}, "not one of the available choices"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_lost(starter: Client, changes: dict[str, str], said: str) -> None:
    response = starter.post(URL, {**form_of(ConfigurationFactory()), "input-context": "Kept.", **changes})

    page = response.content.decode()
    assert response.status_code == 200 and said in text_of(page) and "Nothing was started" in page
    assert "Kept." in page and not Run.objects.exists()


def test_the_page_says_what_is_sent_and_what_the_answer_has_to_be(starter: Client, prompt: Prompt) -> None:
    configuration = ConfigurationFactory()
    page = text_of(starter.get(URL, {"prompt": "test.names"}).content.decode())

    assert "universal test/system.md system cache boundary" in page and "You find names." in page
    assert prompt.schema is not None and prompt.schema.sha256 in page and prompt.fingerprint in page
    assert "the provider holds the answer to a schema that is derived from it" in page and "JSON, optional" in page
    LanguageModel.objects.filter(configurations=configuration).update(supports_structured_output=False)
    assert "can’t be held to it" in text_of(starter.get(URL, {"prompt": "test.names"}).content.decode())


def test_the_configuration_of_the_prompt_is_chosen(tmp_path: Path, starter: Client) -> None:
    ConfigurationFactory()
    own = ConfigurationFactory()
    with site_prompt(tmp_path / "b", configuration=own.slug, title=HOSTILE):
        page = starter.get(URL, {"prompt": "test.names"}).content.decode()

    assert f'<option value="{own.slug}" selected>' in page
    assert "<img src=x" not in page and "<script>alert" not in page


def test_the_example_is_filled_in_where_there_is_one(tmp_path: Path, starter: Client) -> None:
    ConfigurationFactory()
    assert "Fill in the example" not in starter.get(URL, {"prompt": "test.names"}).content.decode()
    inputs = (*INPUTS[:2], type(INPUTS[2])(name="text", example="Mary met Jean."))
    with site_prompt(tmp_path / "b", inputs=inputs):
        assert "Fill in the example" in starter.get(URL, {"prompt": "test.names"}).content.decode()
        assert "Mary met Jean." in starter.get(URL, {"prompt": "test.names", "example": "1"}).content.decode()


def test_every_prompt_of_the_site_has_its_form(starter: Client) -> None:
    ConfigurationFactory()
    for id, prompt in site_prompts.prompts().items():
        page = starter.get(URL, {"prompt": id, "example": "1"})
        assert page.status_code == 200 and prompt.title in page.content.decode()
    assert starter.get(URL).status_code == 200
    assert starter.get(URL, {"prompt": "test.none"}).status_code == 404


def test_a_site_that_can_not_run_anything_says_so(starter: Client) -> None:
    assert "No configuration can be run yet" in starter.get(URL).content.decode()
    assert starter.post(URL, headers={"HX-Request": "true"}).status_code == 204


def test_a_run_fills_the_form_again(starter: Client) -> None:
    user = starter.session["_auth_user_id"]
    configuration = ConfigurationFactory()
    request = RunRequest(
        configuration=configuration.slug,
        prompt="",
        structured=structured("Once more.", repairs=3, session="Monday"),
        variables={"language": "German"},
        title="Again",
    )
    run = write_run(request=request, by=None)
    Run.objects.filter(pk=run.pk).update(user=user)

    to_repeat = starter.get(reverse("playground:new_run"), {"from": run.pk})
    page = starter.get(URL, {"from": run.pk}).content.decode()

    assert to_repeat.url == f"{URL}?from={run.pk}"  # type: ignore[attr-defined]
    assert "Once more." in page and 'value="German"' in page and 'value="3"' in page and 'value="Again"' in page
    assert 'value="Monday"' in page
    starter.post(f"{URL}?from={run.pk}", form_of(configuration))
    assert Run.objects.latest("pk").parent == run


@pytest.mark.django_db(transaction=True)
def test_a_run_without_contents_fills_no_inputs_and_says_so(starter: Client, settings: Settings) -> None:
    settings.LLM_PRIVACY_LEVEL = "metadata"
    with script(Turn(text=VALID)) as model:
        run = model.run(prompt="", structured=structured("Forgotten."))
    Run.objects.filter(pk=run.pk).update(user=starter.session["_auth_user_id"])

    page = starter.get(URL, {"from": run.pk}).content.decode()

    assert "no longer stored" in page and "Forgotten." not in page


@pytest.mark.django_db(transaction=True)
def test_the_answer_is_shown_with_how_it_was_checked(starter: Client) -> None:
    wrong = INVALID.replace("extra", "<b>extra</b>")
    with script(Turn(text=wrong), Turn(text=VALID)) as model:
        run = model.run(prompt="", structured=structured())
    Run.objects.filter(pk=run.pk).update(user=starter.session["_auth_user_id"])
    purge(now=run.ended_at)

    with CaptureQueriesContext(connection) as checked:
        page = starter.get(reverse("playground:run", args=[run.pk])).content.decode()

    shown = text_of(page)
    assert "Answer 1 didn’t fit test.names : 3 objections" in shown and "Valid against test.names" in shown
    assert "/names/1 '' should be non-empty" in shown and "<b>extra</b>" not in page
    assert 'class="j-s">' in page and "Grace" in shown
    Run.objects.get(pk=run.pk).steps.filter(kind="validation").delete()
    with CaptureQueriesContext(connection) as unchecked:
        starter.get(reverse("playground:run", args=[run.pk]))
    assert len(checked) == len(unchecked) + 1


def test_configurations_are_checked_by_a_button(tmp_path: Path, starter: Client) -> None:
    own = ConfigurationFactory(skills=[SkillFactory()])
    with site_prompt(tmp_path / "b", configuration=own.slug):
        page = text_of(starter.post(reverse("playground:structured_check")).content.decode())
        assert f"{own.name} {own.model}" in page and "test.names" in page
        # The demo is not loaded here.
        assert "There is no configuration “tabletop-extraction”" in page
    assert starter.get(reverse("playground:structured_check")).status_code == 405


@pytest.mark.parametrize("permissions", [[], ["playground.view_run"]])
def test_only_who_may_start_runs_sees_the_pages(client: Client, permissions: list[str]) -> None:
    configuration = ConfigurationFactory()
    anonymous = Client().get(URL)
    client.force_login(UserFactory(permissions=permissions))

    assert "login" in anonymous.url  # type: ignore[attr-defined]
    assert client.get(URL).status_code == client.post(URL, form_of(configuration)).status_code == 403
    assert client.post(reverse("playground:structured_check")).status_code == 403
    assert not Run.objects.exists()


def test_a_run_of_somebody_else_fills_nothing(starter: Client) -> None:
    request = RunRequest(configuration=ConfigurationFactory().slug, prompt="", structured=structured("Not yours."))
    run = write_run(request=request, by=UserFactory())

    assert starter.get(URL, {"from": run.pk}).status_code == 404
