"""Puts a run in every state into the database of a started product: `python -m tests.e2e.recorded_states USERNAME`.

Prints the runs' ids by state as JSON. With ids after the name it deletes those runs, and what another
engine proposed, instead.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import timedelta
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()

# The rows can only be imported when Django is set up.
from django.contrib.auth.models import User  # noqa: E402
from django.utils import timezone  # noqa: E402

from llmcore.actions.policy import Judged, Ruling  # noqa: E402
from llmcore.context.summary import Problem  # noqa: E402
from llmcore.messages import FinishReason  # noqa: E402
from llmcore.models import Configuration  # noqa: E402
from llmcore.runs.outcome import EndReason, RunStatus  # noqa: E402
from llmcore.structured.response_schema import ResponseSchema  # noqa: E402
from llmcore.tools.base import Action, ActionKind  # noqa: E402
from llmcore.tools.results import FailureKind, ToolResult  # noqa: E402
from llmcore.trace import WireExchange  # noqa: E402
from llmcore.turns.request import ActionRequest  # noqa: E402
from playground.models import EngineAction, Run  # noqa: E402
from playground.services.propose_engine_action import propose_engine_action  # noqa: E402
from tests.playground.recorded import RecordedRun, finished_run, lookup, provider_error  # noqa: E402

# Of the other engine.
SESSION = "table-7"
# More than a page shows at once.
LONG_ROUNDS = 90
ORDER = {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order", "sent"]}
FAILED = ToolResult(text="No such order.", size=14, failure=FailureKind.TOOL_ERROR, traceback="Traceback\n  line 1")


def ended(user: User, reason: EndReason) -> Run:
    """A run with all kinds of steps that ended for this reason."""
    recorded = RecordedRun(user, title=f"Ended: {reason.value}", capture_raw=True, dry_run=reason == EndReason.DRY_RUN)
    if reason == EndReason.DRY_RUN:
        recorded.assembled()
        return recorded.end(reason)
    recorded.round(text="I **look** it up.")
    sequence = recorded.request()
    recorded.retry(provider_error())
    for attempt, status in ((1, 429), (2, 200)):
        recorded.exchange(sequence, exchange(attempt, status))
    recorded.wait(300)
    recorded.response(thinking="Which order?", calls=[lookup(2)], finish_reason=FinishReason.TOOL_CALLS)
    recorded.tool_call(lookup(2))
    recorded.tool_result(lookup(2), FAILED)
    columns: dict[str, Any] = {
        "rounds": 3,
        "tool_calls": 2,
        "tool_errors": 1,
        "input_tokens": 3000,
        "output_tokens": 90,
    }
    match reason:
        case EndReason.PROVIDER_FAILED:
            recorded.request()
            recorded.response(error=provider_error(), usage=None, finish_reason=None)
            columns["error"] = provider_error().to_json()
        case EndReason.INTERNAL_ERROR:
            recorded.compaction(problem=Problem.CUT_OFF)
            recorded.request()
            recorded.context()
            recorded.error(RuntimeError("boom"))
        case EndReason.INTERRUPTED:
            recorded.request()
            recorded.response(calls=[lookup(3)], finish_reason=FinishReason.TOOL_CALLS)
            recorded.tool_call(lookup(3))
        case EndReason.INVALID_ANSWER:
            columns["answer"] = '{"order": 1}'
            recorded.answer(columns["answer"])
            recorded.checked(ResponseSchema.of("shop.order", ORDER), columns["answer"])
        case _:
            recorded.answer("It is on its **way**.")
            columns["answer"] = "It is on its **way**, with `code`."
    return recorded.end(reason, **columns)


def exchange(attempt: int, status: int) -> WireExchange:
    return WireExchange(
        attempt=attempt,
        method="POST",
        url="http://127.0.0.1:1/v1/chat/completions",
        request_headers={"content-type": "application/json", "authorization": "Bearer •••"},
        request_body=b'{"model": "demo-1"}',
        status=status,
        response_headers={"content-type": "text/event-stream"},
        chunks=((12.0, b"data: one\n\n"), (30.0, b"data: two\n\n")),
    )


def under_way(user: User, name: str, **columns: Any) -> RecordedRun:
    """A run that no worker will touch, since another one has it for a day."""
    later = timezone.now() + timedelta(days=1)
    return RecordedRun(user, title=f"Under way: {name}", lease_until=later, worker="another", **columns)


def awaiting(user: User, *, of_another: bool) -> Run:
    """A run that waits for a decision; `of_another`: than whoever started it."""
    recorded = under_way(user, "awaiting")
    plan = recorded.run.plan
    plan["configuration"]["requires_other_decider"] = of_another
    Run.objects.filter(pk=recorded.run.pk).update(plan=plan)
    recorded.request()
    recorded.response("I clear it.", calls=[lookup()], finish_reason=FinishReason.TOOL_CALLS)
    line = "rm -rf build && echo done"
    recorded.propose(lookup(), Action(kind=ActionKind.COMMAND, title="Run", command=line, shell=True, directory="/srv"))
    return recorded.run


def propose_beside(user: User) -> None:
    """An action of another engine that waits for a decision."""
    line = "rm -rf build && make"
    request = ActionRequest(
        configuration=Configuration.objects.order_by("pk")[0].slug,
        name="terminal",
        arguments={"command": line},
        user=user.get_username(),
    )
    action = Action(kind=ActionKind.COMMAND, title="Run", command=line, shell=True, directory="/srv")
    judged = Judged(ruling=Ruling.REQUIRE, why="Each call of terminal needs approval.")
    propose_engine_action(request=request, session=SESSION, action=action, judged=judged, now=timezone.now())


def main(username: str) -> dict[str, int]:
    user = User.objects.get(username=username)
    runs = {reason.value: ended(user, reason).pk for reason in EndReason}
    runs["queued"] = under_way(user, "queued", status=RunStatus.QUEUED, started_at=None).run.pk
    running = under_way(user, "running")
    running.round()
    running.request()
    running.partial(text="It is on its **w", thinking="Let me see.")
    waiting = under_way(user, "waiting for a permit")
    waiting.round()
    waiting.request()
    waiting.place(3, 5)
    runs["waiting"] = waiting.run.pk
    stopping = under_way(user, "stopping", cancel_requested_at=timezone.now(), cancelled_by=user)
    stopping.request()
    propose_beside(user)
    runs["awaiting"] = awaiting(user, of_another=False).pk
    runs["awaiting another"] = awaiting(user, of_another=True).pk
    long = finished_run(user, rounds=LONG_ROUNDS, title="Ended: after many rounds").pk
    return {**runs, "running": running.run.pk, "stopping": stopping.run.pk, "long": long}


if __name__ == "__main__":
    username, *ids = sys.argv[1:]
    if ids:
        Run.objects.filter(pk__in=ids).delete()
        EngineAction.objects.filter(session=SESSION).delete()
    else:
        print(json.dumps(main(username)))
