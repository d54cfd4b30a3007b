"""How the pages speak of estimated token counts."""

from __future__ import annotations

from llmcore.context.estimator import Estimator
from llmcore.context.learning import LEAST_SAMPLES
from playground.numbers import plural


def how_counted(estimator: Estimator) -> str:
    """How an estimate came about, in a sentence."""
    how = (
        f"Counted with the vocabulary {estimator.tokenizer}" if estimator.tokenizer else "Estimated by a rule of thumb"
    )
    if estimator.samples >= LEAST_SAMPLES:
        return f"{how}, × {estimator.ratio:.2f} as {plural(estimator.samples, 'run')} of this model taught."
    return f"{how}; runs of this model correct it from the third on."
