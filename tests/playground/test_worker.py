"""Real Celery workers on this test's database: told of runs over the queue, stopped, and killed."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import Settings

from llmcore.providers.scripted.scenario import Turn
from playground.models import Run
from playground.queue import hand_over, patience
from playground.services.cancel_run import cancel_run
from playground.services.continue_run import continue_run
from playground.services.start_run import start_run, write_run
from tests.playground.driven import ANSWERED, CALLED, SENT, Script, call, script, wait_for
from tests.playground.workers import LEASE_S, StartWorker, kinds, manage, status, streaming

pytestmark = pytest.mark.django_db(transaction=True)

SLOWLY = {"chunk_chars": 5, "chunk_delay_s": 0.08}
LOOK_UP = Turn(tool_calls=(call("list_policies"),))


@pytest.fixture
def slow() -> Iterator[Script]:
    """Calls a tool, then says 300 characters within five seconds."""
    with script(LOOK_UP, Turn(text="word " * 60, **SLOWLY), tool_groups=["policies"]) as model:
        yield model


def test_a_worker_drives_a_run_that_it_is_told_of(start_worker: StartWorker, settings: Settings) -> None:  # D1, D5
    settings.LLM_LEASE_S = 5 * LEASE_S
    worker = start_worker()
    with script(LOOK_UP, Turn(text="Good day."), tool_groups=["policies"]) as model:
        run = start_run(request=model.request(), by=None)
        wait_for(lambda: status(run) == "completed")
    run.refresh_from_db()
    assert run.answer == "Good day." and run.worker.endswith(f":{worker.pid}")
    # It was told: a worker that had to look for the run would have let it wait twice as long as a lease.
    assert run.queue_ms is not None and run.queue_ms < 2000 * settings.LLM_LEASE_S
    assert kinds(run) == [*CALLED, *ANSWERED]


def test_messages_that_come_again_change_nothing(start_worker: StartWorker, slow: Script) -> None:  # D1
    start_worker()
    run = start_run(request=slow.request(), by=None)
    for _ in range(3):
        hand_over(run.pk)
    wait_for(lambda: status(run) == "completed")
    hand_over(run.pk)
    other = start_run(request=slow.request(), by=None)
    wait_for(lambda: status(other) == "completed")
    run.refresh_from_db()
    assert run.attempt == 1 and len(slow.model.requests) == 4


def test_a_run_stops_in_the_midst_of_its_stream(start_worker: StartWorker, slow: Script) -> None:  # D2
    start_worker()
    run = start_run(request=slow.request(), by=None)
    wait_for(lambda: streaming(run))
    cancel_run(run=run, by=None, now=timezone.now())
    wait_for(lambda: status(run) == "cancelled")
    wait_for(lambda: slow.model.requests[-1].disconnected, "the stream to be closed")


def test_a_run_survives_a_killed_worker(start_worker: StartWorker, slow: Script) -> None:  # D3
    workers = {worker.pid: worker for worker in (start_worker(), start_worker())}
    run = start_run(request=slow.request(), by=None)
    wait_for(lambda: streaming(run))
    run.refresh_from_db()
    workers[int(run.worker.rpartition(":")[2])].send_signal(signal.SIGKILL)
    killed = time.monotonic()
    wait_for(lambda: status(run) == "interrupted")
    assert time.monotonic() - killed < 9 * LEASE_S, "the lease, and how often the other worker looks"
    recorded = kinds(run)
    assert recorded == [*CALLED, *SENT]

    assert continue_run(run=run, by=None)
    wait_for(lambda: status(run) == "completed")
    run.refresh_from_db()
    assert kinds(run) == [*recorded, "request", "context", "response"]
    assert (run.attempt, run.answer) == (2, "word " * 60)
    asked = [sum(m["role"] == "tool" for m in request.json["messages"]) for request in slow.model.requests]
    assert asked == [0, 1, 1], "the tool ran once, and the first round was not asked again"


def test_a_run_survives_a_worker_that_is_told_to_stop(start_worker: StartWorker, slow: Script) -> None:  # D3
    first = start_worker()
    run = start_run(request=slow.request(), by=None)
    wait_for(lambda: streaming(run))
    first.send_signal(signal.SIGTERM)
    assert first.wait(60) == 0
    assert status(run) == "queued"
    assert kinds(run)[:5] == CALLED

    start_worker()
    wait_for(lambda: status(run) == "completed")
    run.refresh_from_db()
    assert (run.attempt, run.answer, run.tool_calls) == (2, "word " * 60, 1)


def test_a_run_that_no_worker_was_told_of_is_found(
    start_worker: StartWorker, environment: dict[str, str], slow: Script
) -> None:  # D1
    code = (
        "import time\n"
        "from playground.services.start_run import RunRequest, start_run\n"
        "started = time.monotonic()\n"
        f"run = start_run(request=RunRequest(configuration={slow.configuration.slug!r}, prompt='Hello?'), by=None)\n"
        "print(run.pk, time.monotonic() - started)"
    )
    # Nothing listens there, and the page that started the run must not wait for it.
    pk, took_s = manage({**environment, "REDIS_URL": "redis://127.0.0.1:1/0"}, code).split()
    assert float(took_s) < 20
    run = Run.objects.get(pk=int(pk))
    assert run.status == "queued"
    Run.objects.filter(pk=run.pk).update(lease_until=timezone.now() - timedelta(seconds=1))
    start_worker()
    wait_for(lambda: status(run) == "completed")


def test_a_broker_that_is_away_makes_no_run_wait_as_long_again(environment: dict[str, str], slow: Script) -> None:
    waiting = [write_run(request=slow.request(), by=None) for _ in range(2)]
    now = timezone.now()
    Run.objects.update(queued_at=now - timedelta(hours=1), lease_until=now - timedelta(seconds=1))
    code = "from django.utils import timezone\nfrom playground.services.sweep import sweep\nsweep(now=timezone.now())"
    manage({**environment, "REDIS_URL": "redis://127.0.0.1:1/0"}, code)
    leases = [run.lease_until for run in Run.objects.order_by("pk") if run.lease_until]
    assert len(leases) == len(waiting)
    assert max(leases) < timezone.now() + timedelta(seconds=2 * LEASE_S)


@pytest.mark.parametrize(("waited_s", "patience_s"), [(0, 8), (7, 8), (20, 20), (3600, 80)])
def test_patience_grows_with_the_wait_but_not_without_end(
    waited_s: int, patience_s: int, environment: dict[str, str]
) -> None:
    now = timezone.now()
    assert patience(queued_at=now - timedelta(seconds=waited_s), now=now) == timedelta(seconds=patience_s)


def test_redis_works_in_place_of_the_file_system(
    start_worker: StartWorker, environment: dict[str, str], slow: Script, redis_url: str
) -> None:
    start_worker(REDIS_URL=redis_url)
    run = write_run(request=slow.request(), by=None)
    manage({**environment, "REDIS_URL": redis_url}, f"from playground.queue import hand_over; hand_over({run.pk})")
    wait_for(lambda: status(run) == "completed")
