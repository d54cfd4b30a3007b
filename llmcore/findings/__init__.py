"""Explains a run: a list of detected problems, each with the step that shows it."""

from llmcore.findings import answer, limits, prompt, provider, replaced, tools, usage
from llmcore.findings.finding import Finding, Severity
from llmcore.findings.registry import find
from llmcore.findings.view import RunView

__all__ = [
    "Finding",
    "RunView",
    "Severity",
    "answer",
    "find",
    "limits",
    "prompt",
    "provider",
    "replaced",
    "tools",
    "usage",
]
