"""What a prompt of a pack sends, and how the models of a configuration are asked for its schema."""

from __future__ import annotations

import json
from dataclasses import dataclass

from llmcore import store
from llmcore.errors import ConfigurationError
from llmcore.structured.expected import asked_of
from llmcore.structured.packs import Prompt, site_prompts
from llmcore.structured.response_schema import ResponseSchema


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedRoute:
    """How one model is asked: `derived` is the schema that its provider holds the answer to, if it does."""

    model: str
    derived: ResponseSchema | None

    @property
    def derived_text(self) -> str:
        return indented(self.derived) if self.derived else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class DescribedPrompt:
    """A prompt as a page shows it; `problem` says why its configuration can't be used."""

    prompt: Prompt
    routes: tuple[AskedRoute, ...] = ()
    problem: str = ""

    @property
    def schema_text(self) -> str:
        return indented(self.prompt.schema) if self.prompt.schema else ""

    @property
    def has_examples(self) -> bool:
        return any(given.example for given in self.prompt.inputs)

    @property
    def told(self) -> bool:
        """Whether the prompt says what is wanted, for one at least of the models."""
        return any(route.derived is None for route in self.routes)


def prompts_by_pack() -> dict[str, list[Prompt]]:
    """All prompts of the site under the prefixes of their packs."""
    found: dict[str, list[Prompt]] = {}
    for prompt in site_prompts.prompts().values():
        found.setdefault(prompt.pack, []).append(prompt)
    return found


def describe_prompt(*, prompt: Prompt, configuration: str) -> DescribedPrompt:
    if not configuration or prompt.schema is None:
        return DescribedPrompt(prompt=prompt)
    try:
        loaded = store.load_configuration(configuration, read_keys=False)
        asked = [(route.model.label or route.model.name, asked_of(route, prompt.schema)) for route in loaded.routes]
    except ConfigurationError as error:
        return DescribedPrompt(prompt=prompt, problem=str(error))
    return DescribedPrompt(
        prompt=prompt,
        routes=tuple(
            AskedRoute(
                model=model, derived=ResponseSchema.of(prompt.schema.id, one.wire_schema) if one.native else None
            )
            for model, one in asked
        ),
    )


def indented(schema: ResponseSchema) -> str:
    return json.dumps(schema.json, ensure_ascii=False, indent=2)
