"""What a scripted model says: scenarios made of turns, in code or in JSON files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from llmcore.errors import ConfigurationError
from llmcore.messages import JSON


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """One answer of a scripted model.

    A tool call is `{"name", "arguments"}`: an object, or a string that goes out verbatim, however broken. Its `id` is
    made up unless given; `"id": None` sends none. `usage` is computed unless given; `{}` reports none.

    `status` 400 and above answers with `error` (a text, an object, or nothing for a usual one). With status 200,
    `error` comes as a frame in the stream, after the text. `cut_after_chars` closes the connection after so many
    characters of the answer. `raw` is the whole body, verbatim. `delay_s` passes before the first byte,
    `chunk_delay_s` before each further piece of `chunk_chars` characters.
    """

    text: str = ""
    thinking: str = ""
    tool_calls: tuple[Mapping[str, JSON], ...] = ()
    finish_reason: str | None = None
    usage: Mapping[str, JSON] | None = None
    status: int = 200
    error: Mapping[str, JSON] | str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    chunk_delay_s: float = 0.0
    chunk_chars: int = 12
    cut_after_chars: int | None = None
    raw: str | None = None

    @property
    def fails(self) -> bool:
        return self.status >= 400 or self.error is not None or self.cut_after_chars is not None

    @property
    def called_names(self) -> set[str]:
        return {str(call["name"]) for call in self.tool_calls}

    @classmethod
    def from_json(cls, data: Mapping[str, JSON]) -> Turn:
        values = known_fields(cls, data)
        for name in ("text", "thinking"):
            if name in values:
                values[name] = text_of(values[name])
        values["tool_calls"] = tuple(values.get("tool_calls", ()))
        return cls(**values)


@dataclass(frozen=True, kw_only=True, slots=True)
class Scenario:
    """What a scripted model says in one conversation; a request chooses it by its model name.

    The number of assistant messages in the request chooses the turn among those that don't fail; the last one
    repeats. With `by_last_call` the turn comes after the one whose calls the last assistant message makes, which also
    holds where older messages gave way to a summary. A turn that fails stands in the way of the next one: for ever, or,
    where `times` is given, for so many requests with the same body. After the request that got through, the count
    begins anew, so that each run meets the failure.

    Where no tool may be called (none offered, or `tool_choice` none), `without_tools` is said instead of a turn that
    calls one; with `only_offered` also where a turn calls a tool that was not offered. Where the words of `about` are
    given and none of them is in the user's messages, `otherwise` is said. Of the `cases`, the first whose `about` is
    there is played instead.
    """

    name: str
    turns: tuple[Turn, ...]
    times: int | None = None
    without_tools: str = "I can't look anything up now, so this is as far as I got."
    only_offered: bool = False
    about: tuple[str, ...] = ()
    otherwise: str = ""
    cases: tuple[Scenario, ...] = ()
    by_last_call: bool = False

    def __post_init__(self) -> None:
        if not self.turns:
            raise ConfigurationError(f"The scenario {self.name!r} has no turns.")

    def answered(self, messages: Iterable[Mapping[str, JSON]]) -> int:
        """After how many of its good turns a conversation is, which is given as Chat Completions spells it."""
        said = [message for message in messages if message["role"] == "assistant"]
        if self.by_last_call and said and (called := _calls_of(said[-1])):
            good = (turn for turn in self.turns if not turn.fails)
            for number, turn in enumerate(good, start=1):
                if [(call["name"], call.get("arguments") or {}) for call in turn.tool_calls] == called:
                    return number
        return len(said)

    def obstacles(self, answered: int) -> list[Turn]:
        """The failing turns between the `answered` good turns so far and the next one, each as often as it fails."""
        good = 0
        found = []
        for turn in self.turns:
            if not turn.fails:
                good += 1
            elif good == answered:
                found += [turn] * (1 if self.times is None else self.times)
        return found

    def turn(self, answered: int) -> Turn:
        """The turn after `answered` assistant messages, failures aside."""
        good = [turn for turn in self.turns if not turn.fails] or list(self.turns)
        return good[min(answered, len(good) - 1)]

    @classmethod
    def from_json(cls, data: Mapping[str, JSON]) -> Scenario:
        values = known_fields(cls, data)
        for name in ("without_tools", "otherwise"):
            if name in values:
                values[name] = text_of(values[name])
        values["turns"] = tuple(Turn.from_json(turn) for turn in values.get("turns", ()))
        values["about"] = tuple(values.get("about", ()))
        values["cases"] = tuple(cls.from_json(case) for case in values.get("cases", ()))
        return cls(**values)


def _calls_of(message: Mapping[str, JSON]) -> list[tuple[str, JSON]]:
    functions = (call["function"] for call in message.get("tool_calls") or ())
    return [(function["name"], json.loads(function["arguments"])) for function in functions]


def load_scenarios(path: Path | str) -> dict[str, Scenario]:
    """Read the scenarios of a JSON file (one object, or a list of them), or of all `*.json` files of a folder.

    Texts may be given as lists of lines.
    """
    path = Path(path)
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    scenarios: dict[str, Scenario] = {}
    for file in files:
        content = json.loads(file.read_text(encoding="utf-8"))
        for data in content if isinstance(content, list) else [content]:
            try:
                scenario = Scenario.from_json(data)
            except ConfigurationError as error:
                raise ConfigurationError(f"{file}: {error}") from error
            if scenario.name in scenarios:
                raise ConfigurationError(f"{file}: there are two scenarios named {scenario.name!r}.")
            scenarios[scenario.name] = scenario
    return scenarios


def known_fields(cls: type[Turn] | type[Scenario], data: Mapping[str, JSON]) -> dict[str, Any]:
    known = {f.name for f in fields(cls)}
    if unknown := sorted(set(data) - known):
        raise ConfigurationError(
            f"Unknown key {unknown[0]!r} in a {cls.__name__.lower()}. Choices are: {', '.join(sorted(known))}."
        )
    return dict(data)


def text_of(value: str | list[str]) -> str:
    return value if isinstance(value, str) else "\n".join(value)
