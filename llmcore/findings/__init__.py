"""Explains a run: a list of detected problems, each with the step that shows it."""

from llmcore.findings import (
    answer,
    approvals,
    budgets,
    cache,
    compaction,
    limits,
    permits,
    prompt,
    provider,
    replaced,
    tools,
    usage,
)
from llmcore.findings.finding import Finding, Severity
from llmcore.findings.registry import find
from llmcore.findings.view import RunView

__all__ = [
    "Finding",
    "RunView",
    "Severity",
    "answer",
    "approvals",
    "budgets",
    "cache",
    "compaction",
    "find",
    "limits",
    "permits",
    "prompt",
    "provider",
    "replaced",
    "tools",
    "usage",
]
