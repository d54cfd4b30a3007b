"""What detection finds, as values."""

from __future__ import annotations

from dataclasses import dataclass

from llmcore.configuration import LanguageModel, ThinkingEffort


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundModel:
    """A model that can be used. `thinking` is what has to be asked of it, `note` what its user should know."""

    model: LanguageModel
    thinking: ThinkingEffort | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundProvider:
    """A service that can be used with what was found. `key_variable` names the variable with its key, if it has one.

    `about` tells in a few words where it was found. `problems` are sentences about what could not be used.
    """

    name: str
    adapter: str
    base_url: str
    about: str
    models: tuple[FoundModel, ...] = ()
    key_variable: str = ""
    problems: tuple[str, ...] = ()
