"""What an answer has to be, as the state of a run keeps it, and how a model is told what is wrong with one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from llmcore.configuration import Route
from llmcore.messages import JSON, Message
from llmcore.providers.registry import adapter_of
from llmcore.structured.response_schema import ResponseSchema
from llmcore.structured.validation import Check, Objection, check_answer

MAX_REPAIRS = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """An answer has to fit `schema`; a model that answers otherwise is told so at most `repairs` times."""

    schema: ResponseSchema
    repairs: int = 1

    def check(self, answer: str) -> Check:
        return check_answer(self.schema.json, answer)

    def to_json(self) -> dict[str, Any]:
        schema = {"id": self.schema.id, "text": self.schema.text, "sha256": self.schema.sha256}
        return {"schema": schema, "repairs": self.repairs}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(schema=ResponseSchema(**data["schema"]), repairs=data["repairs"])


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """How a model is asked for JSON: `native` where its provider holds the answer to `wire_schema`, which is derived
    from the original; else in the prompt, and `wire_schema` only switches the provider's plain JSON mode on, if it has
    one."""

    native: bool
    wire_schema: JSON = None


def asked_of(route: Route, schema: ResponseSchema) -> Asked:
    """How the model of `route` is asked for JSON of this schema."""
    adapter = adapter_of(route.provider, route.model)
    if not route.model.supports_structured_output:
        return Asked(native=False)
    original = schema.json
    if not adapter.holds_schemas:
        return Asked(native=False, wire_schema=original)
    derived = adapter.derived_schema(original)
    return Asked(native=derived is not None, wire_schema=derived)


def needs_instruction(routes: Iterable[Route], schema: ResponseSchema) -> bool:
    """Whether the prompt has to say what is wanted, for one at least of the models that may answer it."""
    return any(not asked_of(route, schema).native for route in routes)


def instruction(schema: ResponseSchema) -> str:
    """What a model is told that isn't held to the schema."""
    shown = {name: value for name, value in schema.json.items() if name not in ("$schema", "$id")}
    text = json.dumps(shown, ensure_ascii=False, indent=1)
    return (
        "Answer with one JSON object and nothing else: no text before or after it, no Markdown fence. It has to be "
        f"valid against this JSON Schema:\n\n{text}"
    )


def repair_message(objections: Iterable[Objection], count: int) -> Message:
    """What a model is told of an answer that doesn't fit."""
    lines = [f"- {objection}" for objection in objections]
    if count > len(lines):
        lines.append(f"- and {count - len(lines)} more")
    found = "\n".join(lines)
    return Message.of(
        "user",
        f"Your answer doesn't fit the schema. By JSON pointer:\n{found}\n"
        "Answer again with the whole corrected JSON object and nothing else.",
    )
