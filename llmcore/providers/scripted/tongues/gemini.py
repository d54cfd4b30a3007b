"""Google Gemini, with calls that are signed and have to come back so."""

from __future__ import annotations

import re
from collections.abc import Iterator

from llmcore.messages import JSON
from llmcore.providers.scripted.check import Refused
from llmcore.providers.scripted.tongues.base import Tongue, Utterance, encoded, signature_of

METHOD = re.compile(r"/models/([^/]+):(generateContent|streamGenerateContent)$")
FINISH = {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}
MODES = {"NONE": "none", "ANY": "required", "AUTO": "auto"}
FOREIGN = "skip_thought_signature_validator"
STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class GeminiTongue(Tongue):
    """generateContent and streamGenerateContent."""

    def hears(self, path: str) -> bool:
        return METHOD.search(path) is not None

    def understand(self, path: str, body: dict[str, JSON]) -> dict[str, JSON]:
        matched = METHOD.search(path)
        assert matched is not None
        generation = body.get("generationConfig") or {}
        asked: dict[str, JSON] = {
            "model": matched[1],
            "stream": matched[2] == "streamGenerateContent",
            "messages": list(messages_of(body)),
            "max_tokens": generation.get("maxOutputTokens"),
            "reasoning_effort": None if generation.get("thinkingConfig", {}).get("includeThoughts", True) else "none",
        }
        if "tools" in body:
            declared = [item for tool in body["tools"] for item in tool.get("functionDeclarations") or ()]
            asked["tools"] = [{"function": {"name": item["name"]}} for item in declared]
        if calling := (body.get("toolConfig") or {}).get("functionCallingConfig"):
            asked["tool_choice"] = MODES.get(calling.get("mode"), "auto")
        return asked

    def whole(self, said: Utterance) -> JSON:
        parts = [*thoughts(said, [said.thinking]), *({"text": text} for text in [said.text] if text), *calls(said)]
        return self._answer(said, parts, finished=True)

    def pieces(self, said: Utterance) -> Iterator[bytes]:
        for part in thoughts(said, said.pieces(said.thinking)):
            yield self._event(self._answer(said, [part]))
        for piece in said.pieces(said.text):
            yield self._event(self._answer(said, [{"text": piece}]))
        for part in calls(said):
            yield self._event(self._answer(said, [part]))

    def ending(self, said: Utterance) -> Iterator[bytes]:
        yield self._event(self._answer(said, [{"text": ""}], finished=True))

    def _event(self, value: JSON) -> bytes:
        # It ends its lines so.
        return b"data: " + encoded(value) + b"\r\n\r\n"

    def _answer(self, said: Utterance, parts: list[JSON], *, finished: bool = False) -> JSON:
        candidate: dict[str, JSON] = {"content": {"role": "model", "parts": parts}, "index": 0}
        answer: dict[str, JSON] = {"candidates": [candidate], "modelVersion": said.model, "responseId": said.seed[:22]}
        if finished:
            candidate["finishReason"] = FINISH.get(said.finish, said.finish)
            if said.usage:
                answer["usageMetadata"] = usage(said)
        return answer

    def error(self, status: int, message: str, *, param: str | None = None, code: str | None = None) -> JSON:
        word = code or STATUSES.get(status, "INVALID_ARGUMENT" if status < 500 else "INTERNAL")
        return {"error": {"code": status, "message": message, "status": word}}

    def models(self, names: list[str]) -> JSON:
        methods = ["generateContent", "streamGenerateContent"]
        return {"models": [{"name": f"models/{name}", "supportedGenerationMethods": methods} for name in names]}


def thoughts(said: Utterance, pieces: Iterator[str] | list[str]) -> Iterator[dict[str, JSON]]:
    yield from ({"text": piece, "thought": True} for piece in pieces if piece)


def calls(said: Utterance) -> Iterator[dict[str, JSON]]:
    """Of several calls in a turn the first one is signed."""
    for index, call in enumerate(said.calls):
        identity = {"id": call.id} if call.id else {}
        signed = {"thoughtSignature": signature_of(call.name)} if index == 0 else {}
        yield {"functionCall": {**identity, "name": call.name, "args": call.value}, **signed}


def usage(said: Utterance) -> dict[str, JSON]:
    """Its candidates don't include thoughts; what is 0 is left out."""
    thought = said.count("completion_tokens_details", "reasoning_tokens") or 0
    counts = {
        "promptTokenCount": said.count("prompt_tokens"),
        "cachedContentTokenCount": said.count("prompt_tokens_details", "cached_tokens"),
        "candidatesTokenCount": (said.count("completion_tokens") or 0) - thought,
        "thoughtsTokenCount": thought,
        "totalTokenCount": said.count("total_tokens"),
    }
    return {name: value for name, value in counts.items() if value}


def messages_of(body: dict[str, JSON]) -> Iterator[JSON]:
    for part in (body.get("systemInstruction") or {}).get("parts") or ():
        yield {"role": "system", "content": part["text"]}
    pending: list[str] = []
    for number, item in enumerate(body.get("contents") or ()):
        parts = item.get("parts") or []
        if not parts:
            raise Refused(400, f"contents[{number}].parts: must not be empty")
        asked = [part for part in parts if "functionCall" in part]
        if asked and not asked[0].get("thoughtSignature"):
            raise Refused(400, f"Function call is missing a thought_signature in contents[{number}].")
        if asked and asked[0]["thoughtSignature"] not in (FOREIGN, signature_of(asked[0]["functionCall"]["name"])):
            raise Refused(400, f"Thought signature is not valid in contents[{number}].")
        answers = [part["functionResponse"] for part in parts if "functionResponse" in part]
        if len(answers) != len(pending) or (answers and len(answers) != len(parts)):
            raise Refused(
                400, "The number of function response parts must equal that of the call parts of the turn before."
            )
        texts = [part["text"] for part in parts if "text" in part]
        if answers:
            yield from (
                {"role": "tool", "tool_call_id": identity, "content": answer["response"]}
                for identity, answer in zip(pending, answers, strict=True)
            )
        else:
            role = "assistant" if item.get("role") == "model" else "user"
            named = [{"id": f"{number}.{index}", "function": part["functionCall"]} for index, part in enumerate(asked)]
            yield {"role": role, "content": " ".join(texts), **({"tool_calls": named} if named else {})}
        pending = [f"{number}.{index}" for index in range(len(asked))]
