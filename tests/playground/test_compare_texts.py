"""The difference between two texts covers both, marks what only one has, and takes bounded time."""

from __future__ import annotations

import random
from itertools import pairwise

from playground.reading.compare.sequences import changes_between
from playground.reading.compare.texts import MAX_WORDS, SHOWN_LINES, line_diff, side_by_side, word_diff


def test_changes_cover_both_sequences_and_take_turns() -> None:
    for seed in range(200):
        chance = random.Random(seed)
        a, b = ([chance.choice("abc") for _ in range(chance.randrange(15))] for _ in "ab")

        changes = changes_between(a, b)

        assert [item for c in changes for item in a[c.a_start : c.a_end]] == a
        assert [item for c in changes for item in b[c.b_start : c.b_end]] == b
        assert all(a[c.a_start : c.a_end] == b[c.b_start : c.b_end] for c in changes if c.same)
        assert all(one.same != other.same for one, other in pairwise(changes))


def test_as_little_as_possible_changes() -> None:
    same = [change for change in changes_between("abcabba", "cbabac") if change.same]

    assert sum(change.a_end - change.a_start for change in same) == 4


def test_what_differs_too_much_is_exchanged_as_a_whole() -> None:
    a, b = ["x", "y"] * 50, ["y", "z"] * 50

    (first, *rest) = changes_between(["start", *a, "end"], ["start", *b, "end"], most_edits=10)

    assert first.same and [change.same for change in rest] == [False, True]


def test_words_are_marked_where_only_one_text_has_them() -> None:
    diff = word_diff("Orders go out within 30 days, always.", "Orders go out within 14 working days, always.")

    assert [piece.text for piece in diff.a if piece.only] == ["30"]
    assert [piece.text for piece in diff.b if piece.only] == ["14 working"]
    assert "".join(piece.text for piece in diff.a) == "Orders go out within 30 days, always."
    assert "".join(piece.text for piece in diff.b) == "Orders go out within 14 working days, always."
    assert not diff.cut


def test_equal_and_empty_texts_are_told() -> None:
    assert word_diff("the same", "the same").same == 100
    assert word_diff("", "").same == 100
    assert word_diff("", "something new").same == 0


def test_long_texts_are_compared_up_to_a_bound() -> None:
    diff = word_diff("ab " * 10 * MAX_WORDS, "ba " * 10 * MAX_WORDS)

    assert diff.cut and len("".join(piece.text for piece in diff.a)) <= 4 * MAX_WORDS


def test_changed_lines_stand_with_what_is_around_them() -> None:
    a = "\n".join(f"line {number}" for number in range(20))

    lines = line_diff(a, a.replace("line 10", "line ten"))

    assert [(line.mark, "".join(piece.text for piece in line.pieces)) for line in lines] == [
        (" ", "… 9 lines the same"),
        (" ", "line 9"),
        ("−", "line 10"),
        ("+", "line ten"),
        (" ", "line 11"),
        (" ", "… 8 lines the same"),
    ]
    assert [piece.text for piece in lines[2].pieces if piece.only] == ["10"]


def test_of_very_many_changed_lines_the_rest_is_counted() -> None:
    lines = line_diff("\n".join(f"a{n}" for n in range(1000)), "\n".join(f"b{n}" for n in range(1000)))

    assert len(lines) == SHOWN_LINES + 1
    assert "1,800 more lines: 800 only in A, 1,000 only in B" in lines[-1].pieces[0].text


def test_side_by_side_both_texts_are_level_at_what_they_have_in_common() -> None:
    lines = line_diff("one\ntwo\nthree\nfour", "one\n2\ntwo and a half\nthree\nfour\nfive")

    rows = [
        tuple("".join(piece.text for piece in line.pieces) if line else None for line in row)
        for row in side_by_side(lines)
    ]

    assert rows == [
        ("one", "one"),
        ("two", "2"),
        (None, "two and a half"),
        ("three", "three"),
        ("four", "four"),
        (None, "five"),
    ]
