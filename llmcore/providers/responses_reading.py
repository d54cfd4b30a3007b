"""Reads the answers of OpenAI Responses, whole and streamed.

A stream builds the same items that a whole answer lists, so both are read by one function in the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from llmcore.errors import ErrorKind
from llmcore.messages import JSON, Delta, ModelResponse
from llmcore.providers.answer import Answer
from llmcore.providers.base import ModelCall, WireReply
from llmcore.providers.call_drafts import CallDraft, read_id
from llmcore.providers.event_decoder import EventDecoder, read_events
from llmcore.providers.failures import broken, error_in, failure, read_report
from llmcore.providers.finish import RESPONSES_REASONS
from llmcore.providers.response_items import StreamedItems, texts_of
from llmcore.providers.token_counts import merged, read_cost
from llmcore.providers.usage_fields import OPENAI_USAGE
from llmcore.providers.whole_reply import read_reply

WIRE = "openai_responses"
# The events that end a stream, and the states of an answer that ended.
ENDS = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})


class ResponsesReader:
    """Takes items, and what stands around them, into an `Answer`."""

    def __init__(self, call: ModelCall) -> None:
        self.answer = Answer(call)
        self._items = StreamedItems()
        self._usage: Mapping[str, JSON] | None = None

    def take(self, event: Mapping[str, JSON]) -> Iterable[Delta]:
        """One event of a stream. Those of kinds that aren't known say nothing."""
        kind = event.get("type")
        if isinstance(response := event.get("response"), dict):
            self._around(response)
            if isinstance(kind, str) and kind in ENDS:
                self._end(response)
                return ()
        return self._items.take(event)

    def whole(self, response: Mapping[str, JSON]) -> None:
        self._around(response)
        self._end(response)

    def _around(self, response: Mapping[str, JSON]) -> None:
        answer = self.answer
        if isinstance(model := response.get("model"), str) and model:
            answer.served_model = model
        if isinstance(identity := response.get("id"), str) and identity:
            answer.response_id = identity
        self._usage = merged(self._usage, response.get("usage"))

    def _end(self, response: Mapping[str, JSON]) -> None:
        """The last word on an answer: its status, and all its items once more."""
        answer = self.answer
        status, details = response.get("status"), response.get("incomplete_details")
        reason = details.get("reason") if isinstance(details, dict) else None
        answer.finish_raw = next((word for word in (reason, status) if isinstance(word, str) and word), "")
        answer.ended = True
        self._items.complete(response.get("output"))
        if error := response.get("error"):
            answer.error = failure(read_report(error), 200)

    def response(self, *, streamed: bool, cancelled: bool = False) -> ModelResponse:
        for number, item in enumerate(self._items.items()):
            self._item(number, item)
        self.answer.usage = OPENAI_USAGE.read(self._usage)
        self.answer.provider_cost = read_cost(self._usage)
        return self.answer.response(RESPONSES_REASONS, streamed=streamed, cancelled=cancelled)

    def _item(self, number: int, item: Mapping[str, JSON]) -> None:
        answer, kind = self.answer, item.get("type")
        if kind in ("function_call", "custom_tool_call"):
            answer.add_call(draft_of(item))
        elif kind == "message":
            for refusal in texts_of(item.get("content"), "refusal", "refusal"):
                answer.add_refusal(refusal)
            if text := "".join(texts_of(item.get("content"), "output_text", "text")):
                answer.add_text(text, number)
                kept = {name: value for name, value in item.items() if name != "content"}
                answer.blocks.get("text", number).extra = {"wire": WIRE, "item": kept}
        elif kind == "reasoning":
            thoughts = texts_of(item.get("summary"), "summary_text", "text")
            thoughts = thoughts or texts_of(item.get("content"), "reasoning_text", "text")
            if thoughts:
                answer.add_thinking("\n\n".join(thoughts), number)
            answer.blocks.get("thinking", number).extra = {"wire": WIRE, "item": dict(item)}
        elif isinstance(kind, str):
            # Something that the provider ran itself: no call of ours, but part of the conversation.
            answer.blocks.get("provider", number).extra = {"wire": WIRE, "item": dict(item)}


def draft_of(item: Mapping[str, JSON]) -> CallDraft:
    name = item.get("name")
    # The call of a tool that takes plain text: none was offered, so it goes back as one of those that were.
    custom = item.get("type") == "custom_tool_call"
    kept = {key: value for key, value in item.items() if key not in ("name", "arguments", "call_id")}
    return CallDraft(
        name=name if isinstance(name, str) else "",
        arguments=item.get("input") if custom else item.get("arguments"),
        # The item's own id is another one; results go by `call_id`.
        id=read_id(item.get("call_id")),
        extra=None if custom else {"wire": WIRE, "item": kept},
    )


def read_responses_reply(reply: WireReply, call: ModelCall) -> ModelResponse:
    """Read a whole HTTP response; a failure is a response with an error."""
    return read_reply(
        reply,
        lambda body, status: read_body(body, call, status),
        lambda other: read_events(other, responses_stream(call)),
    )


def read_body(body: JSON, call: ModelCall, status: int) -> ModelResponse:
    if not isinstance(body, dict) or not isinstance(body.get("output"), list):
        report = error_in(body)
        message = "The server's answer has no output: it is no answer of the Responses API."
        error = failure(report, status) if report else broken(ErrorKind.MALFORMED_RESPONSE, message, status)
        return ModelResponse(error=error)
    reader = ResponsesReader(call)
    reader.whole(body)
    return reader.response(streamed=False)


def responses_stream(call: ModelCall) -> EventDecoder:
    """A decoder for one streamed answer."""
    return EventDecoder(ResponsesReader(call), lambda reply: read_responses_reply(reply, call))
