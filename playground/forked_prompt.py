"""What a fork brings in place of an assembled prompt: its messages with their sources, its tools, what was given."""

from __future__ import annotations

from collections.abc import Sequence

from llmcore import store
from llmcore.configuration import Configuration
from llmcore.context.estimator import Estimator
from llmcore.messages import Message, digest_of
from llmcore.prompts.assembly import SOURCE_OF_ROLE, PromptAssembly, Segment
from llmcore.runs.editing import portable
from llmcore.runs.fork import Fork
from playground.services.start_run import RunRequest

ROLE_LABELS = {"system": "Edited system message", "user": "User message", "assistant": "Model", "tool": "Tool result"}


def forked_assembly(configuration: Configuration, fork: Fork) -> PromptAssembly:
    """What a fork goes on from, as a prompt. Its skills still say what may be called; one that is gone says nothing."""
    messages, foreign = fork.state.messages, fork.state.foreign
    if (fork.provider, fork.model) != (configuration.provider.slug, configuration.model.name):
        foreign = len(messages)
    if foreign:
        messages = (*portable(messages[:foreign]), *messages[foreign:])
    return PromptAssembly(
        messages=messages,
        segments=forked_segments(fork, messages, Estimator.of(configuration.model)),
        dropped=(),
        fingerprint=digest_of([message.digest for message in messages]),
        injected_skills=tuple(store.find_skills(fork.skills).values()),
    )


def forked_segments(fork: Fork, messages: Sequence[Message], estimator: Estimator) -> tuple[Segment, ...]:
    """Where the texts of a fork came from: as the run knew it that it goes on from, else by their roles."""
    known = [Segment.from_json(segment) for segment in fork.segments]
    covered = {(segment.message, segment.part) for segment in known}
    others = [
        Segment(
            source=SOURCE_OF_ROLE[message.role],
            source_id=f"run-{fork.run}-message-{index + 1}",
            label=ROLE_LABELS[message.role],
            message=index,
            part=number,
            start=0,
            end=len(part.text),
            tokens=estimator.text(part.text),
        )
        for index, message in enumerate(messages)
        for number, part in enumerate(message.parts)
        if part.kind == "text" and part.text and (index, number) not in covered
    ]
    return tuple(sorted([*known, *others], key=lambda segment: (segment.message, segment.part, segment.start)))


def requested_tools(request: RunRequest) -> tuple[str, ...] | None:
    """A fork that names no tools has those of the run that it came from. A prompt of a pack has none."""
    if request.structured is not None:
        return ()
    return request.fork.state.offered if request.fork and request.tools is None else request.tools


def used_before(request: RunRequest) -> set[tuple[int, int]]:
    """The recorded results that stand in the transcript of a fork already."""
    fork = request.fork
    if fork is None:
        return set()
    return {
        (replacement.run, result.step)
        for replacement in request.replacements
        if replacement.run == fork.run
        for result in replacement.results
        if result.step < fork.end
    }
