"""Writing files of a workspace: only where it may, never through a link, and never over a change that nobody saw."""

from __future__ import annotations

import ctypes
import hashlib
import os
import stat
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from llmcore.errors import ToolError
from llmcore.tools.base import Action, ActionKind, ToolContext
from llmcore.tools.builtin.files import write_file
from llmcore.tools.registry import all_tools
from llmcore.tools.workspace.differences import unified
from llmcore.tools.workspace.workspace import Workspace


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    (root / "scratch").mkdir(parents=True)
    (root / "settings.toml").write_text("vat = 0.91\nname = 'Shop'\n")
    return root


@pytest.fixture
def context(root: Path) -> ToolContext:
    return ToolContext(workspace=Workspace(name="shop", root=str(root), write=True, write_freely=("scratch/**",)))


def action_of(context: ToolContext, path: str, content: str) -> Action:
    return all_tools()["write_file"].action({"path": path, "content": content}, context)


def why(context: ToolContext, path: str) -> str | None:
    return all_tools()["write_file"].needs_approval({"path": path, "content": "x"}, context)


def test_inside_the_whitelist_it_writes_at_once(root: Path, context: ToolContext) -> None:
    assert why(context, "scratch/new/note.md") is None  # K4
    assert write_file(context, "scratch/new/note.md", "one\ntwo") == "Created scratch/new/note.md: 2 lines, 7 bytes."
    assert (root / "scratch/new/note.md").read_text() == "one\ntwo"
    assert write_file(context, "scratch/new/note.md", "three\n").startswith("Replaced")
    assert write_file(context, "scratch/new/note.md", "three\n").endswith("already.")
    assert os.listdir(root / "scratch/new") == ["note.md"]


@pytest.mark.parametrize("path", ["settings.toml", "scratchy/x", "Scratch/x", "scratch/.git/hooks/post-commit"])
def test_outside_the_whitelist_it_needs_approval(root: Path, context: ToolContext, path: str) -> None:
    assert "not among the files" in str(why(context, path))  # K4
    with pytest.raises(ToolError, match="needs a person's approval"):
        write_file(context, path, "x")


@pytest.mark.parametrize(
    "path", ["scratch/../settings.toml", "scratch/./../../x", "/etc/passwd", "scratch/..", "", "a/"]
)
def test_no_spelling_gets_around_the_whitelist(root: Path, context: ToolContext, path: str) -> None:
    before = (root / "settings.toml").read_bytes()
    for use in (lambda: why(context, path), lambda: write_file(context, path, "x")):
        with pytest.raises(ToolError):
            use()  # K3
    assert (root / "settings.toml").read_bytes() == before


def test_a_decider_sees_the_difference_and_gets_exactly_it(root: Path, context: ToolContext) -> None:
    action = action_of(context, "settings.toml", "vat = 0.19\nname = 'Shop'\n")

    assert action.kind is ActionKind.FILE_CHANGE and action.title == "Change settings.toml"
    assert action.diff == (
        "--- a/settings.toml\n+++ b/settings.toml\n@@ -1,2 +1,2 @@\n-vat = 0.91\n+vat = 0.19\n name = 'Shop'\n"
    )
    assert action.before_sha256 == hashlib.sha256((root / "settings.toml").read_bytes()).hexdigest()
    assert Action.from_json(action.to_json()) == action
    approved = replace(context, approved=action)
    with pytest.raises(ToolError, match="isn't the change"):
        write_file(approved, "settings.toml", "vat = 0.0\n")
    with pytest.raises(ToolError, match="isn't the change"):
        write_file(approved, "other.toml", "vat = 0.19\nname = 'Shop'\n")
    assert write_file(approved, "settings.toml", "vat = 0.19\nname = 'Shop'\n").startswith("Replaced")


def test_a_file_that_changed_after_the_approval_is_left_alone(root: Path, context: ToolContext) -> None:
    approved = replace(context, approved=action_of(context, "settings.toml", "new"))
    (root / "settings.toml").write_text("somebody's work")

    with pytest.raises(ToolError, match="was changed after the approval"):
        write_file(approved, "settings.toml", "new")
    created = replace(context, approved=action_of(context, "new.toml", "new"))
    (root / "new.toml").write_text("somebody was faster")
    with pytest.raises(ToolError, match="was changed after the approval"):
        write_file(created, "new.toml", "new")
    assert (root / "new.toml").read_text() == "somebody was faster"


def test_what_a_file_has_already_is_nobodys_decision(root: Path, context: ToolContext) -> None:
    content = (root / "settings.toml").read_text()
    tool = all_tools()["write_file"]
    assert tool.needs_approval({"path": "settings.toml", "content": content}, context) is None
    assert write_file(context, "settings.toml", content) == "settings.toml has this content already."
    (root / "settings.toml").write_text("changed since")
    with pytest.raises(ToolError, match="needs a person's approval"):
        write_file(context, "settings.toml", content)


def test_no_link_is_written_through(root: Path, tmp_path: Path, context: ToolContext) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("outside")
    (root / "scratch/file").symlink_to(outside)
    (root / "scratch/folder").symlink_to(tmp_path)
    (root / "scratch/dangling").symlink_to(tmp_path / "new.txt")

    for path in ("scratch/file", "scratch/folder/outside.txt", "scratch/folder/new.txt", "scratch/dangling"):
        with pytest.raises(ToolError, match="is a link"):
            write_file(context, path, "x")  # K3
    assert outside.read_text() == "outside" and not (tmp_path / "new.txt").exists()


def test_a_hard_link_keeps_what_it_had(root: Path, tmp_path: Path, context: ToolContext) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("outside")
    os.link(outside, root / "scratch/file")

    write_file(context, "scratch/file", "inside")

    assert outside.read_text() == "outside" and (root / "scratch/file").read_text() == "inside"


def test_folders_that_become_links_at_the_last_moment_are_not_written_through(
    root: Path, tmp_path: Path, context: ToolContext
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (root / "scratch/folder").mkdir()
    (root / "link").symlink_to(elsewhere)
    over = threading.Event()

    exchange = ctypes.CDLL(None).renameat2
    at_here, exchanging = -100, 2

    def swap() -> None:
        while not over.is_set():
            exchange(at_here, bytes(root / "scratch/folder"), at_here, bytes(root / "link"), exchanging)

    thread = threading.Thread(target=swap)
    thread.start()
    seen = set()
    try:
        least, most = time.monotonic() + 1.5, time.monotonic() + 60
        # The race is on once both were met: the folder and what took its place.
        while time.monotonic() < least or not ({"refused", "Replace"} <= seen or time.monotonic() > most):
            try:
                seen.add(write_file(context, "scratch/folder/note.md", str(time.monotonic()))[:7])
            except ToolError:
                seen.add("refused")
    finally:
        over.set()
        thread.join()
    assert os.listdir(elsewhere) == []  # K3
    assert {"refused", "Replace"} <= seen


def test_rights_of_a_file_survive(root: Path, context: ToolContext) -> None:
    script = root / "scratch/run.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o4750)
    write_file(context, "scratch/run.sh", "#!/bin/sh\necho\n")
    assert stat.S_IMODE(script.stat().st_mode) == 0o750


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file_is_not_replaced(root: Path, context: ToolContext, make: object) -> None:
    make(root / "scratch/thing")  # type: ignore[operator]
    with pytest.raises(ToolError, match=r"is a folder|a device, a pipe"):
        write_file(context, "scratch/thing", "x")


def test_a_file_in_the_way_of_a_folder_is_told(root: Path, context: ToolContext) -> None:
    (root / "scratch/a").write_text("x")
    with pytest.raises(ToolError, match="'scratch/a' is not a folder"):
        write_file(context, "scratch/a/b", "x")


def test_a_huge_file_is_neither_read_nor_replaced(root: Path, context: ToolContext) -> None:
    with (root / "scratch/huge").open("wb") as file:
        file.truncate(500_000_000_000)
    started = time.monotonic()
    with pytest.raises(ToolError, match="500,000,000,000 bytes"):
        write_file(context, "scratch/huge", "x")
    assert time.monotonic() - started < 20 and (root / "scratch/huge").stat().st_size == 500_000_000_000


def test_half_a_surrogate_pair_is_no_text(context: ToolContext) -> None:
    with pytest.raises(ToolError, match="surrogate"):
        write_file(context, "scratch/a", "\ud83d")


def test_it_is_off_unless_the_site_turns_it_on(root: Path, context: ToolContext) -> None:
    workspace = Workspace(name="shop", root=str(root), write_freely=("scratch/**",))
    off = replace(context, workspace=workspace)
    tool = all_tools()["write_file"]
    assert tool.off_because is not None
    assert "writing is off in the workspace 'shop'" in str(tool.off_because(off))
    assert tool.off_because(context) is None
    with pytest.raises(ToolError, match="writing is off"):
        write_file(off, "scratch/a", "x")


def test_a_new_file_and_odd_ones_are_shown_whole(root: Path, context: ToolContext) -> None:
    assert action_of(context, "a/b/new.txt", "x").diff == (
        "--- /dev/null\n+++ b/a/b/new.txt\n@@ -0,0 +1,1 @@\n+x\n\\ No newline at end of file\n"
    )
    (root / "binary").write_bytes(b"\0\1")
    assert action_of(context, "binary", "text").diff.startswith("Binary file of 2 bytes, replaced by")
    (root / "latin").write_bytes("ü\n".encode("latin-1"))
    assert action_of(context, "latin", "ü\n").diff.startswith("Encoding of the file: windows-1252, then utf-8")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\nb\nc\n", "a\nc\n"),
        ("", "a\n"),
        ("a\n", ""),
        ("a", "a\n"),
        ("a\r\n", "a\n"),
        ("\n".join(map(str, range(100))), "\n".join(map(str, [*range(50), "x", *range(52, 100), "y"]))),
        ("a\u2028b\n", "a\nb\n"),
        ("same\n" * 10 + "x\n" + "same\n" * 10, "same\n" * 10 + "y\n" + "same\n" * 10),
    ],
)
def test_a_difference_rebuilds_the_file(tmp_path: Path, before: str, after: str) -> None:
    """The system's own `patch` understands it."""
    file = tmp_path / "f"
    file.write_bytes(before.encode())
    diff = unified(before, after, "f")
    done = subprocess.run(
        ["patch", "--binary", "-s", "-p1"], cwd=tmp_path, input=diff.encode(), capture_output=True, check=False
    )
    assert done.returncode == 0, (done.stdout, diff)
    assert (file.read_bytes() if file.exists() else b"").decode() == after


def test_a_large_change_is_compared_in_bounded_time() -> None:
    before = "".join(f"{number % 7} {number}\n" for number in range(40_000))
    after = "".join(f"{number % 7} {number * 3}\n" for number in range(40_000))
    started = time.thread_time()
    assert unified(before, after, "f").count("\n") > 70_000
    assert time.thread_time() - started < 3


def test_lines_that_come_again_and_again_are_compared_in_bounded_time() -> None:
    before = "".join(f"{number % 2}\n" for number in range(1_900))
    after = "".join(f"{number // 2 % 2}\n" for number in range(1_900))
    started = time.thread_time()
    assert unified(before, after, "f").count("\n") > 3_000
    assert time.thread_time() - started < 3
