"""Runs whose calls wait for permits: what is recorded, what a watcher sees, and that they let go of their place."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from django.core.management.base import OutputWrapper
from django.core.management.color import no_style
from django.utils import timezone
from pytest_django import Settings

from llmcore.models import PermitTicket, Provider
from llmcore.permits.base import Ticket
from llmcore.permits.database import DatabaseTickets
from llmcore.providers.scripted.scenario import Scenario, Turn
from llmcore.tools.base import Tool
from playground.models import Run, RunPartial
from playground.printing import RunPrinter
from playground.privacy import PrivacyLevel
from playground.services.cancel_run import cancel_run
from playground.services.drive_run import drive_run
from playground.services.start_run import write_run
from tests.llmcore.permit_stores import forget_all, ticket
from tests.playground.driven import Script, call, in_background, script, site_tool, wait_for
from tests.playground.workers import kinds, status
from tests.services import Redis

pytestmark = pytest.mark.django_db(transaction=True)

HELLO = Turn(text="Good day.")
NO_ARGUMENTS = {"type": "object", "properties": {}}
# For somebody else to get in line while a call is in flight, on a busy machine.
LONG_ENOUGH_S = 3.0


@dataclass(frozen=True)
class Busy:
    """A model whose provider takes one call at a time, and that one call."""

    model: Script
    call: Ticket

    def run(self) -> Run:
        return write_run(request=self.model.request(), by=None)

    def free(self) -> None:
        DatabaseTickets().leave(self.call.token)


@pytest.fixture
def busy() -> Iterator[Busy]:
    with script(HELLO) as model:
        yield busy_with(model)


def busy_with(model: Script) -> Busy:
    Provider.objects.update(max_calls_in_flight=1)
    other = ticket(Provider.objects.get().slug)
    # Far longer than any test.
    assert DatabaseTickets(lease_s=3600).look(other).position == 0
    return Busy(model, other)


@contextmanager
def driving(run: Run, **options: object) -> Iterator[None]:
    with in_background(lambda: drive_run(run_id=run.pk, worker="test", **options)):  # type: ignore[arg-type]
        yield


def waiting(run: Run) -> dict[str, object] | None:
    return RunPartial.objects.filter(run=run).values_list("waiting", flat=True).first()


def of_calls(run: Run) -> list[str]:
    """The steps of its calls, in their order."""
    return [kind for kind in kinds(run) if kind in ("request", "retry", "permit", "response")]


def test_a_run_waits_until_its_call_may_go_and_says_where_it_stands(busy: Busy) -> None:  # S1, S4
    run = busy.run()
    with driving(run):
        wait_for(lambda: waiting(run))
        assert waiting(run) == {"provider": busy.call.provider, "position": 1, "waiting": 1}
        assert PermitTicket.objects.get(held_since=None).run_id == run.pk
        assert not busy.model.model.requests
        busy.free()
        wait_for(lambda: status(run) == "completed")
    assert of_calls(run) == ["request", "permit", "response"]
    assert not PermitTicket.objects.exists()
    assert not RunPartial.objects.filter(run=run).exists()


def test_the_wait_is_a_part_of_its_own_of_a_time_that_adds_up(busy: Busy) -> None:  # T2
    run = busy.run()
    with driving(run):
        wait_for(lambda: waiting(run))
        busy.free()
    run.refresh_from_db()
    (permit,) = run.steps.filter(kind="permit")
    (response,) = run.steps.filter(kind="response")
    assert run.permit_ms == pytest.approx(permit.duration_ms) and permit.duration_ms > 0
    assert run.model_ms == pytest.approx(response.duration_ms)
    parts = (run.queue_ms, run.permit_ms, run.model_ms, run.tool_ms, run.overhead_ms)
    assert sum(part or 0.0 for part in parts) == pytest.approx(run.wall_ms)


def test_waits_of_later_attempts_are_not_counted_as_the_models_time() -> None:  # T2, S3
    busy = Turn(status=503, error="Busy.", delay_s=LONG_ENOUGH_S)
    with script(HELLO) as model:
        model.model.scenarios["scripted"] = Scenario(name="scripted", turns=(busy, HELLO), times=1)
        run = write_run(request=model.request(), by=None)
        Provider.objects.update(max_calls_in_flight=1)
        store, other = DatabaseTickets(lease_s=3600), ticket(Provider.objects.get().slug)
        with driving(run):
            wait_for(lambda: model.model.requests)
            assert store.look(other).position == 1
            # Between the two attempts it is the other one's turn.
            wait_for(lambda: waiting(run))
            store.leave(other.token)
    run.refresh_from_db()
    assert of_calls(run) == ["request", "retry", "permit", "response"]
    permit, response = run.steps.get(kind="permit"), run.steps.get(kind="response")
    assert permit.data["attempt"] == 2
    assert response.data["permit_ms"] == pytest.approx(permit.duration_ms)
    assert run.permit_ms == pytest.approx(permit.duration_ms)
    assert run.model_ms == pytest.approx(response.duration_ms - permit.duration_ms)
    assert run.model_ms is not None and run.model_ms >= LONG_ENOUGH_S * 1000


def test_whoever_looks_on_is_told_that_a_run_waits(busy: Busy) -> None:
    run, lines = busy.run(), io.StringIO()
    printer = RunPrinter(OutputWrapper(lines), no_style(), str)
    with driving(run, watch=printer.item):
        wait_for(lambda: "Waiting for a permit, 1st of 1 …" in lines.getvalue())
        busy.free()
    assert lines.getvalue().count("Waiting for a permit") == 1
    assert re.search(r"waited \d+\.\d\d\ss for a permit", lines.getvalue())


def test_a_run_that_waits_can_be_cancelled(busy: Busy) -> None:  # D2
    run = busy.run()
    with driving(run):
        wait_for(lambda: waiting(run))
        cancel_run(run=run, by=None, now=timezone.now())
        wait_for(lambda: status(run) == "cancelled")
    assert not busy.model.model.requests
    assert [row.pk for row in PermitTicket.objects.all()] == [busy.call.token]
    permit = run.steps.get(kind="permit")
    assert permit.data["granted"] is False
    run.refresh_from_db()
    assert run.permit_ms == pytest.approx(permit.duration_ms)


def test_a_worker_that_is_told_to_stop_gives_back_run_and_place(busy: Busy) -> None:  # S2, D3
    run, stopping = busy.run(), threading.Event()
    with driving(run, stopping=stopping):
        wait_for(lambda: waiting(run))
        stopping.set()
        wait_for(lambda: status(run) == "queued")
    assert [row.pk for row in PermitTicket.objects.all()] == [busy.call.token]
    busy.free()
    busy.model.drive(run)
    assert (run.status, run.answer, run.rounds) == ("completed", "Good day.", 1)
    assert run.permit_ms is not None and run.permit_ms > 0, "the wait before counts as well"


def test_a_driver_that_lost_its_run_lets_go_of_its_place(busy: Busy) -> None:  # S2, D3
    run = busy.run()
    with driving(run):
        wait_for(lambda: waiting(run))
        Run.objects.filter(pk=run.pk).update(attempt=9)
    wait_for(lambda: list(PermitTicket.objects.values_list("pk", flat=True)) == [busy.call.token])


def test_no_permit_is_held_while_tools_run_or_a_run_ends() -> None:  # S3
    turns = (Turn(tool_calls=(call("list_policies"),)), HELLO)
    with script(*turns, tool_groups=["policies"]) as model:
        Provider.objects.update(max_calls_in_flight=1)
        run = model.run()
    assert run.status == "completed" and not PermitTicket.objects.exists()
    assert of_calls(run) == ["request", "response", "request", "response"]


def test_a_restart_of_redis_loses_no_run(settings: Settings) -> None:  # S4
    server = Redis()
    server.start()
    settings.LLM_PERMITS_URL = f"redis://127.0.0.1:{server.port}/0"
    forget_all(settings.LLM_PERMITS_URL)

    def stop_redis() -> str:
        server.stop()
        return "Done."

    tool = Tool(name="restart", description="Restarts.", parameters=NO_ARGUMENTS, run=stop_redis, group="test")
    turns = (Turn(tool_calls=(call("restart"),)), HELLO)
    with site_tool(tool), script(*turns, tool_groups=["test"]) as model:
        Provider.objects.update(max_calls_in_flight=1)
        run = write_run(request=model.request(), by=None)
        with driving(run):
            wait_for(lambda: (waiting(run) or {}).get("away"))
            assert len(model.model.requests) == 1, "no call goes out while nobody can say whether it may"
            server.start()
            wait_for(lambda: (waiting(run) or {}).get("recounting"))
            wait_for(lambda: status(run) == "completed")
    server.stop()
    run.refresh_from_db()
    assert run.answer == "Good day." and of_calls(run).count("permit") == 1


def test_a_run_that_waits_for_a_redis_that_is_away_can_be_cancelled(settings: Settings) -> None:  # D2, S4
    settings.LLM_PERMITS_URL = "redis://127.0.0.1:1/0"
    with script(HELLO) as model:
        Provider.objects.update(max_calls_in_flight=1)
        run = write_run(request=model.request(), by=None)
        with driving(run):
            wait_for(lambda: waiting(run))
            assert waiting(run) == {"provider": Provider.objects.get().slug, "position": 0, "waiting": 0, "away": True}
            cancel_run(run=run, by=None, now=timezone.now())
            wait_for(lambda: status(run) == "cancelled")
    assert not model.model.requests


def test_a_limit_that_is_raised_lets_a_run_go_that_waits(busy: Busy) -> None:
    run = busy.run()
    with driving(run):
        wait_for(lambda: waiting(run))
        Provider.objects.update(max_calls_in_flight=2)
        wait_for(lambda: status(run) == "completed")


def test_the_limit_of_the_site_holds_for_providers_without_one(settings: Settings) -> None:  # S1
    settings.LLM_MAX_CALLS_IN_FLIGHT = 1
    with script(HELLO) as model:
        other = ticket("another", calls=None, total=1)
        DatabaseTickets(lease_s=3600).look(other)
        run = write_run(request=model.request(), by=None)
        with driving(run):
            wait_for(lambda: waiting(run))
            assert waiting(run) == {
                "provider": Provider.objects.get().slug,
                "position": 1,
                "waiting": 1,
                "of_site": True,
            }
            DatabaseTickets().leave(other.token)
            wait_for(lambda: status(run) == "completed")


def test_where_a_call_stands_is_no_content(busy: Busy, settings: Settings) -> None:  # R2
    settings.LLM_PRIVACY_LEVEL = PrivacyLevel.METADATA.value
    run = busy.run()
    with driving(run):
        wait_for(lambda: waiting(run))
        busy.free()
        wait_for(lambda: status(run) == "completed")
    assert run.steps.get(kind="permit").data["provider"] == busy.call.provider
