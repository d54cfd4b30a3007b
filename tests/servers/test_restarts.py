"""Whatever is restarted in the middle of a run: it goes on, or ends saying what happened, and no record is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator

import httpx
import pytest

from tests.installation import Replica
from tests.servers.conftest import LEASE_S, SENTENCE, Site
from tests.servers.visitor import RUNS, Visitor

FIRST_ROUND = ["request", "context", "response", "tool_call", "tool_result"]
ALL_STEPS = [*FIRST_ROUND, "request", "context", "response"]


@pytest.fixture
def streaming(site: Site, admin: Visitor, request: pytest.FixtureRequest) -> Iterator[int]:
    """A run in the middle of its second round; at the end everything has to be up again."""
    run = admin.start_run(getattr(request, "param", "slow"))
    site.installation.wait(lambda: site.streaming(run), "the answer to be streamed", 60)
    yield run
    site.installation.wait(lambda: all(map(site.installation.healthy, ("web", "worker"))), "the site to be well", 60)


def health(site: Site) -> int:
    try:
        return httpx.get(f"{site.installation.url}/healthz", timeout=60).status_code
    except httpx.TransportError:
        return 0


def worker_of(site: Site, run: int) -> Replica:
    pid = int(site.run(run)["worker"].rpartition(":")[2])
    (replica,) = [replica for replica in site.installation.replicas["worker"] if replica.pid == pid]
    return replica


def assert_finished(site: Site, run: int, *, attempt: int = 1) -> None:
    site.wait_for_status(run, "completed")
    row = site.run(run)
    assert row["answer"] == SENTENCE
    assert row["attempt"] == attempt


# --- Redis ---


def test_runs_go_on_without_redis_and_waiting_ones_are_found(site: Site, admin: Visitor, streaming: int) -> None:  # D1
    with admin.events(streaming) as events:
        site.installation.end("redis")
        assert health(site) == 503
        # The page that starts a run neither fails nor waits for long.
        started = time.monotonic()
        waiting = admin.start_run("quick")
        assert time.monotonic() - started < 30
        # A live page that was open goes on too.
        assert "end" in [name for name, _ in events]
    assert_finished(site, streaming)
    assert site.kinds(streaming) == ALL_STEPS
    assert site.run(waiting)["status"] == "queued"

    site.installation.start("redis")
    site.installation.wait(lambda: health(site) == 200, "the site to be healthy", 60)
    site.wait_for_status(waiting, "completed")
    # And runs are handed over at once again.
    again = admin.start_run("quick")
    site.wait_for_status(again, "completed")
    ((queue_ms,),) = site.rows("SELECT queue_ms FROM playground_run WHERE id = %s", again)
    assert queue_ms < 2000 * LEASE_S, "no worker had to look for it"


# --- PostgreSQL ---


def test_run_goes_on_when_the_database_was_restarted(site: Site, admin: Visitor, streaming: int) -> None:  # D3
    site.installation.end("postgres")
    site.installation.start("postgres")
    assert_finished(site, streaming)
    assert site.kinds(streaming) == ALL_STEPS
    site.installation.wait(lambda: health(site) == 200, "the site to be healthy", 60)
    assert admin.get(f"{RUNS}runs/{streaming}/").status_code == 200


def test_run_is_interrupted_when_the_database_was_away_for_long(site: Site, admin: Visitor, streaming: int) -> None:
    site.installation.end("postgres")
    # Longer than anybody may keep a run without saying so.
    gone = time.monotonic()
    assert health(site) == 503
    site.installation.wait(lambda: time.monotonic() - gone > LEASE_S * 1.7, "the lease to end")
    site.installation.start("postgres")
    site.wait_for_status(streaming, "interrupted")
    recorded = site.kinds(streaming)
    assert recorded[:5] == FIRST_ROUND
    detail = site.run(streaming)["detail"]
    assert f"All {len(recorded)} recorded steps are kept" in detail and "was lost" in detail

    assert admin.post(f"{RUNS}runs/{streaming}/continue/", {}).status_code == 302
    assert_finished(site, streaming, attempt=2)
    assert site.kinds(streaming) == [*recorded, "request", "context", "response"]
    # The tool ran once: its result was recorded.
    assert recorded.count("tool_call") == 1


# --- the web server ---


@pytest.mark.parametrize("streaming", ["slower"], indirect=True)
def test_live_page_goes_on_after_the_web_server_was_restarted(site: Site, admin: Visitor, streaming: int) -> None:  # D4
    with admin.events(streaming) as events:
        # The bar of the second call: everything before it is on the page.
        assert next(data for name, data in events if name == "step" and data["line"] == 6)
        stopping = time.monotonic()
        site.installation.end("web")
        assert time.monotonic() - stopping < 30, "an open live page doesn't hold up the end"
    assert site.run(streaming)["status"] == "running"

    site.installation.up("web")
    with admin.events(streaming, after=7) as events:
        told = list(events)
    assert {data["line"] for name, data in told if name == "step"} - {0} == {6}, "and no step a second time"
    assert told[-1][0] == "end"
    assert_finished(site, streaming)
    assert site.kinds(streaming) == ALL_STEPS


def test_killed_web_process_is_replaced(site: Site, admin: Visitor, streaming: int) -> None:
    (web,) = site.installation.replicas["web"]

    def children() -> set[int]:
        found = subprocess.run(["pgrep", "-P", str(web.pid), "-f", "spawn_main"], capture_output=True, text=True)
        return set(map(int, found.stdout.split()))

    before = children()
    assert len(before) == 2
    os.kill(min(before), signal.SIGKILL)
    site.installation.wait(lambda: len(children() - before) == 1, "another process", 60)
    site.installation.wait(lambda: health(site) == 200, "the site to be healthy", 60)
    assert admin.get(RUNS).status_code == 200
    assert_finished(site, streaming)


# --- a worker ---


def test_run_moves_to_another_worker_when_its_own_is_restarted(site: Site, streaming: int) -> None:  # D3
    first = worker_of(site, streaming)
    # Told twice, as by somebody impatient, it still ends in order.
    assert first.process is not None
    first.process.send_signal(signal.SIGTERM)
    first.end()
    first.start()
    assert_finished(site, streaming, attempt=2)
    assert site.kinds(streaming)[:5] == FIRST_ROUND
    assert site.kinds(streaming).count("tool_call") == 1


def test_run_of_a_killed_worker_says_so_and_goes_on_when_asked(
    site: Site, admin: Visitor, streaming: int
) -> None:  # D3
    killed = worker_of(site, streaming)
    killed.end(signal.SIGKILL)
    gone = time.monotonic()
    site.wait_for_status(streaming, "interrupted")
    assert time.monotonic() - gone < 6 * LEASE_S
    assert "was lost" in site.run(streaming)["detail"]
    recorded = site.kinds(streaming)
    assert recorded[:5] == FIRST_ROUND

    assert admin.post(f"{RUNS}runs/{streaming}/continue/", {}).status_code == 302
    assert_finished(site, streaming, attempt=2)
    assert site.kinds(streaming) == [*recorded, "request", "context", "response"]
    killed.start()
