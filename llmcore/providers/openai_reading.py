"""Reads the answers of OpenAI Chat Completions and its many likenesses, whole and streamed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from llmcore.errors import ErrorKind, ProviderError
from llmcore.messages import JSON, Delta, ModelResponse
from llmcore.providers.answer import Answer
from llmcore.providers.base import ModelCall, WireReply
from llmcore.providers.call_drafts import CallDraft, read_id
from llmcore.providers.call_fragments import CallFragments
from llmcore.providers.event_stream import DONE, EventReader, ServerEvent
from llmcore.providers.failures import broken, describe_body, error_in, failure, http_failure, read_report
from llmcore.providers.finish import OPENAI_REASONS
from llmcore.providers.json_text import decode_json
from llmcore.providers.lines import LineTooLong
from llmcore.providers.token_counts import merged, read_cost, read_openai_usage

# The fields in which servers send thinking; newer vLLM and Ollama use the second.
THINKING_FIELDS = ("reasoning_content", "reasoning")


class ChatReader:
    """Takes the objects of an answer, the one of a whole body or the many of a stream, into an `Answer`."""

    def __init__(self, call: ModelCall) -> None:
        self.answer = Answer(call)
        self._usage: Mapping[str, JSON] | None = None
        self._fragments = CallFragments()
        self._thinking_field: str | None = None
        self._index: JSON = None

    def note(self, body: Mapping[str, JSON]) -> None:
        """What stands around the choices."""
        answer = self.answer
        if isinstance(model := body.get("model"), str) and model:
            answer.served_model = model
        if isinstance(identity := body.get("id"), str) and identity:
            answer.response_id = identity
        if usage := body.get("usage"):
            self._usage = merged(self._usage, usage)

    def choice(self, choice: JSON, key: str) -> Iterable[Delta]:
        """A choice whose message stands under `key`; one without a message says nothing.

        Only one answer is asked for: where a server gives several, the first one is read.
        """
        if not isinstance(choice, dict):
            return ()
        index = choice.get("index")
        self._index = index if self._index is None else self._index
        if index is not None and index != self._index:
            return ()
        if isinstance(reason := choice.get("finish_reason"), str) and reason:
            self.answer.finish_raw = reason
        message = choice.get(key)
        return self._message(message) if isinstance(message, dict) else ()

    def _message(self, message: Mapping[str, JSON]) -> Iterable[Delta]:
        deltas: list[Delta] = []
        deltas.extend(self._thinking(message))
        if content := message.get("content"):
            deltas.extend(self._content(content))
        if isinstance(refusal := message.get("refusal"), str) and refusal:
            deltas.extend(self.answer.add_refusal(refusal))
        if isinstance(calls := message.get("tool_calls"), list):
            for fragment in calls:
                if text := self._fragments.add(fragment):
                    deltas.append(Delta(kind="tool_call", text=text))
        elif function := message.get("function_call"):
            self._fragments.add({"function": function})
        return deltas

    def _thinking(self, message: Mapping[str, JSON]) -> Iterable[Delta]:
        # A server in transition sends the same thinking under both names: one of them counts.
        for field in sorted(THINKING_FIELDS, key=lambda name: name != self._thinking_field):
            text = message.get(field)
            if isinstance(text, str) and text:
                self._thinking_field = self._thinking_field or field
                self.answer.thinking_extra = {"field": self._thinking_field}
                return self.answer.add_thinking(text)
        return ()

    def _content(self, content: JSON) -> Iterable[Delta]:
        if isinstance(content, str):
            return self.answer.add_text(content)
        deltas: list[Delta] = []
        for chunk in content if isinstance(content, list) else ():
            if isinstance(chunk, str):
                deltas.extend(self.answer.add_text(chunk))
            elif isinstance(chunk, dict):
                deltas.extend(self._chunk(chunk))
        return deltas

    def _chunk(self, chunk: Mapping[str, JSON]) -> Iterable[Delta]:
        match chunk.get("type"):
            case "text" | "output_text":
                return self.answer.add_text(chunk["text"]) if isinstance(chunk.get("text"), str) else ()
            case "thinking":
                return self.answer.add_thinking(thinking) if (thinking := _text_of(chunk.get("thinking"))) else ()
            case "refusal" if isinstance(refusal := chunk.get("refusal"), str):
                return self.answer.add_refusal(refusal)
        return ()

    def whole_calls(self, message: JSON) -> None:
        """The calls of an unstreamed message, where each stands for itself, whatever its id and index."""
        calls = message.get("tool_calls") if isinstance(message, dict) else None
        for item in calls if isinstance(calls, list) else ():
            if isinstance(item, dict):
                function = item.get("function") or item.get("custom")
                function = function if isinstance(function, dict) else {}
                self.answer.drafts.append(
                    CallDraft(
                        name=function["name"] if isinstance(function.get("name"), str) else "",
                        arguments=function.get("arguments", function.get("input")),
                        id=read_id(item.get("id")),
                    )
                )

    def response(self, *, streamed: bool, cancelled: bool = False) -> ModelResponse:
        self.answer.drafts += self._fragments.drafts()
        self.answer.usage = read_openai_usage(self._usage)
        self.answer.provider_cost = read_cost(self._usage)
        return self.answer.response(OPENAI_REASONS, streamed=streamed, cancelled=cancelled)


def _text_of(value: JSON) -> str:
    """The text of a thinking chunk: a string, or a list of text chunks (Mistral)."""
    if isinstance(value, str):
        return value
    chunks = value if isinstance(value, list) else []
    texts = [chunk.get("text") if isinstance(chunk, dict) else chunk for chunk in chunks]
    return "".join(text for text in texts if isinstance(text, str))


def read_reply(reply: WireReply, call: ModelCall) -> ModelResponse:
    """Read a whole HTTP response; a failure is a response with an error."""
    content_type = reply.headers.get("content-type", "")
    if reply.status >= 300:
        return ModelResponse(error=http_failure(reply.status, reply.body, content_type))
    if not reply.body.strip():
        return ModelResponse(
            error=broken(ErrorKind.EMPTY_RESPONSE, "The server answered with an empty body.", reply.status)
        )
    try:
        body = decode_json(reply.body)
    except ValueError:
        message = describe_body(reply.body, content_type, reply.status)
        return ModelResponse(error=broken(ErrorKind.MALFORMED_RESPONSE, message, reply.status))
    return read_body(body, call, reply.status)


def read_body(body: JSON, call: ModelCall, status: int = 200) -> ModelResponse:
    """Read the decoded body of a success. An error in it is looked for first: it may stand beside choices."""
    report = error_in(body)
    choices = _choices(body)
    if not choices and isinstance(body, dict) and isinstance(body.get("provider"), dict):
        # OpenRouter has been seen to nest the whole completion there.
        body = body["provider"]
        report = report or error_in(body)
        choices = _choices(body)
    if not choices:
        error = failure(report, status) if report else None
        message = "The server's answer has no choices: it is no chat completion."
        return ModelResponse(error=error or broken(ErrorKind.MALFORMED_RESPONSE, message, status))
    reader = ChatReader(call)
    reader.note(body)
    first = choices[0]
    whole = first.get("message") if isinstance(first, dict) else None
    if isinstance(whole, dict) and isinstance(whole.get("tool_calls"), list):
        reader.whole_calls(whole)
        first = {**first, "message": {**whole, "tool_calls": None}}
    reader.choice(first, "message")
    if report:
        reader.answer.error = failure(report, status)
    return reader.response(streamed=False)


def _choices(body: JSON) -> list[JSON]:
    choices = body.get("choices") if isinstance(body, dict) else None
    return choices if isinstance(choices, list) else []


class ChatStream:
    """Assembles a streamed answer from server-sent events."""

    def __init__(self, call: ModelCall) -> None:
        self.done = False
        self._call = call
        self._reader = ChatReader(call)
        self._events = EventReader()
        self._seen = False

    def feed(self, chunk: bytes) -> Iterable[Delta]:
        deltas: list[Delta] = []
        try:
            for event in self._events.feed(chunk):
                if self.done:
                    break
                deltas.extend(self._event(event))
        except LineTooLong:
            self._fail(broken(ErrorKind.MALFORMED_RESPONSE, "A line of the stream is too long."))
        return deltas

    def finish(self, *, cancelled: bool = False) -> ModelResponse:
        last = None if self.done else self._events.flush()
        if last is not None:
            self._event(last, at_end=True)
        stray = "" if self._seen else self._events.stray
        if stray and not cancelled and self._reader.answer.error is None:
            # No event came, but something else did: a body that should not have been a stream.
            body = stray.encode("utf-8", "replace")
            return read_reply(WireReply(status=200, headers={}, body=body), self._call)
        return self._reader.response(streamed=True, cancelled=cancelled)

    def _event(self, event: ServerEvent, at_end: bool = False) -> Iterable[Delta]:
        self._seen = True
        data = event.data.strip()
        if data == DONE:
            self.done = self._reader.answer.ended = True
            return ()
        try:
            body = decode_json(data)
        except ValueError:
            # At the very end it is a frame that the connection's end cut off.
            if not at_end:
                self._unreadable(event)
            return ()
        return self._frame(body, event)

    def _frame(self, body: JSON, event: ServerEvent) -> Iterable[Delta]:
        if event.is_error:
            self._fail(failure(read_report(body), 200))
            return ()
        report = error_in(body)
        if report is None and event.type == "error":
            report = read_report(body)
        deltas: list[Delta] = []
        if isinstance(body, dict):
            self._reader.note(body)
            for choice in _choices(body):
                deltas.extend(self._reader.choice(choice, "delta"))
        if report:
            self._fail(failure(report, 200))
        return deltas

    def _unreadable(self, event: ServerEvent) -> None:
        if event.is_error or event.type == "error":
            self._fail(failure(read_report(event.data), 200))
        else:
            message = describe_body(event.data.encode("utf-8", "replace"), "", 200)
            self._fail(broken(ErrorKind.MALFORMED_RESPONSE, f"An event of the stream is not JSON. {message}"))

    def _fail(self, error: ProviderError) -> None:
        self._reader.answer.error = error
        self.done = True
