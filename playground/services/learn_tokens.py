"""Learns from a run that has ended how its provider counts tokens."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import takewhile

from django.db import DatabaseError

from llmcore import site_usage
from llmcore.context.learning import compared
from llmcore.trace import RunStep
from playground.models import Run
from playground.reading.plan import read_plan

logger = logging.getLogger(__name__)


def learn_tokens(*, run: Run, steps: Iterable[RunStep]) -> None:
    """Note what the provider counted against the estimates of `run`. To be called once, after its last write: it is no
    part of the run, which has ended well without it."""
    plan = read_plan(run)
    # What another model counted after a fallback says nothing of this one.
    own = takewhile(lambda step: not step.data.get("falls_back_to"), steps)
    ratio = compared(own).ratio(plan.estimator.ratio)
    if ratio is None or plan.configuration is None:
        return
    try:
        site_usage.learn_tokens(
            provider=plan.configuration["provider"]["slug"],
            model=plan.configuration["model"]["name"],
            tokenizer=plan.estimator.tokenizer,
            ratio=ratio,
        )
    except DatabaseError:
        logger.warning("run %s: how its tokens were counted could not be noted", run.pk, exc_info=True)
