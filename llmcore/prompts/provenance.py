"""Where each piece of a prompt comes from, and why a piece is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Self

from llmcore.prompts.variables import ValueSpan


class Source(StrEnum):
    """Where a piece of the prompt comes from."""

    CONFIG = "config"
    OVERRIDE = "override"
    SNIPPET = "snippet"
    SKILL = "skill"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    TOOLDEF = "tooldef"


class DropReason(StrEnum):
    """Why a source was left out of the prompt."""

    DISABLED = "disabled"
    CHECKSUM_MISMATCH = "checksum_mismatch"
    OVER_BUDGET = "over_budget"
    BELOW_TRUST = "below_trust"
    EMPTY = "empty"
    DUPLICATE = "duplicate"
    NO_USER_MESSAGE = "no_user_message"
    OVERRIDDEN = "overridden"
    OUTSIDE_PACK = "outside_pack"  # a text of the configuration, where a prompt of a pack is all that is said


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """One span of the assembled messages with its source: characters `start` to `end` of part `part` of message
    `message` (all counted from 0). `note` says what is unusual ("forced although disabled"). `values` are the spans
    that variables were filled with, counted from `start`."""

    source: Source
    source_id: str
    label: str
    message: int
    part: int
    start: int
    end: int
    tokens: int
    forced: bool = False
    note: str = ""
    object_id: int | None = None
    version: int | None = None
    values: tuple[ValueSpan, ...] = ()

    def to_json(self) -> dict[str, Any]:
        spans = [[span.name, span.start, span.end] for span in self.values]
        return {**asdict(self), "source": self.source.value, "values": spans}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        spans = tuple(ValueSpan(*span) for span in data.get("values") or ())
        return cls(**{**data, "source": Source(data["source"]), "values": spans})


@dataclass(frozen=True, kw_only=True, slots=True)
class Dropped:
    """A source that did not make it into the prompt, with the reason in words (`detail`)."""

    source: Source
    source_id: str
    label: str
    reason: DropReason
    detail: str
    tokens: int = 0
    forced: bool = False
    object_id: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "source": self.source.value, "reason": self.reason.value}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(**{**data, "source": Source(data["source"]), "reason": DropReason(data["reason"])})
