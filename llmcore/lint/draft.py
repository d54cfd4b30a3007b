"""A request before it is sent, as the notices read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from llmcore.configuration import Configuration
from llmcore.context.budget import WindowUse
from llmcore.context.tokens import Share
from llmcore.prompts.assembly import PromptAssembly
from llmcore.prompts.provenance import Segment
from llmcore.providers.base import ModelCall
from llmcore.tools.gate import Gate


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """The first request of a run: what it is made of, and its `use` of the model's window. `refused` are the parameters
    that are set and don't go out, with the reasons. `override` is the override as it was typed, `chose_tools` whether
    the run names its tools itself."""

    configuration: Configuration
    assembly: PromptAssembly
    call: ModelCall
    gate: Gate
    use: WindowUse
    refused: Mapping[str, str] = field(default_factory=dict)
    override: str | None = None
    replaces: bool = True
    chose_tools: bool = False

    @property
    def tools_tokens(self) -> int:
        return self.use.shares.get(Share.TOOLDEF, 0)

    @property
    def message_tokens(self) -> int:
        return self.use.used - self.tools_tokens

    def text(self, segment: Segment) -> str:
        return self.assembly.messages[segment.message].parts[segment.part].text[segment.start : segment.end]

    def segments(self, *sources: str) -> Sequence[Segment]:
        """The segments from these sources that are of a stored or typed text."""
        return [segment for segment in self.assembly.segments if segment.source in sources and segment.source_id]
