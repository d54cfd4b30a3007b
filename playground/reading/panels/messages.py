"""Messages: what a request sent, as the difference to the request before it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.urls import reverse

from llmcore.context.estimator import Estimator
from llmcore.messages import Message, Part, ToolCall, ToolSpec
from llmcore.prompts.assembly import Segment, Source
from llmcore.prompts.layout import SOURCE_OF_ROLE
from llmcore.prompts.ledger import skill_ledger
from llmcore.trace import StepKind
from playground.models import RunStep
from playground.pictures import picture_label
from playground.reading.boxes import Box, any_box, byte_size, json_box, text_box
from playground.reading.lines import Line
from playground.reading.panels.base import Panel, Query, Tab
from playground.reading.pictures import PictureView, picture_of, picture_view
from playground.reading.step_record import StepRecord
from playground.reading.step_rows import load_rows
from playground.reading.steps import read_lines

NEW_AT_ONCE = 50
KEPT_AT_ONCE = 100
PREVIEW_CHARS = 160
# What a message came from that was no part of the assembled prompt.
CAME_FROM = {Source.ASSISTANT: "Model", Source.TOOL: "Tool result"}
EDITABLE = {Source.CONFIG: "configuration", Source.SNIPPET: "snippet", Source.SKILL: "skill"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """A piece of a message: a segment with its source, or a part without one."""

    box: Box | None = None
    picture: PictureView | None = None
    source: Source | None = None
    label: str = ""
    note: str = ""
    tokens: int | None = None
    edit_url: str = ""
    kind: str = "text"
    version: int | None = None
    object_id: int | None = None
    variables: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """A requested tool call inside an assistant message, with the line that ran it."""

    call: ToolCall
    line: Line | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageView:
    """One message as it is shown. `number` counts from 1; `line` is what ran the call that it answers."""

    number: int
    message: Message
    source: Source
    is_new: bool
    tokens: int
    size: int
    url: str
    blocks: list[Block] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    line: Line | None = None

    @property
    def came_from(self) -> str:
        """The name of its source, where no segment says it."""
        if any(block.source for block in self.blocks):
            return ""
        return self.message.name or CAME_FROM.get(self.source, "")

    @property
    def role(self) -> str:
        named = self.message.name and not self.came_from
        return f"{self.message.role} · {self.message.name}" if named else self.message.role

    @property
    def preview(self) -> str:
        text = " ".join(self.message.text[: 2 * PREVIEW_CHARS].split())[:PREVIEW_CHARS]
        if not text and self.calls:
            return ", ".join(call.call.name for call in self.calls)
        return text

    @property
    def boxes(self) -> list[Box]:
        return [block.box for block in self.blocks if block.box]


def tab(record: StepRecord) -> Tab:
    added = len(record.first.data.get("added") or ())
    return Tab(slug="messages", title="Messages", note=f"{added} new", read=read)


def read(record: StepRecord, query: Query) -> Panel:
    digests, kept = record.message_digests
    reader = MessageReader(record, digests, kept)
    if query.message is not None:
        view = reader.view(query.message)
        whole = text_box("all", "Message", view.message.text)
        return Panel(template="message", context={"message": view}, boxes=(whole, *view.boxes))
    if query.kept:
        last = min(query.offset + KEPT_AT_ONCE, kept)
        context = {"shown": reader.views(range(query.offset, last)), "rest": kept - last, "next": last}
        return Panel(template="kept", context=context)
    is_first, first = record.line.round <= (record.run.forked_at_round or 1), kept + query.offset
    last = min(first + NEW_AT_ONCE, len(digests))
    views = reader.views(range(first, last))
    context = {
        "shown": views,
        "total": len(digests),
        "kept": kept,
        "kept_tokens": kept_tokens(record, digests[:kept]),
        "added": len(digests) - kept,
        "rest": len(digests) - last,
        "next": last - kept,
        "more": query.offset > 0,
        "repairs": record.first.data.get("repairs") or [],
        "dropped": [item for item in record.plan.dropped if item.source is not Source.SKILL] if is_first else (),
        "definitions": record.first.data.get("tool_names") if not kept else None,
        "definitions_tokens": definitions_tokens(record) if not kept and not query.offset else None,
        "ledger": skill_ledger(record.plan.segments, record.plan.dropped) if is_first else None,
    }
    return Panel(template="messages", context=context, boxes=tuple(box for view in views for box in view.boxes))


def kept_tokens(record: StepRecord, digests: Sequence[str]) -> int:
    """About how many tokens the earlier messages take: what was assembled as its sources do, the rest by its size."""
    assembled = {index for index, digest in enumerate(record.plan.messages) if digests[index : index + 1] == [digest]}
    told = [segment for segment in record.plan.segments if segment.message in assembled]
    known = {digests[segment.message] for segment in told}
    rest = record.sizes(digest for digest in digests if digest not in known)
    return sum(segment.tokens for segment in told) + record.plan.estimator.size(sum(rest.values()))


def definitions_tokens(record: StepRecord) -> int | None:
    """What the tool definitions of the request take, as they were estimated with it."""
    digest = record.first.data.get("tools")
    specs = [ToolSpec.from_json(spec) for spec in record.content(digest) or ()] if digest else []
    return record.plan.estimator.tools(specs) if specs else None


class MessageReader:
    """Reads messages of one request by their place, with what ran their calls."""

    def __init__(self, record: StepRecord, digests: Sequence[str], kept: int) -> None:
        self._record = record
        self._digests = digests
        self._kept = kept

    def view(self, index: int) -> MessageView:
        if not 0 <= index < len(self._digests):
            raise LookupError(f"no message {index}")
        views = self.views([index])
        if not views:
            raise LookupError(f"message {index} is no longer stored")
        return views[0]

    def views(self, indexes: Iterable[int]) -> list[MessageView]:
        wanted = {index: self._digests[index] for index in indexes}
        stored = self._record.contents(wanted.values())
        messages = {index: Message.from_json(stored[digest]) for index, digest in wanted.items() if stored.get(digest)}
        lines = self._lines_of(messages.values())
        return [self._view(index, message, lines) for index, message in messages.items()]

    def _view(self, index: int, message: Message, lines: Mapping[str, Line]) -> MessageView:
        segments = self._record.plan.segments_of(index, self._digests[index])
        return MessageView(
            number=index + 1,
            message=message,
            source=segments[0].source if segments else SOURCE_OF_ROLE[message.role],
            is_new=index >= self._kept,
            tokens=self._record.plan.estimator.message(message),
            size=sum(byte_size(part.text) for part in message.parts),
            url=self._record.url(tab="messages", message=index),
            blocks=self._blocks(index, message, segments),
            calls=[Call(call=call, line=lines.get(call.id)) for call in message.tool_calls],
            line=lines.get(message.tool_call_id or ""),
        )

    def _blocks(self, index: int, message: Message, segments: Sequence[Segment]) -> list[Block]:
        blocks = []
        for number, part in enumerate(message.parts):
            own = [segment for segment in segments if segment.part == number]
            picture = self._picture(index, number, part, own) if part.kind == "image" else None
            if own:
                blocks += [
                    self._segment_block(part, segment, f"m{index}-{number}-{segment.start}", picture) for segment in own
                ]
            else:
                blocks.append(part_block(part, f"m{index}-{number}", self._record.plan.estimator, picture))
        return blocks

    def _picture(self, index: int, number: int, part: Part, own: Sequence[Segment]) -> PictureView | None:
        run, digest = self._record.run, self._digests[index]
        if own:
            return picture_of(run, self._record.plan, digest, own[0], part)
        return picture_view(run, digest, number, part, "Picture")

    def _segment_block(self, part: Part, segment: Segment, name: str, picture: PictureView | None) -> Block:
        is_image = part.kind == "image"
        text = picture_label(part.media_type, part.data) if is_image else part.text[segment.start : segment.end]
        return Block(
            box=text_box(name, segment.label, text.strip("\n")),
            picture=picture,
            source=segment.source,
            label=segment.label,
            version=segment.version,
            object_id=segment.object_id,
            note=segment.note or ("forced" if segment.forced else ""),
            tokens=segment.tokens,
            edit_url=edit_url(self._record.user, segment.source, segment.object_id),
            variables=tuple(dict.fromkeys(span.name for span in segment.values)),
        )

    def _lines_of(self, messages: Iterable[Message]) -> Mapping[str, Line]:
        """What ran the calls of `messages`, and those that they answer, by call id."""
        call_ids = [
            call_id
            for message in messages
            for call_id in (message.tool_call_id, *(call.id for call in message.tool_calls))
            if call_id
        ]
        if not call_ids:
            return {}
        kinds = (StepKind.TOOL_CALL.value, StepKind.TOOL_RESULT.value)
        steps = RunStep.objects.filter(run=self._record.run, kind__in=kinds, data__call_id__in=call_ids)
        return {line.call_id: line for line in read_lines(self._record.run, load_rows(steps))}


def part_block(part: Part, name: str, estimator: Estimator, picture: PictureView | None) -> Block:
    """A part that no segment explains."""
    match part.kind:
        case "text":
            return Block(box=any_box(name, "Text", part.text), kind="text")
        case "thinking":
            return Block(
                box=text_box(name, "Thinking", part.text),
                label="thinking" if part.text else "thinking that the provider keeps to itself",
                kind="thinking",
                tokens=estimator.text(part.text) or None,
            )
        case "image":
            return Block(label=picture_label(part.media_type, part.data), kind="image", picture=picture)
        case _:
            return Block(box=json_box(name, "Block of the provider", part.extra), label="provider", kind="provider")


def edit_url(user: Any, source: Source, object_id: int | None) -> str:
    """Where the source of a segment can be edited, for those who may."""
    model = EDITABLE.get(source)
    if model is None or object_id is None or not user.has_perm(f"llmcore.change_{model}"):
        return ""
    return reverse(f"admin:llmcore_{model}_change", args=[object_id])
