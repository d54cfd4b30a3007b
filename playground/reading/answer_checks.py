"""How a run's answers were held to their schema: a line for each of them beside the final answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.safestring import SafeString

from llmcore.trace import StepKind
from playground.models import Run, RunContent
from playground.reading.boxes import parsed
from playground.reading.json_tree import JsonTree
from playground.reading.step_rows import StepRow

# What the page itself lists of each answer; its step has them all.
MOST = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckedAnswer:
    """One answer that was checked, and what is wrong with it: pointers with messages, none where that is not stored."""

    data: Mapping[str, Any]
    sequence: int
    objections: list[Mapping[str, str]]

    @property
    def more(self) -> int:
        return max(int(self.data.get("count") or 0) - len(self.objections), 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerChecks:
    """All checks of a run, and its valid answer as a tree."""

    answers: list[CheckedAnswer]
    tree: SafeString | None = None


def read_checks(run: Run, rows: Iterable[StepRow]) -> AnswerChecks | None:
    """`None` where nothing was checked; one query where something was wrong."""
    checked = [row for row in rows if row.kind == StepKind.VALIDATION]
    if not checked:
        return None
    digests = [row.data["objections"] for row in checked if row.data.get("objections")]
    found = RunContent.objects.filter(run=run, digest__in=digests) if digests else RunContent.objects.none()
    values = dict(found.values_list("digest", "value"))
    answers = [
        CheckedAnswer(
            data=row.data, sequence=row.sequence, objections=(values.get(str(row.data.get("objections"))) or [])[:MOST]
        )
        for row in checked
    ]
    return AnswerChecks(answers=answers, tree=tree_of(run, checked[-1]) if checked[-1].data.get("valid") else None)


def tree_of(run: Run, valid: StepRow) -> SafeString | None:
    """The answer; what of it the page doesn't hold is fetched from the step that checked it."""
    value = parsed(run.answer)
    path = reverse("playground:run_step", args=[run.pk, valid.sequence])
    url = f"{path}?{urlencode({'tab': 'validation', 'box': 'answer'})}"
    return None if value is None else JsonTree(url).value(value)
