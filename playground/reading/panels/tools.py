"""Tools offered: their definitions as the model got them, their use in the run, and why others were left out."""

from __future__ import annotations

from dataclasses import dataclass

from llmcore.messages import ToolSpec
from llmcore.trace import StepKind
from playground.models import RunStep
from playground.reading.boxes import Box, json_box
from playground.reading.panels.base import Panel, Query, Tab
from playground.reading.step_record import StepRecord

IN_THIS_ROUND, IN_ANOTHER, NEVER = "called in this round", "called in another round", "never called"


@dataclass(frozen=True, kw_only=True, slots=True)
class OfferedTool:
    """A tool as it was offered."""

    spec: ToolSpec
    tokens: int
    use: str
    box: Box

    @property
    def called_here(self) -> bool:
        return self.use == IN_THIS_ROUND


def tab(record: StepRecord) -> Tab:
    names = record.first.data.get("tool_names") or ()
    return Tab(slug="tools", title="Tools offered", note=str(len(names)) if names else "", read=read)


def read(record: StepRecord, query: Query) -> Panel:
    digest = record.first.data.get("tools")
    specs = [ToolSpec.from_json(spec) for spec in record.content(digest) or ()] if digest else []
    steps = RunStep.objects.filter(run=record.run, kind=StepKind.TOOL_CALL.value)
    rounds: dict[str, set[int]] = {}
    for number, name in steps.values_list("round", "data__name"):
        rounds.setdefault(name, set()).add(number)

    def use(name: str) -> str:
        called = rounds.get(name, set())
        return IN_THIS_ROUND if record.line.round in called else IN_ANOTHER if called else NEVER

    tools = [
        OfferedTool(
            spec=spec,
            tokens=record.plan.estimator.tools([spec]),
            use=use(spec.name),
            box=json_box(f"tool-{index}", f"Parameters of {spec.name}", spec.parameters),
        )
        for index, spec in enumerate(specs)
    ]
    context = {
        "tools": tools,
        "tokens": sum(tool.tokens for tool in tools),
        "unused_tokens": sum(tool.tokens for tool in tools if tool.use == NEVER),
        "unused": sum(tool.use == NEVER for tool in tools),
        "tool_choice": record.first.data.get("tool_choice"),
        "left_out": record.plan.left_out,
        "warnings": record.plan.warnings,
        "last": record.first.data.get("last"),
        "gone": bool(digest and not specs),
        "tool_names": record.first.data.get("tool_names") or (),
    }
    return Panel(template="tools", context=context, boxes=tuple(tool.box for tool in tools))
