"""The whole page of a comparison, from a fixed number of queries and a bounded part of each run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.urls import reverse
from django.utils.http import urlencode

from llmcore.context.tokens import estimate_tokens
from playground.models import RunStep
from playground.reading.cache_map import CacheMap, read_cache_map
from playground.reading.compare.figures import read_figures, verdict
from playground.reading.compare.prompt import PromptDiff, read_prompt_diff
from playground.reading.compare.rounds import read_pairs
from playground.reading.compare.settings import Setting, read_settings
from playground.reading.compare.sides import Side
from playground.reading.compare.texts import WordDiff, word_diff
from playground.reading.step_record import REQUESTS, StepRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """Which part of a comparison is shown, and how: as its address says it."""

    round: int = 1
    aligned: bool = False
    side_by_side: bool = False

    def address(self, a: int, b: int, **changes: Any) -> str:
        values = {"round": self.round, "align": self.aligned, "view": self.side_by_side, **changes}
        query: dict[str, Any] = {"a": a, "b": b}
        if values["round"] > 1:
            query["round"] = values["round"]
        if values["align"]:
            query["align"] = "round"
        if values["view"]:
            query["view"] = "side"
        return f"{reverse('playground:compare')}?{urlencode(query)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerDiff:
    """The answers of two runs, where at least one has one. `tokens` are estimates."""

    words: WordDiff
    tokens: tuple[int, int]
    present: tuple[bool, bool]


def read_comparison(sides: Sequence[Side], shown: Shown, *, user: Any) -> dict[str, Any]:
    """The context of the page of two runs."""
    a, b = sides
    settings, prompt = read_settings(sides), read_prompt_diff(sides)
    rounds = read_pairs(sides, at=shown.round, aligned=shown.aligned)
    at = shown.address

    def address(**changes: Any) -> str:
        return at(a.run.pk, b.run.pk, **changes)

    return {
        **settings_context(settings),
        "title": f"Compare run {a.run.pk} with run {b.run.pk}",
        "sides": sides,
        "a": a,
        "b": b,
        "summary": summary_of(settings, prompt),
        "figures": read_figures(sides),
        "verdict": verdict(sides),
        "rounds": rounds,
        "prompt": prompt,
        "answer": read_answer(sides),
        "map": read_prefix(sides, user=user),
        "side_by_side": shown.side_by_side,
        "swap_url": at(b.run.pk, a.run.pk),
        "here": address(),
        "view_url": address(view=not shown.side_by_side),
        "align_url": address(align=not shown.aligned),
        "before_url": address(round=rounds.before) if rounds and rounds.before else "",
        "after_url": address(round=rounds.after) if rounds and rounds.after else "",
    }


def read_table(sides: Sequence[Side]) -> dict[str, Any]:
    """The context of the page of more than two runs."""
    return {
        **settings_context(read_settings(sides)),
        "title": f"Compare {len(sides)} runs",
        "sides": sides,
        "figures": read_figures(sides),
    }


def settings_context(settings: Sequence[Setting]) -> dict[str, Any]:
    return {
        "different": [setting for setting in settings if not setting.same],
        "identical": [setting for setting in settings if setting.same],
    }


def summary_of(settings: Sequence[Setting], prompt: PromptDiff | None) -> str:
    """The line under the title: how much differs."""
    count = sum(not setting.same for setting in settings)
    words = "1 setting differs" if count == 1 else f"{count} settings differ" if count else "no setting differs"
    if prompt is None:
        return words.capitalize()
    return f"{words}, {'same' if prompt.same_user_prompt else 'another'} user prompt".capitalize()


def read_prefix(sides: Sequence[Side], *, user: Any) -> CacheMap | None:
    """What the first request of B has in common with that of A; `None` where one of them made none."""
    records = []
    for side in sides:
        steps = RunStep.objects.filter(run=side.run, kind__in=REQUESTS).order_by("sequence")
        if (sequence := steps.values_list("sequence", flat=True).first()) is None:
            return None
        records.append(StepRecord(side.run, sequence, user=user))
    return read_cache_map(*records)


def read_answer(sides: Sequence[Side]) -> AnswerDiff | None:
    a, b = (side.run.answer for side in sides)
    if not a and not b:
        return None
    return AnswerDiff(
        words=word_diff(a, b), tokens=(estimate_tokens(a), estimate_tokens(b)), present=(bool(a), bool(b))
    )
