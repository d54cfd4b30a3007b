"""The whole page of a comparison, from a fixed number of queries and a bounded part of each run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.urls import reverse
from django.utils.http import urlencode

from playground.reading.compare.figures import read_figures, verdict
from playground.reading.compare.prompt import PromptDiff, read_prompt_diff
from playground.reading.compare.requests import RequestPair, read_request_pair
from playground.reading.compare.rounds import read_pairs
from playground.reading.compare.settings import Setting, read_settings
from playground.reading.compare.sides import Side
from playground.reading.compare.texts import WordDiff, word_diff


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """Which part of a comparison is shown, and how: as its address says it. The requests of `a_round` and `b_round` are
    held against each other; `None` leaves the choice to the page."""

    round: int = 1
    a_round: int | None = None
    b_round: int | None = None
    aligned: bool = False
    side_by_side: bool = False

    def address(self, a: int, b: int, **changes: Any) -> str:
        """The address of the comparison of these runs, shown in the same way but for the `changes`."""
        shown = replace(self, **changes)
        query = {"a": a, "b": b, "a_round": shown.a_round, "b_round": shown.b_round, **shown.rest}
        return f"{reverse('playground:compare')}?{urlencode({name: n for name, n in query.items() if n})}"

    @property
    def rest(self) -> dict[str, Any]:
        """What the address says besides the runs and their two requests."""
        chosen = {
            "round": self.round if self.round > 1 else None,
            "align": "round" if self.aligned else None,
            "view": "side" if self.side_by_side else None,
        }
        return {name: value for name, value in chosen.items() if value}


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerDiff:
    """The answers of two runs, where at least one has one. `tokens` are estimates, each as its run made them."""

    words: WordDiff
    tokens: tuple[int, ...]
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
        **requests_context(read_request_pair(sides, (shown.a_round, shown.b_round), user=user), address),
        "shown": shown,
        "side_by_side": shown.side_by_side,
        "swap_url": at(b.run.pk, a.run.pk, a_round=shown.b_round, b_round=shown.a_round),
        "here": address(),
        "view_url": address(side_by_side=not shown.side_by_side),
        "align_url": address(aligned=not shown.aligned),
        "before_url": address(round=rounds.before) if rounds and rounds.before else "",
        "after_url": address(round=rounds.after) if rounds and rounds.after else "",
    }


def read_rounds_of_run(sides: Sequence[Side], shown: Shown, *, user: Any) -> dict[str, Any] | None:
    """The context of the page of two rounds of one run; `None` where it has no two and none is named."""
    run = sides[0].run

    def address(**changes: Any) -> str:
        return shown.address(run.pk, run.pk, **changes)

    pair = read_request_pair(sides, (shown.a_round, shown.b_round), user=user)
    if pair is None or (pair.map is None and not (shown.a_round or shown.b_round)):
        return None
    return {
        **requests_context(pair, address),
        "title": f"Compare rounds of run {run.pk}",
        "run": run,
        "side": sides[0],
        "shown": shown,
        "swap_url": address(a_round=pair.b.round, b_round=pair.a.round),
        "here": address(a_round=pair.a.round, b_round=pair.b.round),
    }


def requests_context(pair: RequestPair | None, address: Callable[..., str]) -> dict[str, Any]:
    """What the panel of two requests shows."""

    def step(by: int) -> str:
        moved = pair.step(by) if pair else None
        return address(a_round=moved[0], b_round=moved[1]) if moved else ""

    return {"pair": pair, "earlier_url": step(-1), "later_url": step(1)}


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


def read_answer(sides: Sequence[Side]) -> AnswerDiff | None:
    a, b = (side.run.answer for side in sides)
    if not a and not b:
        return None
    counted = tuple(side.plan.estimator.text(side.run.answer) for side in sides)
    return AnswerDiff(words=word_diff(a, b), tokens=counted, present=(bool(a), bool(b)))
