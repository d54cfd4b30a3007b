"""A run from its claim to its end, with a real model server and a real database."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from llmcore.models import ToolSwitch, UsageRecord
from llmcore.providers.scripted.scenario import Turn
from llmcore.tools.base import Effect, Tool, ToolContext
from playground.models import Run, RunContent, RunPartial, WireExchangeRecord
from playground.models import RunStep as StepRow
from playground.rows import load_contents, load_steps
from playground.services.cancel_run import cancel_run
from playground.services.continue_run import requeue_interrupted
from playground.services.drive_run import drive_run
from playground.services.prepare_run import prepare_run
from playground.services.start_run import write_run
from playground.services.sweep import sweep
from tests.factories import UserFactory
from tests.playground.driven import (
    ANSWERED,
    CALLED,
    SENT,
    WAIT_S,
    call,
    in_background,
    lose_worker,
    script,
    site_tool,
    wait_for,
)

pytestmark = pytest.mark.django_db(transaction=True)

NO_ARGUMENTS = {"type": "object", "properties": {}, "additionalProperties": False}
SLOWLY = {"chunk_chars": 5, "chunk_delay_s": 0.05}
# Long enough for a busy machine to see that the model was asked and hasn't answered.
AFTER_A_WHILE = 4.0


class Gated:
    """A tool that says when it has begun, and ends when it is let go."""

    def __init__(self, effect: Effect) -> None:
        self.begun = threading.Semaphore(0)
        self.let_go = threading.Event()
        self.calls = 0
        self.tool = Tool(
            name="gated", description="Waits.", parameters=NO_ARGUMENTS, run=self._run, group="test", effect=effect
        )

    def _run(self) -> str:
        self.calls += 1
        self.begun.release()
        assert self.let_go.wait(WAIT_S)
        return "Done."


@pytest.fixture
def write() -> Iterator[Gated]:
    gated = Gated(Effect.NON_IDEMPOTENT_WRITE)
    with site_tool(gated.tool):
        yield gated
        gated.let_go.set()


@pytest.fixture
def reading() -> Iterator[Gated]:
    gated = Gated(Effect.READ_ONLY)
    gated.let_go.set()
    with site_tool(gated.tool):
        yield gated


def driving(run: Run, **options: object) -> threading.Thread:
    return in_background(lambda: drive_run(run_id=run.pk, worker="test", **options))  # type: ignore[arg-type, return-value]


def kinds(run: Run) -> list[str]:
    return list(run.steps.values_list("kind", flat=True))


# D1, T2


def test_a_run_is_written_down_step_by_step(reading: Gated) -> None:
    with script(Turn(tool_calls=(call("gated"),)), Turn(text="Good day."), tool_groups=["test"]) as model:
        run = model.run()

    assert (run.status, run.reason, run.answer, run.worker) == ("completed", "completed", "Good day.", "test")
    assert kinds(run) == [*CALLED, *ANSWERED]
    assert [step.sequence for step in run.steps.all()] == list(range(1, 9))
    assert run.last_sequence == 8 and run.lease_until is None and run.ended_at is not None


def test_each_message_is_stored_once(reading: Gated) -> None:  # T4
    turns = [Turn(tool_calls=(call("gated"),)) for _ in range(4)]
    with script(*turns, Turn(text="Good day."), tool_groups=["test"]) as model:
        run = model.run()

    steps, contents = load_steps(run.pk), load_contents(run.pk)
    assert sum(len(step.data["added"]) for step in steps if step.kind == "request") == 2 + 2 * 4
    assert {digest for step in steps for digest in step.data.get("added", ())} <= contents.keys()
    assert sum(json.dumps(content).count("You help the customers") for content in contents.values()) == 1
    assert RunContent.objects.filter(run=run).count() == len(contents)


def test_rows_grow_with_the_rounds_and_not_with_their_square(reading: Gated, settings: Settings) -> None:  # T4
    settings.LLM_MAX_ROUNDS = 1000

    def stored_bytes(rounds: int) -> int:
        turns = [Turn(text="word " * 20, tool_calls=(call("gated"),)) for _ in range(rounds)]
        with script(*turns, Turn(text="Good day."), tool_groups=["test"]) as model:
            run = model.run(max_rounds=rounds + 1)
        assert run.rounds == rounds + 1
        stored = sum(len(json.dumps(step.to_json())) for step in load_steps(run.pk))
        return stored + sum(run.contents.values_list("size", flat=True))

    assert stored_bytes(100) < 1.1 * 10 * stored_bytes(10)


def test_its_figures_are_the_sums_of_its_calls(reading: Gated) -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010}
    turns = (
        Turn(tool_calls=(call("gated"),), usage=usage),
        Turn(text="Good day.", usage={**usage, "prompt_tokens": 1100}),
    )
    with script(*turns, tool_groups=["test"]) as model:
        model.configuration.model.input_price = model.configuration.model.output_price = Decimal(2)
        model.configuration.model.save()
        run = model.run()

    assert (run.rounds, run.tool_calls, run.tool_errors, run.context_peak) == (2, 1, 0, 1100)
    assert (run.input_tokens, run.output_tokens, run.reasoning_output_tokens) == (2100, 20, None)
    assert run.cost == Decimal("0.00424")


def test_its_times_add_up_to_the_wall_time(reading: Gated) -> None:  # T2
    with script(Turn(tool_calls=(call("gated"),), delay_s=0.1), Turn(text="Good day."), tool_groups=["test"]) as model:
        run = model.run()

    parts = (run.queue_ms, run.model_ms, run.tool_ms, run.overhead_ms)
    assert all(part is not None and part >= 0 for part in parts)
    assert sum(parts) == pytest.approx(run.wall_ms)  # type: ignore[arg-type]
    # The rest is what the end itself takes to be written.
    assert 0 < run.wall_ms <= (run.ended_at - run.created_at) / timedelta(milliseconds=1) < run.wall_ms + 1000 * WAIT_S
    assert run.model_ms is not None and run.model_ms >= 100


def test_tools_that_run_at_the_same_time_count_once() -> None:  # T2, L9
    all_here = threading.Barrier(3)

    def wait() -> str:
        all_here.wait(WAIT_S)
        time.sleep(0.2)
        return "Done."

    tool = Tool(name="wait", description="Waits.", parameters=NO_ARGUMENTS, run=wait, group="test")
    turns = Turn(tool_calls=(call("wait"), call("wait"), call("wait"))), Turn(text="Good day.")
    with site_tool(tool), script(*turns, tool_groups=["test"]) as model:
        run = model.run()

    durations = [step.duration_ms for step in run.steps.filter(kind="tool_result")]
    # For a fifth of a second all three were there, however late each of them came and went.
    assert run.tool_ms is not None and run.tool_ms <= sum(durations) - 2 * 200
    assert run.queue_ms + run.model_ms + run.tool_ms + run.overhead_ms == pytest.approx(run.wall_ms)  # type: ignore[operator]


def test_each_call_leaves_a_usage_record(reading: Gated) -> None:  # M1
    with script(Turn(tool_calls=(call("gated"),)), Turn(text="Good day."), tool_groups=["test"]) as model:
        run = model.run()

    records = UsageRecord.objects.filter(run_id=run.pk)
    assert records.count() == 2
    assert sum(record.input_tokens for record in records) == run.input_tokens
    assert {record.configuration_id for record in records} == {run.configuration_id}


@pytest.mark.parametrize(
    ("turn", "status", "reason"),
    [
        (Turn(text="Well", finish_reason="length"), "incomplete", "truncated"),
        (Turn(text="Well", finish_reason="content_filter"), "incomplete", "content_filtered"),
        (Turn(), "incomplete", "empty_answer"),
        (Turn(tool_calls=(call("gated"),)), "incomplete", "max_rounds"),
        (Turn(status=401), "failed", "provider_failed"),
    ],
)
def test_a_run_ends_for_the_reason_that_ended_it(reading: Gated, turn: Turn, status: str, reason: str) -> None:  # L14
    with script(turn, tool_groups=["test"], max_rounds=2) as model:
        run = model.run()

    assert (run.status, run.reason) == (status, reason)
    assert run.detail and run.steps.filter(kind="response").exists()  # L15


def test_a_failed_call_keeps_what_was_before_it(reading: Gated) -> None:  # L15
    turns = Turn(tool_calls=(call("gated"),)), Turn(status=400, error="The window is full.")
    with script(*turns, tool_groups=["test"]) as model:
        run = model.run()

    assert (run.status, run.reason) == ("failed", "provider_failed")
    assert kinds(run) == [*CALLED, *ANSWERED]
    assert run.error is not None and "The window is full." in run.error["message"]


# T3, D4


def test_a_request_is_stored_before_its_answer_comes() -> None:  # T3
    with script(Turn(text="Good day.", delay_s=AFTER_A_WHILE)) as model:
        run = write_run(request=model.request(), by=None)
        with driving(run):
            wait_for(lambda: kinds(run) == SENT)
            assert Run.objects.get(pk=run.pk).status == "running"
            assert not model.model.requests or not model.model.requests[0].answered
    assert kinds(run) == ANSWERED


def test_each_write_raises_the_revision(reading: Gated) -> None:
    with script(
        Turn(tool_calls=(call("gated"),), delay_s=0.2), Turn(text="Good day.", delay_s=1.0), tool_groups=["test"]
    ) as model:
        run = write_run(request=model.request(), by=None)
        seen: list[tuple[int, int]] = []

        def look() -> None:
            seen.append(Run.objects.values_list("revision", "last_sequence").get(pk=run.pk))

        # However busy the machine is: before the run, at its call, which waits for that, and at its end.
        reading.let_go.clear()
        look()
        with driving(run) as thread:
            while thread.is_alive():
                called = reading.calls
                look()
                if called:
                    reading.let_go.set()
        look()
    changes = sorted(set(seen))
    assert len(changes) >= 4
    assert len({revision for revision, _ in changes}) == len(changes), "a change without a new revision"


def test_text_is_there_while_it_is_being_streamed() -> None:  # D5
    # A stream that takes twenty seconds, and is ended when it has been looked at.
    text = "One two three four five six seven eight. " * 50
    with script(Turn(text=text, thinking="Let me think.", **SLOWLY)) as model:
        run = write_run(request=model.request(), by=None)
        with driving(run):
            wait_for(lambda: RunPartial.objects.filter(run=run, text__startswith="One two").exists())
            partial = RunPartial.objects.get(run=run)
            assert partial.thinking == "Let me think." and partial.round == 1
            assert cancel_run(run=run, by=None, now=timezone.now())
    assert not RunPartial.objects.exists()
    run.refresh_from_db()
    assert run.answer.startswith("One two") and text.startswith(run.answer)


def test_streamed_text_is_written_at_most_four_times_a_second() -> None:  # D5
    with script(Turn(text="abcde " * 50, chunk_chars=2, chunk_delay_s=0.01)) as model:
        run = model.run()
    assert run.wall_ms is not None
    # Two writes are the steps', the rest are the claim, the plan and the end.
    assert run.revision <= run.wall_ms / 250 + 7


# D2


def test_a_run_stops_long_before_its_stream_ends() -> None:  # D2
    user = UserFactory(username="ada")
    with script(Turn(text="word " * 400, **SLOWLY)) as model:
        run = write_run(request=model.request(), by=user)
        with driving(run):
            wait_for(lambda: RunPartial.objects.exclude(text="").exists())
            assert cancel_run(run=run, by=user, now=timezone.now())
            wait_for(lambda: Run.objects.get(pk=run.pk).status == "cancelled")
        wait_for(lambda: model.model.requests[0].disconnected, "the server to see the stream closed")

    run.refresh_from_db()
    assert (run.reason, run.detail) == ("cancelled", "Cancelled by ada.")
    assert kinds(run) == ANSWERED
    assert run.steps.get(kind="response").data["cancelled"] is True
    assert run.answer.startswith("word word") and len(run.answer) < 1000
    # The provider counts what it generated until then; nobody told us.
    assert UsageRecord.objects.get().output_tokens is None


def test_a_run_stops_while_a_tool_runs_and_says_so(write: Gated) -> None:  # D2
    with script(Turn(tool_calls=(call("gated"),)), tool_groups=["test"]) as model:
        run = write_run(request=model.request(), by=None)
        with driving(run):
            assert write.begun.acquire(timeout=WAIT_S)
            cancel_run(run=run, by=None, now=timezone.now())
            wait_for(lambda: Run.objects.get(pk=run.pk).status == "cancelled")
    result = run.steps.get(kind="tool_result")
    assert result.data["effect_unknown"] is True


def test_a_run_can_be_cancelled_from_the_process_that_drives_it() -> None:
    user, cancelling = UserFactory(username="ada"), threading.Event()
    with script(Turn(text="word " * 400, **SLOWLY)) as model:
        run = write_run(request=model.request(), by=user)
        with driving(run, cancelling=cancelling):
            wait_for(lambda: RunPartial.objects.exists())
            cancelling.set()
    run.refresh_from_db()
    assert (run.status, run.cancelled_by, run.detail) == ("cancelled", user, "Cancelled by ada.")


# D1, D3: claim and lease


def test_a_message_that_comes_again_finds_the_claim_and_does_nothing() -> None:  # D1
    with script(Turn(text="Good day.", delay_s=0.5)) as model:
        run = write_run(request=model.request(), by=None)
        with driving(run):
            wait_for(lambda: model.model.requests)
            assert drive_run(run_id=run.pk, worker="another") is False
        assert drive_run(run_id=run.pk, worker="another") is False
        assert len(model.model.requests) == 1
    run.refresh_from_db()
    assert (run.attempt, run.worker, run.status) == (1, "test", "completed")


def test_a_lease_is_renewed_as_long_as_the_run_is_driven(settings: Settings) -> None:  # D1
    settings.LLM_LEASE_S = 4.0
    with script(Turn(text="Good day.", delay_s=7.0)) as model:
        run = write_run(request=model.request(), by=None)
        with driving(run) as thread:
            wait_for(lambda: model.model.requests)
            while thread.is_alive():
                sweep(now=timezone.now())
                # The driver is to have its share of this process and of the database.
                thread.join(0.05)
    run.refresh_from_db()
    assert (run.status, run.attempt) == ("completed", 1)


def test_a_driver_that_lost_its_claim_writes_nothing_more() -> None:  # D1
    with script(Turn(text="word " * 400, **SLOWLY)) as model:
        run = write_run(request=model.request(), by=None)
        with driving(run):
            wait_for(lambda: RunPartial.objects.exists())
            Run.objects.filter(pk=run.pk).update(attempt=2, worker="another")
            before = Run.objects.values().get(pk=run.pk)
        wait_for(lambda: model.model.requests[0].disconnected, "the stream to be closed")
    assert Run.objects.values().get(pk=run.pk) == before
    assert kinds(run) == SENT


def test_a_write_starts_only_when_its_call_is_on_disk() -> None:  # T2
    seen: list[list[str]] = []

    def look(context: ToolContext) -> str:
        seen.append(list(StepRow.objects.filter(run_id=context.run_id).values_list("kind", flat=True)))
        return "Done."

    tool = Tool(
        name="look", description="Looks.", parameters=NO_ARGUMENTS, run=look, group="test",
        effect=Effect.NON_IDEMPOTENT_WRITE, context_parameter="context",
    )  # fmt: skip
    with (
        site_tool(tool),
        script(Turn(tool_calls=(call("look"),)), Turn(text="Good day."), tool_groups=["test"]) as model,
    ):
        run = model.run()
    assert run.status == "completed"
    assert seen == [["request", "context", "response", "tool_call"]]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_tools_leave_no_connection_open(asynchronous: bool) -> None:
    used: list[Any] = []

    def ask() -> str:
        Run.objects.count()
        used.append(connection.connection)
        return "Done."

    async def ask_async() -> str:
        return await sync_to_async(ask)()

    run = ask_async if asynchronous else ask
    tool = Tool(name="ask", description="Asks.", parameters=NO_ARGUMENTS, run=run, group="test")
    turns = Turn(tool_calls=(call("ask"),)), Turn(text="Good day.")
    with site_tool(tool), script(*turns, tool_groups=["test"]) as model:
        assert model.run().tool_errors == 0
    with pytest.raises(Exception, match="closed"):
        used[0].cursor().execute("SELECT 1")


def test_a_worker_that_is_being_stopped_starts_no_run() -> None:
    stopping = threading.Event()
    stopping.set()
    with script(Turn(text="Good day.")) as model:
        run = write_run(request=model.request(), by=None)
        assert drive_run(run_id=run.pk, worker="test", stopping=stopping)
        assert not model.model.requests
    run.refresh_from_db()
    assert (run.status, kinds(run)) == ("queued", [])


@pytest.mark.skipif("DATABASE_URL" not in os.environ, reason="a file can't be away; only a database server can")
def test_a_run_survives_a_database_that_is_away_for_a_moment() -> None:
    with script(Turn(text="word " * 120, **SLOWLY)) as model, connection.cursor() as cursor:
        run = write_run(request=model.request(), by=None)
        # Ours, and those that threads of other tests have kept.
        cursor.execute("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")
        known = [pid for (pid,) in cursor.fetchall()]
        with driving(run):
            wait_for(lambda: RunPartial.objects.exists())
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> ALL(%s)",
                [known],
            )
            assert cursor.fetchall() == [(True,)]
    run.refresh_from_db()
    assert (run.status, run.attempt, kinds(run)) == ("completed", 1, ANSWERED)


# D3: interruption


def test_a_lost_run_keeps_its_steps_and_goes_on_without_repeating_calls(reading: Gated) -> None:  # D3
    turns = Turn(tool_calls=(call("gated"),)), Turn(text="Good day.", delay_s=AFTER_A_WHILE)
    with script(*turns, tool_groups=["test"]) as model:
        run = write_run(request=model.request(), by=None)
        with driving(run):
            wait_for(lambda: len(model.model.requests) == 2 and run.steps.count() == 7)
            lose_worker(run)
            assert (run.status, run.reason) == ("interrupted", "interrupted")
            assert "All 7 recorded steps are kept" in run.detail
        assert kinds(run) == [*CALLED, *SENT]

        assert requeue_interrupted(run)
        assert drive_run(run_id=run.pk, worker="second")
    run.refresh_from_db()
    assert (run.status, run.answer, run.attempt, run.worker) == ("completed", "Good day.", 2, "second")
    assert kinds(run) == [*CALLED, *SENT, *ANSWERED]
    assert reading.calls == 1 and run.tool_calls == 1 and run.rounds == 2
    assert run.queue_ms + run.model_ms + run.tool_ms + run.overhead_ms == pytest.approx(run.wall_ms)  # type: ignore[operator]
    offsets = [step.started_ms for step in run.steps.all()]
    assert offsets == sorted(offsets)


def test_a_write_in_flight_is_named_and_never_repeated(write: Gated) -> None:  # D3
    turns = Turn(tool_calls=(call("gated"),)), Turn(text="I can't tell whether it worked.")
    with script(*turns, tool_groups=["test"]) as model:
        run = write_run(request=model.request(), by=None)
        with driving(run):
            assert write.begun.acquire(timeout=WAIT_S)
            lose_worker(run)
            assert "A write was in flight: “gated”" in run.detail
            assert "will not be repeated" in run.detail
        assert requeue_interrupted(run)
        assert drive_run(run_id=run.pk, worker="second")
        told = model.model.requests[-1].json["messages"][-1]
    run.refresh_from_db()
    assert (run.status, write.calls) == ("completed", 1)
    assert told["role"] == "tool" and "Whether it had an effect is unknown" in told["content"]
    assert run.steps.get(kind="tool_result").data["effect_unknown"] is True


def test_a_run_that_is_lost_before_its_first_request_starts_from_its_beginning() -> None:  # D3
    with script(Turn(text="Good day.")) as model:
        run = write_run(request=model.request(), by=None)
        Run.objects.filter(pk=run.pk).update(status="running", attempt=1, started_at=timezone.now(), queue_ms=0)
        lose_worker(run)
        assert run.status == "interrupted" and "Nothing had been sent yet" in run.detail
        assert requeue_interrupted(run)
        assert drive_run(run_id=run.pk, worker="second")
    run.refresh_from_db()
    assert run.status == "completed"


def test_a_run_whose_cancelling_worker_is_lost_is_cancelled() -> None:
    with script(Turn(text="Good day.")) as model:
        run = write_run(request=model.request(), by=None)
        Run.objects.filter(pk=run.pk).update(
            status="running", attempt=1, started_at=timezone.now(), cancel_requested_at=timezone.now(), worker="w1"
        )
        lose_worker(run)
    assert (run.status, run.detail) == ("cancelled", "Cancelled. The worker w1 was lost.")


def test_a_run_does_not_go_on_with_another_model() -> None:
    with script(Turn(text="Good day.", delay_s=AFTER_A_WHILE)) as model:
        run = write_run(request=model.request(), by=None)
        with driving(run):
            wait_for(lambda: model.model.requests and kinds(run) == SENT)
            lose_worker(run)
        model.configuration.model.name = "other"
        model.configuration.model.save()
        assert requeue_interrupted(run)
        assert drive_run(run_id=run.pk, worker="second")
    run.refresh_from_db()
    assert (run.status, run.reason) == ("interrupted", "interrupted")
    assert "its configuration now names another one" in run.detail and kinds(run) == SENT


def test_a_run_whose_record_can_not_be_read_stays_interrupted() -> None:
    with script(Turn(text="Good day.", delay_s=AFTER_A_WHILE)) as model:
        run = write_run(request=model.request(), by=None)
        with driving(run):
            wait_for(lambda: model.model.requests and kinds(run) == SENT)
            lose_worker(run)
        contents = list(run.contents.values("digest", "value", "size"))
        run.contents.all().delete()
        assert requeue_interrupted(run)
        assert drive_run(run_id=run.pk, worker="second")
        assert Run.objects.get(pk=run.pk).status == "interrupted"

        # Where it could be mended, the run goes on.
        run.contents.bulk_create(RunContent(run=run, **content) for content in contents)
        assert requeue_interrupted(run)
        assert drive_run(run_id=run.pk, worker="third")
    assert Run.objects.get(pk=run.pk).status == "completed"


def test_a_tool_that_was_switched_off_meanwhile_is_not_called_when_a_run_goes_on() -> None:  # L2
    gated = Gated(Effect.READ_ONLY)
    turns = Turn(tool_calls=(call("gated"),)), Turn(text="Then without it.")
    with site_tool(gated.tool), script(*turns, tool_groups=["test"]) as model:
        run = write_run(request=model.request(), by=None)
        with driving(run):
            assert gated.begun.acquire(timeout=WAIT_S)
            wait_for(lambda: "tool_call" in kinds(run))
            lose_worker(run)
            gated.let_go.set()
        ToolSwitch.objects.create(name="gated", enabled=False)
        assert requeue_interrupted(run)
        assert drive_run(run_id=run.pk, worker="second")
    run.refresh_from_db()
    assert (run.status, gated.calls) == ("completed", 1)
    assert run.steps.get(kind="tool_result").data["is_error"] is True


def test_a_worker_that_is_told_to_stop_gives_its_run_back(reading: Gated) -> None:  # D3
    stopping = threading.Event()
    turns = Turn(tool_calls=(call("gated"),)), Turn(text="word " * 60, **SLOWLY)
    with script(*turns, tool_groups=["test"]) as model:
        run = write_run(request=model.request(), by=None)
        with driving(run, stopping=stopping):
            wait_for(lambda: RunPartial.objects.exclude(text="").exists())
            stopping.set()
        run.refresh_from_db()
        assert (run.status, run.reason, run.ended_at) == ("queued", "", None)
        assert run.lease_until is not None and run.lease_until <= timezone.now(), "the next sweep hands it over"
        assert kinds(run) == [*CALLED, *ANSWERED]

        assert drive_run(run_id=run.pk, worker="second")
    run.refresh_from_db()
    assert (run.status, run.answer, run.attempt) == ("completed", ("word " * 60), 2)
    assert reading.calls == 1


def test_a_click_on_cancel_is_not_lost_when_the_worker_is_stopped() -> None:  # D2
    stopping = threading.Event()
    with script(Turn(text="word " * 400, **SLOWLY)) as model:
        run = write_run(request=model.request(), by=None)
        with driving(run, stopping=stopping):
            wait_for(lambda: RunPartial.objects.exists())
            stopping.set()
            cancel_run(run=run, by=None, now=timezone.now())
    if Run.objects.get(pk=run.pk).status == "queued":
        assert drive_run(run_id=run.pk, worker="second")
    run.refresh_from_db()
    assert (run.status, run.detail) == ("cancelled", "Cancelled.")


# Errors before round 1


def test_an_unknown_skill_ends_the_run_with_a_reason_and_keeps_what_was_typed() -> None:
    with script(Turn(text="Good day.")) as model:
        run = model.run(skills=("no-such-skill",), prompt="A long prompt")
        assert not model.model.requests
    assert (run.status, run.reason) == ("failed", "internal_error")
    assert "no-such-skill" in run.detail
    assert run.error is not None and "run it again" in run.error["advice"]
    assert run.request["prompt"] == "A long prompt" and run.steps.get().kind == "error"


def test_a_key_that_can_not_be_read_ends_the_run_with_advice(settings: Settings) -> None:  # W7
    with script(Turn(text="Good day."), key="a-key-that-was-stored") as model:
        settings.LLM_ENCRYPTION_KEYS = ["VGhpcyBpcyBub3QgdGhlIGtleSBvZiBiZWZvcmUhISE="]
        run = model.run()
        assert not model.model.requests
    assert (run.status, run.reason) == ("failed", "internal_error")
    assert run.error is not None and "enter its key again" in run.error["advice"]
    assert "a-key-that-was-stored" not in json.dumps([run.error, run.detail, *load_contents(run.pk).values()])


def test_a_refused_address_ends_the_run_with_a_reason() -> None:  # W6
    with script(Turn(text="Good day.")) as model:
        provider = model.configuration.model.provider
        type(provider).objects.filter(pk=provider.pk).update(allow_private_hosts=False)
        run = model.run()
        assert not model.model.requests
    assert run.status == "failed"
    assert run.detail


# A5: the preview is the truth


def test_preview_dry_run_and_run_have_the_same_first_request(reading: Gated) -> None:  # A5
    with script(Turn(text="Good day."), tool_groups=["test"], key="a-key-that-is-stored") as model:
        request = model.request(system_override="Be brief.", temperature=0.3, thinking="low")
        preview = prepare_run(request=request, user=None).wire
        dry = model.run(**{**request.to_json(), "dry_run": True, "skills": (), "snippets": ()})
        assert not model.model.requests and not UsageRecord.objects.exists()
        real = model.run(**{**request.to_json(), "skills": (), "snippets": ()})
        sent = model.model.requests[0].body

    assembled = dry.steps.get(kind="assembled")
    assert (dry.status, dry.reason, assembled.kind) == ("dry_run", "dry_run", "assembled")
    assert load_contents(dry.pk)[assembled.data["body"]].encode() == preview.body == sent
    first = real.steps.get(sequence=1)
    assert first.data["body_sha256"] == assembled.data["body_sha256"] == preview.sha256
    assert dry.plan["body_sha256"] == real.plan["body_sha256"] == preview.sha256


def test_a_dry_run_needs_no_readable_key(settings: Settings) -> None:
    with script(Turn(text="Good day."), key="a-key-that-was-stored") as model:
        settings.LLM_ENCRYPTION_KEYS = ["VGhpcyBpcyBub3QgdGhlIGtleSBvZiBiZWZvcmUhISE="]
        assert model.run(dry_run=True).status == "dry_run"


# R1, T5


def test_a_known_secret_is_nowhere_in_what_is_written() -> None:  # R1
    key = "f3c91e-a-key-of-the-provider"
    with script(Turn(text=f"Your key is {key}, is it not?", thinking=key), key=key) as model:
        run = model.run(prompt=f"My key is {key}.", capture_raw=True)
        assert key in model.model.requests[0].headers["authorization"]
        assert key not in model.model.requests[0].body.decode()

    assert run.status == "completed" and "Your key is •••" in run.answer
    tables = (Run, StepRow, RunContent, UsageRecord)
    written = json.dumps([list(table.objects.values()) for table in tables], default=str, ensure_ascii=False)
    exchange = WireExchangeRecord.objects.get()
    written += json.dumps([exchange.request_headers, exchange.response_headers, exchange.url])
    assert key not in written
    assert key.encode() not in bytes(exchange.request_body) + bytes(exchange.response_body)


def test_raw_capture_keeps_the_exact_bytes_and_changes_nothing() -> None:  # T5
    with script(Turn(text="Good day.", thinking="Hm.")) as model:
        plain = model.run()
        assert not WireExchangeRecord.objects.exists()
        raw = model.run(capture_raw=True)
        sent = model.model.requests[-1].body

    exchange = raw.exchanges.get()
    assert bytes(exchange.request_body) == sent and exchange.status == 200
    assert sum(size for _, size in exchange.chunk_times) == len(bytes(exchange.response_body))
    assert b"data: [DONE]" in bytes(exchange.response_body)
    assert raw.answer == plain.answer
    messages = [run.steps.get(kind="response").data["message"] for run in (plain, raw)]
    assert messages[0] == messages[1]


def test_characters_that_a_database_refuses_are_replaced() -> None:
    with script(Turn(text="a\0b\ud800c")) as model:
        run = model.run(prompt="x\0y")
    assert run.status == "completed" and "\0" not in run.answer and run.answer.startswith("a")
    assert run.prompt == "x\ufffdy"


def test_a_fault_of_our_own_ends_the_run_with_its_traceback_in_the_trace() -> None:  # L15
    with script(Turn(text="Good day.")) as model:
        run = write_run(request=model.request(), by=None)
        Run.objects.filter(pk=run.pk).update(request={"unknown": "shape"})
        assert drive_run(run_id=run.pk, worker="test")
    run.refresh_from_db()
    assert (run.status, run.reason) == ("failed", "internal_error")
    step = run.steps.get()
    assert step.kind == "error" and "Traceback" in load_contents(run.pk)[step.data["traceback"]]


def test_a_run_explains_itself_at_its_end() -> None:
    with script(Turn(text="Well", finish_reason="length")) as model:
        run = model.run()
    assert "truncated" in " ".join(finding["id"] for finding in run.findings)
    assert all(finding["severity"] in ("error", "warning", "note") for finding in run.findings)
