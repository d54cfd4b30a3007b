"""What the runs of a comparison were told to do: the settings that differ, and those that don't."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.utils.text import Truncator

from llmcore.configuration import sha256_of_text
from llmcore.prompts.assembly import Source
from playground.numbers import SPACE, tokens
from playground.reading.compare.sides import Side
from playground.reading.compare.texts import Piece

# So many names of a list that all runs have are named; more are counted.
NAMED = 4
NOTHING = "–"
VALUE_CHARS = 80
# What isn't called by the name of its field.
LABELS = {
    "stream": "Streaming",
    "max_rounds": "Rounds allowed",
    "max_tool_result_bytes": "Longest tool result",
    "max_traced_result_bytes": "Longest recorded result",
    "max_parallel_tools": "Tools at a time",
    "skill_budget_bytes": "Skill budget",
    "margin_percent": "Margin of the window",
    "compact_at_percent": "Summarize at",
}
UNITS = {"_bytes": " bytes", "_percent": f"{SPACE}%"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """A setting with its cell for each run. Between two runs, what only one of them has is marked."""

    label: str
    cells: tuple[tuple[Piece, ...], ...]
    same: bool


@dataclass(frozen=True, slots=True)
class _Value:
    """A setting of one run: what is compared, and how it is shown. A list is compared by its names."""

    compared: Any
    shown: str = ""


def read_settings(sides: Sequence[Side]) -> list[Setting]:
    columns = [_values(side) for side in sides]
    labels = dict.fromkeys(label for values in columns for label in values)
    rows = [_setting(label, [values.get(label, ABSENT) for values in columns]) for label in labels]
    return [*rows, *_lists(sides)]


ABSENT = _Value(None, NOTHING)


def _values(side: Side) -> dict[str, _Value]:
    run, plan = side.run, side.plan
    configuration: Mapping[str, Any] = plan.configuration or {}
    provider, model = configuration.get("provider") or {}, configuration.get("model") or {}
    return {
        "Configuration": _text(_named(run.configuration_name, configuration.get("version"))),
        "Model": _text(model.get("name") or run.model_name),
        **({"Served by": _text(run.served_by)} if run.served_by else {}),
        "Provider": _text(provider.get("name")),
        "Wire format": _text(provider.get("adapter")),
        "Override": _override(side),
        **_fields(plan.parameters),
        **_fields(plan.limits),
        "Summarized by": _text((configuration.get("summarizer") or {}).get("name")),
        **_structured(plan.structured),
        "Variables": _variables(run.request.get("variables") or {}),
        "Workspace": _text(configuration.get("workspace")),
        "Goes on from": _text(_origin(side)),
        "Dry run": _plain(run.dry_run),
        "Raw capture": _plain(run.capture_raw),
        "Privacy level": _text(run.privacy_level),
        "Started by": _text(run.user.get_username() if run.user else ""),
    }


def _structured(manifest: Mapping[str, Any] | None) -> dict[str, _Value]:
    """The prompt of a pack, its inputs and its schema, each by its digest."""
    if manifest is None:
        return {}
    schema = manifest["schema"]
    inputs = {f"Input {given['name']}": _digested("", given["sha256"]) for given in manifest["inputs"]}
    return {
        "Prompt of a pack": _digested(manifest["prompt"], manifest["fingerprint"]),
        "Response schema": _digested(schema["id"], schema["sha256"]),
        "Held to the schema": _text("by the provider" if manifest["native"] else "told in the prompt"),
        "Repairs allowed": _plain(manifest["repairs"]),
        **inputs,
    }


def _digested(name: str, digest: str) -> _Value:
    return _Value([name, digest], f"{name} {digest[:12]}".strip())


def _lists(sides: Sequence[Side]) -> list[Setting]:
    return [
        _list("Skills", [_sources(side, Source.SKILL) for side in sides]),
        _list("Snippets", [_sources(side, Source.SNIPPET) for side in sides]),
        _list("Tools", [dict.fromkeys(side.plan.offered) for side in sides]),
        _list("Tools that don't run", [_replaced(side) for side in sides]),
    ]


def _setting(label: str, values: Sequence[_Value]) -> Setting:
    same = all(value.compared == values[0].compared for value in values)
    marked = not same and len(values) == 2
    cells = tuple((Piece(value.shown, only=marked and value.shown != NOTHING),) for value in values)
    return Setting(label=label, cells=cells, same=same)


def _list(label: str, columns: Sequence[Mapping[str, int | None]]) -> Setting:
    """Names with their versions: a version is told where the runs had different ones."""
    same = all(list(column.items()) == list(columns[0].items()) for column in columns)
    return Setting(label=label, cells=tuple(_cell(column, columns) for column in columns), same=same)


def _cell(column: Mapping[str, int | None], columns: Sequence[Mapping[str, int | None]]) -> tuple[Piece, ...]:
    if not column:
        return (Piece(NOTHING),)
    everywhere = [n for n in column if all(n in other and other[n] == column[n] for other in columns)]
    other = [name for name in column if name not in everywhere]
    words = []
    if len(everywhere) > NAMED and other:
        words.append(Piece(f"{len(everywhere)} in {'both' if len(columns) == 2 else 'all'}"))
    elif everywhere:
        words.append(Piece(", ".join(everywhere)))
    words += [Piece(_with_version(name, column[name], columns), only=len(columns) == 2) for name in other]
    pieces = [piece for word in words for piece in (Piece(", "), word)]
    return tuple(pieces[1:])


def _with_version(name: str, version: int | None, columns: Sequence[Mapping[str, int | None]]) -> str:
    versions = {column[name] for column in columns if name in column}
    return f"{name} v{version}" if len(versions) > 1 else name


def _sources(side: Side, source: Source) -> dict[str, int | None]:
    """Those that are really in the prompt; the guard sentence before the skills is none, nor are the files of a prompt
    of a pack."""
    if side.plan.structured is not None:
        return {}
    return {
        segment.source_id: segment.version
        for segment in side.plan.segments
        if segment.source is source and segment.source_id
    }


def _replaced(side: Side) -> dict[str, int | None]:
    words = {"recorded": "recorded results", "typed": "typed-in result", "ask": "asks each time"}
    asked = side.run.request.get("replacements") or ()
    return {f"{item['tool']} ({words.get(item['mode'], item['mode'])})": None for item in asked}


def _override(side: Side) -> _Value:
    text = side.run.request.get("system_override")
    if text is None:
        return ABSENT
    mode = side.run.request.get("override_mode") or "replace"
    found = [segment.tokens for segment in side.plan.segments if segment.source is Source.OVERRIDE]
    size = f", {tokens(sum(found))}{SPACE}tok" if found else ", empty" if not text and not side.lacks else ""
    return _Value((mode, sha256_of_text(text), sum(found)), f"{mode}{size}")


def _fields(values: Mapping[str, Any] | None) -> dict[str, _Value]:
    return {
        LABELS.get(name, name.replace("_", " ").capitalize()): _measured(name, _plain(value))
        for name, value in (values or {}).items()
    }


def _measured(name: str, value: _Value) -> _Value:
    """With the unit that the name of the field says."""
    unit = next((unit for ending, unit in UNITS.items() if name.endswith(ending)), "")
    return value if value is ABSENT or not unit else replace(value, shown=f"{value.shown.removesuffix('.0')}{unit}")


def _variables(values: Mapping[str, str]) -> _Value:
    shown = ", ".join(f"{name} = {Truncator(value).chars(VALUE_CHARS)}" for name, value in values.items())
    return _Value(dict(values), shown or NOTHING)


def _origin(side: Side) -> str:
    if side.run.forked_at_round is None:
        return ""
    return f"run {side.run.parent_id}, round {side.run.forked_at_round}" if side.run.parent_id else "a deleted run"


def _named(name: str, version: int | None) -> str:
    return f"{name}, version {version}" if version else name


def _text(value: str | None) -> _Value:
    return _Value(value or "", value or NOTHING)


def _plain(value: Any) -> _Value:
    match value:
        case None | [] | ():
            return ABSENT
        case bool():
            return _Value(value, "yes" if value else "no")
        case int():
            return _Value(value, f"{value:,}")
        case list():
            return _Value(value, ", ".join(map(str, value)))
    return _Value(value, str(value))
