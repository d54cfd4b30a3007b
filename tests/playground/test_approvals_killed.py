"""Processes that are killed around a decision: what was decided holds, and nothing that has run runs again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from pytest_django import Settings

from llmcore.actions.proposals import DecisionKind
from llmcore.providers.scripted.scenario import Turn
from playground.models import DecisionRecord, ProposedAction, Run
from playground.services.continue_run import continue_run
from playground.services.decide_action import decide_action
from playground.services.start_run import start_run, write_run
from tests.factories import UserFactory
from tests.playground.beside import ROOT
from tests.playground.driven import call, script, wait_for
from tests.playground.workers import StartWorker, kinds, status

pytestmark = pytest.mark.django_db(transaction=True)

ONE = call("terminal", command="echo one >> ran.txt")
DONE = Turn(text="Done.")
# Decides, and doesn't come to commit it.
DECIDER = """
import time
from django.contrib.auth.models import User
from django.db import transaction
from llmcore.actions.proposals import DecisionKind
from playground.models import ProposedAction
from playground.services.decide_action import decide_action
action = ProposedAction.objects.select_related("run").get()
with transaction.atomic():
    decide_action(
        run=action.run, action_id=action.pk, digest=action.turn_digest, kind=DecisionKind.DENY, by=User.objects.get()
    )
    print("decided", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def starter() -> User:
    user: User = UserFactory(is_superuser=True)
    return user


@pytest.fixture
def shop(settings: Settings, environment: dict[str, str], tmp_path: Path) -> Path:
    """A workspace of the site, for the test's own process and for those beside it."""
    root = tmp_path / "shop"
    root.mkdir()
    settings.LLM_WORKSPACES = {"shop": {"root": str(root), "terminal": True}}
    environment["LLM_WORKSPACES"] = json.dumps(settings.LLM_WORKSPACES)
    return root


def ran(shop: Path) -> list[str]:
    file = shop / "ran.txt"
    return file.read_text().split() if file.exists() else []


def approve(run: Run, by: User) -> None:
    for action in ProposedAction.objects.filter(run=run, decision=""):
        decide_action(run=run, action_id=action.pk, digest=action.turn_digest, kind=DecisionKind.APPROVE, by=by)


def kill(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_a_worker_killed_before_the_decision_is_not_missed(
    start_worker: StartWorker, shop: Path, starter: User
) -> None:  # P2, D3
    first = start_worker()
    with script(Turn(tool_calls=(ONE,)), DONE, tool_groups=["workspace"], workspace="shop") as model:
        run = start_run(request=model.request(), by=starter)
        wait_for(lambda: status(run) == "awaiting_approval")
        kill(first)
        approve(run, starter)
        assert status(run) == "queued" and ran(shop) == []

        start_worker()
        wait_for(lambda: status(run) == "completed")

    run.refresh_from_db()
    assert ran(shop) == ["one"] and run.tries == 1 and len(model.model.requests) == 2
    assert kinds(run).count("tool_call") == 1 and DecisionRecord.objects.count() == 1


def test_a_decider_killed_in_the_midst_of_a_decision_has_decided_nothing(
    environment: dict[str, str], start_worker: StartWorker, shop: Path, starter: User
) -> None:  # P3, P5
    with script(Turn(tool_calls=(ONE,)), DONE, tool_groups=["workspace"], workspace="shop") as model:
        run = model.drive(write_run(request=model.request(), by=starter))
        command = [sys.executable, "manage.py", "shell", "--no-imports", "-c", DECIDER]
        with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE) as decider:
            assert decider.stdout is not None and decider.stdout.readline() == b"decided\n"
            kill(decider)

        assert status(run) == "awaiting_approval" and not DecisionRecord.objects.exists()
        approve(run, starter)
        start_worker()
        wait_for(lambda: status(run) == "completed")

    assert ran(shop) == ["one"]
    assert list(DecisionRecord.objects.values_list("decision", flat=True)) == ["approve"]


def test_a_worker_killed_after_the_decision_leaves_what_has_run_unrepeated(
    start_worker: StartWorker, shop: Path, starter: User
) -> None:  # P4, D3
    seconds = f"36{os.getpid()}.1"
    two = call("terminal", command=f"echo two >> ran.txt; sleep {seconds}")
    first = start_worker()
    turns = Turn(tool_calls=(ONE, two)), Turn(tool_calls=(ONE,)), DONE
    with script(*turns, tool_groups=["workspace"], workspace="shop") as model:
        run = start_run(request=model.request(), by=starter)
        wait_for(lambda: status(run) == "awaiting_approval")
        approve(run, starter)
        wait_for(lambda: ran(shop) == ["one", "two"])
        kill(first)
        start_worker()
        wait_for(lambda: status(run) == "interrupted")
        left = ["pgrep", "-f", f"^sleep {seconds}"]
        wait_for(lambda: subprocess.run(left, capture_output=True).returncode, "the command to end with its worker")

        assert continue_run(run=run, by=starter)
        # The same as before is another call: what was approved once was not approved for good.
        wait_for(lambda: status(run) == "awaiting_approval")

    assert ran(shop) == ["one", "two"] and DecisionRecord.objects.count() == 2
    told = [m["content"] for m in model.model.requests[-1].json["messages"] if m["role"] == "tool"]
    assert told[0].startswith("[exit code 0") and "effect" in told[1] and "unknown" in told[1]
