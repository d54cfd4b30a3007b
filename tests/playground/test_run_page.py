"""The page of a run: its end, its figures, its step list; and what it costs to show."""

from __future__ import annotations

import re
from decimal import Decimal
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape

from llmcore.context.tokens import estimate_tokens
from llmcore.errors import ErrorKind
from llmcore.messages import FinishReason
from llmcore.runs.outcome import STATUS_OF, EndReason, RunStatus
from llmcore.tools.results import FailureKind, ToolResult
from playground.models import Run, RunStep
from playground.numbers import SPACE, money
from playground.reading.ends import END_LOOKS, STATUS_LOOKS
from playground.reading.lines import Line
from playground.reading.notes import NEXT, WHAT
from playground.reading.plan import read_plan
from playground.reading.step_rows import load_rows
from playground.reading.steps import read_steps
from playground.reading.summary import read_summary
from playground.reading.watch import Watch
from tests.factories import LanguageModelFactory, UserFactory
from tests.playground.recorded import MODEL, PROVIDER, RecordedRun, finished_run, lookup, provider_error

pytestmark = pytest.mark.django_db


def page(client: Client, run: Run) -> str:
    response = client.get(reverse("playground:run", args=[run.pk]))
    assert response.status_code == 200
    return response.content.decode()


def lines_of(run: Run) -> list[Line]:
    return read_steps(run, load_rows(RunStep.objects.filter(run=run)), timezone.now()).lines


# --- ends ---


def test_every_status_and_every_end_has_a_look_of_its_own() -> None:  # L14
    assert set(STATUS_LOOKS) == set(RunStatus)
    assert set(END_LOOKS) == set(EndReason)
    for looks in (STATUS_LOOKS, END_LOOKS):
        for part in ("word", "css", "icon"):
            seen = [getattr(look, part) for look in looks.values()]
            assert len(set(seen)) == len(seen), part


def test_every_icon_is_in_the_sprite_and_every_pill_has_its_color() -> None:
    sprite = (Path(settings.BASE_DIR) / "templates/playground/_icons.html").read_text()
    css = (Path(settings.BASE_DIR) / "static/playground/playground.css").read_text()

    for look in (*STATUS_LOOKS.values(), *END_LOOKS.values()):
        assert look.icon == "" or f'id="i-{look.icon}"' in sprite
        assert f".pg-pill--{look.css}" in css


@pytest.mark.parametrize("reason", list(EndReason))
def test_the_page_shows_each_end_and_what_to_do_next(client: Client, user: User, reason: EndReason) -> None:  # L14
    recorded = RecordedRun(user)
    recorded.round()
    run = recorded.end(reason, tool_calls=1, error=provider_error().to_json())

    html = page(client, run)

    look = END_LOOKS[reason]
    assert f"pg-pill--{look.css}" in html and f">{look.word}" in html.replace("</svg>", "</svg>>").replace(">>", ">")
    if reason == EndReason.COMPLETED:
        assert "data-reason" not in html
    else:
        assert f'data-reason="{reason}"' in html
        if reason != EndReason.PROVIDER_FAILED:
            assert escape(WHAT[reason]).removesuffix(".") in html and escape(NEXT[reason]) in html


def test_a_failed_provider_is_quoted_and_its_advice_given(client: Client, user: User) -> None:  # W5
    recorded = RecordedRun(user)
    recorded.round()
    recorded.request()
    recorded.response(error=provider_error(), usage=None, finish_reason=None)
    run = recorded.end(EndReason.PROVIDER_FAILED, error=provider_error().to_json(), tool_calls=1)

    html = page(client, run)

    assert "Demo model failed in round 2: HTTP 429, rate limit." in html
    assert "slow down" in html
    assert "The provider limits the rate of requests." in html
    assert "2 rounds and 1 tool call are kept." in html


@pytest.mark.parametrize(
    ("kind", "right", "words"),
    [
        (ErrorKind.AUTHENTICATION, "change_provider", "Open the provider"),
        (ErrorKind.NOT_FOUND, "change_languagemodel", "Open the model"),
        (ErrorKind.QUOTA, "change_provider", ""),
    ],
)
def test_a_failed_provider_leads_to_where_it_is_mended(
    client: Client, user: User, kind: ErrorKind, right: str, words: str
) -> None:
    model = LanguageModelFactory(provider__slug=PROVIDER.slug, name=MODEL.name)
    recorded = RecordedRun(user)
    recorded.request()
    recorded.response(error=provider_error(), usage=None, finish_reason=None)
    run = recorded.end(EndReason.PROVIDER_FAILED, error={**provider_error().to_json(), "kind": kind.value})

    pages = []
    for rights in ([], [f"llmcore.{right}"]):
        client.force_login(UserFactory(is_staff=True, permissions=["playground.view_all_runs", *rights]))
        pages.append(page(client, run))
    without, html = pages

    name, pk = ("provider", model.provider_id) if right == "change_provider" else ("languagemodel", model.pk)
    link = f'href="{reverse(f"admin:llmcore_{name}_change", args=[pk])}"'
    assert (link in html, words in note_of(html)) == (bool(words), True)
    assert link not in without


@pytest.mark.parametrize(("reason", "field"), [(EndReason.TRUNCATED, "tokens"), (EndReason.MAX_ROUNDS, "rounds")])
def test_what_was_too_little_is_at_hand_in_the_form(client: Client, user: User, reason: EndReason, field: str) -> None:
    recorded = RecordedRun(user)
    recorded.round()
    run = recorded.end(reason)
    client.force_login(UserFactory(is_superuser=True))

    html = page(client, run)

    assert f"?from={run.pk}#id_max_{field}" in html and f"Re-run with more {field}" in note_of(html)


def test_an_interrupted_run_names_the_tool_that_may_have_had_an_effect(client: Client, user: User) -> None:  # D3
    recorded = RecordedRun(user)
    recorded.request()
    recorded.response(calls=[lookup()], finish_reason=FinishReason.TOOL_CALLS)
    recorded.tool_call(lookup())
    run = recorded.end(EndReason.INTERRUPTED)

    html = page(client, run)

    assert "look_up had started and may have had an effect." in html
    assert "no result" in html
    assert reverse("playground:run_continue", args=[run.pk]) in html


def note_of(html: str) -> str:
    """The words of the note above the summary."""
    note = html[html.index('<div id="run-note">') : html.index('<section class="pg-summary"')]
    return unescape(" ".join(re.sub(r"<[^>]+>", " ", note).split())).replace(SPACE, " ")


def test_a_cancelled_run_says_who_when_what_it_used_and_what_to_do(client: Client, user: User) -> None:
    recorded = RecordedRun(user, cancelled_by=user)
    recorded.round()
    recorded.request()
    recorded.wait(300)
    recorded.response("Half a sen", usage=None, finish_reason=None, cancelled=True)
    run = recorded.end(
        EndReason.CANCELLED,
        detail="Cancelled by maren.",
        rounds=2,
        tool_calls=1,
        answer="Half a sen",
        input_tokens=1000,
        output_tokens=100,
        cost=Decimal("0.0239"),
        wall_ms=9_100,
    )

    note = note_of(page(client, run))

    assert "Cancelled by maren after 9.10 s, in round 2." in note
    assert "2 rounds, 1 tool call and the answer as far as it came are kept." in note
    assert "Used: 1,000 prompt and 100 completion tokens, $0.0239, without 1 of 2 calls that reported none." in note
    assert note.endswith("Retry round 2")


def test_a_run_that_was_cancelled_in_the_queue_can_only_be_made_again(client: Client, user: User) -> None:
    run = RecordedRun(user, status=RunStatus.QUEUED).end(EndReason.CANCELLED, wall_ms=2_000)

    note = note_of(page(client, run))

    assert note == "Cancelled after 2.00 s. No round had begun. Re-run starts it from the beginning. Re-run"


def test_a_dry_run_says_what_it_assembled_and_what_its_first_round_would_cost(client: Client, user: User) -> None:
    recorded = RecordedRun(user, dry_run=True)
    recorded.assembled()
    plan = recorded.run.plan
    plan["configuration"]["model"]["prices"] = {"input": "0.25", "output": "2"}
    findings = [{"id": "skill_left_out", "severity": "warning", "title": "Skill left out"}]
    run = recorded.end(EndReason.DRY_RUN, plan=plan, findings=findings, wall_ms=384.0, queue_ms=300.0)

    html = page(client, run)
    note = note_of(html)

    tokens = run.steps.get().data["input_tokens_estimate"]
    assert f"Nothing was sent. About {tokens} tokens were assembled in 0.08 s. 1 warning." in note
    assert f"The prompt of round 1 would cost about {money(tokens * Decimal('0.25') / 1_000_000)}." in note
    assert note.endswith("Run it for real")
    assert html.count("nothing sent") == len(("prompt", "completion", "cost"))


# --- figures ---


def test_the_parts_of_time_and_tokens_add_up_exactly(user: User) -> None:
    run = finished_run(user, wall_ms=18_403.7, queue_ms=381.2, model_ms=13_081.3, tool_ms=1_443.9, overhead_ms=3_497.3)

    summary = read_summary(run, load_rows(RunStep.objects.filter(run=run)), read_plan(run), timezone.now())

    seconds = [Decimal(share.shown.split("\u00a0")[0]) for share in summary.time]
    assert sum(seconds) == Decimal("18.40")
    assert sum(share.percent for share in summary.time) == 100
    assert sum(share.value for share in summary.tokens) == run.input_tokens + run.output_tokens
    assert sum(share.percent for share in summary.tokens) == 100


def test_counters_of_a_running_call_are_estimates_until_usage_is_reported(client: Client, user: User) -> None:
    recorded = RecordedRun(user)
    plan = recorded.run.plan
    plan["configuration"]["model"]["prices"] = {"input": "1000000", "output": "1000000"}
    Run.objects.update(plan=plan)
    recorded.round()
    Run.objects.update(input_tokens=1000, output_tokens=100, cost=Decimal(2))
    recorded.request()
    recorded.partial(text="It is on its way.", thinking="Let me see.")
    estimate = RunStep.objects.filter(kind="request").last().data["input_tokens_estimate"]
    streamed = estimate_tokens("It is on its way.") + estimate_tokens("Let me see.")

    figures = figures_of(page(client, recorded.run))
    [told] = [event for event in Watch(run_id=recorded.run.pk, user=user, after=5).look() if event.name == "partial"]

    assert figures["Prompt tokens"] == f"≈ {1000 + estimate:,}"
    assert figures["Completion"] == f"≈ {100 + streamed}"
    assert figures["Cost so far"] == f"≈ ${2 + estimate + streamed:,.2f}"
    assert told.data["tokens"] == streamed

    recorded.response("It is on its way.")
    assert figures_of(page(client, recorded.run))["Completion"] == "100"


def figures_of(html: str) -> dict[str, str]:
    return dict(re.findall(r'<dt>([^<]+)</dt><dd class="v"[^>]*>([^<]*)</dd>', html))


def test_unknown_figures_are_blank_and_never_zero(client: Client, user: User) -> None:  # T6, M2
    recorded = RecordedRun(user)
    recorded.request()
    recorded.response("Hi.", usage=None)
    run = recorded.end(answer="Hi.")

    html = page(client, run)
    figures = figures_of(html)

    assert figures["Prompt tokens"] == figures["Completion"] == figures["Cost"] == ""
    assert figures["Context peak"].startswith("≈ ")
    assert "The provider reported no usage." in html


def test_tokens_that_a_provider_does_not_tell_apart_stay_one_part(user: User) -> None:
    run = finished_run(user, cache_read_input_tokens=None, reasoning_output_tokens=None)

    summary = read_summary(run, load_rows(RunStep.objects.filter(run=run)), read_plan(run), timezone.now())

    assert [share.name for share in summary.tokens] == ["Prompt", "Completion"]


# --- the step list ---


def test_the_step_list_pairs_requests_with_responses_and_calls_with_results(user: User) -> None:
    run = finished_run(user, rounds=1)

    lines = lines_of(run)

    assert [(line.label, line.sequence, line.steps) for line in lines] == [
        ("Queued", 0, [0]),
        ("Round 1 · Model call", 1, [1, 2]),
        ("Round 1 · look_up", 3, [3, 4]),
        ("Round 2 · Model call", 5, [5, 6]),
    ]
    assert not any(line.running for line in lines)


def test_a_call_is_split_into_waiting_thinking_and_streaming(user: User) -> None:
    recorded = RecordedRun(user)
    recorded.wait(1000)
    recorded.request()
    recorded.wait(500)
    recorded.response("Hi.", first_token_ms=100.0)
    run = recorded.end()

    (line,) = [line for line in lines_of(run) if line.css == "call"]

    assert [(bar.start_ms, bar.length_ms, bar.css) for bar in line.bars] == [
        (1000.0, 100.0, "wait"),
        (1100.0, 20.0, "think"),
        (1120.0, 380.0, "model"),
    ]


def test_tools_that_overlap_stand_at_their_own_offsets(user: User) -> None:  # L9
    recorded = RecordedRun(user)
    recorded.request()
    first, second = lookup(1), lookup(2)
    recorded.response(calls=[first, second], finish_reason=FinishReason.TOOL_CALLS)
    recorded.tool_call(first)
    recorded.tool_call(second)
    recorded.wait(60)
    recorded.tool_result(first, took_ms=40)
    recorded.tool_result(second, took_ms=20)
    run = recorded.end()

    tools = [line for line in lines_of(run) if line.is_tool]

    assert [(line.started_ms, line.duration_ms) for line in tools] == [(60.0, 40.0), (100.0, 20.0)]


def test_a_failed_tool_and_a_retry_are_lines_that_say_so(user: User) -> None:
    recorded = RecordedRun(user)
    recorded.request()
    recorded.retry(provider_error())
    recorded.response(calls=[lookup()], finish_reason=FinishReason.TOOL_CALLS)
    recorded.tool_call(lookup(), repeat=3)
    recorded.tool_result(lookup(), ToolResult.failed(FailureKind.TIMEOUT, "too slow", effect_unknown=True))
    run = recorded.end()

    lines = {line.name: line for line in lines_of(run)}

    assert [badge.word for badge in lines["Attempt 1 failed"].badges] == ["rate limit"]
    assert [badge.word for badge in lines["look_up"].badges] == ["3× the same", "effect unknown"]
    assert lines["look_up"].failed


def test_only_the_newest_open_steps_of_a_live_run_are_running(user: User) -> None:
    recorded = RecordedRun(user)
    recorded.request()
    recorded.request()
    recorded.run.refresh_from_db()

    calls = [line for line in lines_of(recorded.run) if line.css == "call"]

    assert [(line.running, [badge.word for badge in line.badges]) for line in calls] == [
        (False, ["no response"]),
        (True, []),
    ]


def test_a_run_that_waits_for_a_worker_has_one_running_line(client: Client, user: User) -> None:
    run = RecordedRun(user, status=RunStatus.QUEUED, started_at=None, queue_ms=None, plan=None).run

    (line,) = lines_of(run)

    assert line.running and line.name == "Queued"
    assert "pg-pill--queued" in page(client, run)


# --- findings and the answer ---


def test_findings_link_to_the_step_that_shows_them(client: Client, user: User) -> None:
    findings = [
        {"id": "x", "severity": "error", "title": "`look_up` failed", "detail": "<b>", "sequence": 4, "tab": "result"},
        {
            "id": "y",
            "severity": "note",
            "title": "Cached",
            "detail": "",
            "impact": "`5` tokens",
            "sequence": 2,
            "tab": "tokens",
        },
        {"id": "z", "severity": "warning", "title": "General", "detail": "", "sequence": None, "tab": None},
    ]
    run = finished_run(user, rounds=1, findings=findings)

    html = page(client, run)

    assert 'href="#step-3/result"' in html and "Round 1, look_up" in html
    assert 'href="#step-1/tokens"' in html and "Round 1, tokens" in html
    assert "<code>look_up</code> failed" in html
    assert "1 error, 1 warning, 1 note" in html
    assert "<b>&lt;b&gt;" not in html and "&lt;b&gt;" in html


def test_the_answer_is_rendered_and_its_source_kept(client: Client, user: User) -> None:
    run = finished_run(user, answer="It is **on its way**. <script>alert(1)</script>")

    html = page(client, run)

    assert "<strong>on its way</strong>" in html
    assert escape(run.answer) in html
    assert "<script>alert" not in html


def test_names_from_people_and_models_are_escaped(client: Client, user: User) -> None:
    hostile = "<img src=x onerror=alert(1)>"
    recorded = RecordedRun(user, title=hostile, configuration_name=hostile, model_name=hostile)
    call = lookup()
    recorded.request()
    recorded.response(calls=[call], finish_reason=FinishReason.TOOL_CALLS)
    recorded.tool_call(type(call)(id="1", name=hostile, arguments={}))
    findings = [
        {"severity": hostile, "title": hostile, "detail": hostile, "impact": hostile, "sequence": 1, "tab": hostile}
    ]
    error = {"kind": hostile, "message": hostile, "status": 500}
    run = recorded.end(EndReason.PROVIDER_FAILED, detail=hostile, error=error, findings=findings, answer=hostile)

    html = page(client, run)

    assert "<img" not in html
    assert html.count(escape(hostile)) > 5


# --- what it costs ---


def queries(client: Client, run: Run) -> int:
    with CaptureQueriesContext(
        connection,
    ) as captured:
        page(client, run)
    return len(captured)


def test_the_number_of_queries_does_not_depend_on_the_number_of_steps(client: Client, user: User) -> None:
    short, long = finished_run(user, rounds=1), finished_run(user, rounds=40)
    page(client, short)

    assert queries(client, short) == queries(client, long) <= 12


def test_the_page_grows_in_proportion_to_the_rounds_and_no_more_once_there_are_many(
    client: Client, user: User
) -> None:  # T4
    sizes = [len(page(client, finished_run(user, rounds=rounds, answer=""))) for rounds in (15, 30, 59, 300)]

    per_round = [(sizes[1] - sizes[0]) / 15, (sizes[2] - sizes[1]) / 29]
    assert per_round[1] <= per_round[0] * 1.05
    assert per_round[1] < 2_500
    assert sizes[3] < sizes[2]


def test_heavy_contents_are_not_in_the_page(client: Client, user: User) -> None:
    recorded = RecordedRun(user, system="SECRETLY LONG " * 10_000)
    recorded.round(result="RESULT " * 10_000, text="TEXT " * 10_000)
    run = recorded.end()

    html = page(client, run)

    assert len(html) < 60_000
    for word in ("SECRETLY LONG", "RESULT RESULT", "TEXT TEXT"):
        assert word not in html


def test_the_page_fits_the_strict_content_policy(client: Client, user: User) -> None:
    response = client.get(reverse("playground:run", args=[finished_run(user).pk]))
    html = response.content.decode()

    assert "script-src 'self'" in response.headers["Content-Security-Policy"]
    assert "'unsafe-inline'" not in response.headers["Content-Security-Policy"]
    assert not re.search(r"<[^>]+\sstyle=", html)
    assert not re.search(r"<[^>]+\son[a-z]+=", html)
    assert not re.search(r"<script(?![^>]*\bsrc=)", html)
    assert "<style" not in html


# --- what can be done ---


def test_cancelling_from_the_page_answers_with_its_new_head(client: Client, user: User) -> None:  # D2
    recorded = RecordedRun(user)
    recorded.request()
    url = reverse("playground:run_cancel", args=[recorded.run.pk])

    html = client.post(url, headers={"HX-Request": "true"}).content.decode()

    assert html.strip().startswith('<header class="pg-head" id="run-head"')
    assert "Stopping" in html and " disabled" in html


def test_cancelling_without_scripts_leads_back(client: Client, user: User) -> None:
    run = RecordedRun(user, status=RunStatus.QUEUED).run

    response = client.post(reverse("playground:run_cancel", args=[run.pk]))

    assert response.headers["Location"] == reverse("playground:run", args=[run.pk])
    run.refresh_from_db()
    assert run.status == STATUS_OF[EndReason.CANCELLED]


@pytest.mark.parametrize(("permissions", "raw"), [(["view_run", "view_raw"], True), (["view_run"], False)])
def test_an_export_is_a_file_and_raw_needs_its_own_right(permissions: list[str], raw: bool) -> None:  # T6
    owner = UserFactory(permissions=[f"playground.{name}" for name in permissions])
    client = Client()
    client.force_login(owner)
    run = finished_run(owner, capture_raw=True)

    response = client.get(reverse("playground:run_export", args=[run.pk]))

    data: dict[str, Any] = response.json()
    assert response.headers["Content-Disposition"] == f'attachment; filename="run-{run.pk}.json"'
    assert len(data["steps"]) == RunStep.objects.filter(run=run).count()
    assert ("exchanges" in data) == raw
