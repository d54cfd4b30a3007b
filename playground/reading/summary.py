"""The summary of a run: seven figures, where its time and its tokens went, and how its context grew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from llmcore.context.learning import Compared, compared
from llmcore.trace import StepKind
from llmcore.usage import MILLION, Prices, Usage
from playground import numbers
from playground.models import Run
from playground.reading.plan import Plan
from playground.reading.so_far import SoFar, read_so_far
from playground.reading.step_rows import StepRow, age_ms, is_live


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """A part of a bar: its value, how it is spelled, and its whole percent; all percents of a bar add up to 100."""

    name: str
    value: float
    css: str
    shown: str
    percent: int

    @property
    def share(self) -> str:
        return f"{self.percent}{numbers.SPACE}%" if self.percent else f"<{numbers.SPACE}1{numbers.SPACE}%"


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """The prompt of one round in the context chart, in percent of the chart's width and pixels of its height."""

    round: int
    tokens: int
    estimated: bool
    x: str
    width: str
    cached_y: str
    cached_height: str
    fresh_y: str
    fresh_height: str
    labelled: bool
    label_x: str
    anchor: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """The context chart; `window_y` is where the model's window ends, where that is near enough to be shown."""

    columns: list[Column]
    window: int | None
    window_y: str
    label: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Fallback:
    """A change to another model: in which round, from which one to which, and why."""

    round: int
    asked: str
    served: str
    error: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """What the top of a run's page shows. Unknown figures are `None` and shown blank."""

    live: bool
    so_far: SoFar
    elapsed_ms: float | None
    ok_calls: int
    peak: int | None
    peak_estimated: bool
    time: list[Share]
    time_label: str
    tokens: list[Share]
    tokens_label: str
    chart: Chart | None
    context_now: int | None
    context_estimated: bool
    window: int | None
    cache_saved: Decimal | None
    unreported_calls: int
    calls: int
    nothing_sent: bool
    estimate: Compared
    fallbacks: list[Fallback]
    compactions: int

    @property
    def context_shown(self) -> int | None:
        """The context figure of the page: the newest of a live run, else the largest."""
        return self.context_now if self.live else self.peak


CHART_HEIGHT = 48
# Above this many rounds only the first and the last column have their figures below.
LABELLED_ROUNDS = 6
MAX_COLUMNS = 120


def read_summary(run: Run, rows: Sequence[StepRow], plan: Plan, now: datetime, *, streamed: int = 0) -> Summary:
    prompts: dict[int, _Prompt] = {}
    windows: dict[int, int | None] = {}
    responses: list[Mapping[str, Any]] = []
    fallbacks: list[Fallback] = []
    asked, unsent = "", 0
    for row in rows:
        if row.kind == StepKind.REQUEST:
            asked = f"{row.data.get('provider')}/{row.data.get('model')}"
        if row.kind == StepKind.CONTEXT:
            windows[row.round] = row.data.get("window")
        if row.kind == StepKind.RESPONSE:
            if row.data.get("attempts") == 0:
                # Cancelled while it waited for its permit, or without room in a budget.
                unsent += 1
            else:
                responses.append(row.data)
            if served := row.data.get("falls_back_to"):
                fallbacks.append(Fallback(round=row.round, asked=asked, served=served, error=row.data["error"]))
            usage = row.data.get("usage") or {}
            if (reported := usage.get("input_tokens")) is not None:
                cached = min(usage.get("cache_read_input_tokens") or 0, reported)
                prompts[row.round] = _Prompt(reported, cached, estimated=False)
        elif row.kind in (StepKind.REQUEST, StepKind.ASSEMBLED) and (estimate := row.data.get("input_tokens_estimate")):
            prompts[row.round] = _Prompt(estimate, 0, estimated=True)
    latest = prompts[max(prompts)] if prompts else None
    peak = max(prompts, key=lambda number: prompts[number].tokens) if prompts else None
    largest = None if peak is None else prompts[peak]
    shown = max(prompts) if prompts and is_live(run) else peak
    time, tokens = time_shares(run), token_shares(run)
    return Summary(
        live=is_live(run),
        so_far=read_so_far(run, rows, plan, streamed=streamed),
        elapsed_ms=elapsed_ms(run, now),
        ok_calls=run.tool_calls - run.tool_errors - run.tool_denials,
        peak=run.context_peak if run.context_peak is not None else largest.tokens if largest else None,
        peak_estimated=bool(largest and largest.estimated),
        time=time,
        time_label=_label(f"Wall time {numbers.duration(run.wall_ms)}", time),
        tokens=tokens,
        tokens_label=_label(f"{numbers.tokens(int(sum(share.value for share in tokens)))} tokens", tokens),
        chart=read_chart(prompts, plan.context_window),
        context_now=latest.tokens if latest else None,
        context_estimated=bool(latest and latest.estimated),
        # A fallback may have another one.
        window=plan.context_window if shown is None else windows.get(shown, plan.context_window),
        cache_saved=cache_saved(responses),
        unreported_calls=sum(not data.get("usage") for data in responses),
        calls=len(responses),
        nothing_sent=unsent > 0 and not responses,
        estimate=compared(rows),
        fallbacks=fallbacks,
        compactions=sum(row.kind == StepKind.COMPACTION for row in rows),
    )


def elapsed_ms(run: Run, now: datetime) -> float | None:
    """The wall time of a run that ended, else its age."""
    return age_ms(run, now) if is_live(run) else run.wall_ms


def time_shares(run: Run) -> list[Share]:
    """Empty until the run has ended: only then do the parts add up."""
    if run.wall_ms is None or is_live(run):
        return []
    parts = [
        ("Model", run.model_ms or 0.0, "model"),
        ("Tools", run.tool_ms or 0.0, "ttool"),
        ("Approval", run.approval_ms or 0.0, "approval"),
        ("Permit wait", run.permit_ms or 0.0, "permit"),
        ("Queue", run.queue_ms or 0.0, "queue"),
    ]
    parts.append(("Overhead", max(run.wall_ms - sum(value for _, value, _ in parts), 0.0), "over"))
    # Rounded together, so that the figures shown add up to the total shown.
    hundredths = numbers.whole_parts([value for _, value, _ in parts], round(run.wall_ms / 10))
    percents = numbers.whole_parts([value for _, value, _ in parts])
    return [
        Share(name=name, value=value, css=css, shown=f"{shown / 100:,.2f}{numbers.SPACE}s", percent=percent)
        for (name, value, css), shown, percent in zip(parts, hundredths, percents, strict=True)
        if value > 0
    ]


def token_shares(run: Run) -> list[Share]:
    """The reported tokens by price class; what a provider doesn't tell apart stays one part."""
    parts: list[tuple[str, int, str]] = []
    if run.input_tokens is not None:
        read, written = run.cache_read_input_tokens, run.cache_creation_input_tokens
        fresh = run.input_tokens - (read or 0) - (written or 0)
        parts += [("Cached prompt", read or 0, "cached"), ("Written to cache", written or 0, "written")]
        parts.append(("Prompt" if read is None else "Fresh prompt", max(fresh, 0), "fresh"))
    if run.output_tokens is not None:
        reasoning = run.reasoning_output_tokens
        visible = max(run.output_tokens - (reasoning or 0), 0)
        parts.append(("Completion" if reasoning is None else "Visible completion", visible, "out"))
        parts.append(("Reasoning", reasoning or 0, "reason"))
    percents = numbers.whole_parts([value for _, value, _ in parts])
    return [
        Share(name=name, value=value, css=css, shown=numbers.tokens(value), percent=percent)
        for (name, value, css), percent in zip(parts, percents, strict=True)
        if value > 0
    ]


def cache_saved(responses: list[Mapping[str, Any]]) -> Decimal | None:
    """What the cached tokens would have cost more as fresh ones; `None` where no price says so."""
    saved: Decimal | None = None
    for data in responses:
        if not data.get("usage") or not data.get("prices"):
            continue
        usage, prices = Usage.from_json({**data["usage"], "raw": None}), Prices.from_json(data["prices"])
        prices = prices.of_prompt(usage.input_tokens or 0)
        if prices.input is None or prices.cache_read is None or not usage.cache_read_input_tokens:
            continue
        saved = (saved or Decimal(0)) + usage.cache_read_input_tokens * (prices.input - prices.cache_read) / MILLION
    return saved


@dataclass(frozen=True, slots=True)
class _Prompt:
    tokens: int
    cached: int
    estimated: bool


def read_chart(prompts: Mapping[int, _Prompt], window: int | None) -> Chart | None:
    if not prompts:
        return None
    rounds = sorted(prompts)
    shown = rounds[:: -(-len(rounds) // MAX_COLUMNS)]
    largest = max(rounds, key=lambda number: prompts[number].tokens)
    peak = prompts[largest].tokens or 1
    # A window many times larger than the prompt would press all columns flat.
    near = window if window and window <= 3 * peak else None
    top = max(near or 0, peak * 1.08)
    step = 100 / max(len(shown), 4)
    width = step * (0.65 if len(shown) <= 20 else 0.85)
    many = len(shown) > LABELLED_ROUNDS
    columns = []
    for index, number in enumerate(shown):
        prompt = prompts[number]
        cached = CHART_HEIGHT * prompt.cached / top
        fresh = CHART_HEIGHT * (prompt.tokens - prompt.cached) / top
        is_last = many and index == len(shown) - 1
        columns.append(
            Column(
                round=number,
                tokens=prompt.tokens,
                estimated=prompt.estimated,
                x=f"{index * step:.2f}",
                width=f"{width:.2f}",
                cached_y=f"{CHART_HEIGHT - cached:.1f}",
                cached_height=f"{cached:.1f}",
                fresh_y=f"{CHART_HEIGHT - cached - fresh:.1f}",
                fresh_height=f"{max(fresh, 0.5):.1f}",
                labelled=not many or index == 0 or is_last,
                label_x=f"{index * step + (width if is_last else 0):.2f}",
                anchor="end" if is_last else "start",
            )
        )
    figures = ", ".join(f"{'about ' if prompts[n].estimated else ''}{prompts[n].tokens:,}" for n in rounds[:20])
    label = f"Prompt tokens by round: {figures}" + ("." if len(rounds) <= 20 else f" and {len(rounds) - 20} more.")
    if len(rounds) > 1:
        label += f" Largest in round {largest}: {peak:,}."
    return Chart(
        columns=columns,
        window=near,
        window_y=f"{CHART_HEIGHT * (1 - (near or 0) / top):.1f}" if near else "",
        label=label,
    )


def _label(whole: str, shares: list[Share]) -> str:
    return f"{whole}: " + ", ".join(f"{share.name.lower()} {share.shown}" for share in shares)
