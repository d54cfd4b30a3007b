"""Commands in a workspace: shown as they run, and ended with all that they start."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llmcore.errors import ToolError
from llmcore.tools.base import Action, ActionKind, ToolContext
from llmcore.tools.builtin.terminal import terminal
from llmcore.tools.execute import ToolRunner
from llmcore.tools.registry import all_tools
from llmcore.tools.results import FailureKind, ToolResult
from llmcore.tools.workspace.workspace import Workspace

# Of a busy machine; the commands below sleep for hours.
WAIT_S = 60.0


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    workspace = Workspace(name="shop", root=os.path.realpath(tmp_path), terminal=True, environment=(("SHOP", "1"),))
    return ToolContext(workspace=workspace)


def action_of(context: ToolContext, command: str | list[str]) -> Action:
    return all_tools()["terminal"].action({"command": command}, context)


async def run(context: ToolContext, command: str | list[str], **more: Any) -> str:
    """Run a command that was approved."""
    return await terminal(replace(context, approved=action_of(context, command)), command, **more)


def alive(marker: str) -> list[int]:
    """Processes with `marker` among their arguments."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                arguments = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            if marker.encode() in arguments.split(b"\0"):
                found.append(int(name))
    return found


async def test_it_answers_with_exit_code_and_output(context: ToolContext, tmp_path: Path) -> None:
    text = await run(context, "pwd; echo oops >&2; cat; exit 3")

    head, *lines = text.splitlines()
    assert head.startswith("[exit code 3 after ") and lines == [os.path.realpath(tmp_path), "oops"]  # K5
    assert "exit code 0" in await run(context, "true") and "(no output)" in await run(context, "true")


async def test_words_run_without_a_shell(context: ToolContext) -> None:
    assert "a $HOME; *\n" in await run(context, ["echo", "a", "$HOME;", "*"])
    assert "exit code 127" in await run(context, ["no-such-program"])


async def test_what_is_shown_is_what_runs(context: ToolContext, tmp_path: Path) -> None:
    line = action_of(context, "echo 'a  b' | wc -c")
    assert line.kind is ActionKind.COMMAND and line.shell and line.directory == os.path.realpath(tmp_path)
    assert (line.command, line.argv) == ("echo 'a  b' | wc -c", ("/bin/sh", "-c", "echo 'a  b' | wc -c"))
    words = action_of(context, ["echo", "a  b"])
    assert not words.shell and (words.command, words.argv) == ("echo 'a  b'", ("echo", "a  b"))
    assert Action.from_json(words.to_json()) == words


async def test_only_what_was_approved_runs(context: ToolContext, tmp_path: Path) -> None:
    elsewhere = replace(action_of(context, "touch x"), directory="/")
    for approved in (None, action_of(context, "touch y"), action_of(context, ["touch", "x"]), elsewhere):
        with pytest.raises(ToolError, match="was not approved"):
            await terminal(replace(context, approved=approved), "touch x")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "char", [*"\0\r\x1b\u202e\u200b\u2066\ud800\u2028", *"\u00a0\u2003\u3164\u2800\ufe0f\u034f\U000e0041"]
)
def test_a_command_with_what_can_not_be_seen_is_refused(context: ToolContext, char: str) -> None:
    for command in (f"echo {char}x", ["echo", f"{char}x"]):
        with pytest.raises(ToolError, match="invisible character"):
            action_of(context, command)


def test_an_empty_command_is_refused(context: ToolContext) -> None:
    for command in ("", "  ", [""], ["", "x"]):
        with pytest.raises(ToolError, match="empty"):
            action_of(context, command)


async def test_its_environment_has_nothing_of_ours(context: ToolContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-commands")

    text = await run(context, "env; ls /proc/self/fd")

    assert "sk-not" not in text and "DJANGO" not in text and "SHOP=1" in text  # K5
    names = {line.split("=")[0] for line in text.splitlines()[1:] if "=" in line}
    assert names <= {"PATH", "LANG", "TERM", "PAGER", "GIT_TERMINAL_PROMPT", "HOME", "SHOP", "PWD", "SHLVL", "_"}
    # Beside its three streams, ls has the folder that it lists.
    assert [line for line in text.splitlines() if line.isdecimal()] == ["0", "1", "2", "3"]


async def test_at_its_deadline_all_of_it_ends(context: ToolContext) -> None:
    marker = f"31{os.getpid()}.1"
    line = f"sleep {marker} & setsid sleep {marker} & (setsid setsid sh -c 'sleep {marker} & wait' &) ; sleep {marker}"
    text = await run(context, line, timeout_s=1)
    assert text.startswith("[ended: it ran longer than 1 s]") and alive(marker) == []  # K5


async def test_what_outlives_the_shell_is_ended(context: ToolContext) -> None:
    marker = f"32{os.getpid()}.1"
    started = time.monotonic()
    forking = f"if os.fork() == 0:\n os.setsid()\n if os.fork() == 0: os.execvp('sleep', ['sleep', '{marker}'])"
    forked_twice = f'python3 -c "import os\n{forking}"'
    text = await run(context, f"nohup sleep {marker} & (setsid sleep {marker} &); {forked_twice}; sleep 0.3; echo done")

    assert "exit code 0" in text and "processes that it left behind were ended" in text and "done" in text
    assert alive(marker) == [] and time.monotonic() - started < WAIT_S


async def test_too_many_processes_are_ended(context: ToolContext) -> None:
    marker = f"33{os.getpid()}.1"
    # Bounded, in case that nobody stops it.
    text = await run(context, f"i=0; while [ $i -lt 400 ]; do sleep {marker} & i=$((i+1)); done; wait")
    assert "more than 100 processes" in text and alive(marker) == []


async def test_a_bomb_of_forks_is_ended_with_all_its_pieces(context: ToolContext) -> None:
    marker = f"37{os.getpid()}.1"
    # Each process makes two more: 1,023 in the end, in case that nobody stops it.
    bomb = f"bomb() {{ [ $1 -gt 0 ] && {{ bomb $(($1-1)) & bomb $(($1-1)) & }}; exec sleep {marker}; }}; bomb 9"
    text = await run(context, bomb, timeout_s=20)
    assert "more than 100 processes" in text and alive(marker) == []


async def test_a_flood_is_read_but_not_kept(context: ToolContext) -> None:
    text = await run(context, "echo first; yes x | head -c 5000000; echo last")
    assert "exit code 0" in text and len(text) < 31_000
    assert "\nfirst\n" in text and text.endswith("\nlast\n") and "bytes left out …]" in text
    assert "wrote more than 50,000,000 bytes" in await run(context, "yes")


async def test_output_that_is_no_text_is_replaced(context: ToolContext) -> None:
    assert "a�b" in await run(context, r"printf 'a\377b'")


async def test_memory_and_files_are_bounded(context: ToolContext, tmp_path: Path) -> None:
    assert "MemoryError" in await run(context, ["python3", "-c", "bytearray(3_000_000_000)"])
    await run(context, "head -c 300000000 /dev/zero > big; true")
    assert (tmp_path / "big").stat().st_size <= 200_000_000


async def test_a_command_that_ends_its_supervisor_ends_itself(context: ToolContext) -> None:
    marker = f"34{os.getpid()}.1"
    assert "how is unknown" in await run(context, f"kill -9 $PPID; sleep {marker}")
    await gone(marker)


async def test_cancelling_the_run_ends_the_command(context: ToolContext) -> None:
    marker = f"35{os.getpid()}.1"
    command = f"setsid sleep {marker} & sleep {marker}"
    cancelled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    runner = ToolRunner(context=context, cancelled=cancelled)
    tool = all_tools()["terminal"]
    running = asyncio.create_task(runner.run(tool, {"command": command}, approved=action_of(context, command)))
    while len(alive(marker)) < 2:
        await asyncio.sleep(0.02)

    clicked = time.monotonic()
    cancelled.set_result(None)
    result: ToolResult = await running

    assert result.failure is FailureKind.CANCELLED and result.effect_unknown
    assert time.monotonic() - clicked < WAIT_S and alive(marker) == []


async def gone(marker: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while alive(marker):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


async def test_it_is_off_unless_the_site_turns_it_on(context: ToolContext, tmp_path: Path) -> None:
    tool = all_tools()["terminal"]
    off = replace(context, workspace=Workspace(name="shop", root=str(tmp_path)))
    assert tool.requires_approval is True and tool.off_because is not None  # K4
    assert "the terminal is off in the workspace 'shop'" in str(tool.off_because(off))
    assert tool.off_because(context) is None
    assert "has no workspace" in str(tool.off_because(ToolContext()))
    with pytest.raises(ToolError, match="terminal is off"):
        await run(off, "true")
