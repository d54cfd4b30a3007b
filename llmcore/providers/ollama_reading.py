"""Reads the answers of Ollama's own API: one object, or an object a line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from llmcore.errors import ErrorKind, ProviderError
from llmcore.messages import JSON, Delta, ModelResponse
from llmcore.providers.answer import Answer
from llmcore.providers.base import ModelCall, WireReply
from llmcore.providers.call_drafts import CallDraft, read_id
from llmcore.providers.failures import broken, describe_body, error_in, failure
from llmcore.providers.finish import OLLAMA_REASONS
from llmcore.providers.json_text import decode_json, encode_json
from llmcore.providers.lines import LineReader, LineTooLong
from llmcore.providers.usage_fields import UsageFields, term
from llmcore.providers.whole_reply import read_reply

# Old servers leave the prompt's count out when it was cached: that is unknown, not 0.
OLLAMA_USAGE = UsageFields(
    input_tokens=(term("prompt_eval_count"),),
    output_tokens=(term("eval_count"),),
    cache_read_input_tokens=(term("prompt_eval_cached_count"),),
    note="The server's prompt count includes what it had in its cache. Its completion includes thinking.",
)

USAGE_FIELDS = ("prompt_eval_count", "prompt_eval_cached_count", "eval_count")
THINKING_FIELD = "thinking"


class OllamaReader:
    """Takes Ollama's objects into an `Answer`: the whole one, or the lines of a stream."""

    def __init__(self, call: ModelCall) -> None:
        self.answer = Answer(call)
        self.answer.thinking_extra = {"wire": "ollama", "field": THINKING_FIELD}
        self._usage: dict[str, JSON] = {}

    def take(self, body: Mapping[str, JSON]) -> Iterable[Delta]:
        answer = self.answer
        if isinstance(model := body.get("model"), str) and model:
            answer.served_model = model
        message = body.get("message")
        deltas = self._message(message) if isinstance(message, dict) else []
        self._usage.update({name: body[name] for name in USAGE_FIELDS if body.get(name) is not None})
        if isinstance(reason := body.get("done_reason"), str) and reason:
            answer.finish_raw = reason
        if body.get("done") is True:
            answer.ended = True
        if report := error_in(body):
            answer.error = failure(report, 200)
        return deltas

    def _message(self, message: Mapping[str, JSON]) -> list[Delta]:
        deltas: list[Delta] = []
        if isinstance(thinking := message.get(THINKING_FIELD), str) and thinking:
            deltas.extend(self.answer.add_thinking(thinking))
        if isinstance(content := message.get("content"), str) and content:
            deltas.extend(self.answer.add_text(content))
        calls = message.get("tool_calls")
        for item in calls if isinstance(calls, list) else ():
            function = item.get("function") if isinstance(item, dict) else None
            if isinstance(function, dict):
                deltas.append(self._call(item, function))
        return deltas

    def _call(self, item: Mapping[str, JSON], function: Mapping[str, JSON]) -> Delta:
        """A call; it comes whole even in a stream."""
        name, arguments = function.get("name"), function.get("arguments")
        self.answer.drafts.append(
            CallDraft(name=name if isinstance(name, str) else "", arguments=arguments, id=read_id(item.get("id")))
        )
        return Delta(
            kind="tool_call", text=arguments if isinstance(arguments, str) else encode_json(arguments).decode()
        )

    def response(self, *, streamed: bool, cancelled: bool = False) -> ModelResponse:
        self.answer.usage = OLLAMA_USAGE.read(dict(self._usage))
        return self.answer.response(OLLAMA_REASONS, streamed=streamed, cancelled=cancelled)


def read_ollama_reply(reply: WireReply, call: ModelCall) -> ModelResponse:
    """Read a whole HTTP response; a failure is a response with an error."""
    return read_reply(reply, lambda body, status: read_body(body, call, status), lambda other: read_lines(other, call))


def read_body(body: JSON, call: ModelCall, status: int) -> ModelResponse:
    if not isinstance(body, dict) or not isinstance(body.get("message"), dict):
        report = error_in(body)
        message = "The server's answer has no message: it is no answer of Ollama's chat API."
        error = failure(report, status) if report else None
        return ModelResponse(error=error or broken(ErrorKind.MALFORMED_RESPONSE, message, status))
    reader = OllamaReader(call)
    reader.take(body)
    return reader.response(streamed=False)


def read_lines(reply: WireReply, call: ModelCall) -> ModelResponse | None:
    """Read a body that is no single JSON value: it may be a stream that wasn't asked for, if it has any line of one."""
    stream = OllamaStream(call)
    stream.feed(reply.body)
    response = stream.finish()
    return response if stream.seen else None


class OllamaStream:
    """Assembles a streamed answer from lines of JSON."""

    def __init__(self, call: ModelCall) -> None:
        self.done = False
        self.seen = False
        self._reader = OllamaReader(call)
        self._lines = LineReader()

    def feed(self, chunk: bytes) -> Iterable[Delta]:
        deltas: list[Delta] = []
        try:
            for line in self._lines.feed(chunk):
                if self.done:
                    break
                deltas.extend(self._line(line))
        except LineTooLong:
            self._fail(broken(ErrorKind.MALFORMED_RESPONSE, "A line of the stream is too long."))
        return deltas

    def finish(self, *, cancelled: bool = False) -> ModelResponse:
        if not self.done:
            self._line(self._lines.flush(), at_end=True)
        return self._reader.response(streamed=True, cancelled=cancelled)

    def _line(self, line: str, at_end: bool = False) -> Iterable[Delta]:
        if not line.strip():
            return ()
        try:
            body = decode_json(line)
        except ValueError:
            # At the very end it is a line that the connection's end cut off.
            if not at_end:
                message = describe_body(line.encode("utf-8", "replace"), "", 200)
                self._fail(broken(ErrorKind.MALFORMED_RESPONSE, f"A line of the stream is not JSON. {message}"))
            return ()
        if not isinstance(body, dict):
            return ()
        self.seen = True
        deltas = self._reader.take(body)
        self.done = self._reader.answer.ended or self._reader.answer.error is not None
        return deltas

    def _fail(self, error: ProviderError) -> None:
        self._reader.answer.error = error
        self.done = True
