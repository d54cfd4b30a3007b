"""Reads the answers of OpenAI Chat Completions and its many likenesses, whole and streamed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from llmcore.errors import ErrorKind
from llmcore.messages import JSON, Delta, ModelResponse
from llmcore.providers.answer import Answer
from llmcore.providers.base import ModelCall, WireReply
from llmcore.providers.call_drafts import CallDraft, read_id
from llmcore.providers.call_fragments import CallFragments
from llmcore.providers.event_decoder import EventDecoder, read_events
from llmcore.providers.failures import broken, error_in, failure, read_report
from llmcore.providers.finish import OPENAI_REASONS
from llmcore.providers.reasoning_details import ReasoningDetails
from llmcore.providers.token_counts import merged, read_cost
from llmcore.providers.usage_fields import OPENAI_USAGE
from llmcore.providers.whole_reply import read_reply

# The fields in which servers send thinking; newer vLLM and Ollama use the second.
THINKING_FIELDS = ("reasoning_content", "reasoning")


class ChatReader:
    """Takes the objects of an answer, the one of a whole body or the many of a stream, into an `Answer`."""

    def __init__(self, call: ModelCall) -> None:
        self.answer = Answer(call)
        # Whose extras these are: a dialect's fields mean nothing to the others.
        self._wire = call.provider.adapter
        self._usage: Mapping[str, JSON] | None = None
        self._fragments = CallFragments([tool.name for tool in call.tools])
        self._thinking_field: str | None = None
        self._details = ReasoningDetails()
        self._index: JSON = None

    def note(self, body: Mapping[str, JSON]) -> None:
        """What stands around the choices."""
        answer = self.answer
        if isinstance(model := body.get("model"), str) and model:
            answer.served_model = model
        if isinstance(identity := body.get("id"), str) and identity:
            answer.response_id = identity
        # Groq has usage and errors of its own kind in the last chunk of a stream.
        groq = _object(body, "x_groq")
        if usage := body.get("usage") or groq.get("usage"):
            self._usage = merged(self._usage, usage)
        if error := groq.get("error"):
            answer.error = failure(read_report(error), 200)

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
        if error := choice.get("error"):
            # OpenRouter: the service behind it failed on this answer.
            self.answer.error = failure(read_report(error), 200)
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
        answer = self.answer
        told = self._details.add(message["reasoning_details"]) if message.get("reasoning_details") else ""
        # A server in transition sends the same thinking under both names, and details repeat it: one of them counts.
        for field in sorted(THINKING_FIELDS, key=lambda name: name != self._thinking_field):
            text = message.get(field)
            if isinstance(text, str) and text:
                self._thinking_field = self._thinking_field or field
                answer.thinking_extra = {"wire": self._wire, "field": self._thinking_field}
                return answer.add_thinking(text)
        return answer.add_thinking(told) if told else ()

    def _content(self, content: JSON) -> Iterable[Delta]:
        if isinstance(content, str):
            return self.answer.add_text(content)
        deltas: list[Delta] = []
        for chunk in content if isinstance(content, list) else [content]:
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
                return self._thinking_chunk(chunk)
            case "refusal" if isinstance(refusal := chunk.get("refusal"), str):
                return self.answer.add_refusal(refusal)
        return ()

    def _thinking_chunk(self, chunk: Mapping[str, JSON]) -> Iterable[Delta]:
        """Thinking as Mistral sends it, which may be signed."""
        kept = {name: chunk[name] for name in ("signature", "closed") if chunk.get(name) is not None}
        before = self.answer.thinking_extra
        before = before.get("chunk") if isinstance(before, dict) else None
        self.answer.thinking_extra = {"wire": self._wire, "chunk": {**(before or {}), **kept}}
        text = _text_of(chunk.get("thinking"))
        if text or kept:
            self.answer.blocks.get("thinking").extra = self.answer.thinking_extra
        return self.answer.add_thinking(text) if text else ()

    def take(self, body: Mapping[str, JSON]) -> Iterable[Delta]:
        """One chunk of a stream."""
        self.note(body)
        return [delta for choice in _choices(body) for delta in self.choice(choice, "delta")]

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
        if self._details:
            extra = {"wire": self._wire, **(self.answer.thinking_extra or {}), "details": self._details.items}
            self.answer.blocks.get("thinking").extra = extra
        self.answer.usage = OPENAI_USAGE.read(self._usage)
        self.answer.provider_cost = read_cost(self._usage)
        return self.answer.response(OPENAI_REASONS, streamed=streamed, cancelled=cancelled)


def _text_of(value: JSON) -> str:
    """The text of a thinking chunk: a string, or a list of text chunks (Mistral)."""
    if isinstance(value, str):
        return value
    chunks = value if isinstance(value, list) else []
    texts = [chunk.get("text") if isinstance(chunk, dict) else chunk for chunk in chunks]
    return "".join(text for text in texts if isinstance(text, str))


def read_chat_reply(reply: WireReply, call: ModelCall) -> ModelResponse:
    """Read a whole HTTP response; a failure is a response with an error."""
    return read_reply(
        reply, lambda body, status: read_body(body, call, status), lambda other: read_events(other, chat_stream(call))
    )


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


def chat_stream(call: ModelCall) -> EventDecoder:
    """A decoder for one streamed answer."""
    return EventDecoder(ChatReader(call), lambda reply: read_chat_reply(reply, call))


def _object(body: Mapping[str, JSON], name: str) -> Mapping[str, JSON]:
    value = body.get(name)
    return value if isinstance(value, dict) else {}
