"""Notices about the tools that are offered, and those that are not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations

from llmcore.findings.finding import Severity, code, tokens
from llmcore.lint.draft import Draft
from llmcore.lint.notice import Notice, configuration, field
from llmcore.lint.registry import check
from llmcore.tools.gate import LeftOutReason

# Fewer cost too little to think about.
_MANY_TOKENS = 500
# In shorter names one letter is a word.
_SHORTEST_ALIKE = 5
_MOST_COMPARED = 100


@check
def names_alike(draft: Draft) -> Iterator[Notice]:
    """Models mix up tools whose names differ in a letter, in the order of their words or in how these are joined."""
    names = [tool.name for tool in draft.call.tools][:_MOST_COMPARED]
    for first, second in combinations(names, 2):
        if alike(first, second):
            yield Notice(
                id="tools_alike",
                severity=Severity.WARNING,
                title=f"The tools {code(first)} and {code(second)} have nearly the same name",
                detail="A model may call one and mean the other. Offer one of them, or rename it.",
                fix=field(f"tool_{second}", "Tools"),
            )


def alike(first: str, second: str) -> bool:
    words = [sorted(name.lower().replace("-", "_").replace(".", "_").split("_")) for name in (first, second)]
    if words[0] == words[1]:
        return True
    plain = ["".join(char for char in name.lower() if char.isalnum()) for name in (first, second)]
    return plain[0] == plain[1] or (min(map(len, plain)) >= _SHORTEST_ALIKE and _one_letter_apart(*plain))


def _one_letter_apart(first: str, second: str) -> bool:
    """Whether one of them becomes the other by changing, adding or removing one character."""
    short, long = sorted((first, second), key=len)
    if len(long) - len(short) > 1:
        return False
    start = next((index for index, char in enumerate(short) if char != long[index]), len(short))
    return short[start + (len(short) == len(long)) :] == long[start + 1 :]


@check
def larger_than_the_prompt(draft: Draft) -> Iterator[Notice]:
    if draft.tools_tokens >= _MANY_TOKENS and draft.tools_tokens > draft.message_tokens:
        yield Notice(
            id="definitions_over_prompt",
            severity=Severity.NOTE,
            title="The tool definitions are larger than the prompt",
            detail="They come again with each round. Offer fewer tools, or shorten their descriptions.",
            impact=f"{tokens(draft.tools_tokens)} a round",
            fix=field(f"tool_{draft.call.tools[0].name}", "Tools"),
        )


@check
def not_offered(draft: Draft) -> Iterator[Notice]:
    """What was asked for, by name or by the configuration, and is not offered."""
    beside_the_point = {LeftOutReason.NOT_REQUESTED}
    if not draft.chose_tools:
        beside_the_point.add(LeftOutReason.NOT_IN_CONFIGURATION)
    by_detail: dict[tuple[LeftOutReason, str], list[str]] = defaultdict(list)
    for left in draft.gate.left_out:
        if left.reason not in beside_the_point:
            by_detail[left.reason, left.detail].append(left.name)
    for (_reason, detail), names in by_detail.items():
        yield Notice(
            id="tools_not_offered",
            severity=Severity.WARNING,
            title=f"{_counted(names)} not offered: {', '.join(names)}",
            detail=f"{detail[:1].upper()}{detail[1:]}.",
            fix=configuration(draft.configuration.id),
        )


@check
def unknown_to_this_site(draft: Draft) -> Iterator[Notice]:
    for warning in draft.gate.warnings:
        yield Notice(id="skill_names_unknown_tools", severity=Severity.WARNING, title=warning.rstrip("."))


def _counted(names: Sequence[str]) -> str:
    return "1 tool" if len(names) == 1 else f"{len(names)} tools"
