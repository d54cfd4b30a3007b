"""The tool that runs commands in a workspace; a person sees each one before it runs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Annotated

from llmcore.errors import ToolError
from llmcore.messages import JSON
from llmcore.tools.base import Action, ActionKind, Effect, ToolContext
from llmcore.tools.builtin.files import GROUP, without_workspace, workspace_of
from llmcore.tools.registry import tool
from llmcore.tools.unseen import is_unseen
from llmcore.tools.workspace.command import MAX_OUTPUT_BYTES, MAX_PROCESSES, CommandEnd, run_command

SHELL = ("/bin/sh", "-c")
DEFAULT_TIMEOUT_S = 60
MAX_TIMEOUT_S = 300
MAX_COMMAND_CHARS = 10_000
# More than the longest that a command may ask for: its own deadline comes first, and says more.
TOOL_TIMEOUT_S = MAX_TIMEOUT_S + 10.0

Seconds = Annotated[int, "Seconds after which it is ended.", {"minimum": 1, "maximum": MAX_TIMEOUT_S}]
Command = Annotated[
    str | list[str],
    "A line for the shell, such as “wc -l logs/*.log”, or a list of words that runs without a shell.",
    {"minLength": 1, "maxLength": 8_000, "minItems": 1, "maxItems": 200},
]


def terminal_is_off(context: ToolContext) -> str | None:
    if context.workspace is not None and not context.workspace.terminal:
        return f"the terminal is off in the workspace {context.workspace.name!r} (setting LLM_WORKSPACES)"
    return without_workspace(context)


def argv_of(command: str | list[str]) -> tuple[str, ...]:
    """The words exactly as the system gets them. ToolError where they couldn't be shown as they are."""
    words = (*SHELL, command) if isinstance(command, str) else tuple(command)
    if sum(map(len, words)) > MAX_COMMAND_CHARS:
        raise ToolError(f"The command is longer than {MAX_COMMAND_CHARS:,} characters. Put it into a file.")
    for char in "".join(words):
        # A command must run as it reads.
        if char not in "\n\t" and is_unseen(char):
            raise ToolError(f"The command holds the invisible character U+{ord(char):04X}. Write it without.")
    if not words[-1 if isinstance(command, str) else 0].strip():
        raise ToolError("The command is empty.")
    return words


def describe_command(arguments: Mapping[str, JSON], context: ToolContext) -> Action:
    command = arguments["command"]
    shell = isinstance(command, str)
    workspace = workspace_of(context)
    return Action(
        kind=ActionKind.COMMAND,
        title=f"Run a command in {workspace.name}",
        command=command if shell else shlex.join(command),
        argv=argv_of(command),
        shell=shell,
        directory=workspace.root,
        timeout_s=arguments.get("timeout_s", DEFAULT_TIMEOUT_S),
    )


@tool(
    group=GROUP,
    effect=Effect.NON_IDEMPOTENT_WRITE,
    requires_approval=True,
    describe_action=describe_command,
    off_because=terminal_is_off,
    timeout_s=TOOL_TIMEOUT_S,
)
async def terminal(
    context: ToolContext,
    command: Command,
    timeout_s: Seconds = DEFAULT_TIMEOUT_S,
) -> str:
    """Run a command in the workspace's folder. A person has to approve it. Answers with exit code and output."""
    if reason := terminal_is_off(context):
        raise ToolError(f"Not run: {reason}.")
    workspace, argv = workspace_of(context), argv_of(command)
    approved = context.approved
    if approved is None or (approved.argv, approved.directory) != (argv, workspace.root):
        raise ToolError("Not run: this command was not approved.")
    return report(await run_command(workspace, argv, timeout_s=timeout_s), timeout_s)


def report(end: CommandEnd, timeout_s: int) -> str:
    """What the model and people read of a command that has ended."""
    seconds = "" if end.seconds is None else f" after {end.seconds:.1f} s"
    match end.ended_by:
        case "timeout":
            head = f"ended: it ran longer than {timeout_s} s"
        case "processes":
            head = f"ended{seconds}: it had more than {MAX_PROCESSES} processes"
        case "output":
            head = f"ended{seconds}: it wrote more than {MAX_OUTPUT_BYTES:,} bytes"
        case "supervisor" | "cancel":
            head = f"ended{seconds}: how is unknown"
        case _ if end.code is not None and end.code < 0:
            head = f"ended{seconds} by signal {-end.code}"
        case _:
            head = f"exit code {end.code}{seconds}"
    left = f"; {end.left} processes that it left behind were ended" if end.left and not end.ended_by else ""
    return f"[{head}{left}]\n{end.output.text or '(no output)'}"
