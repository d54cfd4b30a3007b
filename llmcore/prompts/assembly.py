"""Assembles the prompt of a run: once, before its first round, for the dry run and the real one alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from llmcore.configuration import Configuration, Skill, Snippet, sha256_of_text
from llmcore.context.estimator import Estimator
from llmcore.messages import JSON, Message, Part, Role, digest_of
from llmcore.prompts.provenance import Dropped, DropReason, Segment, Source
from llmcore.prompts.skills import GUARD_TEXT, ChosenSkill, choose_skills, without_user_message
from llmcore.prompts.snippets import choose_snippets
from llmcore.prompts.variables import UnresolvedVariables, ValueSpan, VariableUse, VariableUses

__all__ = ["Augmentation", "DropReason", "Dropped", "PromptAssembly", "Segment", "Source", "assemble"]

SOURCE_OF_ROLE: dict[Role, Source] = {
    "system": Source.USER,
    "user": Source.USER,
    "assistant": Source.ASSISTANT,
    "tool": Source.TOOL,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Augmentation:
    """What one run adds to its configuration.

    `system_override` is `None` where none is given; given but empty it replaces the system prompt with nothing.
    In the mode "append" it is a segment after the configuration's own text instead. `variables` are the values of the
    variables in system prompt, override and snippets, by name; `fill_conversation` says that what the user says was
    written for this run and has variables too. Texts of strangers must not: they could ask for any value.
    """

    skills: tuple[Skill, ...] = ()
    snippets: tuple[Snippet, ...] = ()
    system_override: str | None = None
    override_mode: Literal["replace", "append"] = "replace"
    dry_run: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)
    fill_conversation: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptAssembly:
    """The assembled messages, where each span came from, and what was left out. `injected_skills` are the skills
    really in the prompt, in order. `fingerprint` is SHA-256 over the ordered sources and their digests. `variables` are
    those of the prompt, `unused_values` the names of the values that stand nowhere."""

    messages: tuple[Message, ...]
    segments: tuple[Segment, ...]
    dropped: tuple[Dropped, ...]
    fingerprint: str
    injected_skills: tuple[Skill, ...] = ()
    variables: tuple[VariableUse, ...] = ()
    unused_values: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Piece:
    """The text of a segment before its place is known."""

    source: Source
    source_id: str
    label: str
    text: str
    forced: bool = False
    note: str = ""
    object_id: int | None = None
    version: int | None = None
    values: tuple[ValueSpan, ...] = ()


def assemble(
    *,
    configuration: Configuration,
    conversation: Sequence[Message],
    augmentation: Augmentation = Augmentation(),
    estimate: Callable[[str], int] | None = None,
    response_schema: JSON = None,
    draft: bool = False,
) -> PromptAssembly:
    """The prompt of a run; `conversation` is what the user says (one message or more) and is not changed.

    The segments of each part that has text cover it from its first character to its last, without gap or overlap.
    A variable without a value is UnresolvedVariables; in a `draft` it stands as it was typed. Tokens are counted as the
    configuration's model has them, unless `estimate` counts otherwise.
    """
    estimate = estimate or Estimator.of(configuration.model).text
    uses = VariableUses(augmentation.variables)
    system, overridden = _system_pieces(configuration, augmentation)
    snippets, left_out_snippets = choose_snippets(configuration, augmentation.snippets)
    skills, left_out_skills = choose_skills(
        configuration.skills,
        augmentation.skills,
        min_trust=configuration.min_skill_trust,
        budget_bytes=configuration.limits.skill_budget_bytes,
    )
    asks = next((index for index, message in enumerate(conversation) if message.role == "user"), None)
    if asks is None:
        left_out_skills += without_user_message(skills)
        skills = []

    build = _Builder(estimate)
    leading = [system] if system else []
    leading += [
        [_piece(Source.SNIPPET, chosen.piece, chosen.piece.body, forced=chosen.forced, note=chosen.note)]
        for chosen in snippets
    ]
    leading, blank = _filled(leading, uses)
    for number, pieces in enumerate(leading, start=1):
        # What the configuration says to every run is a reusable prefix: the cache boundary stands at its end.
        build.add_text("system", pieces, cache_boundary=number == len(leading))
    alone = len(conversation) == 1
    for index, message in enumerate(conversation):
        label = _label_of(message, index, alone=alone)
        said = _said(message, label, uses if augmentation.fill_conversation else None)
        build.add_message(said, index, label=label, skills=skills if index == asks else ())

    variables = uses.all()
    if not draft and (unresolved := [use for use in variables if not use.resolved]):
        raise UnresolvedVariables(unresolved)
    dropped = [*overridden, *left_out_snippets, *blank, *left_out_skills]
    return PromptAssembly(
        messages=tuple(build.messages),
        segments=tuple(build.segments),
        dropped=tuple(_with_tokens(dropped, configuration, augmentation, estimate)),
        fingerprint=digest_of({"sources": build.sources, "response_schema": digest_of(response_schema)}),
        injected_skills=tuple(chosen.skill for chosen in skills),
        variables=variables,
        unused_values=uses.unused(),
    )


def _filled(leading: Iterable[list[_Piece]], uses: VariableUses) -> tuple[list[list[_Piece]], list[Dropped]]:
    """The pieces of each message with their values, without those that came to nothing."""
    messages: list[list[_Piece]] = []
    blank: list[Dropped] = []
    for pieces in leading:
        left = []
        for piece in pieces:
            filled = uses.fill(piece.text, piece.label)
            if filled.text.strip():
                left.append(replace(piece, text=filled.text, values=filled.values))
                continue
            blank.append(
                Dropped(
                    source=piece.source,
                    source_id=piece.source_id,
                    label=piece.label,
                    reason=DropReason.EMPTY,
                    detail="With the values of its variables it is empty.",
                    forced=piece.forced,
                    object_id=piece.object_id,
                )
            )
        if left:
            messages.append(left)
    return messages, blank


@dataclass(frozen=True, slots=True)
class _Said:
    """A message of the conversation as it goes out, with the spans of its values by part."""

    message: Message
    values: Mapping[int, tuple[ValueSpan, ...]] = field(default_factory=dict)


def _said(message: Message, label: str, uses: VariableUses | None) -> _Said:
    if uses is None or message.role != "user":
        return _Said(message)
    filled = {number: uses.fill(part.text, label) for number, part in enumerate(message.parts) if part.kind == "text"}
    if not any(text.names or text.text != message.parts[number].text for number, text in filled.items()):
        return _Said(message)
    parts = tuple(
        replace(part, text=filled[number].text) if number in filled else part
        for number, part in enumerate(message.parts)
    )
    return _Said(replace(message, parts=parts), {number: text.values for number, text in filled.items()})


def _label_of(message: Message, index: int, *, alone: bool) -> str:
    return "User prompt" if alone and message.role == "user" else f"{message.role.capitalize()} message {index + 1}"


def _system_pieces(configuration: Configuration, augmentation: Augmentation) -> tuple[list[_Piece], list[Dropped]]:
    """The pieces of the first system message, which is not sent where they are empty or blank."""
    override = augmentation.system_override
    own = _Piece(
        source=Source.CONFIG,
        source_id=configuration.slug,
        label="Configuration prompt",
        text=configuration.system_prompt,
        object_id=configuration.id,
        version=configuration.version,
    )
    has_own = bool(own.text.strip())
    if override is None:
        return ([own] if has_own else []), []
    extra = _Piece(
        source=Source.OVERRIDE, source_id="override", label="Override", text=override, forced=True, note="this run only"
    )
    has_extra = bool(override.strip())
    if augmentation.override_mode == "replace":
        replaced = Dropped(
            source=Source.CONFIG,
            source_id=own.source_id,
            label=own.label,
            reason=DropReason.OVERRIDDEN,
            detail="The override of this run replaces it" + ("." if has_extra else " with nothing."),
            object_id=own.object_id,
        )
        return ([extra] if has_extra else []), ([replaced] if has_own else [])
    if has_own and has_extra:
        return [own, replace(extra, text="\n\n" + override)], []
    return [piece for piece, has in ((own, has_own), (extra, has_extra)) if has], []


def _piece(source: Source, stored: Skill | Snippet, text: str, *, forced: bool, note: str) -> _Piece:
    return _Piece(
        source=source,
        source_id=stored.slug,
        label=stored.name,
        text=text,
        forced=forced,
        note=note,
        object_id=stored.id,
        version=stored.version,
    )


def _with_tokens(
    dropped: Iterable[Dropped],
    configuration: Configuration,
    augmentation: Augmentation,
    estimate: Callable[[str], int],
) -> Iterable[Dropped]:
    """Each with the tokens that it would have taken."""
    texts = {(Source.CONFIG, configuration.slug): configuration.system_prompt}
    texts[Source.OVERRIDE, "override"] = augmentation.system_override or ""
    texts |= {(Source.SKILL, skill.slug): skill.body for skill in (*configuration.skills, *augmentation.skills)}
    snippets = (*configuration.snippets, *configuration.tagged_snippets, *augmentation.snippets)
    texts |= {(Source.SNIPPET, item.slug): item.body for item in snippets}
    return (replace(item, tokens=estimate(texts[item.source, item.source_id])) for item in dropped)


class _Builder:
    """Grows the messages, their segments and the sources' digests side by side."""

    def __init__(self, estimate: Callable[[str], int]) -> None:
        self.messages: list[Message] = []
        self.segments: list[Segment] = []
        self.sources: list[Any] = []
        self._estimate = estimate

    def add_text(self, role: Role, pieces: Sequence[_Piece], *, cache_boundary: bool = False) -> None:
        part = self._part(pieces, message=len(self.messages), part=0, cache_boundary=cache_boundary)
        self.messages.append(Message(role=role, parts=(part,)))

    def add_message(self, said: _Said, index: int, *, label: str, skills: Sequence[ChosenSkill]) -> None:
        """A message of the conversation, unchanged but for the skills that go before it."""
        place, message = len(self.messages), said.message
        before = [_piece(Source.SKILL, s.skill, s.section, forced=s.forced, note=s.note) for s in skills]
        if before:
            guard = _Piece(source=Source.SKILL, source_id="", label="Guard sentence", text=GUARD_TEXT)
            block = self._part([guard, *before], message=place, part=0, cache_boundary=True)
            self.messages.append(replace(message, parts=(block, *message.parts)))
        else:
            self.messages.append(message)
        source, source_id = SOURCE_OF_ROLE[message.role], f"message-{index + 1}"
        self.sources.append([source.value, source_id, message.digest])
        for number, part in enumerate(message.parts):
            if part.text:
                values = said.values.get(number, ())
                self._segment(
                    _Piece(source=source, source_id=source_id, label=label, text=part.text, values=values),
                    message=place,
                    part=number + bool(before),
                    start=0,
                )

    def _part(self, pieces: Sequence[_Piece], *, message: int, part: int, cache_boundary: bool) -> Part:
        start = 0
        for piece in pieces:
            self.sources.append([piece.source.value, piece.source_id, sha256_of_text(piece.text)])
            self._segment(piece, message=message, part=part, start=start)
            start += len(piece.text)
        return Part(text="".join(piece.text for piece in pieces), cache_boundary=cache_boundary)

    def _segment(self, piece: _Piece, *, message: int, part: int, start: int) -> None:
        self.segments.append(
            Segment(
                source=piece.source,
                source_id=piece.source_id,
                label=piece.label,
                message=message,
                part=part,
                start=start,
                end=start + len(piece.text),
                tokens=self._estimate(piece.text),
                forced=piece.forced,
                note=piece.note,
                object_id=piece.object_id,
                version=piece.version,
                values=piece.values,
            )
        )
