"""Decisions of several people at several web processes, and a run that waits while servers and workers are killed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.servers.conftest import PASSWORD, Site
from tests.servers.visitor import RUNS, Visitor

APPROVE, DENY = "approve", "deny"


@pytest.fixture
def ran(site: Site) -> Iterator[Path]:
    """What the proposed command writes to, once for each time that it runs."""
    file = site.files / "ran.txt"
    yield file
    file.unlink(missing_ok=True)


@pytest.fixture
def browsers(site: Site) -> Iterator[list[Visitor]]:
    """Logged in separately, each with a connection of its own."""
    with ExitStack() as stack:
        opened = [stack.enter_context(site.visitor()) for _ in range(4)]
        for visitor in opened:
            assert visitor.log_in("admin", PASSWORD).status_code == 302
        yield opened


def waiting(site: Site, admin: Visitor) -> tuple[int, dict[str, str], str]:
    """A run that waits; the address and the digest of its action."""
    run = admin.start_run("asks")
    site.wait_for_status(run, "awaiting_approval")
    ((action, digest),) = site.rows("SELECT id, turn_digest FROM playground_proposedaction WHERE run_id = %s", run)
    return run, {"digest": digest}, f"{RUNS}runs/{run}/actions/{action}/"


def decided(site: Site, run: int) -> list[str]:
    return [kind for (kind,) in site.rows("SELECT decision FROM playground_decisionrecord WHERE run_id = %s", run)]


@pytest.mark.parametrize("kinds", [(APPROVE, DENY, DENY, APPROVE), (APPROVE, APPROVE, APPROVE, APPROVE)])
def test_of_decisions_at_the_same_moment_one_counts(
    site: Site, admin: Visitor, browsers: list[Visitor], ran: Path, kinds: tuple[str, ...]
) -> None:  # P3
    """Approve against deny from several browsers; the other time somebody clicks four times."""
    run, form, address = waiting(site, admin)
    start = threading.Barrier(len(browsers))

    def send(visitor: Visitor, kind: str) -> tuple[str, int]:
        start.wait(60)
        return kind, visitor.post(address, {**form, "decision": kind}).status_code

    with ThreadPoolExecutor(len(browsers)) as pool:
        answers = list(pool.map(send, browsers, kinds))

    (won,) = [kind for kind, status in answers if status == 302]
    assert sorted(status for _, status in answers) == [302, 409, 409, 409]
    site.wait_for_status(run, "completed")
    assert decided(site, run) == [won]
    assert ran.exists() == (won == APPROVE) and (not ran.exists() or ran.read_text() == "run\n")


def test_a_run_that_waits_outlives_web_servers_and_workers(site: Site, admin: Visitor, ran: Path) -> None:  # P2, D3
    run, form, address = waiting(site, admin)
    for name in ("worker", "web"):
        site.installation.end(name, signal.SIGKILL)
    for name in ("worker", "web"):
        site.installation.start(name)
    site.installation.wait(lambda: all(map(site.installation.healthy, ("web", "worker"))), "the site to be well", 60)
    assert site.run(run)["status"] == "awaiting_approval"

    with site.visitor() as again:
        assert again.log_in("admin", PASSWORD).status_code == 302
        assert "echo run &gt;&gt; ran.txt</pre>" in again.get(f"{RUNS}runs/{run}/").text
        assert again.post(address, {**form, "decision": APPROVE}).status_code == 302
        assert again.post(address, {**form, "decision": APPROVE}).status_code == 409

    site.wait_for_status(run, "completed")
    assert ran.read_text() == "run\n" and decided(site, run) == [APPROVE]
    assert site.kinds(run)[3:7] == ["action", "action", "tool_call", "tool_result"]
