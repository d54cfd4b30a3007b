"""The options of `llm_run` that let tools give results without running, and let a run go on from another one."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from llmcore.mcp_servers import every_tool
from llmcore.tools.replacement import Mode, Replacement, recorded_results
from llmcore.trace import StepKind
from playground.models import Run
from playground.rows import load_contents, load_steps
from playground.services.fork_run import ForkPoint, read_fork_point


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--tool-result",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="don't run this tool, give each call what the file says; repeatable",
    )
    parser.add_argument(
        "--recorded-from",
        type=int,
        metavar="RUN",
        help="don't run the tools that this run has results of, give those; repeated calls get them in order",
    )
    parser.add_argument("--ask", action="append", default=[], metavar="NAME", help="ask before each call; repeatable")
    parser.add_argument("--fork", type=int, metavar="RUN", help="go on from this run, as a new one, with its messages")
    parser.add_argument("--at-round", type=int, metavar="N", help="with --fork: the first round to make; default: 1")


def replacements_of(options: Mapping[str, Any]) -> tuple[Replacement, ...]:
    typed = [_typed(given) for given in options["tool_result"]]
    asked = [Replacement(tool=name, mode=Mode.ASK) for name in options["ask"]]
    named = [item.tool for item in (*typed, *asked)]
    _check_names(named)
    recorded = [] if options["recorded_from"] is None else _recorded(options["recorded_from"], besides=named)
    return (*typed, *asked, *recorded)


def _typed(given: str) -> Replacement:
    name, separator, file = given.partition("=")
    if not separator:
        raise CommandError(f"--tool-result takes NAME=FILE, not {given!r}.")
    try:
        return Replacement(tool=name, mode=Mode.TYPED, text=Path(file).read_text())
    except (OSError, UnicodeError) as error:
        raise CommandError(f"The result of {name} can't be read: {error}") from error


def _check_names(names: Iterable[str]) -> None:
    names = list(names)
    known = every_tool()
    if unknown := [name for name in names if name not in known]:
        raise CommandError(f"This site has no tool {', '.join(unknown)}.")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise CommandError(f"Say once what becomes of {', '.join(twice)}.")


def _recorded(number: int, *, besides: Iterable[str]) -> list[Replacement]:
    run = run_numbered(number)
    found = recorded_results(load_steps(run.pk), load_contents(run.pk), set(every_tool()) - set(besides))
    recorded = [
        Replacement(tool=name, mode=Mode.RECORDED, run=run.pk, results=results)
        for name, results in sorted(found.items())
        if results
    ]
    if not recorded:
        raise CommandError(f"Run {number} has no result of a tool.")
    return recorded


def fork_point_of(options: Mapping[str, Any]) -> ForkPoint | None:
    """The place that is named by --fork and --at-round; ConfigurationError where nothing can go on from it."""
    if options["fork"] is None:
        if options["at_round"] is not None:
            raise CommandError("--at-round needs --fork.")
        return None
    run, round = run_numbered(options["fork"]), options["at_round"] or 1
    requests = run.steps.filter(kind=StepKind.REQUEST, round=round)
    at = requests.values_list("sequence", flat=True).last()
    if at is None and round != 1:
        raise CommandError(f"Run {run.pk} has no round {round}.")
    return read_fork_point(run=run, at=at or 0)


def run_numbered(number: int) -> Run:
    run = Run.objects.filter(pk=number).first()
    if run is None:
        raise CommandError(f"There is no run {number}.")
    return run
