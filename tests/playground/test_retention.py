"""Raw captures, contents and whole runs expire one after the other, and a run says what it has lost."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from io import StringIO

import pytest
from django.apps import AppConfig, apps
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from llmcore.errors import ErrorKind
from llmcore.models import UsageRecord
from llmcore.runs.outcome import EndReason, RunStatus
from llmcore.trace import WireExchange
from playground import worker
from playground.deletions import contents_deletion, deletions, raw_deletion
from playground.models import Run, RunContent, RunStep, RunTag, WireExchangeRecord
from playground.reading.watch import Watch
from playground.retention import Retention
from playground.search import found_runs, index_run
from playground.services.continue_run import requeue_interrupted
from playground.services.delete_run import delete_run
from playground.services.export_run import export_run, import_run
from playground.services.purge import Purged, expired, once_locked, purge, remove_run
from tests.factories import ConfigurationFactory, UserFactory
from tests.playground.database import empty_search_index, found_in_database
from tests.playground.driven import in_background, wait_for
from tests.playground.recorded import RecordedRun, lookup, provider_error

pytestmark = pytest.mark.django_db

NOW = datetime.fromisoformat("2026-12-06T12:00:00+00:00")
DAYS = Retention(raw_days=7, content_days=90, metadata_days=365)
# What the run says; no word of ours begins so.
PROMPT, ANSWER, RESULT, RAW = "xqpromptzx", "xqanswerzx", "xqresultzx", "xqrawzx"


def run_of(*, age_days: float, user: object = None, **columns: object) -> Run:
    """A run with everything that can expire, which ended so long before NOW."""
    recorded = RecordedRun(user, prompt=f"Tell me of {PROMPT}", capture_raw=True, title=f"Tell me of {PROMPT}")
    sequence = recorded.request()
    exchange = WireExchange(
        attempt=1,
        method="POST",
        url="http://127.0.0.1:1/v1",
        request_headers={},
        request_body=RAW.encode(),
        status=200,
        chunks=((1.0, RAW.encode()),),
    )
    recorded.exchange(sequence, exchange)
    recorded.wait(200)
    recorded.response("Let me see.", thinking=f"Thinking of {RESULT}", calls=[lookup(1)])
    recorded.tool_call(lookup(1))
    recorded.tool_result(lookup(1), RESULT)
    recorded.answer(ANSWER)
    run = recorded.end(answer=ANSWER)
    Run.objects.filter(pk=run.pk).update(
        **{
            "ended_at": NOW - timedelta(days=age_days),
            "answer": ANSWER,
            "rounds": 2,
            "tool_calls": 1,
            "input_tokens": 2000,
            "findings": [
                {
                    "id": "tool_error",
                    "severity": "error",
                    "title": "`look_up` failed",
                    "detail": f"{RESULT}.",
                    "impact": "1 call",
                    "sequence": 3,
                    "tab": "result",
                    "where": "Round 1, look_up",
                }
            ],
            **columns,
        }
    )
    index_run(run.pk)
    run.refresh_from_db()
    return run


def left_of(run: Run) -> set[str]:
    """What is there of a run."""
    found = set()
    if WireExchangeRecord.objects.filter(run_id=run.pk).exists():
        found.add("raw")
    if RunContent.objects.filter(run_id=run.pk).exclude(value=None).exists():
        found.add("contents")
    if Run.objects.filter(pk=run.pk).exists():
        found.add("metadata")
    return found


# T5, retention


@pytest.mark.parametrize(
    ("age_days", "left"),
    [
        (0, {"raw", "contents", "metadata"}),
        (6.9, {"raw", "contents", "metadata"}),
        (7.1, {"contents", "metadata"}),
        (89.9, {"contents", "metadata"}),
        (90.1, {"metadata"}),
        (364.9, {"metadata"}),
        (365.1, set()),
    ],
)
def test_raw_captures_contents_and_metadata_expire_separately(age_days: float, left: set[str]) -> None:
    run = run_of(age_days=age_days)

    purged = purge(now=NOW, retention=DAYS)

    assert left_of(run) == left
    assert (purged.any, purged.more) == (left != {"raw", "contents", "metadata"}, False)
    assert purge(now=NOW, retention=DAYS) == Purged()


@pytest.mark.parametrize(
    ("retention", "left"),
    [
        (Retention(raw_days=None, content_days=None, metadata_days=None), {"raw", "contents", "metadata"}),
        (Retention(raw_days=None, content_days=90, metadata_days=None), {"metadata"}),
        (Retention(raw_days=None, content_days=None, metadata_days=365), set()),
        (Retention(raw_days=0, content_days=None, metadata_days=None), {"contents", "metadata"}),
    ],
)
def test_what_has_no_days_of_its_own_goes_with_what_comes_after_it(retention: Retention, left: set[str]) -> None:
    run = run_of(age_days=1000)

    purge(now=NOW, retention=retention)

    assert left_of(run) == left


def test_nothing_that_was_said_is_left_anywhere() -> None:
    empty_search_index()
    run = run_of(age_days=91)
    assert found_in_database(PROMPT, ANSWER, RESULT, RAW).keys() == {PROMPT, ANSWER, RESULT, RAW}

    purge(now=NOW, retention=DAYS)

    assert found_in_database(PROMPT, ANSWER, RESULT, RAW) == {}
    run.refresh_from_db()
    assert run.title == run.configuration_name


def test_figures_steps_and_findings_stay() -> None:
    run = run_of(age_days=91)
    steps = list(run.steps.values_list("sequence", "round", "kind", "started_ms", "duration_ms"))

    purge(now=NOW, retention=DAYS)

    run.refresh_from_db()
    assert (run.rounds, run.tool_calls, run.input_tokens, run.answer) == (2, 1, 2000, "")
    assert list(run.steps.values_list("sequence", "round", "kind", "started_ms", "duration_ms")) == steps
    assert [(f["title"], f["detail"], f["impact"]) for f in run.findings] == [("`look_up` failed", "", "1 call")]
    assert run.contents.count() > 0 and min(run.contents.values_list("size", flat=True)) > 0


@pytest.mark.parametrize("status", [RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.AWAITING_APPROVAL])
def test_a_run_that_is_going_on_is_never_touched(status: RunStatus) -> None:
    run = run_of(age_days=1000, status=status, reason="", ended_at=None)

    assert not purge(now=NOW, retention=DAYS).any
    assert left_of(run) == {"raw", "contents", "metadata"}


def test_a_run_that_goes_on_again_meanwhile_is_not_touched() -> None:
    run = run_of(age_days=1000, status=RunStatus.INTERRUPTED, reason=EndReason.INTERRUPTED)
    due = expired(retention=DAYS, now=NOW)["runs"]
    assert due.get() == run

    assert requeue_interrupted(run)

    assert not once_locked(due, run.pk, remove_run)
    assert left_of(run) == {"raw", "contents", "metadata"}


def test_an_interrupted_run_can_go_on_until_its_contents_expire(client: Client) -> None:
    user = UserFactory(is_superuser=True)
    run = run_of(age_days=8, user=user, status=RunStatus.INTERRUPTED, reason=EndReason.INTERRUPTED)
    client.force_login(user)
    url = reverse("playground:run", args=[run.pk])

    purge(now=NOW, retention=DAYS)
    assert "Continue from round" in client.get(url).content.decode()

    purge(now=NOW + timedelta(days=90), retention=DAYS)
    page = client.get(url).content.decode()
    assert "Continue from round" not in page and "It can&#x27;t go on any more" in page
    run.refresh_from_db()
    assert not requeue_interrupted(run)


def test_a_purge_is_bounded_and_says_that_there_is_more() -> None:
    for _ in range(5):
        run_of(age_days=8)

    counts = [purge(now=NOW, retention=DAYS, at_once=2) for _ in range(3)]

    assert [(purged.raw, purged.more) for purged in counts] == [(2, True), (2, True), (1, False)]


def test_a_run_that_cant_be_purged_doesnt_keep_the_others(caplog: pytest.LogCaptureFixture) -> None:
    broken, sound = run_of(age_days=91), run_of(age_days=91)
    Run.objects.filter(pk=broken.pk).update(plan={"gate": "unreadable"})

    assert purge(now=NOW, retention=DAYS).contents == 1

    assert left_of(broken) == {"contents", "metadata"} and left_of(sound) == {"metadata"}
    assert f"run {broken.pk} could not be purged" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_of_several_workers_one_purges_each_run() -> None:
    runs = [run_of(age_days=91) for _ in range(6)]
    purged: list[Purged] = []
    together = threading.Barrier(3)

    def work() -> None:
        together.wait()
        purged.append(purge(now=NOW, retention=DAYS))

    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(in_background(work))

    assert sum(one.contents for one in purged) == len(runs) == sum(one.raw for one in purged)
    assert all(left_of(run) == {"metadata"} for run in runs)


# The periodic job


@contextmanager
def sweeping() -> Iterator[None]:
    with in_background(worker.keep_sweeping):
        try:
            yield
        finally:
            worker.stopping.set()
    worker.stopping.clear()


@pytest.mark.django_db(transaction=True)
def test_workers_purge_when_they_start_and_then_not_with_every_sweep(settings: Settings) -> None:
    settings.LLM_LEASE_S = 1.0
    old = timezone.now() - timedelta(days=8)
    first = run_of(age_days=8, ended_at=old)
    with sweeping():
        wait_for(lambda: "raw" not in left_of(first), "the purge")

        second = run_of(age_days=8, ended_at=old)
        for _ in range(3):
            seen = worker.last_swept
            wait_for(lambda seen=seen: worker.last_swept > seen, "the next sweep")

    assert "raw" in left_of(second)


# Settings


def playground() -> AppConfig:
    """The app, which looks at its settings whenever a process starts."""
    return apps.get_app_config("playground")


@pytest.mark.parametrize(
    ("raw", "contents", "metadata", "wrong"),
    [
        (7, 90, None, ""),
        (0, 0, 0, ""),
        (7, 7, 7, ""),
        (None, None, None, ""),
        (None, 90, None, ""),
        (8, 7, None, "raw_days (8) is more than content_days (7)"),
        (7, 91, 90, "content_days (91) is more than metadata_days (90)"),
        (91, None, 90, "raw_days (91) is more than metadata_days (90)"),
        (-1, 90, None, "not a number of days"),
        (True, 90, None, "not a number of days"),
        ("7", 90, None, "not a number of days"),
        (7, 10**9, None, "not a number of days"),
    ],
)
def test_days_that_contradict_each_other_are_refused(
    raw: int | None, contents: int | None, metadata: int | None, wrong: str, settings: Settings
) -> None:
    settings.LLM_RAW_RETENTION_DAYS = raw
    settings.LLM_CONTENT_RETENTION_DAYS = contents
    settings.LLM_METADATA_RETENTION_DAYS = metadata

    if not wrong:
        assert Retention.of_site() == Retention(raw_days=raw, content_days=contents, metadata_days=metadata)
        playground().ready()
        return
    with pytest.raises(ImproperlyConfigured, match=re.escape(wrong)):
        Retention.of_site()
    with pytest.raises(ImproperlyConfigured):
        purge(now=NOW)
    with pytest.raises(ImproperlyConfigured, match="LLM_RAW_RETENTION_DAYS"):
        playground().ready()


def test_an_unknown_privacy_level_is_refused(settings: Settings) -> None:
    settings.LLM_PRIVACY_LEVEL = "secret"

    with pytest.raises(ImproperlyConfigured, match="one of: full, redacted, metadata"):
        playground().ready()


def test_by_default_captures_are_kept_for_a_week_contents_for_90_days_and_metadata_for_good() -> None:
    assert Retention.of_site() == Retention(raw_days=7, content_days=90, metadata_days=None)


# The command


def command(*arguments: str) -> list[str]:
    out = StringIO()
    call_command("llm_purge", *arguments, stdout=out)
    return out.getvalue().splitlines()


def test_the_command_prints_what_it_deleted() -> None:
    now = timezone.now()
    for days in (1, 8, 8, 91):
        run_of(age_days=0, ended_at=now - timedelta(days=days))
    nothing = ["Whole runs: deleted of 0 runs", "What the privacy level doesn't allow: deleted of 0 runs"]

    would = command("--dry-run")
    assert WireExchangeRecord.objects.count() == 4
    did = command()

    assert did == [nothing[0], "Contents: deleted of 1 run", "Raw captures: deleted of 3 runs", nothing[1]]
    assert would == [line.replace("deleted", "would be deleted") for line in did]
    assert WireExchangeRecord.objects.count() == 1
    assert command("--raw-days", "0")[2] == "Raw captures: deleted of 1 run"


def test_the_command_takes_other_days_and_refuses_impossible_ones() -> None:
    run = run_of(age_days=0, ended_at=timezone.now() - timedelta(days=8))

    with pytest.raises(CommandError, match="content_days"):
        command("--content-days", "3")
    command("--raw-days", "3", "--content-days", "5")
    assert left_of(run) == {"metadata"}
    command("--raw-days", "3", "--content-days", "5", "--metadata-days", "6")
    assert left_of(run) == set()


# What the pages say


@pytest.fixture
def reader(client: Client) -> Client:
    client.force_login(UserFactory(is_superuser=True))
    return client


def open_tab(client: Client, run: Run, sequence: int, tab: str) -> str:
    response = client.get(
        reverse("playground:run_step", args=[run.pk, sequence]), {"tab": tab}, headers={"HX-Request": "true"}
    )
    assert response.status_code == 200
    return response.content.decode()


DELETED_RAW = "The raw exchange was deleted on 6 Dec 2026: raw captures are kept for 7 days."
DELETED = "The contents were deleted on 6 Dec 2026: contents are kept for 90 days."


def test_a_deleted_capture_is_told_where_it_would_be(reader: Client) -> None:
    run = run_of(age_days=8)

    purge(now=NOW, retention=DAYS)

    assert DELETED_RAW in open_tab(reader, run, 1, "raw")
    assert DELETED_RAW in open_tab(reader, run, 1, "request")
    assert "Tell me of" in open_tab(reader, run, 1, "messages")
    page = reader.get(reverse("playground:run", args=[run.pk])).content.decode()
    assert "raw capture deleted 6 Dec 2026" in page and ANSWER in page


CONTENT_TABS = [
    (0, "start"),
    (1, "messages"),
    (1, "response"),
    (1, "thinking"),
    (1, "tools"),
    (3, "result"),
    (3, "arguments"),
    (3, "raw"),
]


@pytest.mark.parametrize(("sequence", "tab"), CONTENT_TABS)
def test_deleted_contents_are_told_where_they_would_be(sequence: int, tab: str, reader: Client) -> None:
    run = run_of(age_days=91)
    assert "deleted on" not in open_tab(reader, run, sequence, tab)

    purge(now=NOW, retention=DAYS)

    html = open_tab(reader, run, sequence, tab)
    assert html.count(DELETED) == 1
    assert "(empty)" not in html and "None" not in html and "No visible text" not in html


def test_names_and_counts_are_told_in_place_of_contents(reader: Client) -> None:
    run = run_of(age_days=91)

    purge(now=NOW, retention=DAYS)

    assert "1 tool call: <code>look_up</code>" in open_tab(reader, run, 1, "response")
    assert "2 tools offered: <code>look_up</code>, <code>refund</code>" in open_tab(reader, run, 1, "tools")
    assert "40 tokens billed" in open_tab(reader, run, 1, "thinking")
    assert "2 messages" in open_tab(reader, run, 1, "messages")
    assert "1,000" in open_tab(reader, run, 1, "tokens")


def test_the_page_of_a_run_without_contents_still_tells_its_story(reader: Client) -> None:
    run = run_of(age_days=91)

    purge(now=NOW, retention=DAYS)

    page = reader.get(reverse("playground:run", args=[run.pk])).content.decode()
    assert "contents deleted 6 Dec 2026" in page and "raw capture deleted 6 Dec 2026" in page
    assert page.count(DELETED) == 1
    assert "look_up</code> failed" in page and 'class="pg-wf"' in page
    assert reader.get(reverse("playground:runs")).status_code == 200


def test_errors_and_tracebacks_without_contents_are_shown_as_far_as_they_are_known(reader: Client) -> None:
    recorded = RecordedRun()
    recorded.request()
    retry = recorded.run.last_sequence + 2
    recorded.retry(provider_error(message=f"slow down, {RESULT}"))
    recorded.response(error=provider_error(ErrorKind.SERVER, f"broken, {RESULT}"), finish_reason=None, usage=None)
    recorded.error(RuntimeError(RESULT))
    run = recorded.end(
        EndReason.PROVIDER_FAILED,
        detail=f"server: {RESULT}",
        error={"kind": "server", "message": RESULT, "status": 429},
    )
    Run.objects.update(ended_at=NOW - timedelta(days=91))
    error = run.steps.get(kind="error").sequence

    purge(now=NOW, retention=DAYS)

    assert found_in_database(RESULT) == {}
    assert "Rate limit" in open_tab(reader, run, retry, "error")
    assert "Internal error" in (html := open_tab(reader, run, error, "error")) and DELETED in html
    page = reader.get(reverse("playground:run", args=[run.pk])).content.decode()
    assert "HTTP 429, server" in page


def test_the_words_for_what_was_deleted_fit_how_it_was_deleted() -> None:
    run = Run(raw_deleted_at=NOW, raw_kept_days=1, contents_deleted_at=NOW, contents_kept_days=0)

    assert raw_deletion(run) == "The raw exchange was deleted on 6 Dec 2026: raw captures are kept for 1 day."
    assert contents_deletion(run) == "The contents were deleted on 6 Dec 2026."
    assert deletions(Run()) == []


def test_an_export_marks_what_was_deleted_and_is_imported_as_it_is() -> None:
    run = run_of(age_days=91)
    sizes = dict(run.contents.values_list("digest", "size"))
    purge(now=NOW, retention=DAYS)
    run.refresh_from_db()

    exported = export_run(run=run, raw=True)

    assert exported["deleted"] == [DELETED_RAW, DELETED]
    assert (exported["contents"], exported["exchanges"], exported["sizes"]) == ({}, [], sizes)
    imported = import_run(data=exported, by=None)
    assert export_run(run=imported, raw=True) == exported
    assert contents_deletion(imported) == DELETED


@pytest.mark.parametrize(
    ("days", "words"),
    [
        ((7, 90, None), "kept 7 days, secrets masked"),
        ((1, 90, None), "kept 1 day, secrets masked"),
        ((None, 30, None), "kept 30 days, secrets masked"),
        ((None, None, None), "kept as long as the run, secrets masked"),
    ],
)
def test_the_form_says_how_long_a_raw_capture_is_kept(
    days: tuple[int | None, ...], words: str, reader: Client, settings: Settings
) -> None:
    settings.LLM_RAW_RETENTION_DAYS, settings.LLM_CONTENT_RETENTION_DAYS, settings.LLM_METADATA_RETENTION_DAYS = days
    ConfigurationFactory()

    assert words in reader.get(reverse("playground:new_run")).content.decode()


def test_the_form_says_what_it_cant_fill_in_any_more(reader: Client) -> None:
    configuration = ConfigurationFactory()
    asked = {"configuration": configuration.slug, "prompt": PROMPT, "system_override": "Be brief.", "max_rounds": 3}
    run = run_of(age_days=91, request=asked)

    purge(now=NOW, retention=DAYS)

    form = reader.get(f"{reverse('playground:new_run')}?from={run.pk}").content.decode()
    assert "user prompt (no longer stored), system prompt override (no longer stored)" in form
    assert 'value="none" checked' in form and 'name="max_rounds" id="id_max_rounds" value="3"' in form


# R3, deleting by hand


def delete(client: Client, run: Run, method: str = "post") -> int:
    return getattr(client, method)(reverse("playground:run_delete", args=[run.pk])).status_code


@pytest.mark.parametrize(
    ("own", "permissions", "status"),
    [
        (True, ["view_run"], 302),
        (True, [], 403),
        (False, ["view_run"], 404),
        (False, ["view_run", "delete_run"], 404),
        (False, ["view_all_runs"], 403),
        (False, ["view_all_runs", "delete_run"], 302),
    ],
)
def test_a_run_is_deleted_by_its_owner_or_with_the_right_to(
    own: bool, permissions: list[str], status: int, client: Client
) -> None:
    user = UserFactory(permissions=[f"playground.{name}" for name in permissions])
    run = run_of(age_days=1, user=user if own else UserFactory())
    client.force_login(user)

    assert delete(client, run) == status
    assert Run.objects.filter(pk=run.pk).exists() is (status != 302)


def test_deleting_asks_first_and_says_so_afterwards(reader: Client) -> None:
    run = run_of(age_days=1)
    Run.objects.create(title="A child", parent=run, request={})
    link = reverse("playground:run_delete", args=[run.pk])
    assert link in reader.get(reverse("playground:run", args=[run.pk])).content.decode()

    asked = reader.get(link).content.decode()

    assert "This can't be undone." in asked and "1 run made from it stay" in asked
    assert left_of(run) == {"raw", "contents", "metadata"}
    answered = reader.post(link, follow=True)
    assert answered.redirect_chain == [(reverse("playground:runs"), 302)]
    assert f"Run {run.pk}, “{run.title}”, was deleted." in answered.content.decode()


def test_all_of_a_run_goes_but_its_usage_records() -> None:
    empty_search_index()
    user = UserFactory()
    run, other = run_of(age_days=1, user=user), Run.objects.create(title="Other", request={}, findings=[])
    child = Run.objects.create(title="A child", parent=run, request={})
    RunTag.objects.create(run=run, name="review")
    UsageRecord.objects.create(run_id=run.pk, user=user, provider_slug="demo", model_name="demo-1")
    watch = Watch(run_id=run.pk, user=user, after=0)

    assert delete_run(run=run, by=user)

    assert found_in_database(PROMPT, ANSWER, RESULT, RAW, "review") == {}
    assert not RunStep.objects.exists() and not RunContent.objects.exists()
    assert not found_runs(Run.objects.all(), PROMPT).exists()
    assert UsageRecord.objects.get().run_id == run.pk
    child.refresh_from_db()
    assert child.parent is None and Run.objects.filter(pk=other.pk).exists()
    assert watch.look()[-1].data == {"message": "The run is gone."} and watch.ended
    assert not delete_run(run=run, by=user)


@pytest.mark.parametrize("status", [RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.AWAITING_APPROVAL])
def test_a_run_that_is_going_on_cant_be_deleted(status: RunStatus, reader: Client) -> None:
    run = run_of(age_days=0, status=status, reason="", ended_at=None)

    assert "/delete/" not in reader.get(reverse("playground:run", args=[run.pk])).content.decode()
    assert (delete(reader, run), delete(reader, run, "get")) == (409, 409)
    assert left_of(run) == {"raw", "contents", "metadata"}


@pytest.mark.parametrize("stranger", [{"is_staff": False, "is_superuser": True}, None])
def test_deleting_leads_strangers_to_the_login(stranger: dict[str, bool] | None) -> None:
    run, client = run_of(age_days=1), Client()
    if stranger is not None:
        client.force_login(UserFactory(**stranger))

    assert (delete(client, run), delete(client, run, "get")) == (302, 302)
    assert left_of(run) == {"raw", "contents", "metadata"}


def test_deleting_needs_a_form_of_this_site() -> None:
    user = UserFactory(is_superuser=True)
    run = run_of(age_days=1, user=user)
    client = Client(enforce_csrf_checks=True)
    client.force_login(user)

    assert delete(client, run) == 403
    assert delete(client, run, "get") == 200
    assert left_of(run) == {"raw", "contents", "metadata"}
