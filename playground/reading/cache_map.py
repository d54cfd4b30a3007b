"""The cache map of a request: what of it the provider could have read from its cache, what it did, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from llmcore.prompts.cache import Reason, Reuse
from llmcore.prompts.layout import Layout, SharedPrefix, Span, reusable, shared_prefix
from llmcore.prompts.provenance import Source
from playground.numbers import data_size, duration, plural
from playground.reading.cache_words import explained
from playground.reading.exact_body import is_exact, layout_of, may_build
from playground.reading.sent_requests import reuse_between, sent
from playground.reading.step_record import StepRecord

# The bodies of two requests are built again for one map; above this many bytes only the figures are shown.
MAX_BYTES = 12_000_000
TOO_LARGE = f"The requests can't be laid out: together they are larger than {data_size(MAX_BYTES)}."
GONE = (
    "The contents are no longer stored as they were, so the requests can't be laid out. Figures and digests are kept."
)
WITHHELD = "The requests can't be laid out: they were captured as they were sent, which you may not see."
UNREADABLE = "The requests can't be laid out: what they said is no longer stored, or was recorded by another version."
HISTORY = (Source.ASSISTANT, Source.TOOL)
CSS = {Reason.READ: "ok", Reason.CHANGED: "warn", Reason.MISSED: "warn", Reason.EXPIRED: "warn"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """A source in the request, or the transcript between two: `same` of its `size` bytes are as in the request before.
    `tier` counts the cache boundaries before it, from 1: what stands before one can be used again as a whole.
    `boundary` says that a cache boundary was planned at its end."""

    source: Source
    label: str
    size: int
    same: int
    tier: int = 1
    boundary: bool = False
    marked: bool = False

    @property
    def css(self) -> str:
        return self.source.value

    @property
    def value(self) -> int:
        return self.size

    @property
    def word(self) -> str:
        if self.same == self.size:
            return "same"
        return "differs here" if self.same else "new"


@dataclass(frozen=True, kw_only=True, slots=True)
class CacheMap:
    """A request against one before it. Without `pieces` where the bodies can't be had: then only figures are known, and
    `lacks` says why. `size` are the bytes of the prompt, `shared` those at its beginning that are the same and about
    `shared_tokens` tokens, `offset` where the body first differs, `None` where it can't be built again exactly. A
    provider that caches up to marks can read no more than `marked` of the shared bytes."""

    reuse: Reuse
    pieces: tuple[Piece, ...] = ()
    size: int = 0
    shared: int = 0
    offset: int | None = None
    prefix: SharedPrefix | None = None
    counted: int | None = None
    shared_tokens: int = 0
    marked: int = 0
    lacks: str = ""

    @property
    def same_bar(self) -> list[dict[str, object]]:
        return [{"css": "cached", "value": self.shared}, {"css": "fresh", "value": self.size - self.shared}]

    @property
    def read_bar(self) -> list[dict[str, object]]:
        """What the provider says that it read; empty where it doesn't."""
        if self.reuse.reported is None or not self.counted:
            return []
        read = min(self.reuse.reported, self.counted)
        return [{"css": "cached", "value": read}, {"css": "fresh", "value": self.counted - read}]

    @property
    def differs(self) -> bool:
        """Whether the prompts part: neither is simply the beginning of the other."""
        return self.prefix is not None and self.prefix.next is not None and not self.prefix.whole

    @property
    def why(self) -> str:
        return explained(self.reuse)

    @property
    def to_mark(self) -> bool:
        """Whether less could be read than is the same, since the provider caches up to marks."""
        return self.differs and self.marked < self.shared

    @property
    def apart(self) -> str:
        """How long after the answer to the other request this one was sent; empty where there is none."""
        if not self.reuse.sent_before:
            return ""
        passed = round(self.reuse.idle_s * 1000)
        return f"sent {duration(-passed)} before the other one was answered" if passed < 0 else duration(passed)

    @property
    def in_time(self) -> bool:
        """Whether the provider still keeps then what it cached of the other request."""
        lifetime_s = self.reuse.rules.lifetime_s
        return lifetime_s is None or self.reuse.idle_s <= lifetime_s

    @property
    def lifetime(self) -> str:
        return duration((self.reuse.rules.lifetime_s or 0) * 1000)

    @property
    def css(self) -> str:
        return CSS.get(self.reuse.reason, "info")

    @property
    def icon(self) -> str:
        return {"ok": "check", "warn": "warn"}.get(self.css, "info")


def read_cache_map(before: StepRecord | None, now: StepRecord) -> CacheMap:
    """`before` is the request before `now`, or any other one, of the same run or not; `None` where there is none."""
    counted = sent(now).usage.get("input_tokens")
    if lacks := _why_not_laid_out(before, now):
        return CacheMap(reuse=reuse_between(before, now), counted=counted, lacks=lacks)
    earlier, later = layout_of(before) if before else None, layout_of(now)
    if later is None or (before and earlier is None):
        return CacheMap(reuse=reuse_between(before, now), counted=counted, lacks=UNREADABLE)
    size = sum(len(later.content(span)) for span in later.prompt)
    if before is None or earlier is None:
        return CacheMap(reuse=reuse_between(None, now), pieces=_pieces(later, None), size=size, counted=counted)
    prefix = shared_prefix(earlier, later)
    marked = reusable(earlier, prefix)
    whole = sum(len(earlier.content(span)) for span in earlier.prompt) or 1
    return CacheMap(
        reuse=reuse_between(before, now, marked / whole),
        pieces=_pieces(later, prefix),
        size=size,
        shared=prefix.size,
        offset=prefix.next.start + prefix.inside if prefix.next and is_exact(now, later.body) else None,
        prefix=prefix,
        counted=counted,
        shared_tokens=round(sent(before).counted * prefix.size / whole),
        marked=marked,
    )


def _why_not_laid_out(before: StepRecord | None, now: StepRecord) -> str:
    """Why the bodies are not to be had, in a sentence; empty where they are."""
    records = [record for record in (before, now) if record is not None]
    if any(record.run.contents_deleted_at or record.run.redacted_at for record in records):
        return GONE
    if not all(may_build(record) for record in records):
        return WITHHELD
    return TOO_LARGE if sum(map(_size, records)) > MAX_BYTES else ""


def _size(record: StepRecord) -> int:
    return int(record.first.data.get("body_bytes") or 0)


def _pieces(layout: Layout, prefix: SharedPrefix | None) -> tuple[Piece, ...]:
    """The prompt in the order in which it is read; the transcript between two other sources is one piece."""
    spans = layout.prompt
    same = [len(layout.content(span)) if prefix and place < prefix.spans else 0 for place, span in enumerate(spans)]
    if prefix and prefix.next:
        same[prefix.spans] = prefix.inside
    whole = [(span, shared, len(layout.content(span))) for span, shared in zip(spans, same, strict=True)]
    pieces, tier = [], 1
    for _, group in groupby(whole, key=_group):
        piece = _piece(list(group), tier)
        tier += piece.boundary
        pieces.append(piece)
    return tuple(pieces)


def _group(item: tuple[Span, int, int]) -> tuple[object, ...]:
    span, same, size = item
    if span.source in HISTORY:
        return "history", same == size
    return span.source, span.label, span.message, span.start


def _piece(items: Sequence[tuple[Span, int, int]], tier: int) -> Piece:
    first = items[0][0]
    assert first.source is not None
    label = first.label if len(items) == 1 else f"Transcript, {plural(len(items), 'message')}"
    return Piece(
        source=first.source,
        label=label,
        size=sum(size for _, _, size in items),
        same=sum(same for _, same, _ in items),
        tier=tier,
        boundary=any(span.boundary for span, _, _ in items),
        marked=any(span.marked for span, _, _ in items),
    )
