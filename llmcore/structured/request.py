"""A request for a structured completion, and what it becomes before any call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from llmcore.configuration import Configuration
from llmcore.errors import InvalidInput, InvalidTarget, MissingSchema
from llmcore.messages import JSON
from llmcore.prompts.assembly import PromptAssembly
from llmcore.redaction import Redactor
from llmcore.structured.expected import MAX_REPAIRS, Expected, asked_of, needs_instruction
from llmcore.structured.inputs import Material
from llmcore.structured.packs import Prompt, PromptRegistry
from llmcore.structured.rendering import Rendered, assemble_structured, render
from llmcore.structured.response_schema import ResponseSchema
from llmcore.structured.schemas import schema_of_type


@dataclass(frozen=True, kw_only=True, slots=True)
class StructuredRequest:
    """What a structured completion is asked for.

    `configuration` is the slug of one, empty for that of the prompt. `session` is the caller's own name for what the
    completion is part of: it is handed through and never sent. The answer fits `schema` (the name of a registered one)
    where that is given, else the prompt's; with a `target`, a dataclass or TypedDict, the answer is made into that, and
    where there is no schema, its own is used. `repairs` is how often the model may correct itself.
    """

    prompt: str
    configuration: str = ""
    session: str = ""
    inputs: Mapping[str, Material] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    schema: str = ""
    target: Any = None
    repairs: int = 1

    def without_secrets(self, redactor: Redactor) -> StructuredRequest:
        """The same without the secrets that `redactor` knows, in whatever is material or the caller's own words."""
        inputs = {
            name: replace(given, data=redactor.known_bytes(given.data), origin=redactor.known(given.origin))
            for name, given in self.inputs.items()
        }
        variables = {name: redactor.known(value) for name, value in self.variables.items()}
        return replace(self, session=redactor.known(self.session), inputs=inputs, variables=variables)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ready:
    """A structured completion before its first call."""

    request: StructuredRequest
    rendered: Rendered
    assembly: PromptAssembly
    expected: Expected
    configuration: Configuration

    def manifest(self) -> dict[str, JSON]:
        """What goes into it, by names, digests and counts, with both schemas."""
        asked = asked_of(self.configuration.routes[0], self.expected.schema)
        derived = ResponseSchema.of(self.expected.schema.id, asked.wire_schema) if asked.native else None
        return {
            **self.rendered.manifest(),
            "session": self.request.session,
            "native": asked.native,
            "derived_schema": derived and derived.diagnostics(),
            "repairs": self.expected.repairs,
        }


def make_ready(request: StructuredRequest, *, registry: PromptRegistry, configuration: Configuration) -> Ready:
    """UnknownPrompt, InvalidTarget, MissingSchema or InvalidInput say what is wrong; no call is made."""
    prompt = registry.prompt(request.prompt)
    schema = schema_for(request, prompt, registry)
    if not 0 <= request.repairs <= MAX_REPAIRS:
        raise InvalidTarget(f"The prompt “{prompt.id}” can be repaired 0 to {MAX_REPAIRS} times.")
    rendered = render(prompt, schema, inputs=request.inputs, variables=request.variables)
    refuse_blind(rendered, configuration)
    instructed = needs_instruction(configuration.routes, schema)
    return Ready(
        request=request,
        rendered=rendered,
        assembly=assemble_structured(rendered, configuration=configuration, instructed=instructed),
        expected=Expected(schema=schema, repairs=request.repairs),
        configuration=with_own_limits(configuration, rounds=request.repairs + 1),
    )


def refuse_blind(rendered: Rendered, configuration: Configuration) -> None:
    """InvalidInput where a picture is given that one of the models can't see which may answer."""
    shown = next((shown for shown in rendered.inputs if shown.image), None)
    blind = next((route.model for route in configuration.routes if not route.model.supports_images), None)
    if shown is not None and blind is not None:
        raise InvalidInput(
            f"The input “{shown.input.name}” of the prompt “{rendered.prompt.id}” is a picture, and the model "
            f"{blind.label or blind.name} takes none. "
            "Choose a configuration whose models take images, or tick “images” at the model if it does.",
            name=shown.input.name,
        )


def schema_for(request: StructuredRequest, prompt: Prompt, registry: PromptRegistry) -> ResponseSchema:
    """What the answer has to fit. A target that no answer can be made into is refused where it gives no schema, too."""
    try:
        of_target = schema_of_type(request.target) if request.target is not None else None
        named = registry.schema(request.schema) if request.schema else None
    except (InvalidTarget, MissingSchema) as error:
        raise type(error)(f"The prompt “{prompt.id}” can't be completed. {error}") from None
    if found := named or prompt.schema or of_target:
        return found
    raise InvalidTarget(f"The prompt “{prompt.id}” has no response schema: name one, or a type for its answer.")


def with_own_limits(configuration: Configuration, *, rounds: int) -> Configuration:
    """With a round for each attempt at least. Nothing is summarized: the answer is about what was given, whole."""
    limits = configuration.limits
    limits = replace(limits, max_rounds=max(limits.max_rounds, rounds), compact_at_percent=0)
    return replace(configuration, limits=limits)
