"""The cache map of a request: what of it the provider could have read from its cache, what it did, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from llmcore.findings.cache import rules_of
from llmcore.prompts.cache import Change, Reason, Reuse, Sent, reuse_of
from llmcore.prompts.layout import Layout, SharedPrefix, Span, shared_prefix
from llmcore.prompts.provenance import Source
from playground.access import visible_runs
from playground.models import RunStep
from playground.numbers import duration, plural, tokens
from playground.reading.exact_body import is_exact, layout_of, may_build
from playground.reading.step_record import REQUESTS, StepRecord, message_digests

# The bodies of two requests are built again for one map; above this many bytes only the figures are shown.
MAX_BYTES = 12_000_000
HISTORY = (Source.ASSISTANT, Source.TOOL)


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
    """A request against one before it. Without `pieces` where the bodies can't be had: then only figures are known.
    `size` are the bytes of the prompt, `shared` those at its beginning that are the same, `offset` where the body first
    differs, `None` where it can't be built again exactly."""

    reuse: Reuse
    pieces: tuple[Piece, ...] = ()
    size: int = 0
    shared: int = 0
    offset: int | None = None
    prefix: SharedPrefix | None = None
    counted: int | None = None

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
        """Whether the prompts part, and the earlier one doesn't simply go on."""
        return self.prefix is not None and self.prefix.next is not None and not self.prefix.whole

    @property
    def why(self) -> str:
        return explained(self.reuse)

    @property
    def lifetime(self) -> str:
        return duration((self.reuse.rules.lifetime_s or 0) * 1000)

    @property
    def css(self) -> str:
        return CSS.get(self.reuse.reason, "info")

    @property
    def icon(self) -> str:
        return {"ok": "check", "warn": "warn"}.get(self.css, "info")


CSS = {Reason.READ: "ok", Reason.CHANGED: "warn", Reason.MISSED: "warn", Reason.EXPIRED: "warn"}
CHANGED = {
    Change.MODEL: "The model is another one, and each has a cache of its own.",
    Change.TOOLS: "The definitions of the tools changed; they come first, so all that follows was sent anew.",
    Change.MESSAGE: "What comes after the first difference was sent anew.",
}


def explained(reuse: Reuse) -> str:
    """Why the provider read as much as it did, in a sentence or two."""
    rules = reuse.rules
    match reuse.reason:
        case Reason.FIRST:
            return "Nothing was answered before it in this run. What is read here was cached by another run."
        case Reason.NO_ANSWER:
            return "There is no answer that could report anything."
        case Reason.NOT_REPORTED:
            return "The provider doesn't report what it read from a cache, or has none."
        case Reason.READ:
            return "The provider read what it could."
        case Reason.CHANGED:
            return CHANGED[reuse.change or Change.MESSAGE]
        case Reason.BELOW_MINIMUM if rules.minimum_tokens is None:
            return (
                f"Too short: most providers cache prompts from {tokens(reuse.minimum)} tokens on; what this one does "
                "isn't known."
            )
        case Reason.BELOW_MINIMUM:
            return f"Too short: this provider caches prompts from {tokens(reuse.minimum)} tokens on."
        case Reason.EXPIRED:
            kept = duration((rules.lifetime_s or 0) * 1000)
            return f"Expired: {duration(reuse.idle_s * 1000)} had passed, and a prefix is kept for about {kept}."
    return (
        f"{tokens(reuse.missed)} tokens were read anew without a reason that shows here. Caches promise nothing: "
        "requests may have reached different servers."
    )


def read_cache_map(before: StepRecord | None, now: StepRecord) -> CacheMap:
    """`before` is the request before `now`, of the same run or of another one; `None` where there is none."""
    earlier, later = _layouts(before, now)
    counted = _sent(now).usage.get("input_tokens")
    if later is None:
        return CacheMap(reuse=_reuse(before, now, None), counted=counted)
    prompt = later.prompt
    size = sum(len(later.content(span)) for span in prompt)
    if earlier is None:
        return CacheMap(
            reuse=_reuse(before, now, None), pieces=_pieces(later, None), size=size, shared=0, counted=counted
        )
    prefix = shared_prefix(earlier, later)
    whole = sum(len(earlier.content(span)) for span in earlier.prompt)
    return CacheMap(
        reuse=_reuse(before, now, prefix.size / whole if whole else None),
        pieces=_pieces(later, prefix),
        size=size,
        shared=prefix.size,
        offset=prefix.next.start + prefix.inside if prefix.next and is_exact(now, later.body) else None,
        prefix=prefix,
        counted=counted,
    )


def request_before(now: StepRecord) -> StepRecord | None:
    """The request before `now` in its run."""
    sequence = now.request_before()
    return None if sequence is None else StepRecord(now.run, sequence, user=now.user)


def request_forked_from(now: StepRecord) -> StepRecord | None:
    """For the first request of a fork: the one of its parent that it makes again or follows; `None` where there is
    none, or it may not be seen."""
    if now.run.forked_at_round is None or now.run.parent_id is None:
        return None
    parent = visible_runs(now.user).filter(pk=now.run.parent_id).first()
    steps = RunStep.objects.filter(run=parent, kind__in=REQUESTS, round__lte=now.run.forked_at_round)
    sequence = steps.order_by("-sequence").values_list("sequence", flat=True).first()
    return None if parent is None or sequence is None else StepRecord(parent, sequence, user=now.user)


def _layouts(before: StepRecord | None, now: StepRecord) -> tuple[Layout | None, Layout | None]:
    records = [record for record in (before, now) if record is not None]
    if not all(may_build(record) for record in records) or sum(map(_size, records)) > MAX_BYTES:
        return None, None
    return (layout_of(before) if before else None), layout_of(now)


def _size(record: StepRecord) -> int:
    return int(record.first.data.get("body_bytes") or 0)


def _reuse(before: StepRecord | None, now: StepRecord, share: float | None) -> Reuse:
    data = now.first.data
    rules = rules_of(str(data.get("adapter")), str(data.get("model")))
    if before is None:
        return reuse_of(None, _sent(now), rules)
    if before.run.pk == now.run.pk:
        return reuse_of(_sent(before), _sent(now), rules, share=share)
    return reuse_of(_sent(before), _as_next(before, now), rules, share=share)


def _sent(record: StepRecord) -> Sent:
    end = record.end
    got = end.data if end else {}
    return Sent(
        data=record.first.data,
        usage=got.get("usage") or {},
        answered=bool(got) and not got.get("error") and not got.get("cancelled"),
        started_ms=record.first.started_ms,
        ended_ms=(end or record.first).end_ms,
    )


def _as_next(before: StepRecord, now: StepRecord) -> Sent:
    """A request as if it had followed one of another run: what it kept of that one, and when by the clock."""
    sent = _sent(now)
    pairs = zip(message_digests(before)[0], message_digests(now)[0], strict=False)
    kept = 0
    for one, other in pairs:
        if one != other:
            break
        kept += 1
    apart_ms = (now.run.created_at - before.run.created_at).total_seconds() * 1000
    return Sent(
        data={**sent.data, "kept": kept},
        usage=sent.usage,
        answered=sent.answered,
        started_ms=sent.started_ms + apart_ms,
        ended_ms=sent.ended_ms + apart_ms,
    )


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
