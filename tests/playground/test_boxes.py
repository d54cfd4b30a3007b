"""Texts and JSON of any size: bounded at first, complete in the end, never markup."""

from __future__ import annotations

import html
import json
import re

import pytest

from playground.reading.boxes import (
    WHOLE_CHARS,
    Number,
    any_box,
    first_view,
    json_box,
    next_view,
    parsed,
    text_box,
)
from playground.reading.json_tree import CHUNK, LONG_STRING, MAX_LINES, JsonTree, find, one_line

HOSTILE = '<script>alert("x")</script>'


def read_whole(text: str) -> str:
    """The text as a reader gets it who opens every chunk."""
    view = first_view(text)
    shown, gap = [view.head], view.gap
    while gap:
        chunk = next_view(text, gap.offset)
        shown.append(chunk.head)
        gap = chunk.gap
    return "".join(shown) + view.tail


@pytest.mark.parametrize(
    "text",
    [
        "",
        "short",
        "x" * WHOLE_CHARS,
        "x" * (WHOLE_CHARS + 1),
        "line\n" * 50_000,
        "no line end " * 40_000,
        "é😀\n" * 30_000,
    ],
)
def test_the_chunks_of_a_text_give_the_text(text: str) -> None:
    assert read_whole(text) == text


def test_a_long_text_shows_head_and_tail_and_counts_what_is_hidden() -> None:
    text = "".join(f"line {number}\n" for number in range(10_000))

    view = first_view(text)

    assert view.head.startswith("line 0\n") and view.head.endswith("\n")
    assert view.tail.endswith("line 9999\n")
    assert view.gap is not None
    assert view.gap.lines == 10_000 - view.head.count("\n") - view.tail.count("\n")
    assert len(view.head) + len(view.tail) < WHOLE_CHARS


def test_an_offset_from_outside_is_kept_inside() -> None:
    text = "x" * 100_000

    assert next_view(text, 10**9).head == ""
    assert next_view(text, -5).head


def test_a_lone_surrogate_can_be_shown() -> None:
    text_box("n", "t", "a\ud800b").text.encode("utf-8")
    str(JsonTree("?").value({"k\ud800": "v\udfff"})).encode("utf-8")


def test_numbers_are_shown_as_they_were_spelled() -> None:
    digits = "12345678901234567890.12345678901234567890"
    text = f'{{"a": {digits}, "b": 1e2, "c": {"9" * 6000}}}'

    shown = JsonTree("?").value(any_box("n", "t", text).value)

    assert f'<span class="j-n">{digits}</span>' in shown
    assert '<span class="j-n">1e2</span>' in shown
    assert "9" * 6000 in shown


@pytest.mark.parametrize("text", ["", "word", "12", '"quoted"', "{broken", "[" * 100_000, "null"])
def test_what_is_no_object_or_array_stays_text(text: str) -> None:
    assert parsed(text) is None
    assert not any_box("n", "t", text).is_json


def test_everything_in_a_tree_is_escaped() -> None:
    value = {HOSTILE: [HOSTILE, {HOSTILE: HOSTILE}], "n": Number(HOSTILE)}

    for shown in (JsonTree("?").value(value), one_line(value), one_line(HOSTILE)):
        assert "<script" not in shown
    assert "&lt;script&gt;" in JsonTree("?").value(value)


def test_a_pointer_finds_its_value() -> None:
    value = {"a/b": {"~": [10, {"": 1}]}}

    assert find(value, "") == value
    assert find(value, "/a~1b/~0/0") == 10
    assert find(value, "/a~1b/~0/1/") == 1
    for wrong in ("/x", "/a~1b/~0/7", "/a~1b/~0/-1", "/a~1b/~0/0/0"):
        with pytest.raises(LookupError):
            find(value, wrong)


def items_shown(shown: str) -> list[str]:
    return re.findall(r'<span class="j-n">(\d+)</span>', shown)


def test_a_long_array_comes_in_chunks_that_miss_nothing() -> None:
    value = {"rows": list(range(350))}
    shown = str(JsonTree("/u?x=1").value(value))
    seen = items_shown(shown)
    assert seen == [str(n) for n in range(CHUNK)]

    while more := re.search(r'hx-get="([^"]*offset=(\d+)[^"]*)"', shown):
        assert html.unescape(more.group(1)).startswith("/u?x=1&pointer=%2Frows&offset=")
        shown = str(JsonTree("/u?x=1").rest(find(value, "/rows"), "/rows", int(more.group(2))))
        seen += items_shown(shown)

    assert seen == [str(n) for n in range(350)]


def test_a_tree_has_a_bounded_number_of_lines() -> None:
    value = [[[n, n, n, n] for n in range(90)] for _ in range(90)]

    shown = JsonTree("?").value(value)

    assert shown.count("<li>") <= MAX_LINES + 200
    assert "4 items" in shown


def test_a_long_string_in_a_tree_is_fetched_piece_by_piece() -> None:
    text = "".join(f"<{n}>\n" for n in range(30_000))
    shown = str(JsonTree("?").value({"t": text}))
    pieces = re.findall(r'<span class="j-s">(.*?)</span>', shown)
    assert len(html.unescape(pieces[0])) < 2 * LONG_STRING

    while more := re.search(r"offset=(\d+)", shown):
        shown = str(JsonTree("?").rest(text, "/t", int(more.group(1))))
        pieces += re.findall(r'<span class="j-s">(.*?)</span>', shown)

    assert json.loads(html.unescape("".join(pieces))) == text


def test_nesting_without_end_is_opened_on_demand() -> None:
    value: object = 1
    for _ in range(500):
        value = [value]

    shown = JsonTree("?").value(value)

    assert shown.count("<details") < 50
    assert "pointer=" in shown
    assert json_box("n", "t", value).text


def test_whether_a_text_is_json_is_found_out_when_somebody_asks() -> None:
    box = any_box("result", "Result", "[1, 2")

    assert "value" not in vars(box)
    assert not box.is_json and "value" in vars(box)


def test_many_long_strings_dont_make_a_tree_huge() -> None:
    tree = JsonTree("/?box=x").value([["x" * 3_000] * 100] * 100)

    assert len(tree) < 600_000


def test_a_text_is_shown_by_scrolling_up_to_a_point() -> None:
    text = "a line\n" * 1_000_000

    near, far = next_view(text, 8_000).gap, next_view(text, 5_000_000).gap
    assert near and near.by_scrolling and not near.is_chunk
    assert far and not far.by_scrolling
