"""The step list of a long run: a page holds a part of it, and the server finds and fetches the rest."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from playground.models import Run
from playground.reading.window import LONG_ROUNDS, WINDOW_LINES
from tests.factories import UserFactory
from tests.playground.recorded import BulkRun, long_run

pytestmark = pytest.mark.django_db

ROUNDS = 130
FAILED = (3, 70, 71)
# A round of the runs here has four steps and two lines: a call and a tool.
CALL, TOOL = 1, 3


def first_of(round: int, line: int = CALL) -> int:
    return 4 * (round - 1) + line


@pytest.fixture
def run(user: User) -> Run:
    return long_run(user, rounds=ROUNDS, failed=FAILED)


def steps(client: Client, run: Run, **query: Any) -> str:
    response = client.get(reverse("playground:run_steps", args=[run.pk]), query)
    assert response.status_code == 200
    return response.content.decode()


def rounds_in(html: str) -> list[int]:
    return [int(number) for number in re.findall(r'id="round-(\d+)"', html)]


def lines_in(html: str) -> list[int]:
    return [int(sequence) for sequence in re.findall(r'id="step-(\d+)"', html)]


def is_window(html: str) -> bool:
    """Rounds are whole, so a window may have a line more than it should on both sides."""
    return 0 <= len(lines_in(html)) - WINDOW_LINES <= 3


def range_in(html: str, side: str) -> str:
    found = re.search(rf'id="rounds-{side}".*?<b>(.*?)</b><span>(.*?)</span>', html, re.DOTALL)
    return " · ".join(found.groups()).replace("\u00a0", " ") if found else ""


def found_in(html: str) -> int:
    match = re.search(r'data-at="(\d+)"', html)
    assert match
    return int(match[1])


def test_a_short_run_is_on_its_page_as_a_whole(client: Client, user: User) -> None:
    run = long_run(user, rounds=LONG_ROUNDS - 1)

    html = client.get(reverse("playground:run", args=[run.pk])).content.decode()

    assert rounds_in(html) == list(range(LONG_ROUNDS + 1))
    assert "data-long" not in html and "aria-posinset" not in html and "data-overview" not in html


def test_a_page_holds_as_much_of_a_run_however_long_it_is(client: Client, user: User, run: Run) -> None:  # T4
    longer = long_run(user, rounds=3 * ROUNDS)
    addresses = [reverse("playground:run", args=[each.pk]) for each in (run, longer)]

    pages = [client.get(address).content for address in addresses]

    assert all(is_window(page.decode()) for page in pages)
    assert len(pages[1]) < 1.1 * len(pages[0])


def test_it_shows_the_rounds_around_a_step_and_one_row_for_those_on_each_side(client: Client, run: Run) -> None:
    html = steps(client, run, at=first_of(70))

    shown = rounds_in(html)
    assert shown[0] < 70 < shown[-1] and is_window(html)
    # Each round of the run takes 210 ms.
    assert (
        range_in(html, "before")
        == f"Rounds 1–{shown[0] - 1} · {shown[0] - 1} rounds, {0.21 * (shown[0] - 1):.1f} s, 1 failed"
    )
    assert range_in(html, "after").startswith(f"Rounds {shown[-1] + 1}–131 · ")
    assert "failed" not in range_in(html, "after")


def test_next_to_each_other_the_parts_are_the_whole_list(client: Client, run: Run) -> None:
    seen: list[int] = []
    html = steps(client, run)
    while True:
        seen += [line for line in lines_in(html) if line not in seen]
        if not range_in(html, "after"):
            break
        html = steps(client, run, at=lines_in(html)[-1])

    calls_and_tools = [first_of(round, line) for round in range(1, ROUNDS + 1) for line in (CALL, TOOL)]
    assert seen == [0, *calls_and_tools, first_of(ROUNDS + 1)]


def test_screen_readers_hear_where_in_the_whole_a_round_is(client: Client, run: Run) -> None:
    html = steps(client, run, at=first_of(70))

    # The time before the first round is an item, too.
    assert re.search(r'aria-setsize="132" aria-posinset="71"[^>]* id="round-70"', html)


def test_bars_are_drawn_on_the_time_of_the_rounds_that_are_shown(client: Client, run: Run) -> None:
    html = steps(client, run, at=first_of(70))

    first = rounds_in(html)[0]
    assert f'data-origin="{210 * (first - 1)}" ' in html
    assert f'data-axis="{210 * len(rounds_in(html))}"' in html
    assert f'<rect data-ms="{210 * (first - 1)} 210" x="0%"' in html


@pytest.mark.parametrize(
    ("find", "at", "found"),
    [
        ("next", first_of(70, TOOL), first_of(71)),
        ("previous", first_of(70), first_of(69, TOOL)),
        ("previous", 0, 0),
        ("next", first_of(ROUNDS + 1), first_of(ROUNDS + 1)),
        ("error", first_of(3), first_of(3, TOOL)),
        ("error", first_of(3, TOOL), first_of(70, TOOL)),
        ("error", first_of(71, TOOL), first_of(3, TOOL)),
        ("first", first_of(70), 0),
        ("last", 0, first_of(ROUNDS + 1)),
    ],
)
def test_steps_are_found_wherever_they_are(client: Client, run: Run, find: str, at: int, found: int) -> None:
    html = steps(client, run, at=at, find=find)

    assert found_in(html) == found
    assert found in lines_in(html)


def test_a_round_is_found_by_its_number(client: Client, run: Run) -> None:
    html = steps(client, run, round=100)

    assert found_in(html) == first_of(100)
    assert 100 in rounds_in(html)


@pytest.mark.parametrize(
    ("query", "lines"),
    [
        ({"kind": "err"}, [first_of(number, TOOL) for number in FAILED]),
        ({"q": "ROUND 130"}, [first_of(130), first_of(130, TOOL)]),
        ({"q": "round 13", "kind": "tool"}, [first_of(number, TOOL) for number in (13, 130)]),
        ({"q": "no such step"}, []),
    ],
)
def test_filters_work_on_all_steps(client: Client, run: Run, query: dict[str, str], lines: list[int]) -> None:
    html = steps(client, run, **query)

    assert lines_in(html) == lines
    assert f'data-total="{len({(line - 1) // 4 for line in lines})}"' in html
    assert '<span class="n">262</span>' in html, "the counts are those of the whole list"


def test_a_long_filtered_list_comes_in_parts_too(client: Client, run: Run) -> None:
    html = steps(client, run, kind="tool", at=first_of(65, TOOL))

    assert is_window(html)
    assert range_in(html, "before") and range_in(html, "after")
    assert found_in(steps(client, run, kind="tool", at=first_of(65, TOOL), find="next")) == first_of(66, TOOL)


def test_the_overview_has_a_bar_for_each_round_and_marks_what_failed(client: Client, run: Run) -> None:
    html = steps(client, run)

    strip = html[html.index("step-overview") : html.index("step-tree")]
    assert 'aria-valuemax="131"' in strip and "131 rounds" in strip
    ok, failed, marks = re.findall(r'<path class="[^"]+" d="([^"]*)"', strip)[:3]
    assert [ok.count("M"), failed.count("M"), marks.count("M")] == [131 - len(FAILED), len(FAILED), len(FAILED)]
    assert " style=" not in strip


def test_the_overview_of_very_many_rounds_stays_small(client: Client, user: User) -> None:
    html = steps(client, long_run(user, rounds=450, failed=[449]))

    strip = html[html.index("step-overview") : html.index("step-tree")]
    assert "451 rounds, 3 to a bar" in strip
    assert strip.count("M") == 2 * 151 + 2, "a bar for time, one for tokens, and the marks of the failed one"


def test_a_live_run_leaves_its_newest_rounds_room_to_grow(client: Client, user: User) -> None:
    recorded = BulkRun(user)
    for _ in range(ROUNDS):
        recorded.round()
    recorded.request()
    recorded.write()

    html = steps(client, recorded.run, find="last")

    assert not range_in(html, "after")
    origin = int(re.search(r'data-origin="(\d+)"', html)[1])  # type: ignore[index]
    assert f'data-axis="{10_000 if 210 * ROUNDS - origin > 5_000 else 5_000}"' in html


def test_a_part_costs_as_many_queries_as_any_other(client: Client, run: Run, user: User) -> None:
    short = long_run(user, rounds=5)
    steps(client, short)

    with CaptureQueriesContext(
        connection,
    ) as few:
        steps(client, short)
    with CaptureQueriesContext(connection) as many:
        steps(client, run, kind="tool", at=200)

    assert len(few) == len(many)


@pytest.mark.parametrize(
    "query", [{"at": "x"}, {"at": "99999"}, {"find": "everything"}, {"kind": "x"}, {"round": "9" * 9}]
)
def test_what_makes_no_sense_is_not_asked_for(client: Client, run: Run, query: dict[str, str]) -> None:
    html = steps(client, run, **query)

    assert 30 < len(lines_in(html)) < 2 * WINDOW_LINES


def test_steps_of_a_run_that_one_may_not_see_are_not_found(run: Run) -> None:
    stranger = Client()
    stranger.force_login(UserFactory(is_staff=True, permissions=["playground.view_run"]))

    assert stranger.get(reverse("playground:run_steps", args=[run.pk])).status_code == 404
