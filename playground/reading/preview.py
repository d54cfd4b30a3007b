"""The first request of a run as the preview shows it: by message and source, as plain text, as the body itself."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from llmcore.context.estimator import Estimator
from llmcore.context.forecast import Forecast
from llmcore.findings import Severity
from llmcore.lint import Notice
from llmcore.messages import JSON, Message
from llmcore.prompts.assembly import Dropped, DropReason, Segment, Source
from llmcore.prompts.ledger import SkillLedger, skill_ledger
from playground.reading.window_bar import WindowBar
from playground.services.prepare_run import PreparedRun

# A page is made anew after each pause in typing: what it shows is bounded, what is sent is not.
SEGMENT_CHARS = 20_000
TEXT_CHARS = 200_000
JSON_LINES = 2_000
FOLDED_CHARS, FOLDED_LINES = 240, 3
MARKED_VALUES = 200
# The id of the notice that is no problem but a pause to expect.
NEEDS_APPROVAL = "tools_need_approval"
LOOK_OF_SEVERITY = {
    Severity.ERROR: ("err", "error"),
    Severity.WARNING: ("warn", "warn"),
    Severity.NOTE: ("info", "info"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Excerpt:
    """The beginning of a text, and how many characters of it follow."""

    shown: str
    hidden: int = 0

    @classmethod
    def of(cls, text: str, chars: int) -> Excerpt:
        return cls(shown=text[:chars], hidden=max(len(text) - chars, 0))


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """What round 1 costs by its estimated tokens, `None` where a price or a bound is unknown, and the whole run."""

    prompt: Decimal | None
    cached: Decimal | None
    completion: Decimal | None
    run: Forecast


@dataclass(frozen=True, kw_only=True, slots=True)
class TextPiece:
    """A piece of a text: what was written, or the value of the `variable` that was written there."""

    text: str
    variable: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class PreviewSegment:
    """A segment with its text."""

    segment: Segment
    text: str

    @property
    def key(self) -> str:
        """The same for the same piece of the next preview, so that it stays unfolded."""
        return f"{self.segment.source.value} {self.segment.source_id}"

    @property
    def size(self) -> int:
        return len(self.text.encode("utf-8", "surrogatepass"))

    @property
    def long(self) -> bool:
        return len(self.text) > FOLDED_CHARS or self.text.strip().count("\n") >= FOLDED_LINES

    @property
    def excerpt(self) -> Excerpt:
        return Excerpt.of(self.text.strip("\n"), SEGMENT_CHARS)

    @property
    def pieces(self) -> list[TextPiece]:
        """The excerpt, cut where values of variables begin and end."""
        first = len(self.text) - len(self.text.lstrip("\n"))
        place, last = first, first + len(self.excerpt.shown)
        found = []
        for span in self.segment.values[:MARKED_VALUES]:
            start, end = max(span.start, place), min(span.end, last)
            if start < end:
                found += [
                    TextPiece(text=self.text[place:start]),
                    TextPiece(text=self.text[start:end], variable=span.name),
                ]
                place = end
        return [*found, TextPiece(text=self.text[place:last])]


@dataclass(frozen=True, kw_only=True, slots=True)
class PreviewMessage:
    """A message of the request in its segments."""

    number: int
    message: Message
    tokens: int
    segments: tuple[PreviewSegment, ...]

    @property
    def excerpt(self) -> Excerpt:
        return Excerpt.of(self.message.text, TEXT_CHARS)


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedNotice:
    """A notice with its look."""

    notice: Notice

    @property
    def href(self) -> str:
        """Where the field stands that is to be changed; empty where it is no field."""
        name = self.notice.fix.field if self.notice.fix else ""
        if not name:
            return ""
        return f"#{name}" if name.startswith(("tool_", "skill_", "snippet_")) else f"#id_{name}"

    @property
    def source(self) -> str:
        """What a stored text is called, whose form can be opened."""
        kind = self.notice.fix.kind if self.notice.fix else ""
        return "config" if kind == "configuration" else kind

    @property
    def css(self) -> str:
        return "appr" if self.notice.id == NEEDS_APPROVAL else LOOK_OF_SEVERITY[self.notice.severity][0]

    @property
    def icon(self) -> str:
        return "lock" if self.notice.id == NEEDS_APPROVAL else LOOK_OF_SEVERITY[self.notice.severity][1]


@dataclass(frozen=True, kw_only=True, slots=True)
class Preview:
    """The first request of a run as it would be sent, in all its figures."""

    prepared: PreparedRun
    messages: tuple[PreviewMessage, ...]
    tools_tokens: int
    window: WindowBar
    estimate: Estimate
    notices: tuple[Notice, ...]

    @property
    def counted(self) -> str:
        """How the tokens were counted."""
        return Estimator.of(self.prepared.call.model).how

    @property
    def listed(self) -> list[ListedNotice]:
        return [ListedNotice(notice=notice) for notice in self.notices]

    @property
    def dropped(self) -> tuple[Dropped, ...]:
        return self.prepared.assembly.dropped

    @property
    def ledger(self) -> SkillLedger:
        return skill_ledger(self.prepared.assembly.segments, self.dropped)

    @property
    def other_dropped(self) -> list[Dropped]:
        """What the ledger of skills doesn't list."""
        return [item for item in self.dropped if item.source is not Source.SKILL]

    @property
    def forced_in_vain(self) -> str:
        """The forced pieces that are left out, by field and slug: "skills a|snippets b". Those that the configuration
        brings anyway are in the prompt."""
        in_vain = [item for item in self.dropped if item.forced and item.reason is not DropReason.DUPLICATE]
        return "|".join(f"{item.source.value}s {item.source_id}" for item in in_vain)

    @property
    def prompt_tokens(self) -> int:
        return self._tokens_of(Source.USER)

    @property
    def override_tokens(self) -> int:
        return self._tokens_of(Source.OVERRIDE)

    def _tokens_of(self, source: Source) -> int:
        return sum(segment.tokens for segment in self.prepared.assembly.segments if segment.source is source)

    @property
    def tools_json(self) -> Excerpt:
        return indented(tool.to_json() for tool in self.prepared.call.tools)

    @property
    def exact(self) -> Excerpt:
        """The body as it goes over the wire."""
        return Excerpt.of(self.prepared.wire.body.decode(), TEXT_CHARS)

    @property
    def indented(self) -> Excerpt:
        return indented(json.loads(self.prepared.wire.body))


def indented(value: JSON | Iterable[JSON]) -> Excerpt:
    """JSON to read, cut at a bounded number of lines."""
    text = json.dumps(value if isinstance(value, dict | list) else list(value), ensure_ascii=False, indent=2)
    lines = text.splitlines(keepends=True)
    return Excerpt.of(text, min(sum(map(len, lines[:JSON_LINES])), TEXT_CHARS))
