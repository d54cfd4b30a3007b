"""Tools on the files of a workspace: read, search, write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from llmcore.errors import ToolError
from llmcore.messages import JSON
from llmcore.tools.base import Action, ActionKind, Effect, ToolContext
from llmcore.tools.registry import tool
from llmcore.tools.workspace.reading import read
from llmcore.tools.workspace.searching import search
from llmcore.tools.workspace.workspace import Workspace
from llmcore.tools.workspace.writing import Change, change_of, target, write, written_freely

GROUP = "workspace"
MAX_WRITTEN_CHARS = 500_000

Path = Annotated[str, {"maxLength": 1_000}]


def without_workspace(context: ToolContext) -> str | None:
    return None if context.workspace else "the configuration has no workspace (Admin, LLM, Configurations)"


def writing_is_off(context: ToolContext) -> str | None:
    if context.workspace is not None and not context.workspace.write:
        return f"writing is off in the workspace {context.workspace.name!r} (setting LLM_WORKSPACES)"
    return without_workspace(context)


@tool(group=GROUP, off_because=without_workspace, timeout_s=20)
def read_file(
    context: ToolContext,
    path: Annotated[Path, "The file, relative to the workspace. A folder gives the list of its files; “.” is the top."],
    first_line: Annotated[int, "The line to begin with.", {"minimum": 1}] = 1,
    max_lines: Annotated[int, "How many lines to read.", {"minimum": 1, "maximum": 2_000}] = 400,
) -> str:
    """Read a text file of the workspace, or list a folder. The first line of the answer says which lines it has."""
    return read(workspace_of(context), path, first_line=first_line, max_lines=max_lines)


@tool(group=GROUP, off_because=without_workspace, timeout_s=30)
def search_workspace(
    context: ToolContext,
    text: Annotated[str, "The exact text to look for, in any case. No patterns.", {"minLength": 1, "maxLength": 200}],
    path: Annotated[Path, "Only in this file or folder."] = ".",
    files: Annotated[str, "Only in files like this, such as *.py or logs/**/*.log.", {"maxLength": 200}] = "*",
    max_matches: Annotated[int, {"minimum": 1, "maximum": 200}] = 50,
) -> str:
    """Find lines that contain a text in the files of the workspace. Answers with path:line: text."""
    return search(workspace_of(context), text, path=path, files=files, max_matches=max_matches)


def why_ask(arguments: Mapping[str, JSON], context: ToolContext) -> str | None:
    workspace = workspace_of(context)
    parts = target(arguments["path"])
    if written_freely(workspace, parts) or is_so_already(workspace, parts, arguments["content"]):
        return None
    free = ", ".join(workspace.write_freely) or "none"
    return f"{'/'.join(parts)!r} is not among the files that are written without asking ({free})."


def is_so_already(workspace: Workspace, parts: tuple[str, ...], content: str) -> bool:
    change = change_of(workspace, parts, content)
    return change.before == change.after


def describe_write(arguments: Mapping[str, JSON], context: ToolContext) -> Action:
    workspace = workspace_of(context)
    change = change_of(workspace, target(arguments["path"]), arguments["content"])
    verb = "Create" if change.before is None else "Change"
    return Action(
        kind=ActionKind.FILE_CHANGE,
        title=f"{verb} {change.path}",
        directory=workspace.root,
        path=change.path,
        diff=change.diff,
        before_sha256=change.before_sha256,
        after_sha256=change.after_sha256,
    )


@tool(
    group=GROUP,
    effect=Effect.IDEMPOTENT_WRITE,
    requires_approval=why_ask,
    describe_action=describe_write,
    off_because=writing_is_off,
    timeout_s=20,
)
def write_file(
    context: ToolContext,
    path: Annotated[Path, "The file, relative to the workspace. Folders that don't exist are made."],
    content: Annotated[str, "All of the file's new text.", {"maxLength": MAX_WRITTEN_CHARS}],
) -> str:
    """Write a text file of the workspace: create it, or replace all of it. Read an existing file first."""
    if reason := writing_is_off(context):
        raise ToolError(f"Nothing was written: {reason}.")
    workspace, parts = workspace_of(context), target(path)
    change = change_of(workspace, parts, content)
    if context.approved is not None:
        refuse_other_change(change, context.approved)
    if change.before == change.after:
        return f"{change.path} has this content already."
    if context.approved is None and not written_freely(workspace, parts):
        raise ToolError(f"Nothing was written: {change.path!r} needs a person's approval.")
    write(workspace, change)
    lines = content.count("\n") + (not content.endswith("\n") and content != "")
    done = "Created" if change.before is None else "Replaced"
    return f"{done} {change.path}: {lines} lines, {len(change.after):,} bytes."


def refuse_other_change(change: Change, approved: Action) -> None:
    """ToolError where this isn't what was approved, or the file is no longer the one that was looked at."""
    if approved.path != change.path or approved.after_sha256 != change.after_sha256:
        raise ToolError("Nothing was written: this isn't the change that was approved.")
    if approved.before_sha256 != change.before_sha256:
        raise ToolError(f"Nothing was written: {change.path!r} was changed after the approval. Read it and try again.")


def workspace_of(context: ToolContext) -> Workspace:
    if context.workspace is None:
        raise ToolError("There is no workspace in this run, so there are no files.")
    return context.workspace
