"""What a run tells about itself at its end."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from llmcore.configuration import Limits
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
    plan = run.plan or {}
    gate = plan.get("gate", {})
    view = RunView(
        steps=steps,
        contents=contents,
        reason=reason,
        offered=gate.get("offered", ()),
        left_out=gate.get("left_out", ()),
        dropped=[Dropped.from_json(item) for item in plan.get("dropped", ())],
        limits=Limits.from_json(plan["state"]["limits"]) if plan else Limits(),
    )
    try:
        return [finding.to_json() for finding in find(view)]
    except Exception:
        logger.exception("run %s: the findings could not be made", run.pk)
        return []
