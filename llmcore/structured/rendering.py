"""A prompt of a pack with its inputs and variables put in: the messages, the source of each span, and its identity."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from llmcore.configuration import Configuration
from llmcore.context.estimator import Estimator
from llmcore.errors import InvalidInput
from llmcore.messages import JSON, Message, Part, digest_of
from llmcore.prompts.assembly import PromptAssembly
from llmcore.prompts.provenance import Dropped, DropReason, Segment, Source
from llmcore.prompts.variables import Filled, ValueSpan, VariableUse, fill
from llmcore.structured.expected import instruction
from llmcore.structured.images import with_images
from llmcore.structured.inputs import Material, ShownInput, show
from llmcore.structured.packs import MountedEntry, Prompt, Tier
from llmcore.structured.response_schema import ResponseSchema

FORMAT_ID = "output-format"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rendered:
    """A prompt with what it was given."""

    prompt: Prompt
    schema: ResponseSchema
    inputs: tuple[ShownInput, ...]
    variables: Mapping[str, str]

    @property
    def checkpoint_key(self) -> str:
        """SHA-256 over prompt, response schema and what is shown of the inputs: results under this key can be used
        again, since a change of any of them gives another key. Nothing else changes it, whoever answers."""
        return digest_of(
            {
                "prompt": self.prompt.fingerprint,
                "schema": self.schema.sha256,
                # Their blocks name the types.
                "inputs": {shown.input.name: [shown.media_type, shown.sha256] for shown in self.inputs},
                "variables": dict(self.variables),
            }
        )

    def manifest(self) -> dict[str, JSON]:
        """What was used, by names, digests and counts; no contents of files or inputs."""
        return {
            "prompt": self.prompt.id,
            "title": self.prompt.title,
            "fingerprint": self.prompt.fingerprint,
            "entries": [entry.to_json() for entry in self.prompt.entries],
            "inputs": [shown.manifest() for shown in self.inputs],
            "schema": self.schema.diagnostics(),
            "checkpoint_key": self.checkpoint_key,
        }


def render(
    prompt: Prompt,
    schema: ResponseSchema,
    *,
    inputs: Mapping[str, Material],
    variables: Mapping[str, str],
) -> Rendered:
    """InvalidInput names the prompt, and the input or variable that is missing, unknown or unreadable."""
    known = {input.name for input in prompt.inputs}
    if unknown := sorted(set(inputs) - known):
        raise InvalidInput(f"The prompt “{prompt.id}” has no input {', '.join(unknown)}.", name=unknown[0])
    if unknown := sorted(set(variables) - set(prompt.variables)):
        raise InvalidInput(f"The prompt “{prompt.id}” has no variable {', '.join(unknown)}.", name=unknown[0])
    values: dict[str, str] = {}
    for name, default in prompt.variables.items():
        value = variables.get(name, default)
        if value is None or not value.strip():
            raise InvalidInput(f"The prompt “{prompt.id}” needs a value for the variable “{name}”.", name=name)
        values[name] = value
    shown = tuple(show(input, inputs.get(input.name), prompt=prompt.id) for input in prompt.inputs)
    return Rendered(prompt=prompt, schema=schema, inputs=shown, variables=values)


def assemble_structured(
    rendered: Rendered,
    *,
    configuration: Configuration,
    instructed: bool,
    estimate: Callable[[str], int] | None = None,
) -> PromptAssembly:
    """The messages of a completion: the entries of the prompt in their order and, where a model is not held to the
    schema by its provider, one that says what is wanted, before what changes from call to call."""
    estimate = estimate or Estimator.of(configuration.model).text
    blocks = {shown.input.name: shown.block for shown in rendered.inputs}
    images = {shown.input.name: shown for shown in rendered.inputs if shown.image}
    messages: list[Message] = []
    segments: list[Segment] = []
    entries = list(rendered.prompt.entries)
    at = instruction_place(entries) if instructed else None
    for number, entry in enumerate(entries):
        if number == at:
            # It ends the stable part now.
            moved = messages and entries[number - 1].boundary
            _add_instruction(rendered.schema, messages, segments, estimate, boundary=bool(moved))
        filled = fill(entry.text, {**rendered.variables, **blocks})
        boundary = entry.boundary and number + 1 != at
        of_text = _segments(entry, filled, blocks, len(messages), estimate)
        parts, own = with_images(filled, of_text, images, estimate)
        segments += own
        messages.append(Message(role=entry.role, parts=(*parts[:-1], replace(parts[-1], cache_boundary=boundary))))
    if at == len(entries):
        _add_instruction(rendered.schema, messages, segments, estimate, boundary=entries[-1].boundary)
    return PromptAssembly(
        messages=tuple(messages),
        segments=tuple(segments),
        dropped=tuple(_left_out(configuration, estimate)),
        fingerprint=rendered.checkpoint_key,
        variables=tuple(
            VariableUse(name=name, places=tuple(_places(entries, name)), resolved=True) for name in rendered.variables
        ),
    )


def instruction_place(entries: list[MountedEntry]) -> int:
    """Before the first entry of those at the end that change from call to call."""
    place = len(entries)
    while place and entries[place - 1].tier is Tier.TAIL:
        place -= 1
    # A prompt that has nothing else begins with what changes.
    return place or len(entries)


def _add_instruction(
    schema: ResponseSchema,
    messages: list[Message],
    segments: list[Segment],
    estimate: Callable[[str], int],
    *,
    boundary: bool,
) -> None:
    text = instruction(schema)
    label = f"Output format: {schema.id}"
    segments.append(_segment(Source.SNIPPET, FORMAT_ID, label, len(messages), 0, text, estimate))
    messages.append(Message(role="user", parts=(Part(text=text, cache_boundary=boundary),)))


def _segments(
    entry: MountedEntry, filled: Filled, blocks: Mapping[str, str], message: int, estimate: Callable[[str], int]
) -> Iterator[Segment]:
    """The text of a file around the inputs that are placed in it."""
    start = 0
    values: list[ValueSpan] = []
    for span in (*filled.values, None):
        if span is not None and span.name not in blocks:
            values.append(ValueSpan(span.name, span.start - start, span.end - start))
            continue
        end = len(filled.text) if span is None else span.start
        if text := filled.text[start:end]:
            yield _segment(Source.SNIPPET, entry.path, entry.path, message, start, text, estimate, values=tuple(values))
        if span is not None:
            text = filled.text[span.start : span.end]
            yield _segment(Source.USER, span.name, f"Input {span.name}", message, span.start, text, estimate)
            start, values = span.end, []


def _segment(
    source: Source,
    source_id: str,
    label: str,
    message: int,
    start: int,
    text: str,
    estimate: Callable[[str], int],
    values: tuple[ValueSpan, ...] = (),
) -> Segment:
    return Segment(
        source=source,
        source_id=source_id,
        label=label,
        message=message,
        part=0,
        start=start,
        end=start + len(text),
        tokens=estimate(text),
        values=values,
    )


def _places(entries: list[MountedEntry], name: str) -> Iterator[str]:
    return (entry.path for entry in entries if name in fill(entry.text, {}).names)


def _left_out(configuration: Configuration, estimate: Callable[[str], int]) -> Iterator[Dropped]:
    """The texts of the configuration: a prompt of a pack is all that is said."""
    texts = [(Source.CONFIG, configuration.slug, "Configuration prompt", configuration.system_prompt, configuration.id)]
    snippets = {snippet.slug: snippet for snippet in (*configuration.snippets, *configuration.tagged_snippets)}
    texts += [(Source.SNIPPET, item.slug, item.name, item.body, item.id) for item in snippets.values()]
    texts += [(Source.SKILL, item.slug, item.name, item.body, item.id) for item in configuration.skills]
    for source, source_id, label, text, object_id in texts:
        if text.strip():
            yield Dropped(
                source=source,
                source_id=source_id,
                label=label,
                reason=DropReason.OUTSIDE_PACK,
                detail="The prompt of the pack is sent alone; of the configuration, model and parameters are used.",
                tokens=estimate(text),
                object_id=object_id,
            )
