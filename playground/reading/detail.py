"""The detail of a step: its facts, its tabs, and the panel of the tab that is open."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from llmcore.trace import StepKind
from playground.deletions import contents_deletion, raw_deletion
from playground.numbers import data_size, duration, money, percent, tokens
from playground.reading.boxes import json_box
from playground.reading.lines import Line
from playground.reading.panels import (
    approval,
    cache,
    compaction,
    failure,
    messages,
    raw,
    request,
    response,
    start,
    thinking,
    tool_run,
    tools,
    validation,
    window,
)
from playground.reading.panels import tokens as tokens_panel
from playground.reading.panels.base import Panel, Query, Tab
from playground.reading.step_actions import StepActions, read_actions
from playground.reading.step_record import StepRecord
from playground.reading.waiting import waits_of

CALL_TABS = (messages, response, thinking, tools, request, raw, tokens_panel, cache)
RULED = {"auto_approve": "approved", "deny": "denied", "require": "asked for"}
ASSEMBLED_TABS = (messages, tools, request, cache)


@dataclass(frozen=True, kw_only=True)
class Detail:
    """What the right-hand side of the inspector shows of a line."""

    record: StepRecord
    tabs: list[Tab]
    tab: Tab
    panel: Panel
    facts: list[str]

    @property
    def line(self) -> Line:
        return self.record.line

    @cached_property
    def actions(self) -> StepActions:
        return read_actions(self.record)

    @property
    def gone(self) -> str:
        """What became of the contents that the tabs would show; empty where they are there."""
        return contents_deletion(self.record.run)

    @property
    def raw_gone(self) -> str:
        """What became of the captured exchange."""
        return raw_deletion(self.record.run)

    @property
    def tab_is_gone(self) -> bool:
        """Whether the open tab lacks what it is for. The captured exchange says so itself."""
        raw = self.tab.slug == "raw" and self.line.css == "call"
        return bool(self.gone) and self.tab.slug not in ("tokens", "request") and not raw

    @property
    def template(self) -> str:
        return f"playground/run/panels/{self.panel.template}.html"


def read_detail(record: StepRecord, slug: str, query: Query) -> Detail:
    """The detail with the tab `slug`, or the step's first where it has no such tab."""
    tabs = tabs_of(record)
    tab = next((tab for tab in tabs if tab.slug == slug), default_tab(record, tabs))
    return Detail(record=record, tabs=tabs, tab=tab, panel=tab.read(record, query), facts=facts_of(record))


def tabs_of(record: StepRecord) -> list[Tab]:
    match record.kind:
        case "start":
            return start.tabs(record)
        case StepKind.ASSEMBLED:
            return [*(module.tab(record) for module in ASSEMBLED_TABS), *window.tabs(record)]
        case StepKind.REQUEST | StepKind.RESPONSE:
            return [*(module.tab(record) for module in CALL_TABS), *window.tabs(record)]
        case StepKind.CONTEXT:
            return window.tabs(record)
        case StepKind.COMPACTION:
            return compaction.tabs(record)
        case StepKind.TOOL_CALL | StepKind.TOOL_RESULT:
            return tool_run.tabs(record)
        case StepKind.ACTION:
            return approval.tabs(record)
        case StepKind.VALIDATION:
            return validation.tabs(record)
        case StepKind.RETRY | StepKind.ERROR:
            return failure.tabs(record)
        case _:
            return [Tab(slug="data", title="Data", read=read_data)]


def default_tab(record: StepRecord, tabs: list[Tab]) -> Tab:
    """A streaming call opens on what comes in, a failed one on how it failed."""
    if record.line.css == "call" and (record.line.running or record.line.failed):
        return next((tab for tab in tabs if tab.slug == "response"), tabs[0])
    return tabs[0]


def read_data(record: StepRecord, query: Query) -> Panel:
    boxes = [json_box("data", "As recorded", dict(record.first.data))]
    return Panel(template="boxes", context={"boxes": boxes}, boxes=tuple(boxes))


def facts_of(record: StepRecord) -> list[str]:
    """The line of facts under the title; figures stand between backticks."""
    line = record.line
    facts = [f"`{duration(line.duration_ms)}`"] if line.duration_ms is not None else []
    if record.kind == "start":
        return [f"`{duration(line.duration_ms)}` in the queue"] if line.duration_ms is not None else []
    if record.kind == StepKind.COMPACTION:
        return [*facts, *_compaction_facts(record)]
    if record.end is None:
        estimate = record.first.data.get("input_tokens_estimate")
        return [*facts, *([f"≈ `{tokens(estimate)}` in"] if estimate else []), *_waited(record)]
    if line.is_tool:
        return facts + _tool_facts(record)
    if line.css == "call":
        return _call_facts(record) if line.sent else _waited(record)
    return facts


def _call_facts(record: StepRecord) -> list[str]:
    assert record.end is not None
    data, line = record.end.data, record.line
    usage = data.get("usage") or {}
    first, cached, reasoning = (
        data.get("first_token_ms"),
        usage.get("cache_read_input_tokens"),
        usage.get("reasoning_output_tokens"),
    )
    facts = [f"`{duration(line.duration_ms)}`" + (f" ({duration(first)} to first token)" if first is not None else "")]
    if usage.get("input_tokens") is not None:
        share = f", {percent(cached, usage['input_tokens'])} cached" if cached and usage["input_tokens"] else ""
        facts.append(f"`{tokens(usage['input_tokens'])}` in{share}")
    if usage.get("output_tokens") is not None:
        facts.append(
            f"`{tokens(usage['output_tokens'])}` out" + (f", {tokens(reasoning)} reasoning" if reasoning else "")
        )
        if speed := _speed(line, first, usage["output_tokens"]):
            facts.append(f"`{speed}` tok/s")
    if data.get("cost") is not None:
        facts.append(f"`{money(data['cost'])}`")
    if data.get("finish_reason"):
        facts.append(f"finish `{data['finish_reason']}`")
    if (data.get("attempts") or 1) > 1:
        facts.append(f"`{data['attempts']}` attempts")
    return facts + _waited(record)


def _waited(record: StepRecord) -> list[str]:
    waited = waits_of(record.own_rows, record.plan) if record.line.css == "call" else ""
    return [waited] if waited else []


def _compaction_facts(record: StepRecord) -> list[str]:
    data = record.first.data
    facts = [f"≈ `{tokens(data.get('tokens_before'))}` to `{tokens(data.get('tokens_after'))}` tokens"]
    if data.get("cost") is not None:
        facts.append(f"`{money(data['cost'])}`")
    return facts


def _speed(line: Line, first_token_ms: float | None, output: int) -> str:
    """Tokens a second from the first one on; no figure where that took no measurable time."""
    streaming = (line.duration_ms or 0.0) - (first_token_ms or 0.0)
    return f"{round(output / streaming * 1000):,}" if first_token_ms is not None and streaming >= 50 else ""


def _tool_facts(record: StepRecord) -> list[str]:
    assert record.end is not None
    data, call = record.end.data, record.first.data
    facts = [f"result `{data_size(data['bytes'])}`"] if data.get("bytes") is not None else []
    if record.line.tokens:
        facts.append(f"≈ `{tokens(record.line.tokens)}` tokens")
    if call.get("rule"):
        facts.append(f"{RULED.get(call.get('ruling') or '', 'ruled')} by the rule “{call['rule']}”")
    if call.get("replaced"):
        facts.append("the tool did not run")
    elif call.get("effect"):
        facts.append(str(call["effect"]).replace("_", " "))
    calls = [line for line in record.lines if line.is_tool]
    if len(calls) > 1:
        facts.append(f"call {calls.index(record.line) + 1} of {len(calls)}")
    return facts
