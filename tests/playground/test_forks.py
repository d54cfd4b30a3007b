"""A run goes on from the middle of another one, which stays as it is, and tools that are replaced never run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from django.utils import timezone

from llmcore.actions.proposals import DecisionKind
from llmcore.errors import ConfigurationError, ToolError
from llmcore.messages import Message
from llmcore.providers.scripted.scenario import Scenario, Turn
from llmcore.runs.editing import Edit
from llmcore.runs.fork import Fork, differences
from llmcore.runs.state import RunState
from llmcore.tools.base import Effect, Tool
from llmcore.tools.registry import ToolRegistry
from llmcore.tools.replacement import Mode, Replacement
from playground.models import ProposedAction, Run
from playground.privacy import PrivacyLevel
from playground.reading.approvals import read_waiting
from playground.services.decide_action import decide_action
from playground.services.delete_run import delete_run
from playground.services.drive_run import drive_run
from playground.services.export_run import export_run, import_run
from playground.services.fork_run import (
    ForkRefused,
    edited_fork,
    fork_run,
    last_request,
    read_fork_point,
    request_of,
    retry_round,
)
from playground.services.record_results import with_recorded_results
from playground.services.start_run import RunRequest, write_run
from tests.factories import UserFactory
from tests.playground.driven import Script, call, script, site_tool

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def done() -> Counter[str]:
    return Counter()


@pytest.fixture(autouse=True)
def tools(done: Counter[str]) -> Iterator[None]:
    def look_up(n: int) -> str:
        """Look an order up."""
        done[f"look_up {n}"] += 1
        if n == 13:
            raise ToolError("no such order")
        return f"order {n}"

    def refund(n: int) -> str:
        """Refund an order."""
        done[f"refund {n}"] += 1
        return f"refunded {n}"

    with (
        site_tool(tool_of(look_up)),
        site_tool(tool_of(refund, effect=Effect.NON_IDEMPOTENT_WRITE)),
    ):
        yield


def tool_of(function: Any, **options: Any) -> Tool:
    """A tool as an app would register it."""
    registry = ToolRegistry()
    registry.tool(**options)(function)
    return registry.all_tools()[function.__name__]


def shop(*turns: Turn, **options: Any) -> Any:
    return script(*turns, tool_groups=["general"], **options)


TURNS = (
    Turn(tool_calls=[call("look_up", n=1)]),
    Turn(tool_calls=[call("refund", n=1)]),
    Turn(text="Refunded."),
)


def rows_of(run: Run) -> Any:
    """All that is stored of a run."""
    row = Run.objects.filter(pk=run.pk).values().get()
    steps = list(run.steps.values("sequence", "round", "kind", "started_ms", "duration_ms", "data"))
    return row, steps, sorted(run.contents.values_list("digest", "size"))


def drive(run: Run) -> Run:
    assert drive_run(run_id=run.pk, worker="test")
    run.refresh_from_db()
    return run


def fork(served: Script, run: Run, at: int, *edits: Edit, **changes: Any) -> Run:
    point = read_fork_point(run=run, at=at)
    request = RunRequest(**{"configuration": served.configuration.slug, "prompt": run.prompt, **changes})
    return drive(fork_run(point=point, request=request, edits=edits, by=UserFactory(is_superuser=True)))


def sequence(run: Run, kind: str, round: int) -> int:
    return run.steps.get(kind=kind, round=round).sequence


def sent(served: Script) -> list[Any]:
    return list(served.model.requests[-1].json["messages"])


def test_a_fork_goes_on_from_the_round_and_runs_no_executed_call_again(done: Counter[str]) -> None:
    with shop(*TURNS) as served:
        parent = served.run()
        before = rows_of(parent)
        child = fork(served, parent, sequence(parent, "request", 3))
        assert rows_of(parent) == before
        assert (child.status, child.answer, child.parent_id, child.forked_at_round) == (
            "completed",
            "Refunded.",
            parent.pk,
            3,
        )
        assert [step.kind for step in child.steps.all()] == ["request", "context", "response"]
        assert child.steps.first().round == 3
        assert served.model.requests[-1].body == served.model.requests[-2].body
    assert done == {"look_up 1": 1, "refund 1": 1}


def test_an_edited_result_is_what_the_model_gets(done: Counter[str]) -> None:
    with shop(*TURNS) as served:
        parent = served.run()
        point = read_fork_point(run=parent, at=sequence(parent, "tool_call", 1))
        assert point.chosen == len(point.fork.state.messages) - 1
        edit = Edit(message=point.chosen, part=0, text="order 1: lost")
        child = fork(served, parent, sequence(parent, "tool_call", 1), edit)
        assert "order 1: lost" in [message["content"] for message in sent(served)]
        assert child.request["fork"]["edited"] == [point.chosen]
        assert child.forked_at_round == 2
    assert done["look_up 1"] == 1


def test_an_edited_prompt_runs_from_the_start_with_other_parameters(done: Counter[str]) -> None:
    with shop(*TURNS, system_prompt="You help.") as served:
        parent = served.run()
        child = fork(served, parent, 0, Edit(message=0, part=0, text="You refuse."), temperature=0.7, max_rounds=9)
        assert sent(served)[0]["content"] == "You refuse."
        assert served.model.requests[-1].json["temperature"] == 0.7
        told = Fork.from_json(child.request["fork"])
        state = RunState.from_json({**child.plan["state"], "messages": []})
        assert differences(told, names={}, state=state) == [
            "1 message edited",
            "temperature not set → 0.7",
            "max rounds 5 → 9",
        ]


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (Edit(message=0, part=0, text="  "), "no text any more"),
        (Edit(message=1, call=0, text='{"n": 1'), "no JSON"),
        (Edit(message=7, part=0, text="x"), "no message 8"),
    ],
)
def test_what_could_not_be_sent_is_refused_and_no_run_begins(edit: Edit, reason: str) -> None:
    with shop(*TURNS, system_prompt="") as served:
        parent = served.run()
        with pytest.raises((ForkRefused, ValueError), match=reason):
            fork(served, parent, sequence(parent, "request", 3), edit)
    assert Run.objects.count() == 1


def test_a_failed_round_is_tried_again_with_the_same_state(done: Counter[str]) -> None:
    with shop(TURNS[0], Turn(status=400, error="no")) as served:
        parent = served.run()
        assert parent.reason == "provider_failed"
        served.model.scenarios["scripted"] = Scenario(name="scripted", turns=(TURNS[0], TURNS[2]))
        child = drive(retry_round(run=parent, by=UserFactory(is_superuser=True)))
        assert (child.answer, child.forked_at_round) == ("Refunded.", 2)
        assert served.model.requests[-1].body == served.model.requests[-2].body
        assert last_request(parent) == sequence(parent, "request", 2)
    assert done == {"look_up 1": 1}


def test_a_child_has_all_it_needs_when_its_parent_is_gone() -> None:
    with shop(*TURNS) as served:
        parent = served.run()
        user = UserFactory(is_superuser=True)
        point = read_fork_point(run=parent, at=sequence(parent, "request", 3))
        child = fork_run(point=point, request=request_of(parent), by=user)
        assert delete_run(run=parent, by=user)
        assert drive(Run.objects.get(pk=child.pk)).answer == "Refunded."
        grandchild = retry_round(run=Run.objects.get(pk=child.pk), by=user)
        assert grandchild.forked_at_round == 3


def test_a_child_keeps_no_more_than_its_level_allows(settings: Any) -> None:
    with shop(*TURNS) as served:
        parent = served.run(prompt="My code is vermilion")
        settings.LLM_PRIVACY_LEVEL = PrivacyLevel.METADATA
        stub = Replacement(tool="refund", mode=Mode.TYPED, text="vermilion refund")
        child = fork(served, parent, sequence(parent, "request", 3), replacements=(stub,))
        assert "vermilion" not in json.dumps([rows_of(child), list(child.contents.values_list("value"))], default=str)
        assert child.request["fork"]["run"] == parent.pk
        assert child.request["replacements"][0]["mode"] == "typed"
        with pytest.raises(ConfigurationError, match="no longer stored"):
            read_fork_point(run=child, at=0)


def test_an_exported_child_comes_back_the_same() -> None:
    with shop(*TURNS) as served:
        parent = served.run()
        child = fork(served, parent, 0, Edit(message=0, part=0, text="Hi."))
        exported = export_run(run=child)
        back = import_run(data=json.loads(json.dumps(exported)), by=None)
        assert RunRequest.from_json(back.request) == RunRequest.from_json(child.request)
        assert back.forked_at_round == 1


def recorded(parent: Run, *names: str) -> tuple[Replacement, ...]:
    wanted = [Replacement(tool=name, mode=Mode.RECORDED) for name in names]
    return with_recorded_results(wanted, run=parent)


def test_recorded_results_are_given_by_call_and_nothing_runs(done: Counter[str]) -> None:
    with shop(*TURNS) as served:
        parent = served.run()
        child = served.run(replacements=recorded(parent, "look_up", "refund"))
        assert child.answer == "Refunded."
        results = child.steps.filter(kind="tool_result")
        assert [step.data["origin"] for step in results] == [
            {"run": parent.pk, "step": sequence(parent, "tool_call", 1), "differs": False},
            {"run": parent.pk, "step": sequence(parent, "tool_call", 2), "differs": False},
        ]
        assert [step.data["replaced"] for step in child.steps.filter(kind="tool_call")] == ["recorded"] * 2
        contents = [child.contents.get(digest=step.data["message"]).value for step in results]
        assert [Message.from_json(value).text for value in contents] == ["order 1", "refunded 1"]
    assert done == {"look_up 1": 1, "refund 1": 1}


def test_other_arguments_get_the_next_recorded_result_with_a_warning_and_then_none(done: Counter[str]) -> None:
    other = Turn(tool_calls=[call("look_up", n=2), call("look_up", n=3)])
    with shop(*TURNS) as served:
        parent = served.run()
    with shop(other, TURNS[2]) as served:
        child = served.run(replacements=recorded(parent, "look_up"))
        first, second = child.steps.filter(kind="tool_result")
        assert first.data["origin"]["differs"] and first.data["preview"] == "order 1"
        assert second.data["error_kind"] == "not_recorded"
        assert "none for another call" in second.data["preview"]
        found = {finding["id"] for finding in child.findings}
        assert "recorded_arguments_differ" in found
    assert done == {"look_up 1": 1, "refund 1": 1}


def test_a_recorded_failure_fails_again_in_the_same_words(done: Counter[str]) -> None:
    failing = Turn(tool_calls=[call("look_up", n=13)])
    with shop(failing, TURNS[2]) as served:
        parent = served.run()
        child = served.run(replacements=recorded(parent, "look_up"))
        result = child.steps.get(kind="tool_result").data
        assert (result["error_kind"], result["preview"]) == ("tool_error", "no such order")
    assert done == {"look_up 13": 1}


def test_a_typed_in_result_is_given_to_each_call_and_needs_no_approval(done: Counter[str]) -> None:
    def pay(n: int) -> str:
        """Pay."""
        done["pay"] += 1
        return "paid"

    tool = tool_of(pay, requires_approval=True)
    stub = Replacement(tool="pay", mode=Mode.TYPED, text="card refused", is_error=True)
    with site_tool(tool), shop(Turn(tool_calls=[call("pay", n=1), call("pay", n=2)]), TURNS[2]) as served:
        run = served.run(replacements=(stub,))
        assert run.status == "completed"
        results = run.steps.filter(kind="tool_result")
        assert [step.data["preview"] for step in results] == ["card refused"] * 2
        assert all(step.data["is_error"] and step.data["origin"]["run"] is None for step in results)
    assert not done


def test_a_tool_that_is_to_be_asked_about_waits_for_a_person_each_time(done: Counter[str]) -> None:
    ask = Replacement(tool="look_up", mode=Mode.ASK)
    with shop(*TURNS) as served:
        run = served.run(replacements=(ask,))
        assert run.status == "awaiting_approval"
        action = ProposedAction.objects.get(run=run)
        assert (action.tool, action.decision) == ("look_up", "")
        assert "ask each time" in action.rule
    assert not done


def test_what_was_approved_in_the_parent_is_asked_again_in_its_child() -> None:
    decided = RunState(messages=(Message.of("user", "Hello?"),))
    with shop(*TURNS) as served:
        parent = served.run()
        point = read_fork_point(run=parent, at=sequence(parent, "request", 2))
        assert point.fork.state.decisions == decided.decisions == {}
        assert DecisionKind.APPROVE not in point.fork.state.decisions.values()


def test_calls_that_are_left_of_the_parent_are_asked_about_in_the_child(done: Counter[str]) -> None:
    ask = (Replacement(tool="refund", mode=Mode.ASK),)
    with shop(Turn(tool_calls=[call("look_up", n=1), call("refund", n=1)]), Turn(text="Done.")) as served:
        parent = served.run(replacements=ask)
        assert parent.status == "awaiting_approval"
        child = fork(served, parent, sequence(parent, "action", 1), replacements=ask)
        assert child.status == "awaiting_approval" and not done
        turn = read_waiting(child, user=UserFactory(is_superuser=True), now=timezone.now())
        assert [(asked.name, bool(asked.card)) for asked in turn.calls] == [("look_up", False), ("refund", True)]


def test_recorded_results_need_a_run_that_has_them() -> None:
    with shop(TURNS[2]) as served:
        parent = served.run()
        with pytest.raises(ConfigurationError, match="no result of refund"):
            recorded(parent, "refund")
        Run.objects.filter(pk=parent.pk).update(contents_deleted_at=timezone.now())
        parent.refresh_from_db()
        with pytest.raises(ConfigurationError, match="no longer stored"):
            recorded(parent, "refund")


def test_a_run_without_a_plan_can_not_be_forked() -> None:
    with shop(TURNS[2]) as served:
        run = write_run(request=served.request(), by=None)
        with pytest.raises(ConfigurationError, match="has not begun"):
            read_fork_point(run=run, at=0)


def test_edits_that_change_nothing_are_no_edits() -> None:
    with shop(*TURNS) as served:
        parent = served.run()
        point = read_fork_point(run=parent, at=0)
        same = point.fork.state.messages[0].parts[0].text
        assert edited_fork(point=point, edits=[Edit(message=0, part=0, text=same)]).edited == ()


def test_what_a_run_gives_its_tools_survives_a_suspension(done: Counter[str]) -> None:
    turns = (
        Turn(tool_calls=[call("look_up", n=1)]),
        Turn(tool_calls=[call("refund", n=1)]),
        Turn(tool_calls=[call("look_up", n=2)]),
        Turn(text="Done."),
    )
    with shop(*turns) as served:
        parent = served.run()
        replacements = (*recorded(parent, "look_up"), Replacement(tool="refund", mode=Mode.ASK))
        child = served.run(replacements=replacements)
        assert child.status == "awaiting_approval"
        for action in ProposedAction.objects.filter(run=child, decision=""):
            digest, by = action.turn_digest, UserFactory(is_superuser=True)
            decide_action(run=child, action_id=action.pk, digest=digest, kind=DecisionKind.APPROVE, by=by)
        drive(child)
        origins = [step.data.get("origin") for step in child.steps.filter(kind="tool_result")]
        assert [origin and origin["step"] for origin in origins] == [
            sequence(parent, "tool_call", 1),
            None,
            sequence(parent, "tool_call", 3),
        ]
    assert done == {"look_up 1": 1, "look_up 2": 1, "refund 1": 2}
