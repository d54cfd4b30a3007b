"""Prints a run to a terminal as it happens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.core.management.base import OutputWrapper
from django.core.management.color import Style

from llmcore.findings import Finding
from llmcore.messages import JSON, Message
from llmcore.runs.outcome import RunStatus
from llmcore.trace import RunStep, StepKind
from playground.loop_thread import PartialText, Recorded, Watched
from playground.models import Run
from playground.numbers import data_size, duration, money, plural, tokens
from playground.reading.waiting import in_line

GOOD = (RunStatus.COMPLETED, RunStatus.DRY_RUN)


class RunPrinter:
    """Turns the items of a driven run into lines. What models and tools say is printed without control characters.

    `redact` removes secrets from each line.
    """

    def __init__(self, out: OutputWrapper, style: Style, redact: Callable[[str], str]) -> None:
        self.closed = False
        self._out = out
        self._style = style
        self._answer = ""
        self._redact = redact
        self._waits = False

    def started(self, run: Run) -> None:
        self._line(self._style.MIGRATE_HEADING(f"Run {run.pk}: {run.configuration_name}, {run.model_name}"))

    def item(self, item: Watched) -> None:
        if isinstance(item, Recorded):
            self._step(item.step, item.contents)
        elif isinstance(item, PartialText) and item.waiting and not self._waits:
            # Once for each wait: a log has no place that changes.
            self._waits = True
            self._line(f"  {in_line(item.waiting)} …")

    def ended(self, run: Run) -> None:
        status = run.get_status_display() if run.status == run.reason else f"{run.get_status_display()}: {run.reason}"
        style = self._style.SUCCESS if run.status in GOOD else self._style.ERROR
        figures = [plural(run.rounds, "round"), plural(run.tool_calls, "tool call"), duration(run.wall_ms)]
        figures += [used(run.input_tokens, run.output_tokens), money(run.cost)]
        # A site may store no answers; whoever sits here gets it all the same.
        if answer := run.answer or self._answer:
            self._line("")
            self._line(printable(answer))
        self._line("")
        self._line(f"{style(status)}  {' · '.join(filter(None, figures))}")
        if run.status == RunStatus.AWAITING_APPROVAL:
            self._line("Decide on the run's page or under “Proposed actions”; a worker goes on with it then.")
        if run.detail:
            self._line(printable(run.detail))
        if run.error and run.error.get("advice"):
            self._line(printable(run.error["advice"]))
        for finding in run.findings:
            self._line(self._style.WARNING(f"{finding['severity']}: ") + printable(Finding.from_json(finding).text))

    def _step(self, step: RunStep, contents: Mapping[str, JSON]) -> None:
        data: Mapping[str, Any] = step.data
        match step.kind:
            case StepKind.REQUEST:
                self._line(self._style.MIGRATE_LABEL(f"Round {step.round}") + f"  {request_facts(data)}")
            case StepKind.ASSEMBLED:
                self._line(f"{data['method']} {data['url']}  {request_facts(data)}")
                self._line(f"SHA-256 {data['body_sha256']}")
                self._line(printable(contents.get(data["body"], "")))
            case StepKind.COMPACTION:
                self._compaction(data)
            case StepKind.RESPONSE:
                self._response(step, contents.get(data["message"]))
            case StepKind.ACTION if data["event"] == "proposed":
                self._line(self._style.WARNING("  ? ") + f"{printable(data['name'])} needs approval")
            case StepKind.TOOL_CALL:
                self._line(f"  → {printable(data['name'])} {printable(data['preview'])}")
            case StepKind.TOOL_RESULT:
                mark = self._style.ERROR("✗") if data["is_error"] else self._style.SUCCESS("✓")
                said = printable(data["preview"])
                self._line(f"  {mark} {printable(data['name'])} {duration(step.duration_ms)}  {said}")
            case StepKind.VALIDATION:
                self._validation(data, contents.get(data["objections"] or ""))
            case StepKind.PERMIT:
                self._waits = False
                self._line(f"  waited {duration(step.duration_ms)} for a permit")
            case StepKind.RETRY:
                said = printable(str(data["error"]["message"]))
                failed = f"  attempt {data['attempt']} failed, again in {data['wait_s']:.1f} s: "
                self._line(self._style.WARNING(failed) + said)
            case StepKind.ERROR:
                self._line(self._style.ERROR("  error: ") + printable(data["message"]))

    def _validation(self, data: Mapping[str, Any], objections: JSON) -> None:
        if data["valid"]:
            self._line(self._style.SUCCESS("  ✓ ") + f"valid against {data['schema']}")
            return
        self._line(self._style.WARNING("  ✗ ") + f"not valid against {data['schema']}: {data['count']}")
        for objection in objections or ():
            self._line(printable(f"    {objection['pointer'] or '(the whole)'}: {objection['message']}"))

    def _compaction(self, data: Mapping[str, Any]) -> None:
        how = "left out, without a summary" if data["problem"] else "summarized"
        size = f"about {tokens(data['tokens_before'])} to {tokens(data['tokens_after'])} tokens"
        self._line(self._style.WARNING(f"  {plural(data['messages'], 'old message')} {how}: ") + size)

    def _response(self, step: RunStep, message: JSON) -> None:
        usage = step.data["usage"] or {}
        tokens_used = used(usage.get("input_tokens"), usage.get("output_tokens"))
        facts = (duration(step.duration_ms), tokens_used, step.data["finish_reason"])
        self._line(f"  ← {' · '.join(filter(None, facts))}")
        if step.data["error"]:
            self._line(self._style.ERROR("  error: ") + printable(step.data["error"]["message"]))
        said = Message.from_json(message).text if message else ""
        # The last answer is printed whole at the end.
        self._answer = said
        if step.data["calls"]:
            for line in printable(said).splitlines():
                self._line(f"    {line}")

    def _line(self, text: str) -> None:
        if self.closed:
            return
        try:
            self._out.write(self._redact(text))
            self._out.flush()
        except BrokenPipeError:
            # Whoever read has seen enough (`| head`); the run is not theirs alone.
            self.closed = True


def request_facts(data: Mapping[str, Any]) -> str:
    tools = plural(len(data["tool_names"]), "tool") if data["tool_names"] else "no tools"
    return f"{plural(data['messages'], 'message')} · {tools} · {data_size(data['body_bytes'])}"


def used(sent: int | None, received: int | None) -> str:
    """The tokens of a call or run, empty where nothing is known."""
    return "" if sent is None and received is None else f"{tokens(sent) or '?'} + {tokens(received) or '?'} tokens"


def printable(text: str) -> str:
    """`text` without what a terminal would obey: escape sequences could hide or fake what is shown."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)
