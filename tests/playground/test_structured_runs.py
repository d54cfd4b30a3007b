"""Runs with a prompt of a pack: a run like every other, from its request to its page and its export."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from llmcore.errors import InvalidInput, UnknownPrompt
from llmcore.models import LanguageModel, UsageRecord
from llmcore.providers.scripted.scenario import Scenario, Turn
from llmcore.structured.packs import Prompt
from llmcore.trace import StepKind
from playground.models import Run
from playground.privacy import PrivacyLevel
from playground.rows import load_contents
from playground.search import found_runs
from playground.services.continue_run import requeue_interrupted
from playground.services.drive_run import drive_run
from playground.services.export_run import export_run, import_run
from playground.services.prepare_run import refuse_unresolved
from playground.services.run_for_real import run_for_real
from playground.services.start_run import RunRequest, write_run
from playground.structured_run import GivenInput
from tests.factories import ConfigurationFactory, UserFactory
from tests.llmcore.prompt_packs import FILES, INPUTS, INVALID, SCHEMA, VALID
from tests.playground.database import empty_search_index, found_in_database
from tests.playground.driven import Script, in_background, lose_worker, script, wait_for
from tests.playground.shown import text_of
from tests.playground.structured import TEXT, site_prompt, structured

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("prompt")]


def run_of(model: Script, **request: object) -> Run:
    return model.run(**{"prompt": "", "structured": structured(), **request})


def opened(client: Client, run: Run, kind: StepKind, tab: str = "", place: int = 0) -> str:
    sequence = run.steps.filter(kind=kind).order_by("sequence")[place].sequence
    url = reverse("playground:run_step", args=[run.pk, sequence])
    return client.get(url, {"tab": tab} if tab else {}, headers={"HX-Request": "true"}).content.decode()


def test_a_repaired_answer_is_recorded_step_by_step(prompt: Prompt) -> None:
    with script(Turn(text=INVALID), Turn(text=VALID), system_prompt="You help.") as model:
        run = run_of(model)

    assert (run.status, run.answer, run.rounds) == ("completed", VALID, 2)
    assert (run.title, run.prompt) == ("test.names", "")
    kinds = [kind for kind in run.steps.values_list("kind", flat=True) if kind in ("response", "validation")]
    assert kinds == ["response", "validation"] * 2
    assert UsageRecord.objects.filter(run_id=run.pk).count() == 2
    assert run.plan is not None
    manifest = run.plan["structured"]
    assert (manifest["prompt"], manifest["fingerprint"], manifest["native"]) == (prompt.id, prompt.fingerprint, True)
    assert run.plan["fingerprint"] == manifest["checkpoint_key"]
    assert TEXT not in json.dumps(manifest)
    # The texts of the configuration stay out, and no tools are offered.
    assert [item["source_id"] for item in run.plan["dropped"]] == [model.configuration.slug]
    assert run.plan["gate"]["offered"] == []
    (finding,) = [finding for finding in run.findings if finding["id"] == "answer_schema_violation"]
    assert "in 3 places" in finding["title"] and finding["severity"] == "warning"


def test_a_dry_run_is_what_is_sent_byte_for_byte() -> None:
    with script(Turn(text=VALID)) as model:
        dry = run_of(model, dry_run=True)
        assert not model.model.requests and not UsageRecord.objects.exists()
        run = model.drive(run_for_real(run=dry, by=UserFactory()))

    assembled = dry.steps.get(kind=StepKind.ASSEMBLED).data
    assert load_contents(dry.pk)[assembled["body"]].encode() == model.model.requests[0].body
    assert run.plan["body_sha256"] == assembled["body_sha256"]  # type: ignore[index]
    assert "json_schema" in model.model.requests[0].body.decode()


def test_an_invalid_answer_ends_the_run_and_is_kept(client: Client) -> None:
    with script(Turn(text=INVALID)) as model:
        run = run_of(model)

    page = text_of(client.get(reverse("playground:run", args=[run.pk])).content.decode())

    assert (run.status, run.reason, run.answer) == ("incomplete", "invalid_answer", INVALID)
    assert run.detail == "The answer doesn't fit the schema “test.names”: 3 objections."
    assert "Invalid answer" in page and "No repair was left" in page


def test_an_answer_that_was_cut_off_is_truncated() -> None:
    with script(Turn(text=VALID[:12], finish_reason="length")) as model:
        run = run_of(model)

    assert run.reason == "truncated" and not run.steps.filter(kind=StepKind.VALIDATION).exists()


def test_the_panel_of_a_check_says_what_is_wrong_and_with_which_schema(client: Client, prompt: Prompt) -> None:
    with script(Turn(text=INVALID), Turn(text=VALID)) as model:
        run = run_of(model)

    wrong = text_of(opened(client, run, StepKind.VALIDATION))
    assert "Not valid against test.names" in wrong and prompt.schema is not None
    assert "/names/1 '' should be non-empty" in wrong and "/extra is not in the schema" in wrong
    assert "answered again in round 2" in wrong
    right = text_of(opened(client, run, StepKind.VALIDATION, place=1))
    assert "Valid against test.names" in right and prompt.schema.sha256[:12] in right
    assert "held the answer to a schema derived from it" in right
    schemas = text_of(opened(client, run, StepKind.VALIDATION, "schemas"))
    assert prompt.schema.sha256 in schemas and "Derived from it" in schemas and "minLength" in schemas


def test_a_model_that_is_not_held_is_told_and_the_panel_says_so(client: Client) -> None:
    with script(Turn(text=f"```json\n{VALID}\n```")) as model:
        LanguageModel.objects.update(supports_structured_output=False)
        run = run_of(model)

    assert run.answer == VALID
    assert "It stood in a Markdown fence" in text_of(opened(client, run, StepKind.VALIDATION))
    assert "told no schema" in text_of(opened(client, run, StepKind.VALIDATION, "schemas"))
    assert "Output format: test.names" in text_of(opened(client, run, StepKind.REQUEST, "messages"))


def test_messages_say_which_file_or_input_they_are_from(client: Client) -> None:
    with script(Turn(text=VALID)) as model:
        run = run_of(model)

    shown = text_of(opened(client, run, StepKind.REQUEST, "messages"))

    assert "test/text.md" in shown and "Input text" in shown and TEXT in shown


def test_the_exact_body_is_built_again_with_its_schema(client: Client) -> None:
    with script(Turn(text=VALID)) as model:
        run = run_of(model)
    sequence = run.steps.get(kind=StepKind.REQUEST).sequence
    url = reverse("playground:run_step", args=[run.pk, sequence])

    built = client.get(url, {"tab": "request", "part": "built"}, headers={"HX-Request": "true"}).content.decode()

    assert "json_schema" in built


def test_the_cache_map_shows_the_boundaries_of_the_tiers(client: Client) -> None:
    with script(Turn(text=INVALID), Turn(text=VALID)) as model:
        run = run_of(model)

    shown = text_of(opened(client, run, StepKind.REQUEST, "cache"))

    assert "test/system.md" in shown and "test/task.md" in shown


def test_raw_capture_keeps_each_attempt() -> None:
    with script(Turn(text=INVALID), Turn(text=VALID)) as model:
        run = run_of(model, capture_raw=True)

    assert [bytes(row.request_body) for row in run.exchanges.all()] == [r.body for r in model.model.requests]


def test_two_runs_are_compared_by_what_they_were_given(client: Client) -> None:
    with script(Turn(text=VALID)) as model:
        one, two = run_of(model), run_of(model, structured=structured("Ada met Mary."))

    page = text_of(client.get(reverse("playground:compare"), {"a": one.pk, "b": two.pk}).content.decode())

    first, second = (hashlib.sha256(text.encode()).hexdigest()[:12] for text in (TEXT, "Ada met Mary."))
    assert f"Input text {first} {second}" in page
    assert one.plan["fingerprint"] != two.plan["fingerprint"]  # type: ignore[index]


def test_inputs_are_compared_by_their_names(client: Client) -> None:
    known = GivenInput(name="known", text='{"known": [{"name": "Ada"}]}')
    text = GivenInput(name="text", text=TEXT)
    with script(Turn(text=VALID)) as model:
        one = run_of(model, structured=structured(inputs=(text,)))
        two = run_of(model, structured=structured(inputs=(known, text)))

    page = text_of(client.get(reverse("playground:compare"), {"a": one.pk, "b": two.pk}).content.decode())

    assert "Input text identical" in page and "Input known changed" in page


def test_the_start_of_a_run_shows_its_inputs_and_what_became_of_its_prompt(
    client: Client, tmp_path: Path, prompt: Prompt
) -> None:
    given = (GivenInput(name="text", text=TEXT, origin="session-7.txt"),)
    with script(Turn(text=VALID)) as model:
        run = run_of(model, structured=structured(inputs=given))
    url = reverse("playground:run_step", args=[run.pk, 0])

    def start() -> str:
        return text_of(client.get(url, headers={"HX-Request": "true"}).content.decode())

    assert "Input text" in start() and "from session-7.txt" in start() and TEXT in start()
    assert prompt.fingerprint in start() and "It is the same now." in start()
    with site_prompt(tmp_path / "b", files={**FILES, "task.md": "Find names, in {{language}}."}):
        assert "Its files have changed since this run." in start()
    with site_prompt(tmp_path / "c", files={**FILES, "names.json": json.dumps({**SCHEMA, "title": "Other"})}):
        assert "Its response schema has changed since this run." in start()


def test_a_run_is_found_by_what_it_was_given_and_what_it_answered(settings: Settings) -> None:
    with script(Turn(text=VALID)) as model:
        run = run_of(model, structured=structured("Ada met Zyprexia."))
        assert found_runs(Run.objects.all(), "Zyprexia").get() == run
        assert found_runs(Run.objects.all(), "Grace").get() == run
        settings.LLM_PRIVACY_LEVEL = "metadata"
        bare = run_of(model, structured=structured("Ada met Quintessa."))

    assert not found_runs(Run.objects.filter(pk=bare.pk), "Quintessa").exists()


def test_an_export_is_read_in_again() -> None:
    with script(Turn(text=INVALID), Turn(text=VALID)) as model:
        run = run_of(model)

    exported = json.loads(json.dumps(export_run(run=run)))

    assert export_run(run=import_run(data=exported, by=None)) == exported


def test_a_fork_goes_on_with_what_was_expected(client: Client) -> None:
    with script(Turn(text=INVALID), Turn(text=VALID)) as model:
        run = run_of(model)
        second = run.steps.filter(kind=StepKind.REQUEST).order_by("sequence")[1].sequence
        url = reverse("playground:run_fork", args=[run.pk])
        assert client.get(url, {"step": second}).status_code == 200
        before = len(model.model.requests)
        call_command_quietly("llm_run", model.configuration.slug, "--fork", str(run.pk), "--at-round", "2")

    fork = Run.objects.latest("pk")
    assert fork.reason == "completed" and fork.answer == VALID
    assert "response_format" in model.model.requests[before].json


def call_command_quietly(name: str, *arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        call_command(name, *arguments)
    return int(ended.value.code or 0)


def test_a_run_that_lost_its_worker_goes_on_with_its_repair() -> None:
    with script(Turn(text=INVALID), Turn(text=VALID, delay_s=30)) as model:
        run = write_run(request=model.request(prompt="", structured=structured()), by=None)
        with in_background(lambda: drive_run(run_id=run.pk, worker="test")):
            wait_for(lambda: run.steps.filter(round=2, kind=StepKind.REQUEST).exists(), "the second round")
            lose_worker(run)
        assert run.continuable and requeue_interrupted(run)
        model.model.scenarios["scripted"] = Scenario(name="scripted", turns=(Turn(text=INVALID), Turn(text=VALID)))
        model.drive(run)

    assert (run.reason, run.answer) == ("completed", VALID)
    checks = [step.data["valid"] for step in run.steps.filter(kind=StepKind.VALIDATION).order_by("sequence")]
    assert checks == [False, True]


def test_what_is_wrong_is_known_before_a_run_is_written() -> None:
    slug = ConfigurationFactory().slug
    for wrong, error in [
        (structured(" "), InvalidInput),
        (structured(inputs=(GivenInput(name="other", text="x"),)), InvalidInput),
        (structured(prompt="test.other"), UnknownPrompt),
    ]:
        with pytest.raises(error):
            refuse_unresolved(RunRequest(configuration=slug, prompt="", structured=wrong))
    assert not Run.objects.exists()


def test_a_prompt_that_is_gone_ends_the_run_with_its_name() -> None:
    with script(Turn(text=VALID)) as model:
        run = write_run(request=model.request(prompt="", structured=structured(prompt="test.gone")), by=None)
        model.drive(run)

    assert run.reason == "internal_error" and "test.gone" in run.detail and not model.model.requests


def test_a_request_is_the_same_after_its_way_through_the_database() -> None:
    given = (GivenInput(name="text", text="Grüße \U0001f600", origin="notes.txt"),)
    request = RunRequest(
        configuration=ConfigurationFactory().slug,
        prompt="",
        structured=structured(inputs=given, session="s-1", repairs=2),
        variables={"language": "German"},
    )
    run = write_run(request=request, by=None)
    run.refresh_from_db()

    assert RunRequest.from_json(run.request) == request


# Privacy


SAID = {name: f"xq{name}zx" for name in ("input", "variable", "origin", "session", "wrong", "pointer", "right")}
SECRET = {name: f"sk-{word}0123456789abcdef" for name, word in SAID.items()}


def telling(words: dict[str, str], **request: object) -> Run:
    """A run that says each of `words` in its place."""
    wrong = json.dumps({"names": [words["wrong"]], "count": "1", words["pointer"]: 1})
    right = json.dumps({"names": [words["right"]], "count": 1})
    given = (GivenInput(name="text", text=words["input"], origin=words["origin"]),)
    with script(Turn(text=wrong), Turn(text=right)) as model:
        return run_of(
            model,
            structured=structured(inputs=given, session=words["session"]),
            variables={"language": words["variable"]},
            **request,
        )


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("level", PrivacyLevel)
def test_what_is_given_and_answered_is_kept_as_the_privacy_level_says(
    level: PrivacyLevel, dry_run: bool, settings: Settings
) -> None:
    settings.LLM_PRIVACY_LEVEL = level.value
    empty_search_index()
    both = {name: f"{word} {SECRET[name]}" for name, word in SAID.items()}
    run = telling(both, dry_run=dry_run)

    kept = {word for word in SAID.values() if word not in ("xqwrongzx", "xqpointerzx", "xqrightzx") or not dry_run}
    assert found_in_database(*SAID.values()).keys() == (set() if level is PrivacyLevel.METADATA else kept)
    if level is not PrivacyLevel.FULL:
        assert found_in_database(*SECRET.values()) == {}
    assert run.request["structured"]["prompt"] == "test.names"
    assert run.plan is not None and run.plan["structured"]["checkpoint_key"] == run.plan["fingerprint"]
    assert run.title == (run.configuration_name if level is PrivacyLevel.METADATA else "test.names")


def test_the_reason_of_a_run_that_could_not_start_quotes_no_input_at_metadata_privacy(
    tmp_path: Path, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.LLM_PRIVACY_LEVEL = PrivacyLevel.METADATA.value
    empty_search_index()
    inputs = tuple(replace(given, media_type="application/json", project=None) for given in INPUTS)
    with site_prompt(tmp_path / "json", inputs=inputs), script(Turn(text=VALID)) as model:
        run = run_of(model, structured=structured('{"xqinputzx": 1, "xqinputzx": 2}'))

    assert run.status == "failed" and run.error is not None and run.error["kind"] == "input"
    assert "message" not in run.error and not run.detail
    assert found_in_database("xqinputzx") == {}
    assert "can't be driven: an input is invalid" in caplog.text and "xqinputzx" not in caplog.text


def test_the_page_of_a_run_without_contents_still_says_how_its_answer_was_checked(
    client: Client, settings: Settings
) -> None:
    settings.LLM_PRIVACY_LEVEL = "metadata"
    run = telling(SAID)

    assert client.get(reverse("playground:run", args=[run.pk])).status_code == 200
    wrong = text_of(opened(client, run, StepKind.VALIDATION))
    assert "Not valid against test.names" in wrong and "2 objections" in wrong and SAID["pointer"] not in wrong
    assert "Contents were not kept" in text_of(opened(client, run, StepKind.VALIDATION))
    assert "minLength" in opened(client, run, StepKind.VALIDATION, "schemas")
    assert any("in 2 places" in finding["title"] for finding in run.findings)


# Commands


def test_the_command_writes_the_bytes_of_the_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], settings: Settings
) -> None:
    settings.LLM_PRIVACY_LEVEL = "metadata"
    source, target = tmp_path / "text.txt", tmp_path / "answer.json"
    source.write_text(TEXT)
    spaced = f" {VALID}\n"
    with script(Turn(text=INVALID), Turn(text=spaced)) as model:
        code = call_command_quietly(
            "llm_structured", "test.names", "--configuration", model.configuration.slug, "--input", f"text={source}",
            "--var", "language=German", "--output", str(target), "--session", "s-1",
        )  # fmt: skip

    said = capsys.readouterr().out
    assert code == 0 and target.read_bytes() == spaced.encode()
    assert "not valid against test.names: 3" in said and "/names/1: '' should be non-empty" in said
    assert "✓ valid against test.names" in said
    assert "in German" in json.dumps(model.model.requests[0].json)


def test_the_command_says_how_else_it_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "text.txt"
    source.write_text(TEXT)
    with script(Turn(text="No.")) as model:
        arguments = ("--configuration", model.configuration.slug, "--input", f"text={source}")
        assert call_command_quietly("llm_structured", "test.names", *arguments, "--repairs", "0") == 23
        assert call_command_quietly("llm_structured", "test.names", *arguments, "--dry-run") == 0
        with pytest.raises(CommandError, match="needs the input “text”"):
            call_command("llm_structured", "test.names", "--configuration", model.configuration.slug)
        with pytest.raises(CommandError, match=r"no prompt “test\.none”"):
            call_command("llm_structured", "test.none")
        with pytest.raises(CommandError, match="names no configuration"):
            call_command("llm_structured", "test.names")
        with pytest.raises(CommandError, match="NAME=FILE"):
            call_command("llm_structured", "test.names", *arguments, "--input", "text")
        with pytest.raises(CommandError, match="can't be read"):
            call_command("llm_structured", "test.names", "--configuration", "x", "--input", "text=/gone.txt")
    assert "Dry run" in capsys.readouterr().out


def test_the_command_lists_the_prompts_with_their_inputs(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("llm_structured")

    said = capsys.readouterr().out
    assert "test.names  Names" in said and "--input known=FILE  application/json, optional" in said
    assert "--var language=VALUE  default: English" in said


def test_the_preflight_names_each_configuration_that_could_not_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with script(Turn(text=VALID)) as model, site_prompt(tmp_path / "b", configuration=model.configuration.slug):
        disabled = ConfigurationFactory(enabled=False)
        assert call_command_quietly("llm_preflight", disabled.slug, "gone", "--ask") == 1

    said = capsys.readouterr().out
    assert f"✓ {model.configuration.slug} (1 prompt)" in said
    assert f"✗ {disabled.slug}: The configuration" in said and "✗ gone: There is no configuration" in said
    # The provider was asked for its list, no model was.
    assert [(request.method, request.path) for request in model.model.requests] == [("GET", "/v1/models")]


def test_the_preflight_asks_a_provider_for_its_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with script(Turn(text=VALID)) as model, site_prompt(tmp_path / "b", configuration=model.configuration.slug):
        model.model.scenarios["other"] = Scenario(name="other", turns=(Turn(text=VALID),))
        del model.model.scenarios["scripted"]
        assert call_command_quietly("llm_preflight", "--ask") == 1

    assert "doesn't list the model “scripted”" in capsys.readouterr().out
