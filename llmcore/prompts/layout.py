"""Where in the body of a request each source stands, byte by byte, and where two requests begin to differ."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from llmcore.messages import Message
from llmcore.prompts.provenance import Segment, Source
from llmcore.providers.base import ModelCall, Transcript
from llmcore.providers.cache_marks import ENCODED_MARK
from llmcore.providers.json_text import encode_json
from llmcore.providers.registry import adapter_of

SOURCE_OF_ROLE = {
    "system": Source.CONFIG,
    "user": Source.USER,
    "assistant": Source.ASSISTANT,
    "tool": Source.TOOL,
}
ROLE_LABELS = {"system": "System message", "user": "User message", "assistant": "Model", "tool": "Tool result"}
# The fields of bodies that hold definitions of tools, in any wire format.
TOOL_FIELDS = frozenset({"tools", "functions"})
EXCERPT_BYTES = 90
# So much of what is the same is shown before a difference.
LEAD_BYTES = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """The bytes `start` to `end` of a body, with their source; `None` for what is not prompt, such as parameters.

    `message` is counted from 0, `object_id` is that of the source's record. `boundary` says that a cache boundary was
    planned at the end, `marked` that the body has a mark for the provider there or before.
    """

    start: int
    end: int
    source: Source | None
    label: str
    message: int | None = None
    object_id: int | None = None
    boundary: bool = False
    marked: bool = False

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """A body with its spans, in the order in which they stand there; together they cover it."""

    body: bytes
    spans: tuple[Span, ...]

    @property
    def prompt(self) -> list[Span]:
        """The spans of the prompt in the order in which a provider reads them: definitions of tools come first,
        wherever they stand in the body."""
        told = [span for span in self.spans if span.source is not None]
        return sorted(told, key=lambda span: span.source is not Source.TOOLDEF)

    def content(self, span: Span) -> bytes:
        """What of a span counts for a cache: marks move along with the transcript and are not part of the prompt."""
        return self.body[span.start : span.end].replace(ENCODED_MARK, b"")

    def at(self, offset: int) -> Span | None:
        return next((span for span in self.spans if span.start <= offset < span.end), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """The first byte in which two bodies differ, and what stands there in either one: the source and the text. A body
    that ends there has neither. `lead` is what both have before it."""

    offset: int
    span_before: Span | None
    span_after: Span | None
    before: str
    after: str
    lead: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedPrefix:
    """How far the prompts of two requests are the same, in the order in which a provider reads them.

    `spans` of the later one are the same from their first byte to their last, and `inside` bytes of the next; `size`
    is the sum. `next` is that one, `None` where the later prompt holds no more; `instead` is what the earlier one had
    there. `whole` says that all of the earlier one came again. `before` and `after` are what stands at the difference,
    `lead` is what both have before it.
    """

    spans: int
    inside: int
    size: int
    next: Span | None
    whole: bool
    instead: Span | None = None
    before: str = ""
    after: str = ""
    lead: str = ""


def lay_out(
    call: ModelCall, messages: Sequence[Message], segments: Sequence[Segment], body: bytes | None = None
) -> Layout:
    """The layout of the request of `call`. `body` is what was sent, where that is known; else it is built."""
    adapter = adapter_of(call.provider, call.model)
    transcript = Transcript(adapter, call, messages)
    encoded = transcript.encoded()
    if body is None:
        body = adapter.frame(call, encoded).body
    inner = list(_message_spans(body, transcript.units, encoded, segments))
    told = bool(call.tools) and call.model.tools_as_json and call.tool_choice != "none"
    return Layout(body=body, spans=tuple(_covering(body, inner, told_as_text=told)))


def first_difference(before: Layout, after: Layout) -> Difference | None:
    """`None` where both are the same, byte for byte."""
    offset = common_bytes(before.body, after.body)
    if offset == len(before.body) == len(after.body):
        return None
    return Difference(
        offset=offset,
        span_before=before.at(offset),
        span_after=after.at(offset),
        before=excerpt(before.body, offset),
        after=excerpt(after.body, offset),
        lead=lead(after.body, offset),
    )


def shared_prefix(before: Layout, after: Layout) -> SharedPrefix:
    """What a cache could give back: prompts are compared span by span, without the bytes that separate them."""
    earlier, later = before.prompt, after.prompt
    size = 0
    for place, span in enumerate(later):
        if place >= len(earlier):
            return SharedPrefix(spans=place, inside=0, size=size, next=span, whole=True)
        one, other = before.content(earlier[place]), after.content(span)
        if one != other:
            inside = common_bytes(one, other)
            return SharedPrefix(
                spans=place,
                inside=inside,
                size=size + inside,
                next=span,
                # The last span may go on: a message to which others were joined.
                whole=inside == len(one) and place == len(earlier) - 1,
                instead=earlier[place],
                before=excerpt(one, inside),
                after=excerpt(other, inside),
                lead=lead(other, inside),
            )
        size += len(other)
    return SharedPrefix(spans=len(later), inside=0, size=size, next=None, whole=len(earlier) <= len(later))


def reusable(before: Layout, prefix: SharedPrefix) -> int:
    """How many of the shared bytes a cache can give back: where the earlier body marks what to cache, those up to its
    last mark among them; else all."""
    spans = before.prompt
    if not any(span.marked for span in spans):
        return prefix.size
    marked = [place for place, span in enumerate(spans[: prefix.spans]) if span.marked]
    return sum(len(before.content(span)) for span in spans[: marked[-1] + 1]) if marked else 0


def common_bytes(one: bytes, other: bytes) -> int:
    """How many bytes two texts have in common at their beginnings."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def excerpt(body: bytes, offset: int) -> str:
    """What stands at `offset`, from there on; characters that are cut are left out."""
    start = _begin_of_character(body, offset)
    return body[start : start + EXCERPT_BYTES].decode("utf-8", "ignore")


def lead(body: bytes, offset: int) -> str:
    """What stands before `offset`, up to the character that `excerpt` begins with."""
    end = _begin_of_character(body, offset)
    return body[max(end - LEAD_BYTES, 0) : end].decode("utf-8", "ignore")


def _begin_of_character(body: bytes, offset: int) -> int:
    while 0 < offset < len(body) and body[offset] & 0xC0 == 0x80:
        offset -= 1
    return offset


def _message_spans(
    body: bytes, units: Sequence[Sequence[Message]], encoded: Sequence[bytes], segments: Sequence[Segment]
) -> Iterator[Span]:
    of_message: dict[int, list[Segment]] = {}
    for segment in segments:
        of_message.setdefault(segment.message, []).append(segment)
    place = index = 0
    for unit, piece in zip(units, encoded, strict=True):
        found = _find(body, piece, place)
        if found is None:
            # What follows can't be told apart any more; it is covered as a whole.
            return
        place = found[1]
        yield from _unit_spans(body, found, unit, index, of_message)
        index += len(unit)


def _find(body: bytes, piece: bytes, start: int) -> tuple[int, int] | None:
    """Where an encoded unit stands in the body; a wire format may have taken marks out of it."""
    first, end = -1, start
    for part in piece.split(ENCODED_MARK):
        at = body.find(part, end)
        if at < 0:
            return None
        first, end = (at if first < 0 else first), at + len(part)
    return first, end


def _unit_spans(
    body: bytes, found: tuple[int, int], unit: Sequence[Message], index: int, segments: dict[int, list[Segment]]
) -> Iterator[Span]:
    """The spans of a unit: one for each segment that is found in it, else one for the unit."""
    start, end = found
    cuts: list[tuple[int, Source, str, int, int | None, bool]] = []
    place = start
    for offset, message in enumerate(unit):
        number = index + offset
        for segment in segments.get(number, ()):
            part = message.parts[segment.part] if segment.part < len(message.parts) else None
            text = encode_json(part.text[segment.start : segment.end])[1:-1] if part else b""
            at = body.find(text, place, end) if text else -1
            if part is not None and at >= 0:
                boundary = part.cache_boundary and segment.end == len(part.text)
                cuts.append((at, segment.source, segment.label, number, segment.object_id, boundary))
                place = at + len(text)
    if not cuts:
        role = unit[0].role
        cuts = [(start, SOURCE_OF_ROLE[role], ROLE_LABELS[role], index, None, False)]
    begins = [start, *(cut[0] for cut in cuts[1:]), end]
    for (_, source, label, number, object_id, boundary), first, last in zip(cuts, begins, begins[1:], strict=False):
        yield Span(
            start=first,
            end=last,
            source=source,
            label=label,
            message=number,
            object_id=object_id,
            boundary=boundary,
            marked=ENCODED_MARK in body[first:last],
        )


def _covering(body: bytes, inner: Sequence[Span], *, told_as_text: bool) -> Iterator[Span]:
    """`inner` with what stands between: the definitions of tools, and the fields that are not prompt. Where the tools
    are told as text, it stands among the messages, before the first."""
    fields = list(_fields(body))
    place = 0
    if told_as_text and inner:
        begin = next((first for _, first, last in fields if first <= inner[0].start < last), 0)
        yield from _between(fields, 0, begin)
        yield Span(start=begin, end=inner[0].start, source=Source.TOOLDEF, label="Tool definitions")
        place = inner[0].start
    for span in inner:
        yield from _between(fields, place, span.start)
        yield span
        place = span.end
    yield from _between(fields, place, len(body))


def _between(fields: Iterable[tuple[str, int, int]], start: int, end: int) -> Iterator[Span]:
    """The stretch without messages, cut where definitions of tools begin and end."""
    place = start
    for name, first, last in fields:
        if name in TOOL_FIELDS and first >= start and last <= end:
            if first > place:
                yield Span(start=place, end=first, source=None, label="Parameters")
            yield Span(start=first, end=last, source=Source.TOOLDEF, label="Tool definitions")
            place = last
    if end > place:
        yield Span(start=place, end=end, source=None, label="Parameters")


def _fields(body: bytes) -> Iterator[tuple[str, int, int]]:
    """The fields of the outermost object, with the bytes of their names and values; nothing for what is no object."""
    text = body.decode("utf-8", "replace")
    decoder, place = json.JSONDecoder(strict=False), text.find("{") + 1
    widths = None if text.isascii() else text

    def byte(index: int) -> int:
        return index if widths is None else len(widths[:index].encode())

    try:
        while place and text[place] == '"':
            start = place
            name, place = decoder.raw_decode(text, place)
            _, place = decoder.raw_decode(text, place + 1)
            yield name, byte(start), byte(place)
            place += text[place] == ","
    except (ValueError, IndexError, RecursionError):
        return
