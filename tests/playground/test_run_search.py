"""Looking for a text in one run: what is found, where it is shown, and what it takes."""

from __future__ import annotations

import json
import re
import time
from html import unescape

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from llmcore.errors import ErrorKind
from llmcore.messages import FinishReason, ToolCall
from llmcore.runs.outcome import EndReason
from llmcore.tools.results import FailureKind, ToolResult
from playground.erasure import delete_contents
from playground.models import Run
from playground.reading.needle import MAX_COUNT, Needle
from playground.reading.run_search import MAX_HITS, search_run
from tests.factories import UserFactory
from tests.playground.recorded import RecordedRun, finished_run, long_run, lookup, provider_error

pytestmark = pytest.mark.django_db


def found(run: Run, text: str) -> list[tuple[int, str]]:
    needle = Needle.of(text)
    assert needle
    return [(hit.line.sequence, hit.tab) for hit in search_run(run, needle).hits]


@pytest.fixture
def run(user: User) -> Run:
    """One of everything that can be looked for; its steps are numbered as the comments say."""
    recorded = RecordedRun(user, system="You are a clerk.", prompt="Where is order DJ-48213?")
    recorded.request()  # 1
    calls = [
        ToolCall(id="call-1", name="look_up", arguments={"order": "DJ-48213", "größe": "Ångström"}),
        ToolCall(id="call-2", name="refund", arguments=None, arguments_raw='{"broken'),
    ]
    recorded.response("Let me see.", thinking="A lost parcel, perhaps.", calls=calls)  # 2
    recorded.tool_call(calls[0])  # 3
    whole = json.dumps([{"parcel": number, "city": "Zürich"} for number in range(500)])
    recorded.tool_result(calls[0], ToolResult(text=whole[:200], full=whole, size=len(whole)))  # 4
    recorded.tool_call(calls[1])  # 5
    recorded.tool_result(
        calls[1], ToolResult(text="It failed.", failure=FailureKind.EXCEPTION, traceback="ValueError: no such till")
    )  # 6
    recorded.request()  # 7
    recorded.retry(provider_error(ErrorKind.OVERLOADED, "the model is having lunch"))  # 8
    recorded.response(error=provider_error(message="quota of today is used up"), usage=None, finish_reason=None)  # 9
    return recorded.end(EndReason.PROVIDER_FAILED)


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("clerk", [(1, "messages")]),
        ("dj-48213", [(1, "messages"), (1, "response"), (3, "arguments")]),
        ("let ME see", [(1, "response")]),
        ("lost  parcel", [(1, "thinking")]),
        ("Ångström", [(1, "response"), (3, "arguments")]),
        ('"parcel": 499', [(3, "result")]),
        ("look_up", [(1, "tools"), (3, "result")]),
        ("no such till", [(5, "traceback")]),
        ("it failed", [(5, "result")]),
        ("having lunch", [(8, "error")]),
        ("quota of today", [(7, "response")]),
        ("nobody said this", []),
    ],
)
def test_everything_that_was_said_is_found_where_it_is_shown(
    run: Run, text: str, places: list[tuple[int, str]]
) -> None:
    assert found(run, text) == places


def test_what_json_spells_otherwise_is_found_too(run: Run) -> None:
    assert found(run, "Zürich") == [(3, "result")], "the tool wrote Z\\u00fcrich"


def test_a_message_is_found_once_however_many_requests_sent_it(user: User) -> None:
    run = finished_run(user, rounds=5)

    assert found(run, "You help") == [(1, "messages")]


def test_a_hit_has_an_excerpt_its_step_and_its_tab(client: Client, run: Run) -> None:
    html = client.get(reverse("playground:run_search", args=[run.pk]), {"q": "parcel"}).content.decode()

    assert 'href="#step-1/thinking"' in html and 'href="#step-3/result"' in html
    assert "A lost <mark>parcel</mark>, perhaps." in html
    assert "500×" in html and "Round 1 · look_up" in html


def test_nothing_that_was_found_is_taken_for_markup(client: Client, user: User) -> None:
    recorded = RecordedRun(user)
    recorded.round(result="<script>alert(1)</script> & more")
    run = recorded.end()

    html = client.get(reverse("playground:run_search", args=[run.pk]), {"q": "<script>"}).content.decode()

    assert "<script" not in html and "<mark>&lt;script&gt;</mark>" in html


def test_deleted_contents_are_not_found(user: User, run: Run) -> None:
    assert found(run, "parcel") and found(run, "having lunch") and found(run, "clerk")

    delete_contents(run, kept_days=1, now=timezone.now())

    for text in ("parcel", "having lunch", "clerk", "DJ-48213", "quota", "till"):
        assert found(run, text) == []
    assert found(run, "look_up") == [(3, "result")], "names of tools are figures"


def test_very_many_hits_come_in_parts(client: Client, user: User) -> None:
    run = long_run(user, rounds=MAX_HITS + 20)
    needle = Needle.of("article")
    assert needle
    results = [4 * round + 3 for round in range(MAX_HITS + 20)]

    first = search_run(run, needle, budget_s=600)
    assert [hit.line.sequence for hit in first.hits] == results[:MAX_HITS]
    assert first.go_on and first.round == MAX_HITS + 1 and not first.goes_on_by_itself
    second = search_run(run, needle, after=first.go_on, budget_s=600)
    assert [hit.line.sequence for hit in second.hits] == results[MAX_HITS:] and second.go_on is None

    # On a slow machine the page may have to go on more often: only then by itself.
    address: str | None = f"{reverse('playground:run_search', args=[run.pk])}?q=article"
    steps: list[int] = []
    while address is not None:
        part = client.get(address).content.decode()
        hits = [int(step) for step in re.findall(r'pg-hit" href="#step-(\d+)/result"', part)]
        steps += hits
        more = re.search(r'hx-get="([^"]+)"', part)
        assert ("Go on from round" in part) is (more is not None)
        assert more is None or (f"Go on from round {len(steps) + 1}" in part and len(hits) <= MAX_HITS)
        assert ("click, load" in part) is (more is not None and len(hits) < MAX_HITS)
        address = unescape(more[1]) if more else None
    assert steps == results


def test_it_stops_when_its_time_is_over_and_goes_on_from_there(user: User) -> None:
    run = long_run(user, rounds=10)
    needle = Needle.of("article")
    assert needle
    hits, after = [], 0
    for _ in range(100):
        part = search_run(run, needle, after=after, budget_s=-1)
        hits += part.hits
        if part.go_on is None:
            break
        assert part.go_on > after
        after = part.go_on

    assert [hit.line.sequence for hit in hits] == [4 * round + 3 for round in range(10)]


def test_ten_megabytes_are_searched_in_a_moment(user: User) -> None:
    recorded = RecordedRun(user)
    recorded.request()
    recorded.response(calls=[lookup()], finish_reason=FinishReason.TOOL_CALLS)
    recorded.tool_call(lookup())
    whole = "lorem ipsum dolor sit amet " * 400_000 + "needle"
    recorded.tool_result(lookup(), ToolResult(text=whole[:50_000], full=whole, size=len(whole)))
    run = recorded.end()

    started = time.process_time()
    assert found(run, "needle") == [(3, "result")]
    assert time.process_time() - started < 5


def test_hits_are_counted_up_to_a_limit() -> None:
    needle = Needle.of("ab")
    assert needle
    excerpt = needle.look("ab" * 5_000)

    assert excerpt and excerpt.count == MAX_COUNT + 1 and excerpt.counted == "1,000+"


@pytest.mark.parametrize(("text", "says"), [("", ""), (" x ", "At least 2 characters"), ("zz", "Nothing in this run")])
def test_it_says_when_there_is_nothing_to_show(client: Client, run: Run, text: str, says: str) -> None:
    html = client.get(reverse("playground:run_search", args=[run.pk]), {"q": text}).content.decode()

    assert says in html and "pg-hit" not in html


def test_a_run_that_one_may_not_see_is_not_searched(run: Run) -> None:
    stranger = Client()
    stranger.force_login(UserFactory(is_staff=True, permissions=["playground.view_run"]))

    assert stranger.get(reverse("playground:run_search", args=[run.pk]), {"q": "parcel"}).status_code == 404
