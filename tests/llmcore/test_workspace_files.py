"""Reading and searching the files of a workspace, and that nothing leads out of it."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from llmcore.errors import ToolError
from llmcore.tools.base import ToolContext
from llmcore.tools.builtin.files import read_file, search_workspace
from llmcore.tools.workspace.workspace import Workspace

SECRET = "the secret of the house"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace's folder; beside it lies what nobody may read."""
    root = tmp_path / "shop"
    root.mkdir()
    (tmp_path / "shop-secret").mkdir()
    for outside in (tmp_path / "secret.txt", tmp_path / "shop-secret" / "secret.txt"):
        outside.write_text(SECRET)
    return root


@pytest.fixture
def context(root: Path) -> ToolContext:
    return ToolContext(workspace=Workspace(name="shop", root=str(root)))


def test_lines_are_read_with_a_line_that_says_how_to_go_on(root: Path, context: ToolContext) -> None:
    (root / "a.txt").write_text("".join(f"line {number}\n" for number in range(1, 11)))

    assert read_file(context, "a.txt", first_line=3, max_lines=2) == (
        "[a.txt: lines 3 to 4 of 10; go on with first_line=5]\nline 3\nline 4"
    )
    assert read_file(context, "a.txt", first_line=10).startswith("[a.txt: lines 10 to 10 of 10]")
    with pytest.raises(ToolError, match="has 10 lines"):
        read_file(context, "a.txt", first_line=11)


def test_a_long_file_is_cut_at_a_line_and_says_where(root: Path, context: ToolContext) -> None:
    (root / "long.txt").write_text("x" * 99 + "\n" * 1 + ("y" * 99 + "\n") * 5_000)

    text = read_file(context, "long.txt", max_lines=2_000)

    assert len(text) < 31_000 and "go on with first_line=301]" in text.splitlines()[0]


def test_one_endless_line_is_shortened(root: Path, context: ToolContext) -> None:
    (root / "min.js").write_text("x" * 1_000_000)
    assert "998,000 characters more" in read_file(context, "min.js")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("größer".encode(), "größer"),
        ("größer".encode("utf-8-sig"), "größer"),
        ("größer".encode("utf-16"), "größer"),
        ("größer".encode("utf-32"), "größer"),
        ("größer".encode("cp1252"), "größer"),
        (b"a\r\nb\r\n", "a\nb"),
        (b"\xff\xfea", "�"),
        (b"a\x81\x8d", "a��"),
        (b"", "[f: empty]"),
    ],
)
def test_encodings_are_recognized(root: Path, context: ToolContext, data: bytes, expected: str) -> None:
    (root / "f").write_bytes(data)
    assert expected in read_file(context, "f")


def test_a_binary_file_has_no_text(root: Path, context: ToolContext) -> None:
    (root / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    with pytest.raises(ToolError, match="binary file of 16 bytes"):
        read_file(context, "image.png")


def test_a_huge_file_is_not_read_into_memory(root: Path, context: ToolContext) -> None:
    with (root / "huge.log").open("wb") as file:
        file.truncate(500_000_000_000)

    started = time.thread_time()
    with pytest.raises(ToolError, match="500,000,000,000 bytes"):
        read_file(context, "huge.log")
    assert "1 files that are too large" in search_workspace(context, "x")
    assert time.thread_time() - started < 1


def test_a_folder_is_listed(root: Path, context: ToolContext) -> None:
    (root / "b.txt").write_text("12345")
    (root / "a").mkdir()
    (root / "link").symlink_to("/etc/passwd")
    os.mkfifo(root / "pipe")
    os.mkdir(os.fsencode(root) + b"/\xff\xfe")

    lines = read_file(context, ".").splitlines()

    assert lines[0] == "[folder .: 5 entries]"
    assert lines[1] == "a/" and "b.txt  5 bytes" in lines
    assert "link  (link, not followed)" in lines and "pipe  (no regular file)" in lines


def test_a_folder_of_many_entries_is_listed_in_part(root: Path, context: ToolContext) -> None:
    for number in range(700):
        (root / f"{number:04}.txt").touch()
    lines = read_file(context, "").splitlines()
    assert lines[0] == "[folder .: 700 entries]" and lines[-1] == "… and 400 more" and len(lines) == 302


@pytest.mark.parametrize("path", ["../secret.txt", "a/../../secret.txt", "../shop-secret/secret.txt", "/etc/passwd"])
def test_no_path_leads_out(root: Path, context: ToolContext, path: str) -> None:
    (root / "a").mkdir()
    for use in (lambda: read_file(context, path), lambda: search_workspace(context, "secret", path=path)):
        with pytest.raises(ToolError, match=r"leads out|absolute"):
            use()  # K3


def test_no_link_is_followed(root: Path, tmp_path: Path, context: ToolContext) -> None:
    (root / "file").symlink_to(tmp_path / "secret.txt")
    (root / "folder").symlink_to(tmp_path)
    (root / "up").symlink_to("..")
    (root / "loop").symlink_to("loop")
    (root / "inner.txt").write_text("inner")
    (root / "same").symlink_to("inner.txt")

    for path in ("file", "folder", "folder/secret.txt", "up/secret.txt", "loop", "loop/x", "same"):
        with pytest.raises(ToolError, match="is a link"):
            read_file(context, path)  # K3
    assert "no match" in search_workspace(context, SECRET)


def test_what_is_no_file_is_not_opened(root: Path, context: ToolContext) -> None:
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(root / "socket"))
        # A pipe without a writer would be waited for without end.
        for name in ("pipe", "socket"):
            with pytest.raises(ToolError, match="a device, a pipe or a socket"):
                read_file(context, name)  # K3
        assert "no match" in search_workspace(context, "x")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device files")
def test_a_device_is_not_opened(root: Path, context: ToolContext) -> None:
    try:
        os.mknod(root / "zero", 0o600 | 0o020000, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("this system lets nobody make device files")
    with pytest.raises(ToolError, match="a device, a pipe or a socket"):
        read_file(context, "zero")  # K3


@pytest.fixture
def swapping(root: Path, tmp_path: Path) -> Iterator[None]:
    """A folder and a file that someone replaces by links to the outside and back, as fast as can be."""
    (root / "real").mkdir()
    (root / "real" / "secret.txt").write_text("harmless")
    (root / "folder").mkdir()
    (root / "folder" / "secret.txt").write_text("harmless")
    (root / "file.txt").write_text("harmless")
    (root / "to_outside").symlink_to(tmp_path)
    (root / "to_secret").symlink_to(tmp_path / "secret.txt")
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            os.rename(root / "folder", root / "aside")
            os.rename(root / "to_outside", root / "folder")
            os.rename(root / "folder", root / "to_outside")
            os.rename(root / "aside", root / "folder")
            os.rename(root / "file.txt", root / "file.aside")
            os.rename(root / "to_secret", root / "file.txt")
            os.rename(root / "file.txt", root / "to_secret")
            os.rename(root / "file.aside", root / "file.txt")

    thread = threading.Thread(target=swap)
    thread.start()
    yield
    over.set()
    thread.join()


@pytest.mark.usefixtures("swapping")
def test_links_that_are_put_in_the_way_at_the_last_moment_lead_nowhere(context: ToolContext) -> None:
    seen = set()
    least, most = time.monotonic() + 1.5, time.monotonic() + 60
    while time.monotonic() < least or not ({"read", "refused"} <= seen or time.monotonic() > most):
        for path in ("folder/secret.txt", "file.txt"):
            try:
                text = read_file(context, path)
            except ToolError as error:
                seen.add("refused" if "link" in str(error) else "gone")
            else:
                assert SECRET not in text  # K3
                seen.add("read")
        assert "no match" in search_workspace(context, SECRET)
    # The race was on: both the file and what replaced it were met.
    assert {"read", "refused"} <= seen


def test_a_text_is_found_in_any_case_with_its_line(root: Path, context: ToolContext) -> None:
    (root / "logs").mkdir()
    (root / "logs" / "a.log").write_text("ok\nERROR: Größe fehlt\nok\n")
    (root / "b.py").write_text("error = 1  # error\n")

    assert search_workspace(context, "error").splitlines() == [
        "[2 matching lines in 2 files, 2 files searched]",
        "b.py:1: error = 1  # error",
        "logs/a.log:2: ERROR: Größe fehlt",
    ]
    assert "logs/a.log:2" in search_workspace(context, "GRÖSSE".replace("SS", "ß"), files="*.log")
    assert "1 files searched" in search_workspace(context, "error", files="logs/**")
    assert "b.py:1" in search_workspace(context, "error", path="b.py")
    assert "a.log:2" in search_workspace(context, "fehlt", path="logs")


@pytest.mark.parametrize("text", ["(a+)+$", "[", "\\", ".*", "(?:x"])
def test_a_pattern_is_only_a_text(root: Path, context: ToolContext, text: str) -> None:
    (root / "a.txt").write_text("a" * 50_000 + "!\n" + text + "\n")
    started = time.thread_time()
    assert "a.txt:2: " in search_workspace(context, text)
    assert time.thread_time() - started < 1


def test_matches_are_bounded_in_a_file_and_in_all(root: Path, context: ToolContext) -> None:
    for name in "abcd":
        (root / f"{name}.txt").write_text("hit\n" * 1_000)

    lines = search_workspace(context, "hit", max_matches=50).splitlines()

    assert "the search stopped early: 50 lines were found" in lines[0]
    assert sum(line.startswith("a.txt:") for line in lines) == 21 and len(lines) == 50 + 2 + 1


def test_a_long_line_is_shown_around_the_match(root: Path, context: ToolContext) -> None:
    (root / "min.js").write_text("x" * 5_000 + "needle" + "y" * 5_000)
    line = search_workspace(context, "needle").splitlines()[1]
    assert "needle" in line and len(line) < 300


def test_other_peoples_folders_are_left_out(root: Path, context: ToolContext) -> None:
    for name in (".git", "node_modules"):
        (root / name).mkdir()
        (root / name / "config.txt").write_text("needle")
    assert "no match, 0 files searched" in search_workspace(context, "needle")


def test_no_depth_of_folders_breaks_a_search(root: Path, context: ToolContext) -> None:
    deep = root
    for _ in range(300):
        deep = deep / "d"
    deep.mkdir(parents=True)
    (deep / "needle.txt").write_text("needle")
    (root / "d" / "d" / "near.txt").write_text("needle")
    assert search_workspace(context, "needle").splitlines()[1:] == ["d/d/near.txt:1: needle"]


def test_more_than_one_line_can_not_be_searched_for(context: ToolContext) -> None:
    for text in ("a\nb", "  "):
        with pytest.raises(ToolError, match="one line"):
            search_workspace(context, text)


def test_without_a_workspace_there_are_no_files() -> None:
    with pytest.raises(ToolError, match="no workspace"):
        read_file(ToolContext(), "a.txt")


def test_a_workspace_whose_folder_is_gone_says_so(tmp_path: Path) -> None:
    context = ToolContext(workspace=Workspace(name="w", root=str(tmp_path / "gone")))
    with pytest.raises(ToolError, match="can't be opened"):
        read_file(context, ".")
