"""Tool calls for models that have none of their own: what to do next is asked for as JSON, held to a schema.

Around the adapter of any wire format, so the loop, the trace and the pages see the calls of any other model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from llmcore.configuration import Provider
from llmcore.messages import JSON, Delta, FinishReason, Message, ModelResponse, Part, ToolSpec
from llmcore.providers.answer_text import AnswerText
from llmcore.providers.base import Adapter, ModelCall, StreamDecoder, WireReply, WireRequest
from llmcore.providers.call_drafts import CallDraft, build_calls
from llmcore.providers.derived_schemas import references
from llmcore.providers.json_text import decode_json, encode_json, unfenced
from llmcore.providers.prompt_cache import CacheRules
from llmcore.providers.tool_names import wire_name

ANY_TEXT = {"type": "string"}
INSTRUCTION = """\
You can use tools. Reply with one JSON object and nothing else: either a call of a tool,
{"tool": NAME, "arguments": {...}}, after which you get its result, or your answer to the user, {"answer": TEXT}.
Call a tool where you need what it gives. When a result tells you what you need, answer.

The tools:
"""


class JsonTools(Adapter):
    """A wire format whose model chooses tools in JSON. A unit is a message, or all results of a turn."""

    supports_tool_choice_none = True

    def __init__(self, inner: Adapter) -> None:
        self._inner = inner
        self.name = inner.name
        self.label = inner.label
        self.default_base_url = inner.default_base_url
        self.needs_key = inner.needs_key
        self.stream_media_type = inner.stream_media_type
        self.unknown_parameters = inner.unknown_parameters - {"tool_choice"}
        self.usage_fields = inner.usage_fields
        self.holds_schemas = inner.holds_schemas
        self.schema_rules = inner.schema_rules

    def base_url(self, provider: Provider) -> str:
        return self._inner.base_url(provider)

    def listing(self, provider: Provider) -> WireRequest:
        return self._inner.listing(provider)

    def left_out(self, call: ModelCall) -> dict[str, str]:
        # Whether a call is required is said by the schema.
        return {name: reason for name, reason in self._inner.left_out(call).items() if name != "tool_choice"}

    def cache_rules(self, model: str) -> CacheRules:
        return self._inner.cache_rules(model)

    def starts_unit(self, previous: Message | None, message: Message) -> bool:
        # Many templates of small models want user and assistant in turns.
        return previous is None or previous.role != "tool" or message.role != "tool"

    def encode(self, unit: Sequence[Message], call: ModelCall) -> bytes:
        first = unit[0]
        if first.role == "tool":
            return self._inner.encode((Message.of("user", "\n\n".join(map(result_text, unit))),), call)
        if first.role == "assistant":
            return self._inner.encode((as_chosen(first),), call)
        return self._inner.encode(unit, call)

    def frame(self, call: ModelCall, units: Sequence[bytes]) -> WireRequest:
        plain = replace(call, tools=(), tool_choice="auto")
        if not self._asks(call):
            return self._inner.frame(plain, units)
        told = self._inner.encode((Message.of("system", instruction(call.tools)),), call)
        asked = replace(plain, response_schema=self._held_to(call))
        return self._inner.frame(asked, [told, *units])

    def _asks(self, call: ModelCall) -> bool:
        """Whether the request asks for a choice. Where no tool may be called any more, it does so only of who can be
        held to an answer: the beginning of the prompt stays as it was, for the cache. Others are told nothing of tools.
        """
        if call.tool_choice != "none":
            return bool(call.tools)
        return bool(call.tools) and self.holds_schemas and self._held_to(call) is not None

    def _may_choose(self, call: ModelCall) -> bool:
        """Whether the answer may be a choice. Who was not asked for one may still write one, having done so before; but
        where the answer has to fit a schema, or there are no tools, all that it writes is the answer."""
        return self._asks(call) or (bool(call.tools) and call.response_schema is None)

    def _held_to(self, call: ModelCall) -> JSON:
        """The schema of a choice as the wire takes it; `None` where model or wire can't be held to it: then the
        instruction has to do."""
        if not call.model.supports_structured_output:
            return None
        # A wire without schemas is only told that it is to be JSON.
        return self.derived_schema(choice_schema(call)) if self.holds_schemas else choice_schema(call)

    def decode(self, reply: WireReply, call: ModelCall) -> ModelResponse:
        response = self._inner.decode(reply, replace(call, tools=()))
        return chosen(response, call) if self._may_choose(call) else response

    def stream_decoder(self, call: ModelCall) -> StreamDecoder:
        decoder = self._inner.stream_decoder(replace(call, tools=()))
        return JsonToolsStream(decoder, call) if self._may_choose(call) else decoder


class JsonToolsStream:
    """Shows what is streamed as what it is going to be: an answer's text as text, all else as a call's."""

    def __init__(self, inner: StreamDecoder, call: ModelCall) -> None:
        self.done = False
        self._inner = inner
        self._call = call
        self._text = AnswerText()

    def feed(self, chunk: bytes) -> Iterable[Delta]:
        deltas: list[Delta] = []
        for delta in self._inner.feed(chunk):
            if delta.kind != "text":
                deltas.append(delta)
            elif (piece := self._text.feed(delta.text)) is None:
                deltas.append(Delta(kind="tool_call", text=delta.text))
            elif piece:
                deltas.append(Delta(kind="text", text=piece))
        self.done = self._inner.done
        return deltas

    def finish(self, *, cancelled: bool = False) -> ModelResponse:
        return chosen(self._inner.finish(cancelled=cancelled), self._call)


def chosen(response: ModelResponse, call: ModelCall) -> ModelResponse:
    """The response with its choice as a call or as an answer. A text that is no choice is the answer."""
    try:
        choice = decode_json(unfenced(response.text)[0])
    except ValueError:
        return response
    if not isinstance(choice, dict):
        return response
    kept = tuple(part for part in response.message.parts if part.kind != "text")
    if isinstance(name := choice.get("tool"), str):
        draft = CallDraft(name=name, arguments=choice.get("arguments"))
        over = response.finish_reason in (FinishReason.STOP, FinishReason.TOOL_CALLS)
        calls = build_calls([draft], call, cut_off=not over or response.error is not None)
        message = replace(response.message, parts=kept, tool_calls=calls)
        return replace(
            response, message=message, finish_reason=FinishReason.TOOL_CALLS if over else response.finish_reason
        )
    if "answer" in choice:
        answer = choice["answer"]
        text = answer if isinstance(answer, str) else encode_json(answer).decode()
        return replace(response, message=replace(response.message, parts=(*kept, Part(text=text))))
    return response


def as_chosen(message: Message) -> Message:
    """What the model said before, in the form in which it is asked to say it now."""
    lines: list[dict[str, JSON]] = [
        {"tool": wire_name(call.name), "arguments": call.arguments or {}} for call in message.tool_calls
    ]
    if message.text and not lines:
        lines = [{"answer": message.text}]
    text = "\n".join(encode_json(line).decode() for line in lines)
    kept = tuple(part for part in message.parts if part.kind != "text")
    return replace(message, parts=(*kept, Part(text=text)) if text else kept, tool_calls=())


def result_text(message: Message) -> str:
    what = "The tool failed" if message.is_error else "Result"
    return f"{what} ({wire_name(message.name or '')}):\n{message.text}"


def instruction(tools: Sequence[ToolSpec]) -> str:
    """What the tools are and how to choose one, with three examples: small models need them."""
    listed = "\n".join(
        f"- {tool.name}: {' '.join(tool.description.split())} Arguments: {encode_json(tool.parameters).decode()}"
        for tool in tools
    )
    tool = next((tool for tool in tools if tool.parameters.get("properties")), tools[0])
    called = encode_json({"tool": tool.name, "arguments": example_of(tool.parameters)}).decode()
    return (
        f"{INSTRUCTION}{listed}\n\nExamples:\n"
        f"User asks for something that {tool.name} tells.\n{called}\n"
        f'{tool.name} gave its result.\n{{"answer":"The result says that ..."}}\n'
        f'User says hello.\n{{"answer":"Hello! How can I help?"}}'
    )


def example_of(schema: JSON) -> JSON:
    """A value that shows the form of `schema`."""
    match schema.get("type") if isinstance(schema, dict) else None:
        case "object":
            properties = schema.get("properties") or {}
            wanted = schema.get("required") or list(properties)[:1]
            return {name: example_of(properties[name]) for name in wanted if name in properties}
        case "array":
            return []
        case "integer" | "number":
            return 1
        case "boolean":
            return True
    values = schema.get("enum") if isinstance(schema, dict) else None
    return values[0] if isinstance(values, list) and values else "..."


def choice_schema(call: ModelCall) -> JSON:
    """One of the calls that may be made, or the answer: no answer where a call is required, no call where none may be
    made."""
    names = {tool.name for tool in call.tools} | {"none"}
    tools = [tool for tool in call.tools if call.tool_choice not in names or tool.name == call.tool_choice]
    parts = {f"tool.{tool.name}": tool.parameters for tool in tools}
    if call.tool_choice in ("auto", "none"):
        parts["answer"] = call.response_schema or ANY_TEXT
    # A schema that refers to itself means its own root, so it can't stand in the midst of another one.
    apart = {name: moved(schema, f"#/$defs/{name}") for name, schema in parts.items() if references(schema)}
    here = {name: {"$ref": f"#/$defs/{name}"} if name in apart else schema for name, schema in parts.items()}
    choices = [choice("tool", {"const": tool.name}, arguments=here[f"tool.{tool.name}"]) for tool in tools]
    if "answer" in here:
        choices.append(choice("answer", here["answer"]))
    found: dict[str, JSON] = {"oneOf": choices} if len(choices) > 1 else choices[0]
    return {**found, "$defs": apart} if apart else found


def moved(schema: JSON, place: str) -> JSON:
    """A schema whose root stands at `place` of another one."""
    if isinstance(schema, list):
        return [moved(item, place) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: moved(value, place) for name, value in schema.items()}
    if isinstance(reference := found.get("$ref"), str) and reference.startswith("#"):
        found["$ref"] = place + reference[1:]
    return found


def choice(name: str, schema: JSON, **more: JSON) -> dict[str, JSON]:
    properties = {name: schema, **more}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
