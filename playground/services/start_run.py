"""Starts a run: writes what a person asked for and hands it to a worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self, get_args

from llmcore.configuration import ThinkingEffort

OverrideMode = Literal["replace", "append"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRequest:
    """What a person asks for when starting a run; `None` means "as configured".

    `configuration`, `skills` and `snippets` are slugs; `tools` are names, an empty tuple offers none.
    `system_override` given but empty replaces the system prompt with nothing.
    """

    configuration: str
    prompt: str
    skills: tuple[str, ...] = ()
    snippets: tuple[str, ...] = ()
    system_override: str | None = None
    override_mode: OverrideMode = "replace"
    tools: tuple[str, ...] | None = None
    dry_run: bool = False
    capture_raw: bool = False
    max_rounds: int | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    thinking: ThinkingEffort | None = None
    title: str = ""

    def __post_init__(self) -> None:
        if self.override_mode not in get_args(OverrideMode):
            raise ValueError(f"override_mode is {self.override_mode!r}, not one of {get_args(OverrideMode)}")
        if self.thinking is not None and self.thinking not in get_args(ThinkingEffort):
            raise ValueError(f"thinking is {self.thinking!r}, not one of {get_args(ThinkingEffort)}")

    def to_json(self) -> dict[str, Any]:
        data = asdict(self)
        for name in ("skills", "snippets", "tools"):
            if data[name] is not None:
                data[name] = list(data[name])
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        tuples = {name: tuple(data[name]) for name in ("skills", "snippets", "tools") if data.get(name) is not None}
        return cls(**{**data, **tuples})
