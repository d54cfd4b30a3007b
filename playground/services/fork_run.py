"""Starts a run from the middle of another one, which stays as it is; retrying a round is a fork without a change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from django.contrib.auth.models import User

from llmcore.errors import ConfigurationError
from llmcore.messages import JSON, Message
from llmcore.prompts.assembly import Source
from llmcore.runs.editing import Edit, each_edited, objections_to
from llmcore.runs.fork import Fork, awaiting, end_of_fork
from llmcore.runs.outcome import EndReason
from llmcore.runs.state import replay
from llmcore.trace import StepKind
from playground.models import Run, RunStep
from playground.rows import load_contents, load_steps
from playground.segments import initial_state, sources_in
from playground.services.start_run import RunRequest, given_title, start_run


class ForkRefused(ConfigurationError):
    """The edited transcript can't be sent. `objections` are its reasons, each with the message it is about, if any."""

    def __init__(self, objections: Sequence[tuple[int | None, str]]) -> None:
        super().__init__(" ".join(text for _, text in objections))
        self.objections = objections


@dataclass(frozen=True, kw_only=True, slots=True)
class ForkPoint:
    """A place in a run that another one can go on from. `chosen` is the message of the result that was chosen."""

    run: Run
    fork: Fork
    chosen: int | None = None


def why_not_fork(run: Run) -> str:
    """Why nothing can go on from `run`, in a sentence; empty where something can."""
    if run.contents_deleted_at is not None:
        return "What this run said is no longer stored, so nothing can go on from it."
    if run.plan is None:
        return "This run has not begun, so there is nothing to go on from."
    return ""


def read_fork_point(*, run: Run, at: int) -> ForkPoint:
    """What a run that goes on from the step `at` begins with; ConfigurationError where nothing can. Changes nothing."""
    if reason := why_not_fork(run):
        raise ConfigurationError(reason)
    assert run.plan is not None
    steps, contents = load_steps(run.pk), load_contents(run.pk)
    end = end_of_fork(steps, at)
    try:
        state = awaiting(replay(initial_state(run, contents), (s for s in steps if s.sequence < end), contents))
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigurationError("What this run began with can't be read, so nothing can go on from it.") from error
    if any(part.kind == "image" and not part.data for message in state.messages for part in message.parts):
        raise ConfigurationError("A picture that this run was given is no longer stored, so nothing can go on from it.")
    used = run.plan["configuration"]
    provider, model = used["provider"]["slug"], used["model"]["name"]
    if state.route:
        provider, _slash, model = state.route.partition("/")
    fork = Fork(
        run=run.pk,
        step=at,
        end=end,
        state=state,
        configuration=used["name"],
        provider=provider,
        model=model,
        skills=_skills_of(run),
        segments=tuple(sources_in(run, state.messages)),
    )
    return ForkPoint(run=run, fork=fork, chosen=_chosen(run, at, state.messages))


def edited_fork(*, point: ForkPoint, edits: Iterable[Edit]) -> Fork:
    """The fork with the edits made. ForkRefused says which messages can't be sent so."""
    before = point.fork.state.messages
    after = each_edited(before, edits)
    if found := objections_to(after):
        raise ForkRefused(found)
    edited = tuple(index for index, message in enumerate(after) if message is not before[index])
    gone = {index for index, message in enumerate(after) if message.role == "system" and not message.parts}
    messages = tuple(message for index, message in enumerate(after) if index not in gone)
    state = replace(point.fork.state, messages=messages)
    return replace(point.fork, state=awaiting(state), edited=edited, segments=_moved(point.fork.segments, edited, gone))


def fork_run(*, point: ForkPoint, request: RunRequest, edits: Iterable[Edit] = (), by: User) -> Run:
    """A new run that goes on from `point` as `request` says, which names no texts of its own."""
    return start_run(request=replace(request, fork=edited_fork(point=point, edits=edits)), by=by, parent=point.run)


def retry_round(*, run: Run, at: int | None = None, by: User) -> Run:
    """A new run that makes the round of step `at` of `run` again, by default its last one: from the same state, with
    the configuration as it is now."""
    point = read_fork_point(run=run, at=last_request(run) if at is None else at)
    return fork_run(point=point, request=request_of(run), by=by)


def last_request(run: Run) -> int:
    """The step in which the run asked its model last; 0 where it never did."""
    requests = RunStep.objects.filter(run=run, kind=StepKind.REQUEST).order_by("-sequence")
    return requests.values_list("sequence", flat=True).first() or 0


def request_of(run: Run) -> RunRequest:
    """What was asked for in `run`, as far as a fork of it asks for it again."""
    earlier = RunRequest.from_json(run.request)
    return replace(
        earlier,
        title=given_title(run=run, request=earlier),
        prompt=earlier.said,
        variables={},
        skills=(),
        snippets=(),
        system_override=None,
        override_mode="replace",
        dry_run=False,
        versions=(),
        fork=None,
    )


def retryable(run: Run) -> bool:
    """Whether the run ended in the middle of a round that may go better another time."""
    reasons = (EndReason.PROVIDER_FAILED, EndReason.INTERNAL_ERROR, EndReason.CANCELLED, EndReason.INTERRUPTED)
    return run.reason in reasons and run.rounds > 0 and not why_not_fork(run)


def _chosen(run: Run, at: int, messages: Sequence[Message]) -> int | None:
    step = RunStep.objects.filter(run=run, sequence=at).first()
    call_id = step.data.get("call_id") if step else None
    if call_id is None:
        return None
    return next((index for index, message in enumerate(messages) if message.tool_call_id == call_id), None)


def _skills_of(run: Run) -> tuple[str, ...]:
    """The skills in the prompt, also those whose text was edited on the way here."""
    segments = (run.plan or {}).get("segments") or ()
    here = (segment["source_id"] for segment in segments if segment["source"] == Source.SKILL)
    return tuple(dict.fromkeys([*((run.request.get("fork") or {}).get("skills") or ()), *here]))


def _moved(
    segments: Iterable[Mapping[str, JSON]], edited: Iterable[int], gone: set[int]
) -> tuple[Mapping[str, JSON], ...]:
    """The segments of the messages that stayed as they were, in the places where those are now."""
    changed = set(edited)
    return tuple(
        {**segment, "message": segment["message"] - sum(index < segment["message"] for index in gone)}
        for segment in segments
        if segment["message"] not in changed
    )
