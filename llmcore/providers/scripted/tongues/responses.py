"""OpenAI Responses, where reasoning comes back encrypted and in front of its calls."""

from __future__ import annotations

from collections.abc import Iterator

from llmcore.messages import JSON
from llmcore.providers.scripted.check import Refused
from llmcore.providers.scripted.tongues.base import SpokenCall, Tongue, Utterance, event, signature_of
from llmcore.providers.scripted.tongues.chat import ChatTongue

CUT = {"length": "max_output_tokens", "content_filter": "content_filter"}
OWN = ("reasoning", "function_call")


class ResponsesTongue(Tongue):
    """The Responses API, without a memory."""

    def hears(self, path: str) -> bool:
        return path.endswith("/responses")

    def understand(self, path: str, body: dict[str, JSON]) -> dict[str, JSON]:
        if "messages" in body:
            raise Refused(400, "Unsupported parameter: 'messages'. Use 'input'.", param="messages")
        asked: dict[str, JSON] = {name: body[name] for name in ("model", "stream", "tool_choice") if name in body}
        asked["messages"] = list(messages_of(body))
        if "tools" in body:
            asked["tools"] = [{"function": {"name": tool.get("name")}} for tool in body["tools"]]
        asked["max_tokens"] = body.get("max_output_tokens")
        asked["reasoning_effort"] = (body.get("reasoning") or {}).get("effort")
        return asked

    def whole(self, said: Utterance) -> JSON:
        return answer(said, [finished(item, said) for item in items(said)], done=True)

    def pieces(self, said: Utterance) -> Iterator[bytes]:
        number = 0

        def numbered(value: dict[str, JSON]) -> bytes:
            nonlocal number
            number += 1
            return event({**value, "sequence_number": number - 1}, value["type"])

        yield numbered({"type": "response.created", "response": answer(said, [], done=False)})
        for index, item in enumerate(items(said)):
            yield numbered({"type": "response.output_item.added", "output_index": index, "item": item})
            for delta in deltas(item, said):
                yield numbered({"output_index": index, "item_id": item["id"], **delta})
            done = finished(item, said)
            yield numbered({"type": "response.output_item.done", "output_index": index, "item": done})

    def ending(self, said: Utterance) -> Iterator[bytes]:
        kind = "response.incomplete" if said.finish in CUT else "response.completed"
        yield event({"type": kind, "response": self.whole(said)}, kind)

    def error(self, status: int, message: str, *, param: str | None = None, code: str | None = None) -> JSON:
        return ChatTongue().error(status, message, param=param, code=code)

    def error_piece(self, error: JSON) -> bytes:
        details = error["error"]
        return event({"type": "error", **details}, "error")


def answer(said: Utterance, output: list[JSON], *, done: bool) -> dict[str, JSON]:
    reason = CUT.get(said.finish)
    status = "in_progress" if not done else "incomplete" if reason else "completed"
    value: dict[str, JSON] = {
        "id": f"resp_{said.seed[:24]}",
        "object": "response",
        "status": status,
        "error": None,
        "incomplete_details": {"reason": reason} if done and reason else None,
        "model": said.model,
        "output": output,
    }
    if done and said.usage:
        value["usage"] = {
            "input_tokens": said.count("prompt_tokens"),
            "input_tokens_details": {"cached_tokens": said.count("prompt_tokens_details", "cached_tokens") or 0},
            "output_tokens": said.count("completion_tokens"),
            "output_tokens_details": {
                "reasoning_tokens": said.count("completion_tokens_details", "reasoning_tokens") or 0
            },
            "total_tokens": said.count("total_tokens"),
        }
    return value


def items(said: Utterance) -> Iterator[dict[str, JSON]]:
    """The items as they begin."""
    if said.thinking:
        yield {"type": "reasoning", "id": f"rs_{said.seed[:24]}", "summary": [], "encrypted_content": "unfinished"}
    if said.text:
        message = {"type": "message", "id": f"msg_{said.seed[:24]}", "role": "assistant"}
        yield {**message, "status": "in_progress", "content": []}
    for index, call in enumerate(said.calls):
        item = {"type": "function_call", "id": f"fc_{index}_{said.seed[:20]}", "name": call.name, "arguments": ""}
        yield {**item, "status": "in_progress", **({"call_id": call.id} if call.id else {})}


def finished(item: dict[str, JSON], said: Utterance) -> dict[str, JSON]:
    match item["type"]:
        case "reasoning":
            summary = [{"type": "summary_text", "text": said.thinking}]
            return {**item, "summary": summary, "encrypted_content": signature_of(said.thinking)}
        case "message":
            text = {"type": "output_text", "text": said.text, "annotations": []}
            return {**item, "status": "completed", "content": [text]}
    return {**item, "status": "completed", "arguments": call_of(item, said).arguments}


def deltas(item: dict[str, JSON], said: Utterance) -> Iterator[dict[str, JSON]]:
    match item["type"]:
        case "reasoning":
            for piece in said.pieces(said.thinking):
                yield {"type": "response.reasoning_summary_text.delta", "summary_index": 0, "delta": piece}
        case "message":
            for piece in said.pieces(said.text):
                yield {"type": "response.output_text.delta", "content_index": 0, "delta": piece}
        case _:
            for piece in said.pieces(call_of(item, said).arguments):
                yield {"type": "response.function_call_arguments.delta", "delta": piece}


def call_of(item: dict[str, JSON], said: Utterance) -> SpokenCall:
    return said.calls[int(item["id"].split("_")[1])]


def messages_of(body: dict[str, JSON]) -> Iterator[JSON]:
    """The input as messages: what the model said in one turn is one of them."""
    if body.get("instructions"):
        yield {"role": "system", "content": body["instructions"]}
    given = body.get("input")
    turn: list[dict[str, JSON]] = []
    for item in [{"role": "user", "content": given}] if isinstance(given, str) else given or ():
        if item.get("type") in OWN or item.get("role") == "assistant":
            turn.append(item)
            continue
        if turn:
            yield said_in(turn)
            turn = []
        if item.get("type") == "function_call_output":
            yield {"role": "tool", "tool_call_id": item.get("call_id"), "content": item.get("output")}
        else:
            yield {"role": item.get("role"), "content": item.get("content")}
    if turn:
        yield said_in(turn)


def said_in(turn: list[dict[str, JSON]]) -> JSON:
    for index, item in enumerate(turn):
        if item.get("type") == "reasoning":
            text = "".join(entry["text"] for entry in item.get("summary") or ())
            if item.get("encrypted_content") != signature_of(text):
                raise Refused(400, f"The encrypted content of item '{item.get('id')}' could not be verified.")
            if index == len(turn) - 1:
                raise Refused(
                    400, f"Item '{item.get('id')}' of type 'reasoning' was provided without its following item."
                )
    calls = [
        {"id": item.get("call_id"), "function": {"name": item.get("name")}}
        for item in turn
        if item.get("type") == "function_call"
    ]
    texts = [item.get("content") for item in turn if item.get("role") == "assistant"]
    return {"role": "assistant", "content": texts, **({"tool_calls": calls} if calls else {})}
