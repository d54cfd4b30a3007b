"""Pictures among the text of a message: each stands within its block, as a part of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from llmcore.context.tokens import TOKENS_PER_IMAGE
from llmcore.messages import Part
from llmcore.prompts.provenance import Segment
from llmcore.prompts.variables import Filled
from llmcore.structured.inputs import ShownInput


def with_images(
    filled: Filled, segments: Iterable[Segment], images: Mapping[str, ShownInput], estimate: Callable[[str], int]
) -> tuple[list[Part], list[Segment]]:
    """The parts of the message `filled`, whose inputs of these names are pictures, and its `segments`, which are those
    of one text, where they are in the parts."""
    parts: list[Part] = []
    placed: list[Segment] = []
    own, start = list(segments), 0
    for span in filled.values:
        if (shown := images.get(span.name)) is None or (image := shown.image) is None:
            continue
        end = span.start + shown.image_at
        placed += _within(own, filled.text, start, end, len(parts), estimate)
        opening = next(segment for segment in own if segment.start <= end < segment.end)
        placed.append(replace(opening, part=len(parts) + 1, start=0, end=0, tokens=TOKENS_PER_IMAGE))
        parts += [Part(text=filled.text[start:end]), image]
        start = end
    placed += _within(own, filled.text, start, len(filled.text), len(parts), estimate)
    return [*parts, Part(text=filled.text[start:])], placed


def _within(
    segments: Iterable[Segment], text: str, start: int, end: int, part: int, estimate: Callable[[str], int]
) -> Iterator[Segment]:
    """What of the segments lies between these characters, as they are counted in a part of its own."""
    for segment in segments:
        first, last = max(segment.start, start), min(segment.end, end)
        if (first, last) == (segment.start, segment.end):
            yield replace(segment, part=part, start=first - start, end=last - start)
        elif first < last:
            tokens = estimate(text[first:last])
            yield replace(segment, part=part, start=first - start, end=last - start, tokens=tokens)
