"""What a step adds to what its run is found by: the name of a tool, the text of an error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from llmcore.messages import JSON
from llmcore.trace import RunStep, StepKind

# A run that fails again and again says the same each time.
MAX_ERRORS = 50
TOOL_CHARS = 200


def tool_name(kind: StepKind, data: Mapping[str, JSON]) -> str:
    """The tool that the model called with this step, else nothing. A model can ask for any name at any length."""
    return str(data.get("name") or "")[:TOOL_CHARS] if kind is StepKind.TOOL_CALL else ""


def error_text(kind: StepKind, data: Mapping[str, JSON]) -> str:
    """What failed, in the words of the tool, the provider or this site; else nothing."""
    match kind:
        case StepKind.TOOL_RESULT:
            return str(data.get("preview") or "") if data.get("is_error") else ""
        case StepKind.RESPONSE | StepKind.RETRY:
            return str((data.get("error") or {}).get("message") or "")
        case StepKind.ERROR:
            return f"{data.get('message') or ''} {data.get('advice') or ''}"
    return ""


class SearchableSteps:
    """The steps of a run as they come: which tools were called, and how many errors there were."""

    def __init__(self, steps: Iterable[RunStep] = ()) -> None:
        self.tools: set[str] = set()
        self._errors = 0
        self.add(steps)

    def add(self, steps: Iterable[RunStep]) -> bool:
        """Whether the run can be found by more words than before."""
        before = (len(self.tools), min(self._errors, MAX_ERRORS))
        for step in steps:
            if name := tool_name(step.kind, step.data):
                self.tools.add(name)
            self._errors += bool(error_text(step.kind, step.data))
        return (len(self.tools), min(self._errors, MAX_ERRORS)) != before
