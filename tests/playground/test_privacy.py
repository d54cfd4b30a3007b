"""What is stored of what a run says at each privacy level: everything that it says is looked for in every table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import timedelta

import pytest
from django.db import models
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from llmcore.errors import ConfigurationError, ToolError
from llmcore.models import UsageRecord
from llmcore.providers.scripted.scenario import Scenario, Turn
from llmcore.redaction import MASK
from llmcore.tools.base import Effect, Tool
from llmcore.trace import StepKind
from playground import content
from playground.loop_thread import Ended, Item
from playground.models import Run, RunTag
from playground.privacy import PrivacyLevel, raw_capture_refused
from playground.search import found_runs
from playground.services import apply_privacy
from playground.services.cancel_run import cancel_run
from playground.services.continue_run import requeue_interrupted
from playground.services.drive_run import drive_run
from playground.services.export_run import export_run, import_run
from playground.services.purge import purge
from playground.services.start_run import RunRequest, write_run
from tests.factories import ConfigurationFactory, UserFactory
from tests.playground.database import empty_search_index, found_in_database
from tests.playground.driven import Script, call, in_background, lose_worker, script, site_tool, wait_for
from tests.playground.recorded import RecordedRun

pytestmark = pytest.mark.django_db(transaction=True)

TEXT_ARGUMENT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
# Letters that no word of ours begins with, so that an index can't hide their beginning in the word before.
PLACES = (
    "prompt",
    "override",
    "variable",
    "thinking",
    "argument",
    "result",
    "refusal",
    "crash",
    "unknown",
    "answer",
    "error",
)
SAID = {name: f"xq{name}zx" for name in PLACES}
# Errors and tracebacks are redacted at every level; a name is not a secret.
NEVER_STORED = {"crash", "error", "unknown"}
SECRET = {name: f"sk-{word}0123456789abcdef" for name, word in SAID.items() if name != "unknown"}
BELOW_FULL = pytest.mark.parametrize("level", [PrivacyLevel.REDACTED, PrivacyLevel.METADATA])


def look_up(text: str) -> str:
    match text.split()[0]:
        case "refuse":
            raise ToolError(f"I refuse: {SAID['refusal']} {SECRET['refusal']}")
        case "crash":
            raise RuntimeError(f"crashed: {SAID['crash']} {SECRET['crash']}")
    return f"found: {SAID['result']} {SECRET['result']} {text}"


@pytest.fixture(autouse=True)
def tool() -> Iterator[None]:
    tool = Tool(
        name="look_up",
        description="Looks up.",
        parameters=TEXT_ARGUMENT,
        run=look_up,
        group="test",
        effect=Effect.READ_ONLY,
    )
    with site_tool(tool):
        yield


@pytest.fixture(autouse=True)
def nothing_indexed(db: None) -> None:
    empty_search_index()


def both(name: str) -> str:
    return f"{SAID[name]} {SECRET[name]}"


CALLS = Turn(
    thinking=f"Let me think: {both('thinking')}",
    tool_calls=(
        call("look_up", text=f"find {both('argument')}"),
        call("look_up", text="refuse me"),
        call("look_up", text="crash now"),
        call(SAID["unknown"], text="what is this"),
        call("look_up", tekst=SAID["argument"]),
    ),
)
ANSWER = Turn(text=f"The answer is {both('answer')}.")
REFUSED = Turn(status=400, error={"message": f"Can't read {both('error')}", "type": "invalid_request_error"})
RETRIED = Turn(status=503, error={"message": f"Busy with {both('error')}"}, headers={"Retry-After": "0"})


@dataclass(frozen=True)
class Case:
    """A run, and what it says."""

    turns: tuple[Turn, ...]
    said: frozenset[str]
    dry_run: bool = False


ASKED = frozenset({"prompt", "override", "variable"})
USED = frozenset({"thinking", "argument", "result", "refusal", "crash", "unknown"})
CASES = {
    "answered": Case((CALLS, ANSWER), ASKED | USED | {"answer"}),
    "failed": Case((CALLS, REFUSED), ASKED | USED | {"error"}),
    "cut off": Case((CALLS, Turn(text=f"So: {both('answer')}", finish_reason="length")), ASKED | USED | {"answer"}),
    "broken off": Case((Turn(text=f"So: {both('answer')}", cut_after_chars=50),), ASKED | {"answer"}),
    "dry": Case((), ASKED, dry_run=True),
}


def make(case: Case, settings: Settings, level: PrivacyLevel, **request: object) -> Run:
    settings.LLM_PRIVACY_LEVEL = level.value
    with script(*case.turns or (ANSWER,), tool_groups=["test"], max_rounds=4) as model:
        return model.run(**asked(dry_run=case.dry_run, **request))


def asked(**request: object) -> dict[str, object]:
    return {
        "prompt": f"Tell me about {both('prompt')}\nand more of {{{{it}}}}",
        "variables": {"it": both("variable")},
        "system_override": f"You know {both('override')}.",
        **request,
    }


# R2


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_at_full_privacy_all_that_was_said_is_stored(case: Case, settings: Settings) -> None:
    make(case, settings, PrivacyLevel.FULL)

    assert found_in_database(*SAID.values()).keys() == {SAID[name] for name in case.said}
    assert found_in_database(*SECRET.values()).keys() >= {SECRET[name] for name in case.said - NEVER_STORED}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_at_redacted_privacy_nothing_that_looks_like_a_secret_is_stored(case: Case, settings: Settings) -> None:
    run = make(case, settings, PrivacyLevel.REDACTED)

    assert found_in_database(*SECRET.values()) == {}
    assert found_in_database(*SAID.values()).keys() == {SAID[name] for name in case.said}
    assert MASK in run.prompt and MASK in run.request["prompt"] and MASK in run.request["system_override"]
    assert run.redacted_at is not None and run.contents_deleted_at is None


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_at_metadata_privacy_nothing_that_was_said_is_stored(case: Case, settings: Settings) -> None:
    run = make(case, settings, PrivacyLevel.METADATA)

    assert found_in_database(*SAID.values()) == {}
    assert not any(found_runs(Run.objects.all(), word).exists() for word in SAID.values())
    assert run.contents_deleted_at is not None and run.contents_kept_days is None


def test_a_retry_tells_nothing_at_metadata_privacy(settings: Settings) -> None:
    for level in (PrivacyLevel.FULL, PrivacyLevel.METADATA):
        Run.objects.all().delete()
        run = make(Case((RETRIED,), frozenset()), settings, level)
        retries = run.steps.filter(kind=StepKind.RETRY)
        assert retries.exists()
        assert (SAID["error"] in str(retries[0].data)) is (level is PrivacyLevel.FULL)
        assert retries[0].data["error"]["kind"]


def test_figures_names_digests_and_sizes_are_the_same_at_every_level(settings: Settings) -> None:
    runs = [make(CASES["answered"], settings, level) for level in PrivacyLevel]

    for name in ("rounds", "tool_calls", "tool_errors", "input_tokens", "output_tokens", "last_sequence"):
        assert len({getattr(run, name) for run in runs}) == 1, name
    assert len({tuple(run.steps.values_list("sequence", "round", "kind")) for run in runs}) == 1
    assert len({frozenset(run.contents.values_list("digest", "size")) for run in runs[:1] + runs[2:]}) == 1
    assert set(runs[2].contents.values_list("value", flat=True)) == {None}
    assert {tool.name for tool in runs[2].tools.all()} == {"look_up"}
    assert UsageRecord.objects.count() == 2 * len(runs)


def test_findings_stay_in_words_without_contents(settings: Settings) -> None:
    full, bare = (make(CASES["failed"], settings, level) for level in (PrivacyLevel.FULL, PrivacyLevel.METADATA))

    of_full, of_bare = ([(f["id"], f["severity"], f["sequence"]) for f in run.findings] for run in (full, bare))
    assert of_bare == of_full
    assert {"tool_error_repeated", "provider_error", "tool_not_offered"} <= {id for id, _, _ in of_bare}
    assert content.UNKNOWN_NAME in str(bare.findings)


def test_the_reason_of_a_run_that_could_not_start_stays(settings: Settings) -> None:
    settings.LLM_PRIVACY_LEVEL = "metadata"
    with script(ANSWER) as model:
        run = model.run(**asked(skills=("no-such-skill",)))

    assert "no-such-skill" in run.detail and "no-such-skill" in run.error["message"]


def test_a_title_that_a_person_gave_stays_and_one_from_the_prompt_does_not(settings: Settings) -> None:
    made = make(CASES["answered"], settings, PrivacyLevel.METADATA)
    given = make(CASES["answered"], settings, PrivacyLevel.METADATA, title="Weekly check")

    assert made.title == made.configuration_name
    assert given.title == "Weekly check"


# While it runs


class Looking:
    """Looks into the database whenever something of a run was stored."""

    def __init__(self) -> None:
        self.found: dict[str, set[str]] = {}

    def __call__(self, item: Item) -> None:
        if isinstance(item, Ended):
            return
        for word, tables in found_in_database(*SAID.values(), *SECRET.values()).items():
            self.found.setdefault(word, set()).update(tables)


STATE = {"playground_run", "playground_runcontent"}


@BELOW_FULL
def test_until_its_end_a_run_holds_only_what_it_goes_on_from(level: PrivacyLevel, settings: Settings) -> None:
    settings.LLM_PRIVACY_LEVEL = level.value
    looking = Looking()
    slowly = Turn(text=ANSWER.text, chunk_chars=4, chunk_delay_s=0.1)
    with script(CALLS, slowly, tool_groups=["test"]) as model:
        run = write_run(request=model.request(**asked()), by=None)
        assert drive_run(run_id=run.pk, worker="test", watch=looking)

    words = SECRET if level is PrivacyLevel.REDACTED else SAID
    held = {name: tables for name, word in words.items() if (tables := looking.found.get(word))}
    assert {"prompt", "override", "argument", "result"} <= held.keys()
    assert set.union(*held.values()) <= STATE


def test_a_run_is_not_found_by_its_override_before_it_is_redacted(settings: Settings) -> None:
    settings.LLM_PRIVACY_LEVEL = "redacted"
    request = RunRequest(configuration=ConfigurationFactory().slug, **asked())  # type: ignore[arg-type]
    run = write_run(request=request, by=None)

    assert found_runs(Run.objects.all(), SAID["prompt"]).get() == run
    assert not found_runs(Run.objects.all(), SAID["override"]).exists()


@BELOW_FULL
def test_a_queued_run_that_is_cancelled_says_nothing_more(level: PrivacyLevel, settings: Settings) -> None:
    settings.LLM_PRIVACY_LEVEL = level.value
    request = RunRequest(configuration=ConfigurationFactory().slug, **asked())  # type: ignore[arg-type]
    run = write_run(request=request, by=None)
    assert found_in_database(SECRET["prompt"])

    cancel_run(run=run, by=UserFactory(username="ada"), now=timezone.now())

    assert found_in_database(*SECRET.values()) == {}
    run.refresh_from_db()
    assert run.detail == "Cancelled by ada."


def test_the_page_says_why_no_text_streams_in(settings: Settings, client: Client) -> None:
    client.force_login(UserFactory(is_superuser=True))
    for level in PrivacyLevel:
        recorded = RecordedRun(privacy_level=level)
        sequence = recorded.request()
        url = reverse("playground:run_step", args=[recorded.run.pk, sequence])
        page = client.get(url, {"tab": "response"}, headers={"HX-Request": "true"}).content.decode()
        assert ("What is being streamed is not stored" in page) is (level is PrivacyLevel.METADATA)


# Interrupted runs, L15b


SLOW_ANSWER = Turn(text=ANSWER.text, chunk_chars=1, chunk_delay_s=0.3)


def interrupted(model: Script) -> Run:
    """A run whose worker is lost while it waits for the second answer."""
    run = write_run(request=model.request(**asked()), by=None)
    with in_background(lambda: drive_run(run_id=run.pk, worker="test")):
        wait_for(lambda: run.steps.filter(round=2).exists(), "the second round")
        lose_worker(run)
    assert run.status == "interrupted"
    return run


@BELOW_FULL
def test_an_interrupted_run_goes_on_verbatim_and_ends_as_its_level_says(
    level: PrivacyLevel, settings: Settings
) -> None:
    settings.LLM_PRIVACY_LEVEL = level.value
    with script(CALLS, SLOW_ANSWER, tool_groups=["test"]) as model:
        run = interrupted(model)
        assert run.continuable and requeue_interrupted(run)
        model.model.scenarios["scripted"] = Scenario(name="scripted", turns=(CALLS, ANSWER))
        model.drive(run)
        sent = b"".join(request.body for request in model.model.requests[2:]).decode()

    assert run.reason == "completed"
    assert all(SECRET[name] in sent for name in ("prompt", "override", "argument", "result"))
    assert found_in_database(*(SECRET if level is PrivacyLevel.REDACTED else SAID).values()) == {}


@BELOW_FULL
def test_an_interrupted_run_can_go_on_for_a_day(level: PrivacyLevel, settings: Settings) -> None:
    settings.LLM_PRIVACY_LEVEL = level.value
    with script(CALLS, SLOW_ANSWER, tool_groups=["test"]) as model:
        run = interrupted(model)

    assert not purge(now=timezone.now()).any
    assert found_in_database(SECRET["prompt"])

    purged = purge(now=timezone.now() + apply_privacy.CONTINUABLE + timedelta(minutes=1))

    assert purged.levels == 1
    run.refresh_from_db()
    assert found_in_database(*(SECRET if level is PrivacyLevel.REDACTED else SAID).values()) == {}
    assert not run.continuable and not requeue_interrupted(run)


def test_a_run_whose_level_could_not_be_applied_ends_and_is_tried_again(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.LLM_PRIVACY_LEVEL = "metadata"
    request = RunRequest(configuration=ConfigurationFactory().slug, **asked())  # type: ignore[arg-type]
    run = write_run(request=request, by=None)
    row = Run.objects.filter(pk=run.pk)
    row.update(plan={"gate": "unreadable"})

    cancel_run(run=run, by=None, now=timezone.now())

    run.refresh_from_db()
    assert run.reason == "cancelled" and run.contents_deleted_at is None
    assert "holds more than its privacy level allows" in caplog.text
    row.update(plan=None)
    assert purge(now=timezone.now()).levels == 1
    assert found_in_database(*SAID.values()) == {}


# Provenance


def test_the_sources_of_a_redacted_prompt_are_where_they_were(settings: Settings) -> None:
    full, redacted = (make(CASES["answered"], settings, level) for level in (PrivacyLevel.FULL, PrivacyLevel.REDACTED))

    for run in (full, redacted):
        assert run.plan is not None
        values = {row.digest: row.value for row in run.contents.all()}
        messages = [values[digest] for digest in run.plan["state"]["messages"]]
        spans = [
            messages[s["message"]]["parts"][s["part"]]["text"][s["start"] : s["end"]] for s in run.plan["segments"]
        ]
        mask = MASK if run is redacted else None
        assert spans == [
            f"You know {SAID['override']} {mask or SECRET['override']}.",
            f"Tell me about {SAID['prompt']} {mask or SECRET['prompt']}\n"
            f"and more of {SAID['variable']} {mask or SECRET['variable']}",
        ]


def test_a_secret_across_two_sources_is_masked_and_their_places_are_given_up() -> None:
    from_source = {"part": 0, "message": 0, "source": "user"}
    halves = [{**from_source, "start": 0, "end": 7}, {**from_source, "start": 7, "end": 30}]
    message = {"role": "user", "parts": [{"kind": "text", "text": "key sk-0123456789abcdefghijklm"}]}

    value, segments = content.redacted_message(message, halves, apply_privacy.Redactor())

    assert value["parts"][0]["text"] == f"key {MASK}" and segments == []


# Raw capture


@pytest.mark.parametrize(
    ("level", "allowed", "refused"),
    [
        ("full", None, False),
        ("full", False, True),
        ("redacted", None, True),
        ("redacted", True, False),
        ("metadata", None, True),
        ("metadata", True, False),
    ],
)
def test_raw_capture_below_full_privacy_has_to_be_allowed(
    level: str, allowed: bool | None, refused: bool, settings: Settings
) -> None:
    settings.LLM_PRIVACY_LEVEL, settings.LLM_RAW_CAPTURE = level, allowed
    request = RunRequest(configuration=ConfigurationFactory().slug, prompt="Hello?", capture_raw=True)

    assert bool(raw_capture_refused()) is refused
    if refused:
        with pytest.raises(ConfigurationError, match="raw capture"):
            write_run(request=request, by=None)
    else:
        assert write_run(request=request, by=None).capture_raw


def test_an_allowed_raw_capture_is_all_that_a_run_says_at_metadata_privacy(settings: Settings) -> None:
    settings.LLM_RAW_CAPTURE = True
    run = make(CASES["answered"], settings, PrivacyLevel.METADATA, capture_raw=True)

    held = found_in_database(*SAID.values())
    assert set.union(*held.values()) == {"playground_wireexchangerecord"}

    purge(now=timezone.now() + timedelta(days=8))

    run.refresh_from_db()
    assert run.raw_deleted_at is not None
    assert found_in_database(*SAID.values()) == {}


def test_the_form_says_why_raw_capture_is_refused(settings: Settings, client: Client) -> None:
    settings.LLM_PRIVACY_LEVEL = "redacted"
    configuration = ConfigurationFactory()
    user = UserFactory(permissions=["playground.add_run", "playground.view_run"])
    client.force_login(user)
    earlier = Run.objects.create(
        user=user,
        title="Earlier",
        request={"configuration": configuration.slug, "prompt": f"Use {MASK}.", "capture_raw": True},
    )
    url = reverse("playground:new_run")
    form = {"configuration": configuration.slug, "prompt": "Hello?", "override": "none"}

    page = client.get(url).content.decode()
    repeated = client.get(f"{url}?from={earlier.pk}").content.decode()
    sent = client.post(url, {**form, "capture_raw": "on"})

    assert 'name="capture_raw"' not in page
    assert "privacy level “redacted”, which excludes raw captures" in page
    assert "raw capture (This site stores" in repeated and "secrets in its texts" in repeated
    assert sent.status_code == 200 and "excludes raw captures" in sent.content.decode()
    assert client.post(url, form).status_code == 302


# Pages and exports


@pytest.mark.parametrize("level", PrivacyLevel)
def test_the_page_says_at_which_level_a_run_was_made(level: PrivacyLevel, settings: Settings, client: Client) -> None:
    run = make(CASES["answered"], settings, level)
    client.force_login(UserFactory(is_superuser=True))

    page = client.get(reverse("playground:run", args=[run.pk])).content.decode()
    start = client.get(reverse("playground:run_step", args=[run.pk, 0])).content.decode()

    assert (f"privacy: {level.value}" in page) is (level is not PrivacyLevel.FULL)
    assert f"Privacy level {level.value}" in start
    assert ("Contents were not kept" in page) is (level is PrivacyLevel.METADATA)
    assert (SAID["answer"] in page) is (level is not PrivacyLevel.METADATA)


@BELOW_FULL
def test_an_export_says_what_is_not_in_it_and_is_imported_as_it_is(level: PrivacyLevel, settings: Settings) -> None:
    run = make(CASES["answered"], settings, level)

    exported = export_run(run=run)
    imported = import_run(data=exported, by=None)

    assert len(exported["deleted"]) == 1 and f"privacy level “{level.value}”" in exported["deleted"][0]
    again = export_run(run=imported)
    assert {**again, "run": {**again["run"]}} == exported
    assert imported.privacy_level == level


def test_an_export_of_a_version_that_knew_no_levels_is_still_read(settings: Settings) -> None:
    exported = export_run(run=make(CASES["answered"], settings, PrivacyLevel.FULL))
    for name in ("privacy_level", "redacted_at", "contents_deleted_at", "contents_kept_days", "raw_deleted_at"):
        del exported["run"][name]
    del exported["sizes"], exported["deleted"]

    assert import_run(data=exported, by=None).privacy_level == PrivacyLevel.FULL


# Nothing is kept by accident

# Columns with words in them that are no contents: of ours, names, or a person's own.
KEPT = {
    "Run": {
        "configuration_name",
        "model_name",
        "served_by",
        "title",
        "plan",
        "note",
        "status",
        "reason",
        "worker",
        "privacy_level",
    },
    "RunTag": {"name"},
    "RunTool": {"name"},
    "RunStep": {"kind"},
    "RunContent": {"digest"},
    "ProposedAction": {"call_id", "tool", "kind", "turn_digest", "key", "proposal", "rule", "decision", "reason"},
    "EngineAction": {
        "session",
        "call_id",
        "configuration_name",
        "tool",
        "rule",
        "key",
        "digest",
        "privacy_level",
        "decision",
    },
    "DecisionRecord": {"decision", "user_id", "username", "session", "call_id", "tool", "rule", "turn_digest", "key"},
}
CLEARED = {
    "Run": {"prompt", "request", "detail", "error", "answer", "findings"},
    "RunStep": {"data"},
    "RunContent": {"value"},
    "EngineAction": {"content", "reason"},
    "RunPartial": {"text", "thinking", "tool_call", "waiting"},
    "WireExchangeRecord": {
        "method",
        "url",
        "request_headers",
        "request_body",
        "response_headers",
        "response_body",
        "chunk_times",
        "error",
    },
}
WORDS = (models.CharField, models.TextField, models.JSONField, models.BinaryField)


@pytest.mark.parametrize("model", [*Run._meta.apps.get_app_config("playground").get_models()], ids=lambda m: m.__name__)
def test_each_column_that_can_hold_words_is_content_or_is_not(model: type[models.Model]) -> None:
    """Whoever adds a column says here which it is; one that is content has to be cleared, too."""
    columns = {field.name for field in model._meta.concrete_fields if isinstance(field, WORDS)}

    assert columns == KEPT.get(model.__name__, set()) | CLEARED.get(model.__name__, set())


def test_each_field_of_a_request_is_content_or_is_not() -> None:
    names = {field.name for field in fields(RunRequest)}

    assert names - content.REQUEST_METADATA == {
        "prompt",
        "system_override",
        "variables",
        "replacements",
        "fork",
        "structured",
    }
    assert names >= content.REQUEST_METADATA


@pytest.mark.parametrize("kind", StepKind)
def test_a_step_keeps_no_text_that_is_not_known_to_be_metadata(kind: StepKind) -> None:
    figures = {"count": 3, "known": True, "none": None}
    data = {"something_new": "secret words", "nested": {"text": "secret words"}, **figures}

    assert content.step_without_contents(kind, data, ()) == figures


def test_tags_and_notes_are_a_persons_own_words_and_stay(settings: Settings) -> None:
    settings.LLM_PRIVACY_LEVEL = "metadata"
    with script(ANSWER) as model:
        run = write_run(request=model.request(), by=None)
        Run.objects.filter(pk=run.pk).update(note="Ask Ada.")
        RunTag.objects.create(run=run, name="review")
        model.drive(run)

    assert run.note == "Ask Ada." and run.tags.get().name == "review"
    assert found_runs(Run.objects.all(), "review").get() == run
