"""Reads the answers of Anthropic Messages, whole and streamed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from llmcore.errors import ErrorKind
from llmcore.messages import JSON, Delta, ModelResponse
from llmcore.providers.answer import Answer
from llmcore.providers.base import ModelCall, WireReply
from llmcore.providers.call_drafts import CallDraft, read_id
from llmcore.providers.event_decoder import EventDecoder, read_events
from llmcore.providers.failures import broken, error_in, failure
from llmcore.providers.finish import ANTHROPIC_REASONS
from llmcore.providers.json_text import decode_json
from llmcore.providers.token_counts import merged
from llmcore.providers.usage_fields import UsageFields, term
from llmcore.providers.whole_reply import read_reply

ANTHROPIC_USAGE = UsageFields(
    input_tokens=(term("input_tokens"), term("cache_read_input_tokens"), term("cache_creation_input_tokens")),
    output_tokens=(term("output_tokens"),),
    cache_read_input_tokens=(term("cache_read_input_tokens"),),
    cache_creation_input_tokens=(term("cache_creation_input_tokens"),),
    reasoning_output_tokens=(term("output_tokens_details.thinking_tokens"),),
    note="The provider counts cached and cache-written tokens apart from input_tokens; the prompt is their sum.",
)

WIRE = "anthropic"


class OpenBlock:
    """A block of the answer that is being streamed; `pieces` is the text of its input."""

    __slots__ = ("block", "draft", "known", "pieces")

    def __init__(self, block: dict[str, JSON]) -> None:
        self.block = block
        self.draft: CallDraft | None = None
        self.pieces: list[str] = []
        # A piece of an unknown kind leaves a block that nobody can put together.
        self.known = True


class AnthropicReader:
    """Takes the blocks of an answer into an `Answer`, one after the other or as events about them."""

    def __init__(self, call: ModelCall) -> None:
        self.answer = Answer(call)
        self._usage: Mapping[str, JSON] | None = None
        # All blocks by a key of their own, and the key of the block that each index stands for now: there are gateways
        # that give every block the same one, or none.
        self._blocks: dict[str, OpenBlock] = {}
        self._current: dict[JSON, str] = {}

    def message(self, message: Mapping[str, JSON]) -> None:
        """A whole message, or the frame of one that is going to be streamed."""
        answer = self.answer
        if isinstance(model := message.get("model"), str) and model:
            answer.served_model = model
        if isinstance(identity := message.get("id"), str) and identity:
            answer.response_id = identity
        self._usage = merged(self._usage, message.get("usage"))
        self._stop(message)
        content = message.get("content")
        for index, block in enumerate(content if isinstance(content, list) else ()):
            if isinstance(block, dict):
                self._start(index, block)

    def take(self, body: Mapping[str, JSON]) -> Iterable[Delta]:
        """One event of a stream. Those of kinds that aren't known say nothing."""
        match body.get("type"):
            case "message_start":
                self.message(_object(body, "message"))
            case "content_block_start":
                return self._start(_index(body), _object(body, "content_block"))
            case "content_block_delta":
                index = _index(body)
                return self._delta(self._current.get(index, f"block {index}"), _object(body, "delta"))
            case "message_delta":
                self._stop(_object(body, "delta"))
                # Cumulative: it repeats what was reported before.
                self._usage = merged(self._usage, body.get("usage"))
            case "message_stop":
                self.answer.ended = True
        return ()

    def _stop(self, message: Mapping[str, JSON]) -> None:
        if isinstance(reason := message.get("stop_reason"), str) and reason:
            self.answer.finish_raw = reason
        explanation = _object(message, "stop_details").get("explanation")
        if isinstance(explanation, str) and explanation:
            self.answer.add_refusal(explanation)

    def _start(self, index: JSON, block: dict[str, JSON]) -> Iterable[Delta]:
        key = self._current[index] = f"block {len(self._blocks)} of {index}"
        opened = self._blocks[key] = OpenBlock(dict(block))
        match block.get("type"):
            case "text":
                self._cite(key, block.get("citations"))
                return self._text(key, block.get("text"))
            case "thinking":
                self._sign(key, block.get("signature"))
                return self._think(key, block.get("thinking"))
            case "tool_use":
                name = block.get("name")
                extra = {"wire": WIRE, "caller": block["caller"]} if block.get("caller") else None
                opened.draft = CallDraft(
                    name=name if isinstance(name, str) else "",
                    arguments=block.get("input"),
                    id=read_id(block.get("id")),
                    extra=extra,
                )
                self.answer.add_call(opened.draft)
            case str():
                self.answer.blocks.get("provider", key).extra = {"wire": WIRE, "block": opened.block}
        return ()

    def _delta(self, key: str, delta: Mapping[str, JSON]) -> Iterable[Delta]:
        match delta.get("type"):
            case "text_delta":
                return self._text(key, delta.get("text"))
            case "thinking_delta":
                return self._think(key, delta.get("thinking"))
            case "signature_delta":
                self._sign(key, delta.get("signature"))
            case "citations_delta":
                self._cite(key, [delta.get("citation")])
            case "input_json_delta":
                piece = delta.get("partial_json")
                if isinstance(piece, str) and piece and (opened := self._blocks.get(key)) is not None:
                    opened.pieces.append(piece)
                    return (Delta(kind="tool_call", text=piece),) if opened.draft else ()
            case _ if key in self._blocks:
                self._blocks[key].known = False
        return ()

    def _text(self, key: str, text: JSON) -> Iterable[Delta]:
        return self.answer.add_text(text, key) if isinstance(text, str) and text else ()

    def _think(self, key: str, text: JSON) -> Iterable[Delta]:
        return self.answer.add_thinking(text, key) if isinstance(text, str) and text else ()

    def _sign(self, key: str, signature: JSON) -> None:
        if isinstance(signature, str) and signature:
            block = self.answer.blocks.get("thinking", key)
            earlier = block.extra["signature"] if block.extra else ""
            block.extra = {"wire": WIRE, "signature": earlier + signature}

    def _cite(self, key: str, citations: JSON) -> None:
        if found := [item for item in citations if isinstance(item, dict)] if isinstance(citations, list) else []:
            block = self.answer.blocks.get("text", key)
            earlier = block.extra["citations"] if block.extra else []
            block.extra = {"wire": WIRE, "citations": [*earlier, *found]}

    def response(self, *, streamed: bool, cancelled: bool = False) -> ModelResponse:
        for key, opened in self._blocks.items():
            self._close(key, opened)
        self.answer.usage = ANTHROPIC_USAGE.read(self._usage)
        return self.answer.response(ANTHROPIC_REASONS, streamed=streamed, cancelled=cancelled)

    def _close(self, key: str, opened: OpenBlock) -> None:
        text = "".join(opened.pieces)
        if opened.draft is not None:
            opened.draft.arguments = text or opened.draft.arguments
        elif text:
            # A tool that the provider runs itself.
            try:
                opened.block["input"] = decode_json(text)
            except ValueError:
                opened.known = False
        if not opened.known and opened.block.get("type") not in ("text", "thinking", "tool_use"):
            self.answer.blocks.get("provider", key).extra = None


def read_anthropic_reply(reply: WireReply, call: ModelCall) -> ModelResponse:
    """Read a whole HTTP response; a failure is a response with an error."""
    return read_reply(
        reply,
        lambda body, status: read_body(body, call, status),
        lambda other: read_events(other, anthropic_stream(call)),
    )


def read_body(body: JSON, call: ModelCall, status: int) -> ModelResponse:
    if report := error_in(body):
        return ModelResponse(error=failure(report, status))
    if not isinstance(body, dict) or not isinstance(body.get("content"), list):
        message = "The server's answer has no content: it is no answer of the Messages API."
        return ModelResponse(error=broken(ErrorKind.MALFORMED_RESPONSE, message, status))
    reader = AnthropicReader(call)
    reader.message(body)
    return reader.response(streamed=False)


def anthropic_stream(call: ModelCall) -> EventDecoder:
    """A decoder for one streamed answer."""
    return EventDecoder(AnthropicReader(call), lambda reply: read_anthropic_reply(reply, call))


def _index(body: Mapping[str, JSON]) -> int | None:
    index = body.get("index")
    return index if isinstance(index, int) else None


def _object(body: Mapping[str, JSON], name: str) -> dict[str, JSON]:
    value = body.get(name)
    return value if isinstance(value, dict) else {}
