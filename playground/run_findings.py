"""What a run tells about itself at its end."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from llmcore.configuration import Limits
from llmcore.context.estimator import Estimator
from llmcore.findings import RunView, find
from llmcore.messages import JSON
from llmcore.prompts.assembly import Dropped
from llmcore.runs.outcome import EndReason
from llmcore.trace import RunStep
from playground.models import Run

logger = logging.getLogger(__name__)


def findings_of(
    run: Run, steps: Sequence[RunStep], contents: Mapping[str, JSON], *, reason: EndReason
) -> list[dict[str, JSON]]:
    """The findings as `Run.findings` keeps them. A finding that fails must not take the run with it."""
    try:
        return [finding.to_json() for finding in find(view_of(run, steps, contents, reason))]
    except Exception:
        logger.exception("run %s: the findings could not be made", run.pk)
        return []


def view_of(run: Run, steps: Sequence[RunStep], contents: Mapping[str, JSON], reason: EndReason) -> RunView:
    if run.plan is None:
        return RunView(steps=steps, contents=contents, reason=reason)
    return RunView(
        steps=steps,
        contents=contents,
        reason=reason,
        offered=run.plan["gate"]["offered"],
        left_out=run.plan["gate"]["left_out"],
        dropped=[Dropped.from_json(item) for item in run.plan["dropped"]],
        limits=Limits.from_json(run.plan["state"]["limits"]),
        context_window=run.plan["configuration"]["model"]["context_window"],
        estimator=Estimator.from_json(run.plan.get("estimator") or {}),
    )
