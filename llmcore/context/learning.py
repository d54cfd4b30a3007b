"""How far estimates of tokens were off, and what is learned from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Protocol

from llmcore.trace import StepKind

# Of so many runs the median is taken; with fewer than the least nothing is corrected.
MOST_SAMPLES = 25
LEAST_SAMPLES = 3
# Another ratio has another cause, such as a server that cuts the prompt: nothing is learned from it.
BELIEVED = (0.4, 2.5)
# In fewer tokens the frame around messages outweighs the text.
FEWEST_TOKENS = 50


class Step(Protocol):
    """A recorded step, or the row of one."""

    @property
    def kind(self) -> str: ...
    @property
    def data(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """The prompts of all calls of which both is known: what was estimated before they were sent, and what their
    provider counted."""

    estimated: int
    reported: int

    @property
    def error(self) -> float | None:
        """How much too high the estimate was, as a share of the reported count; negative where it was too low."""
        return (self.estimated - self.reported) / self.reported if self.reported else None

    def ratio(self, correction: float = 1.0) -> float | None:
        """Reported tokens for each one estimated without the `correction` that was in the estimate; `None` where
        nothing can be learned from it."""
        estimated = self.estimated / correction
        if estimated < FEWEST_TOKENS:
            return None
        ratio = self.reported / estimated
        return round(ratio, 4) if BELIEVED[0] <= ratio <= BELIEVED[1] else None


def compared(steps: Iterable[Step]) -> Compared:
    estimated = reported = 0
    estimate: int | None = None
    for step in steps:
        if step.kind == StepKind.REQUEST:
            estimate = step.data.get("input_tokens_estimate")
        elif step.kind == StepKind.RESPONSE:
            counted = (step.data.get("usage") or {}).get("input_tokens")
            if estimate and counted:
                estimated += estimate
                reported += counted
            estimate = None
    return Compared(estimated=estimated, reported=reported)


def correction(ratios: Sequence[float]) -> float:
    """The factor that the last ratios suggest. A median: single runs that went otherwise don't move it."""
    return median(ratios[-MOST_SAMPLES:]) if len(ratios) >= LEAST_SAMPLES else 1.0
