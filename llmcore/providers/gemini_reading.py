"""Reads the answers of Google Gemini, whole and streamed: a stream's events have the form of the whole answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from llmcore.errors import ErrorKind
from llmcore.messages import JSON, Delta, ModelResponse
from llmcore.providers.answer import Answer
from llmcore.providers.base import ModelCall, WireReply
from llmcore.providers.call_drafts import CallDraft, read_id
from llmcore.providers.event_decoder import EventDecoder, read_events
from llmcore.providers.failures import broken, error_in, failure
from llmcore.providers.finish import GEMINI_REASONS
from llmcore.providers.json_text import encode_json
from llmcore.providers.token_counts import merged
from llmcore.providers.usage_fields import UsageFields, term
from llmcore.providers.whole_reply import read_reply

# What is 0 is left out.
GEMINI_USAGE = UsageFields(
    input_tokens=(term("promptTokenCount"), term("toolUsePromptTokenCount")),
    output_tokens=(term("candidatesTokenCount"), term("thoughtsTokenCount")),
    total_tokens=(term("totalTokenCount"),),
    cache_read_input_tokens=(term("cachedContentTokenCount"),),
    reasoning_output_tokens=(term("thoughtsTokenCount"),),
    any_of=frozenset({"output_tokens"}),
    note="The provider's prompt count includes cached tokens; thoughts and what its own tools put in stand apart there "
    "and are added here.",
)

WIRE = "gemini"


class GeminiReader:
    """Takes answers, or the pieces of one, into an `Answer`.

    Texts without a signature that follow each other are one part; a signed one stays on its own, since the signature
    belongs to exactly that.
    """

    def __init__(self, call: ModelCall) -> None:
        self.answer = Answer(call)
        self._usage: Mapping[str, JSON] | None = None
        self._number = 0
        self._kind = ""

    def take(self, body: Mapping[str, JSON]) -> Iterable[Delta]:
        answer = self.answer
        if isinstance(model := body.get("modelVersion"), str) and model:
            answer.served_model = model
        if isinstance(identity := body.get("responseId"), str) and identity:
            answer.response_id = identity
        self._usage = merged(self._usage, body.get("usageMetadata"))
        candidates = body.get("candidates")
        candidate = candidates[0] if isinstance(candidates, list) and candidates else None
        if isinstance(candidate, dict):
            return self._candidate(candidate)
        self._feedback(body.get("promptFeedback"))
        return ()

    def _feedback(self, feedback: JSON) -> None:
        """A prompt that was blocked is a success without an answer."""
        reason = feedback.get("blockReason") if isinstance(feedback, dict) else None
        if isinstance(reason, str) and reason:
            self.answer.finish_raw = f"promptFeedback:{reason}"
            said = feedback.get("blockReasonMessage")
            message = f"The prompt was blocked ({reason})." + (f" {said}" if isinstance(said, str) and said else "")
            self.answer.error = broken(ErrorKind.CONTENT_FILTER, message)

    def _candidate(self, candidate: Mapping[str, JSON]) -> Iterable[Delta]:
        deltas: list[Delta] = []
        content = candidate.get("content")
        parts = content.get("parts") if isinstance(content, dict) else None
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict):
                deltas.extend(self._part(part))
        if isinstance(reason := candidate.get("finishReason"), str) and reason:
            self.answer.finish_raw = reason
        if isinstance(said := candidate.get("finishMessage"), str):
            self.answer.finish_note = said
        return deltas

    def _part(self, part: Mapping[str, JSON]) -> Iterable[Delta]:
        signature = part.get("thoughtSignature")
        signature = signature if isinstance(signature, str) and signature else None
        call, text = part.get("functionCall"), part.get("text")
        if isinstance(call, dict):
            return self._call(call, signature)
        if isinstance(text, str):
            return self._text("thinking" if part.get("thought") is True else "text", text, signature)
        if part:
            # Something that the model ran or made itself, such as code and its result.
            self.answer.blocks.get("provider", self._next("")).extra = {"wire": WIRE, "part": dict(part)}
        return ()

    def _call(self, call: Mapping[str, JSON], signature: str | None) -> Iterable[Delta]:
        name, arguments = call.get("name"), call.get("args")
        self._next("")
        self.answer.add_call(
            CallDraft(
                name=name if isinstance(name, str) else "",
                arguments=arguments,
                id=read_id(call.get("id")),
                extra={"wire": WIRE, "signature": signature},
            )
        )
        text = arguments if isinstance(arguments, str) else encode_json(arguments or {}).decode()
        return (Delta(kind="tool_call", text=text),)

    def _text(self, kind: str, text: str, signature: str | None) -> Iterable[Delta]:
        if not text and not signature:
            return ()
        key = self._next("" if signature else kind)
        deltas: Iterable[Delta] = ()
        if text:
            deltas = self.answer.add_thinking(text, key) if kind == "thinking" else self.answer.add_text(text, key)
        if signature:
            block = self.answer.blocks.get("thinking" if kind == "thinking" else "text", key)
            block.extra = {"wire": WIRE, "signature": signature}
        return deltas

    def _next(self, kind: str) -> int:
        """The number of the block that a part goes into: the one before it only where both are of the same `kind`."""
        if not kind or kind != self._kind:
            self._number += 1
        self._kind = kind
        return self._number

    def response(self, *, streamed: bool, cancelled: bool = False) -> ModelResponse:
        self.answer.usage = GEMINI_USAGE.read(self._usage)
        return self.answer.response(GEMINI_REASONS, streamed=streamed, cancelled=cancelled)


def read_gemini_reply(reply: WireReply, call: ModelCall) -> ModelResponse:
    """Read a whole HTTP response; a failure is a response with an error."""
    return read_reply(
        reply, lambda body, status: read_body(body, call, status), lambda other: read_events(other, gemini_stream(call))
    )


def read_body(body: JSON, call: ModelCall, status: int) -> ModelResponse:
    # A stream that wasn't asked for as events is one list of its pieces.
    pieces = [piece for piece in (body if isinstance(body, list) else [body]) if isinstance(piece, dict)]
    report = next((found for piece in pieces if (found := error_in(piece))), None)
    if not any(tells(piece) for piece in pieces):
        message = "The server's answer has no candidates: it is no answer of the Gemini API."
        error = failure(report, status) if report else broken(ErrorKind.MALFORMED_RESPONSE, message, status)
        return ModelResponse(error=error)
    reader = GeminiReader(call)
    for piece in pieces:
        reader.take(piece)
    if report:
        reader.answer.error = failure(report, status)
    return reader.response(streamed=False)


def tells(body: Mapping[str, JSON]) -> bool:
    """Whether there is an answer, or a word about why there is none."""
    feedback = body.get("promptFeedback")
    return bool(body.get("candidates")) or (isinstance(feedback, dict) and bool(feedback.get("blockReason")))


def gemini_stream(call: ModelCall) -> EventDecoder:
    """A decoder for one streamed answer."""
    return EventDecoder(GeminiReader(call), lambda reply: read_gemini_reply(reply, call))
