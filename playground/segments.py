"""Segments of a run: what a worker starts its loop from, at the beginning and after an interruption."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from llmcore import store
from llmcore.budgets.base import Amounts
from llmcore.configuration import Configuration
from llmcore.errors import ConfigurationError
from llmcore.messages import JSON, Message
from llmcore.prompts import provenance
from llmcore.runs.fallback import place_of
from llmcore.runs.state import RunState, replay
from llmcore.runs.unreported import unreported
from llmcore.tools.base import Tool
from llmcore.tools.replacement import used_results, with_replacements
from llmcore.trace import RunStep
from playground.forked_prompt import used_before
from playground.models import Run
from playground.rows import load_contents, load_steps
from playground.services.prepare_run import PreparedRun, gate_for
from playground.services.start_run import RunRequest, rounds_allowed


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """The part of a run between a claim and its end: its state, where the texts of its prompt came from, and what
    earlier segments recorded."""

    configuration: Configuration
    tools: Mapping[str, Tool]
    state: RunState
    sources: tuple[provenance.Segment, ...] = ()
    steps: list[RunStep] = field(default_factory=list)
    contents: Mapping[str, JSON] = field(default_factory=dict)

    def unreported(self) -> Amounts:
        """What earlier segments used whose provider counted nothing."""
        summarizer = self.configuration.summarizer
        routes = [*self.configuration.routes, *([summarizer.route] if summarizer else [])]
        return unreported(self.steps, self.contents, routes)


def first_segment(prepared: PreparedRun) -> Segment:
    return Segment(
        configuration=prepared.configuration,
        tools=prepared.tools,
        state=prepared.state,
        sources=prepared.assembly.segments,
        contents=prepared.contents(),
    )


def next_segment(run: Run) -> Segment:
    """The segment of a run that goes on, with the model that answered last. ConfigurationError where it can't, because
    what it used has changed."""
    request = RunRequest.from_json(run.request)
    configuration = store.load_configuration(request.configuration, read_keys=not request.dry_run)
    refuse_other_model(run, configuration)
    steps, contents = load_steps(run.pk), load_contents(run.pk)
    state = replay(initial_state(run, contents), steps, contents)
    place_of(state.route, configuration.routes)
    # The site's limit may be another one than when the run was planned.
    limits = replace(state.limits, max_rounds=rounds_allowed(state.limits.max_rounds))
    # Rights and switches may have changed since: a tool that is no longer allowed isn't there to be called.
    gate = gate_for(configuration, requested=state.offered, assembly=None, user=run.user)
    return Segment(
        configuration=configuration,
        tools=with_replacements(gate.offered, request.replacements, used=used_before(request) | used_results(steps)),
        state=replace(state, limits=limits),
        sources=tuple(map(provenance.Segment.from_json, sources_in(run, state.messages))),
        steps=steps,
        contents=contents,
    )


def initial_state(run: Run, contents: Mapping[str, JSON]) -> RunState:
    """The state before round 1, as the plan of `run` keeps it."""
    assert run.plan is not None
    state = run.plan["state"]
    return RunState.from_json({**state, "messages": [contents[digest] for digest in state["messages"]]})


def sources_in(run: Run, messages: Sequence[Message]) -> list[dict[str, JSON]]:
    """Where the texts of `messages` came from, as segments: as far as the plan of `run` says so of those that are among
    them, which old turns that gave way to a summary are not."""
    assert run.plan is not None
    planned = run.plan["state"]["messages"]
    places = {message.digest: index for index, message in reversed(list(enumerate(messages)))}
    found = ((segment, places.get(planned[segment["message"]])) for segment in run.plan.get("segments") or ())
    return [{**segment, "message": place} for segment, place in found if place is not None]


def refuse_other_model(run: Run, configuration: Configuration) -> None:
    """A transcript is bound to the model that wrote it: another one refuses its signed thinking, or misreads it."""
    assert run.plan is not None
    used = run.plan["configuration"]
    before = (used["provider"]["slug"], used["model"]["name"])
    if before != (configuration.provider.slug, configuration.model.name):
        raise ConfigurationError(
            f"The run used the model “{before[1]}” of “{before[0]}”, its configuration now names another one. "
            "Set it back, or start the run anew."
        )
