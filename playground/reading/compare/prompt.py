"""The prompts of two runs, source by source: what is the same, what changed, what only one of them has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from llmcore.messages import Part, ToolSpec
from llmcore.prompts.assembly import Segment, Source
from llmcore.trace import StepKind
from playground.models import RunStep
from playground.pictures import picture_label
from playground.reading.boxes import pretty
from playground.reading.compare.sides import Side
from playground.reading.compare.texts import DiffLine, Piece, bounded, line_diff, side_by_side
from playground.reading.pictures import PictureView, part_of, picture_of
from playground.rows import load_contents

# The whole of a text that both have, as far as a page shows it.
SHOWN_CHARS = 8_000
# So many lines of a text that only one has are shown at once.
OPEN_LINES = 12
TOOLS = "tools"
HISTORY = "history"
ORDER = (Source.TOOLDEF, Source.CONFIG, Source.OVERRIDE, Source.SNIPPET, Source.SKILL)
# More of a prompt's texts are not told apart: a fork's prompt is all that was said before it.
MOST_USER_MESSAGES = 20

State = Literal["same", "changed", "only_a", "only_b", "unknown"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """A source in the prompt of one run. `text` is `None` where it is no longer stored; a picture is named in it."""

    source: Source
    label: str
    tokens: int
    text: str | None
    digest: tuple[Any, ...] = ()
    version: int | None = None
    object_id: int | None = None
    note: str = ""
    pictures: tuple[PictureView, ...] = ()
    # Of the tools: what each is, by its name; in place of `text`.
    definitions: Mapping[str, str] | None = None


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A source in the prompts of two runs."""

    key: str
    a: Text | None
    b: Text | None

    @property
    def any(self) -> Text:
        text = self.b or self.a
        assert text is not None
        return text

    @property
    def state(self) -> State:
        if self.a is None or self.b is None:
            return "only_a" if self.b is None else "only_b"
        if self.a.text is not None and self.b.text is not None:
            return "same" if self.a.text == self.b.text else "changed"
        if self.a.digest and self.a.digest == self.b.digest:
            return "same"
        versions = (self.a.version, self.b.version)
        if None in versions or self.a.object_id != self.b.object_id:
            return "unknown"
        return "same" if versions[0] == versions[1] else "changed"

    @property
    def word(self) -> str:
        return {
            "same": "identical",
            "changed": "changed",
            "only_a": "only in A",
            "only_b": "only in B",
            "unknown": "no longer stored",
        }[self.state]

    @property
    def versions(self) -> str:
        a, b = (text.version if text else None for text in (self.a, self.b))
        if not a or not b or a == b:
            return f"version {a or b}" if a or b else ""
        return f"version {a} → {b}"

    @property
    def tokens_changed(self) -> bool:
        return self.a is None or self.b is None or self.a.tokens != self.b.tokens

    @property
    def tokens(self) -> tuple[int, int]:
        return self.a.tokens if self.a else 0, self.b.tokens if self.b else 0

    @cached_property
    def lines(self) -> list[DiffLine]:
        """How one became the other; of a text that only one has, all of its lines. Empty where no text is there."""
        texts = [text.text for text in (self.a, self.b) if text is not None]
        if self.state == "same" or any(text is None for text in texts):
            return []
        if self.any.source is Source.TOOLDEF:
            definitions = (text.definitions or {} if text else {} for text in (self.a, self.b))
            return bounded(list(_definition_lines(*definitions)))
        a, b = (None if text is None else text.text for text in (self.a, self.b))
        if a is None or b is None:
            kind: Literal["add", "del"] = "del" if b is None else "add"
            return [line for line in line_diff(a or "", b or "") if line.kind == kind or line.kind == "fold"]
        return line_diff(a, b)

    @property
    def folded(self) -> bool:
        """Whether it is a long text that only one has: nothing in it is compared, so it is shown when it is opened."""
        return self.state in ("only_a", "only_b") and len(self.lines) > OPEN_LINES

    @property
    def rows(self) -> list[tuple[DiffLine | None, DiffLine | None]]:
        """The same beside each other."""
        return side_by_side(self.lines)

    @property
    def excerpt(self) -> str:
        """The beginning of a text that both have."""
        return (self.any.text or "")[:SHOWN_CHARS]

    @property
    def hidden(self) -> int:
        return max(len(self.any.text or "") - SHOWN_CHARS, 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptDiff:
    """The prompts of both runs, in the order in which a model reads them."""

    differences: tuple[Difference, ...]

    @property
    def tokens(self) -> tuple[int, int]:
        pairs = [difference.tokens for difference in self.differences]
        return sum(a for a, _ in pairs), sum(b for _, b in pairs)

    @property
    def changed(self) -> int:
        return sum(difference.state != "same" for difference in self.differences)

    @property
    def same_user_prompt(self) -> bool:
        return all(d.state == "same" for d in self.differences if d.any.source is Source.USER)


def read_prompt_diff(sides: Sequence[Side]) -> PromptDiff | None:
    """`None` where neither run came to a prompt."""
    a, b = (_texts(side) for side in sides)
    keys = sorted({**a, **b}, key=lambda key: _place(a.get(key) or b[key]))
    if not keys:
        return None
    return PromptDiff(differences=tuple(Difference(key=key, a=a.get(key), b=b.get(key)) for key in keys))


def _place(text: Text) -> int:
    return ORDER.index(text.source) if text.source in ORDER else len(ORDER)


def _texts(side: Side) -> dict[str, Text]:
    """The sources of the first request by what tells them apart. What was said before a fork is one source."""
    plan = side.plan
    told = [segment for segment in plan.segments if segment.source in ORDER or segment.source is Source.USER]
    user = [segment for segment in told if segment.source is Source.USER]
    shown = [s for s in told if s.source is not Source.USER] + user[:MOST_USER_MESSAGES]
    digests = {s.message: plan.messages[s.message] for s in shown if s.message < len(plan.messages)}
    contents = load_contents(side.run.pk, set(digests.values()))
    texts = _tools(side)
    for number, segment in enumerate(shown):
        place = None if plan.structured else number - len(shown) + len(user[:MOST_USER_MESSAGES])
        key, text = _key(segment, place), _text(side, segment, digests, contents)
        # A file around an input, and an input around its picture, are told in several pieces.
        texts[key] = _joined(texts[key], text) if key in texts else text
    if rest := [segment for segment in plan.segments if segment not in shown]:
        texts[HISTORY] = Text(
            source=Source.ASSISTANT,
            label=f"What was said before: {len({s.message for s in rest})} messages",
            tokens=sum(segment.tokens for segment in rest),
            text=None,
            digest=tuple(plan.messages[m] for m in sorted({s.message for s in rest}) if m < len(plan.messages)),
        )
    return texts


def _key(segment: Segment, user_message: int | None) -> str:
    """What the user says is told by its place; the inputs of a prompt of a pack, which have none, by their names."""
    match segment.source:
        case Source.CONFIG | Source.OVERRIDE:
            return segment.source.value
        case Source.USER if user_message is not None:
            return f"user {user_message}"
    return f"{segment.source.value} {segment.source_id}"


def _text(side: Side, segment: Segment, digests: Mapping[int, str], contents: Mapping[str, Any]) -> Text:
    digest = digests.get(segment.message, "")
    part = part_of(contents.get(digest), segment)
    picture = picture_of(side.run, side.plan, digest, segment, part)
    return Text(
        source=segment.source,
        label=segment.label,
        tokens=segment.tokens,
        text=_span(part, segment) if part is not None else None,
        pictures=(picture,) if picture else (),
        digest=(digest, segment.part, segment.start, segment.end),
        version=segment.version,
        object_id=segment.object_id,
        note=segment.note,
    )


def _joined(first: Text, then: Text) -> Text:
    texts = (first.text, then.text)
    return replace(
        first,
        tokens=first.tokens + then.tokens,
        text=None if None in texts else "\n".join(filter(None, texts)),
        digest=(*first.digest, *then.digest),
        pictures=(*first.pictures, *then.pictures),
    )


def _span(part: Part, segment: Segment) -> str:
    if part.kind == "image":
        return picture_label(part.media_type, part.data)
    return part.text[segment.start : segment.end].strip("\n")


def _tools(side: Side) -> dict[str, Text]:
    """The definitions as they were offered in the first request, one after the other, each with its name above."""
    steps = RunStep.objects.filter(run=side.run, kind__in=(StepKind.REQUEST.value, StepKind.ASSEMBLED.value))
    data = steps.order_by("sequence").values_list("data", flat=True).first()
    if not data or not data.get("tool_names"):
        return {}
    digest = data.get("tools")
    stored = load_contents(side.run.pk, [digest]).get(digest) if digest else None
    specs = [ToolSpec.from_json(spec) for spec in stored or ()]
    definitions = {spec.name: f"{spec.description}\n{pretty(spec.parameters)}" for spec in specs}
    return {
        TOOLS: Text(
            source=Source.TOOLDEF,
            label="Tool definitions",
            tokens=side.plan.estimator.tools(specs),
            text="\n".join(f"{name}: {definition}" for name, definition in definitions.items()) or None,
            definitions=definitions,
            digest=(digest,),
            note=f"{len(data['tool_names'])} offered",
        )
    }


def _definition_lines(a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[DiffLine]:
    """The names that both have, those that only one has, and how a definition became another one."""
    both = [name for name in a if name in b]
    names: tuple[tuple[Literal["same", "del", "add"], list[str]], ...] = (
        ("same", both),
        ("del", [name for name in a if name not in b]),
        ("add", [name for name in b if name not in a]),
    )
    for kind, listed in names:
        if listed:
            yield DiffLine(kind=kind, pieces=(Piece(", ".join(listed)),))
    for name in both:
        if a[name] != b[name]:
            yield DiffLine(kind="fold", pieces=(Piece(f"{name}:"),))
            yield from line_diff(a[name], b[name])
