"""Mistral: Chat Completions with ids of nine characters, thinking among the content, and names of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence

from llmcore.messages import JSON, Message
from llmcore.providers.base import ModelCall
from llmcore.providers.json_text import encode_json
from llmcore.providers.openai_chat import Dialect, OpenAIChat
from llmcore.providers.tool_names import id_digest, wire_name

MISTRAL = Dialect(
    name="mistral",
    label="Mistral",
    default_base_url="https://api.mistral.ai/v1",
    seed_field="random_seed",
    asks_for_usage=False,
)
# Everything else is a 400 there.
ID = re.compile(r"[A-Za-z0-9]{9}")
ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class Mistral(OpenAIChat):
    """The wire format of Mistral."""

    def __init__(self) -> None:
        super().__init__(MISTRAL)

    def wire_id(self, call_id: str) -> str:
        if ID.fullmatch(call_id):
            return call_id
        number = int(id_digest(call_id), 16)
        digits = []
        for _ in range(9):
            number, digit = divmod(number, len(ALPHABET))
            digits.append(ALPHABET[digit])
        return "".join(digits)

    def encode(self, unit: Sequence[Message], call: ModelCall) -> bytes:
        (message,) = unit
        if message.role != "tool":
            return super().encode(unit, call)
        data: dict[str, JSON] = {"role": "tool", "tool_call_id": self.wire_id(message.tool_call_id or "")}
        if message.name:
            data["name"] = wire_name(message.name)
        return encode_json({**data, "content": message.text})
