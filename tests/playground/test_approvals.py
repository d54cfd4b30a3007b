"""A run that waits for a person: it is stored and let go of, decided about once, and goes on where it stood."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.utils import timezone
from pytest_django import Settings

from llmcore.actions.proposals import DecisionKind
from llmcore.models import ActionRule
from llmcore.providers.scripted.scenario import Turn
from llmcore.tools.base import Effect, Tool
from playground.access import why_not_decide
from playground.models import DecisionRecord, ProposedAction, Run
from playground.reading.run_rows import run_rows
from playground.reading.summary import time_shares
from playground.rows import load_contents, load_steps
from playground.services.cancel_run import cancel_run
from playground.services.continue_run import requeue_interrupted
from playground.services.decide_action import DecisionConflict, MayNotDecide, decide_action
from playground.services.drive_run import drive_run
from playground.services.start_run import write_run
from playground.services.sweep import sweep
from tests.factories import UserFactory
from tests.playground.driven import Script, call, in_background, script, site_tool

pytestmark = pytest.mark.django_db(transaction=True)

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
APPROVE, DENY = DecisionKind.APPROVE, DecisionKind.DENY


@pytest.fixture
def done() -> Iterator[Counter[str]]:
    """What the tools of the site have done: `read` is free, `pay` needs approval."""
    counted: Counter[str] = Counter()

    def doing(name: str) -> Any:
        def run(n: int) -> str:
            counted[f"{name} {n}"] += 1
            return f"{name} {n}"

        return run

    common = {"description": "Do it.", "parameters": NUMBER, "group": "test"}
    pay = Tool(name="pay", run=doing("pay"), effect=Effect.NON_IDEMPOTENT_WRITE, requires_approval=True, **common)
    with site_tool(pay), site_tool(Tool(name="read", run=doing("read"), **common)):
        yield counted


@contextmanager
def asking(*turns: Turn, **configuration: Any) -> Iterator[Script]:
    """A model that reads and pays twice in one turn, then is done."""
    first = Turn(tool_calls=(call("read", n=1), call("pay", n=2), call("pay", n=3)))
    with script(*(turns or (first, Turn(text="Done."))), tool_groups=["test"], **configuration) as model:
        yield model


def started(model: Script, **changes: Any) -> Run:
    """A run of a user with all rights, driven until it waits or ends."""
    return model.drive(write_run(request=model.request(**changes), by=UserFactory(is_superuser=True)))


def waiting(run: Run) -> list[ProposedAction]:
    return list(ProposedAction.objects.filter(run=run, decision=""))


def decide(run: Run, *kinds: DecisionKind, **more: Any) -> None:
    by = more.pop("by", None) or run.user
    for action, kind in zip(waiting(run), kinds, strict=True):
        decide_action(run=run, action_id=action.pk, digest=action.turn_digest, kind=kind, by=by, **more)
    run.refresh_from_db()


def facts(run: Run) -> tuple[Any, ...]:
    """All that a decision may change."""
    run.refresh_from_db()
    rows = ProposedAction.objects.filter(run=run).values_list("pk", "decision", "decided_by", "reason")
    return run.status, run.revision, run.last_sequence, list(rows), DecisionRecord.objects.count()


def test_a_turn_with_a_call_that_needs_approval_waits_before_any_call_runs(done: Counter[str]) -> None:  # P2
    with asking() as model:
        run = started(model)

        assert (run.status, run.reason, run.lease_until, run.ended_at) == ("awaiting_approval", "", None, None)
        assert not done and run.suspended_at is not None
        assert len(model.model.requests) == 1, "nothing that is pending is told to the model"
        two, three = waiting(run)
        assert (two.tool, two.position, two.calls, two.kind) == ("pay", 2, 3, "call")
        assert two.turn_digest == three.turn_digest and two.key != three.key
        assert load_contents(run.pk, [two.proposal])[two.proposal]["arguments"] == {"n": 2}
        assert not drive_run(run_id=run.pk, worker="another"), "no worker drives it"


def test_approved_denied_and_free_calls_of_one_turn_go_on_together(done: Counter[str]) -> None:  # P3, P4
    with asking() as model:
        run = started(model)
        decide(run, APPROVE, DENY, reason="Too much.")
        assert run.status == "queued"

        model.drive(run)

        assert (run.status, run.answer, run.rounds, run.tries) == ("completed", "Done.", 2, 1)
        assert done == {"read 1": 1, "pay 2": 1}
        sent = [m["content"] for m in model.model.requests[1].json["messages"] if m["role"] == "tool"]
        assert sent == ["read 1", "pay 2", "Not run: a person denied this call. Their reason: Too much."]
        kinds = [step.kind.value for step in load_steps(run.pk)]
        assert kinds[:7] == ["request", "context", "response", "action", "action", "action", "action"]


def test_a_run_waits_on_until_all_of_its_turn_is_decided(done: Counter[str]) -> None:
    with asking() as model:
        run = started(model)
        first, _second = waiting(run)
        decide_action(run=run, action_id=first.pk, digest=first.turn_digest, kind=APPROVE, by=run.user)

        run.refresh_from_db()
        assert run.status == "awaiting_approval" and len(waiting(run)) == 1 and not done


@pytest.mark.parametrize("kinds", [(APPROVE, APPROVE), (APPROVE, DENY), (DENY, APPROVE)])
def test_a_second_decision_is_a_conflict_and_changes_nothing(
    done: Counter[str], kinds: tuple[DecisionKind, DecisionKind]
) -> None:  # P3
    with asking() as model:
        run = started(model)
        action, _other = waiting(run)
        decide_action(run=run, action_id=action.pk, digest=action.turn_digest, kind=kinds[0], by=run.user)
        before = facts(run)

        with pytest.raises(DecisionConflict, match=f"by {run.user.username} already. Nothing was changed"):
            decide_action(run=run, action_id=action.pk, digest=action.turn_digest, kind=kinds[1], by=run.user)

        assert facts(run) == before


def test_of_two_who_decide_at_once_one_wins(done: Counter[str]) -> None:  # P3
    with asking(Turn(tool_calls=(call("pay", n=2),)), Turn(text="Done.")) as model:
        run = started(model)
        (action,) = waiting(run)
        start, outcomes = threading.Barrier(4), []

        def attempt(kind: DecisionKind) -> None:
            start.wait(60)
            try:
                decide_action(run=run, action_id=action.pk, digest=action.turn_digest, kind=kind, by=run.user)
                outcomes.append(kind.value)
            except DecisionConflict:
                outcomes.append("conflict")

        with (
            in_background(lambda: attempt(APPROVE)),
            in_background(lambda: attempt(DENY)),
            in_background(lambda: attempt(APPROVE)),
            in_background(lambda: attempt(DENY)),
        ):
            pass
        assert outcomes.count("conflict") == 3 and len(outcomes) == 4
        action.refresh_from_db()
        assert action.decision in outcomes
        assert DecisionRecord.objects.filter(run_id=run.pk).count() == 1
        model.drive(run)
        assert done == ({"pay 2": 1} if action.decision == APPROVE else {})


def test_a_decision_on_another_turn_than_the_one_shown_is_a_conflict(done: Counter[str]) -> None:  # P3
    with asking() as model:
        run = started(model)
        action, _other = waiting(run)
        before = facts(run)

        with pytest.raises(DecisionConflict, match="has changed"):
            decide_action(run=run, action_id=action.pk, digest="0" * 64, kind=APPROVE, by=run.user)

        assert facts(run) == before


def test_an_action_of_another_run_can_not_be_decided_through_this_one(done: Counter[str]) -> None:
    with asking() as model:
        run, other = started(model), started(model)
        action = waiting(other)[0]

        with pytest.raises(DecisionConflict, match="no such action"):
            decide_action(run=run, action_id=action.pk, digest=action.turn_digest, kind=APPROVE, by=run.user)


def test_what_nobody_decides_about_expires_and_ends_the_run(done: Counter[str], settings: Settings) -> None:
    settings.LLM_APPROVAL_EXPIRY_S = 60
    with asking() as model:
        run = started(model)
        sweep(now=timezone.now() + timedelta(seconds=50))
        run.refresh_from_db()
        assert run.status == "awaiting_approval"
        action, since = waiting(run)[0], run.suspended_at
        late = timezone.now() + timedelta(seconds=61)
        with pytest.raises(DecisionConflict, match="expired"):
            decide_action(run=run, action_id=action.pk, digest=action.turn_digest, kind=APPROVE, by=run.user, now=late)

        sweep(now=late)

        run.refresh_from_db()
        assert (run.status, run.reason) == ("incomplete", "approval_expired") and not done
        assert run.detail == "Nobody decided about “pay” in time. It was not run."
        waited_ms = (late - since) / timedelta(milliseconds=1)
        assert run.approval_ms == pytest.approx(waited_ms) and waited_ms > 61_000 and run.ended_at is not None
        assert list(DecisionRecord.objects.values_list("decision", "username")) == [("expire", "")] * 2
        with pytest.raises(DecisionConflict, match="expired already"):
            decide_action(run=run, action_id=action.pk, digest=action.turn_digest, kind=APPROVE, by=run.user)


def test_a_run_that_waits_can_be_cancelled_and_its_actions_with_it(done: Counter[str]) -> None:
    with asking() as model:
        run = started(model)
        action = waiting(run)[0]
        cancel_run(run=run, by=run.user, now=timezone.now())

        run.refresh_from_db()
        assert run.status == "cancelled" and not waiting(run)
        with pytest.raises(DecisionConflict, match="cancelled"):
            decide_action(run=run, action_id=action.pk, digest=action.turn_digest, kind=APPROVE, by=run.user)


def test_a_run_whose_end_was_asked_for_does_not_wait(done: Counter[str]) -> None:
    with asking() as model:
        run = write_run(request=model.request(), by=UserFactory(is_superuser=True))

        def cancel_at_the_proposal(item: Any) -> None:
            if getattr(getattr(item, "step", None), "kind", "") == "action":
                cancel_run(run=run, by=run.user, now=timezone.now())

        drive_run(run_id=run.pk, worker="test", watch=cancel_at_the_proposal)

        run.refresh_from_db()
        assert run.status == "cancelled" and not done and not waiting(run)


def test_a_worker_that_dies_with_an_approved_call_in_flight_leaves_it_unrepeated(
    done: Counter[str],
) -> None:  # P4, D3
    with asking(Turn(tool_calls=(call("pay", n=2), call("pay", n=3))), Turn(text="Done.")) as model:
        run = started(model)
        decide(run, APPROVE, APPROVE)

        def die_after_the_first(item: Any) -> None:
            if getattr(getattr(item, "step", None), "kind", "") == "tool_result":
                Run.objects.filter(pk=run.pk).update(lease_until=timezone.now() - timedelta(seconds=1))
                sweep(now=timezone.now())

        drive_run(run_id=run.pk, worker="dies", watch=die_after_the_first)
        run.refresh_from_db()
        assert run.status == "interrupted"
        assert requeue_interrupted(run)

        model.drive(run)

        assert run.status == "completed", "what was decided needs no second decision"
        assert done["pay 2"] == 1 and done["pay 3"] <= 1
        assert DecisionRecord.objects.count() == 2


def test_a_worker_that_dies_before_the_run_waits_loses_nothing(done: Counter[str]) -> None:  # D3
    with asking() as model:
        run = write_run(request=model.request(), by=UserFactory(is_superuser=True))

        def die(item: Any) -> None:
            if getattr(getattr(item, "step", None), "kind", "") == "action":
                Run.objects.filter(pk=run.pk).update(lease_until=timezone.now() - timedelta(seconds=1))
                sweep(now=timezone.now())

        drive_run(run_id=run.pk, worker="dies", watch=die)
        run.refresh_from_db()
        assert run.status == "interrupted" and not waiting(run)
        assert requeue_interrupted(run)
        model.drive(run)

        assert run.status == "awaiting_approval" and len(waiting(run)) == 2
        decide(run, APPROVE, APPROVE)
        model.drive(run)
        assert run.status == "completed" and done == {"read 1": 1, "pay 2": 1, "pay 3": 1}


def test_rounds_options_and_gate_survive(done: Counter[str]) -> None:  # P4
    again = Turn(tool_calls=(call("pay", n=2),))
    with asking(again, again, again, Turn(text="At the limit.")) as model:
        run = started(model, max_rounds=2, temperature=0.3, tools=("pay",))
        decide(run, APPROVE, again=True)
        # What the configuration offers since is not what this run was offered.
        model.configuration.temperature = 1.9
        model.configuration.save()

        model.drive(run)

        assert (run.reason, run.rounds, done["pay 2"]) == ("max_rounds", 3, 2)
        bodies = [request.json for request in model.model.requests]
        assert {body["temperature"] for body in bodies} == {0.3}
        assert {tuple(t["function"]["name"] for t in body["tools"]) for body in bodies} == {("pay",)}


def test_a_call_that_is_no_longer_allowed_does_not_run_although_it_was_approved(done: Counter[str]) -> None:  # L2
    with asking() as model:
        run = started(model)
        decide(run, APPROVE, APPROVE)
        ActionRule.objects.create(name="no more", ruling="deny", tool="pay")

        model.drive(run)

        assert run.status == "completed" and done == {"read 1": 1}


def test_a_rule_decides_in_place_of_a_person(done: Counter[str]) -> None:  # P1
    ActionRule.objects.create(name="small", ruling="auto_approve", tool="pay", argument="n", pattern="2")
    ActionRule.objects.create(name="off", ruling="deny", tool="pay", enabled=False)
    with asking() as model:
        run = started(model)

        (action,) = waiting(run)
        assert load_contents(run.pk, [action.proposal])[action.proposal]["arguments"] == {"n": 3}


def test_a_decider_needs_the_right_to_see_to_decide_and_to_use_the_tool(done: Counter[str]) -> None:  # R3
    with asking() as model:
        run = started(model)
        action = waiting(run)[0]

        def refusal(*permissions: str, tool_permission: str = "") -> str:
            return why_not_decide(UserFactory(permissions=permissions), run, action)

        assert refusal("playground.decide_action") == "You may not see this run."
        assert "lack the permission to approve" in refusal("playground.view_all_runs")
        assert refusal("playground.view_all_runs", "playground.decide_action") == ""
        with pytest.raises(MayNotDecide):
            decide_action(run=run, action_id=action.pk, digest=action.turn_digest, kind=APPROVE, by=UserFactory())
        assert waiting(run)


def test_a_decider_without_the_tools_permission_can_not_decide(done: Counter[str]) -> None:
    guarded = Tool(
        name="guarded",
        description="Do it.",
        parameters=NUMBER,
        run=lambda n: "done",
        group="test",
        requires_approval=True,
        permission="demo.add_refund",
    )
    with site_tool(guarded), asking(Turn(tool_calls=(call("guarded", n=1),)), Turn(text="Done.")) as model:
        run = started(model)
        action = waiting(run)[0]
        rights = ["playground.view_all_runs", "playground.decide_action"]

        assert "demo.add_refund" in why_not_decide(UserFactory(permissions=rights), run, action)
        assert why_not_decide(UserFactory(permissions=[*rights, "demo.add_refund"]), run, action) == ""


@pytest.mark.parametrize("when", ["before", "since"])
def test_a_starter_who_may_not_decide(done: Counter[str], when: str) -> None:  # P3
    with asking(requires_other_decider=when == "before") as model:
        run = started(model)
        if when == "since":
            model.configuration.requires_other_decider = True
            model.configuration.save()
        run.refresh_from_db()

        with pytest.raises(MayNotDecide, match="somebody else"):
            decide(run, APPROVE, APPROVE)
        decide(run, APPROVE, DENY, by=UserFactory(is_superuser=True))

        assert run.status == "queued"


def test_an_approval_that_can_not_be_recorded_does_not_count(done: Counter[str]) -> None:  # P5
    with asking() as model:
        run = started(model)
        action = waiting(run)[0]
        before = facts(run)
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE playground_decisionrecord RENAME TO away")
        try:
            with pytest.raises(Exception, match="playground_decisionrecord"):
                decide_action(run=run, action_id=action.pk, digest=action.turn_digest, kind=APPROVE, by=run.user)
        finally:
            with connection.cursor() as cursor:
                cursor.execute("ALTER TABLE away RENAME TO playground_decisionrecord")

        assert facts(run) == before and len(waiting(run)) == 2


def test_the_audit_says_who_decided_what_when_and_on_which_digest(done: Counter[str]) -> None:  # P5
    with asking() as model:
        run = started(model)
        two, three = waiting(run)
        decide(run, APPROVE, DENY, reason="No.")

        records = list(DecisionRecord.objects.order_by("pk"))

        assert [(r.username, r.decision, r.tool, r.turn_digest, r.key) for r in records] == [
            (run.user.username, "approve", "pay", two.turn_digest, two.key),
            (run.user.username, "deny", "pay", three.turn_digest, three.key),
        ]
        run.delete()
        assert DecisionRecord.objects.count() == 2


def test_the_audit_can_not_be_rewritten(done: Counter[str]) -> None:  # P5
    with asking() as model:
        decide(started(model), APPROVE, APPROVE)
    record = DecisionRecord.objects.first()
    assert record is not None
    record.decision = "deny"
    for change in (record.save, record.delete, DecisionRecord.objects.all().delete):
        with pytest.raises(TypeError):
            change()
    with pytest.raises(TypeError):
        DecisionRecord.objects.update(decision="deny")


def test_the_times_of_a_run_that_waited_add_up(done: Counter[str]) -> None:
    with asking() as model:
        run = started(model)
        since, earlier = run.suspended_at, timedelta(seconds=90)
        Run.objects.filter(pk=run.pk).update(
            suspended_at=run.suspended_at - earlier,
            created_at=run.created_at - earlier,
            started_at=run.started_at - earlier,
        )
        ProposedAction.objects.update(proposed_at=F("proposed_at") - earlier)
        decide(run, APPROVE, APPROVE)
        decided_after_ms = (timezone.now() - since) / timedelta(milliseconds=1)
        model.drive(run)

    assert 90_000 < run.approval_ms <= 90_000 + decided_after_ms
    parts = (run.approval_ms, run.queue_ms, run.model_ms, run.tool_ms, run.overhead_ms)
    assert sum(part or 0.0 for part in parts) == pytest.approx(run.wall_ms)
    assert run.overhead_ms < 60_000, "the wait is none of it"
    (found,) = [finding for finding in run.findings if finding["id"] == "approval_waited"]
    assert "The run waited 1 min 3" in found["title"]
    shares = {share.name: share.value for share in time_shares(run)}
    assert shares["Approval"] == run.approval_ms
    bar = {piece.css: piece for piece in run_rows([run], now=timezone.now())[0].time_bar}
    assert bar["approval"].value > bar["model"].value
