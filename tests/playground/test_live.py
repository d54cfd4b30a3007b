"""The news of a run while it is going on: nothing lost, nothing doubled, nothing to those who may not see it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import AsyncClient, Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from llmcore.messages import FinishReason
from llmcore.runs.outcome import EndReason, RunStatus
from llmcore.usage import Usage
from playground.models import Run, RunStep
from playground.reading.lines import Line
from playground.reading.page import steps_of
from playground.reading.step_rows import load_rows
from playground.reading.steps import read_lines
from playground.reading.watch import Event, Watch
from playground.views import live
from tests.factories import UserFactory
from tests.playground.recorded import RecordedRun, finished_run, lookup

WAIT_S = 60


@pytest.fixture
def user(db: None) -> User:
    return UserFactory(is_superuser=True)


def watch(run: Run, user: User, *, after: int = 0) -> Watch:
    return Watch(run_id=run.pk, user=user, after=after)


def names(events: list[Event]) -> list[str]:
    return [event.name for event in events]


def steps(events: list[Event]) -> list[tuple[int | None, int]]:
    return [(event.id, event.data["line"]) for event in events if event.name == "step"]


# --- what changed ---


def test_without_news_a_look_costs_one_row(user: User) -> None:  # D5
    recorded = RecordedRun(user)
    recorded.request()
    reader = watch(recorded.run, user)
    reader.look()

    with CaptureQueriesContext(connection) as captured:
        assert reader.look() == []

    assert len(captured) == 1
    assert "json" not in captured[0]["sql"].lower() and "plan" not in captured[0]["sql"]


def test_a_look_tells_of_steps_figures_and_state(user: User) -> None:
    recorded = RecordedRun(user)
    recorded.request()
    reader = watch(recorded.run, user)

    assert names(reader.look()) == ["step", "step", "summary", "state"]

    recorded.response("I look.", calls=[lookup()], finish_reason=FinishReason.TOOL_CALLS)
    events = reader.look()
    assert names(events) == ["step", "summary"]
    assert steps(events) == [(2, 1)]
    assert 'id="step-1"' in events[0].data["html"] and "is-active" not in events[0].data["html"]


def test_steps_come_in_order_and_a_result_updates_its_call(user: User) -> None:
    recorded = RecordedRun(user)
    recorded.round()
    recorded.request()

    events = watch(recorded.run, user, after=2).look()

    # 3 and 4 are one tool run; 5 is the next request. The start of the run has no number of its own.
    assert steps(events) == [(4, 3), (5, 5), (None, 0)]


def test_overlapping_tools_are_told_so_that_every_id_is_a_safe_place(user: User) -> None:  # D4
    recorded = RecordedRun(user)
    recorded.request()
    first, second = lookup(1), lookup(2)
    recorded.response(calls=[first, second])
    recorded.tool_call(first)
    recorded.tool_call(second)
    recorded.tool_result(second)
    recorded.tool_result(first)

    events = [event for event in watch(recorded.run, user).look() if event.id]

    ids = [event.id for event in events]
    assert ids == sorted(ids) == [2, 5, 6]
    # Whoever leaves after any of them and comes back gets all lines that changed since.
    for event in events:
        again = {line for _, line in steps(watch(recorded.run, user, after=event.id or 0).look()) if line}
        assert again == {other.data["line"] for other in events if (other.id or 0) > (event.id or 0)}


def test_a_reader_who_comes_back_after_any_step_ends_with_all_of_them(user: User) -> None:  # D4
    run = finished_run(user, rounds=3)

    for after in range(run.last_sequence + 1):
        told = {id for id, _ in steps(watch(run, user, after=after).look()) if id}
        lines = {line.sequence for line in _lines(run) if max(line.steps) > after}
        assert {line for _, line in steps(watch(run, user, after=after).look())} - {0} == lines
        assert max(told, default=run.last_sequence) == run.last_sequence


def _lines(run: Run) -> list[Line]:
    return read_lines(run, load_rows(RunStep.objects.filter(run=run)))


def test_a_cache_miss_is_told_with_the_answer_that_reports_it(user: User) -> None:
    recorded = RecordedRun(user)
    reader = watch(recorded.run, user)

    def answered(cached: int) -> bool:
        """Whether the line of the next call comes with a badge, as it would after a reload."""
        sequence = recorded.request()
        reader.look()
        usage = Usage(input_tokens=5_000, output_tokens=10, total_tokens=5_010, cache_read_input_tokens=cached)
        recorded.response("Well.", calls=[lookup()], usage=usage, finish_reason=FinishReason.TOOL_CALLS)
        (line,) = (event for event in reader.look() if event.name == "step" and event.data["line"] == sequence)
        told = ">cache miss<" in line.data["html"]
        rows = load_rows(RunStep.objects.filter(run=recorded.run))
        after_reload = {line.sequence: line for line in steps_of(recorded.run, rows).lines}[sequence]
        assert told == any(badge.word == "cache miss" for badge in after_reload.badges)
        recorded.tool_call(lookup())
        recorded.tool_result(lookup())
        return told

    assert [answered(cached) for cached in (0, 0, 5_000, 1_000)] == [False, True, False, True]


def test_growing_text_is_told_by_what_was_added(user: User) -> None:
    recorded = RecordedRun(user)
    recorded.request()
    reader = watch(recorded.run, user)
    reader.look()

    told = []
    for text in ("Once", "Once upon", "Upon", ""):
        recorded.partial(text=text)
        told += [event.data["parts"] for event in reader.look()]

    assert told == [
        {"text": {"append": False, "text": "Once"}},
        {"text": {"append": True, "text": " upon"}},
        {"text": {"append": False, "text": "Upon"}},
        {"text": {"append": False, "text": ""}},
    ]


def test_text_of_the_next_round_begins_anew(user: User) -> None:
    recorded = RecordedRun(user)
    recorded.request()
    recorded.partial(text="One")
    reader = watch(recorded.run, user)
    reader.look()
    recorded.response("One")
    recorded.request()
    recorded.partial(text="One more")

    (event,) = [event for event in reader.look() if event.name == "partial"]

    assert event.data == {"round": 2, "parts": {"text": {"append": False, "text": "One more"}}, "tokens": 2}


@pytest.mark.parametrize("reason", list(EndReason))
def test_every_end_is_told_last(user: User, reason: EndReason) -> None:
    recorded = RecordedRun(user)
    recorded.round()
    reader = watch(recorded.run, user)
    reader.look()
    assert not reader.ended

    recorded.end(reason)
    events = reader.look()

    assert names(events)[-1] == "end" and reader.ended
    assert "state" in names(events)


def test_a_cancel_request_changes_the_head_at_once(user: User) -> None:  # D2
    recorded = RecordedRun(user)
    recorded.request()
    reader = watch(recorded.run, user)
    reader.look()
    client = Client()
    client.force_login(user)

    client.post(reverse("playground:run_cancel", args=[recorded.run.pk]))

    (event,) = [event for event in reader.look() if event.name == "state"]
    assert "Stopping" in event.data["html"]


def test_a_run_that_is_gone_or_no_longer_visible_ends_the_watch(user: User) -> None:
    recorded = RecordedRun(UserFactory())
    stranger = watch(recorded.run, UserFactory(permissions=["playground.view_run"]))
    assert names(stranger.look()) == ["end"] and stranger.ended

    reader = watch(recorded.run, user)
    reader.look()
    Run.objects.all().delete()
    assert names(reader.look()) == ["end"] and reader.ended


def test_events_are_one_line_of_data_whatever_they_hold() -> None:
    text = "one\r\ntwo\u2028three\x85\n\nevent: end\n\n"

    encoded = Event(name="partial", data={"text": text}, id=7).encode()

    head, data = encoded.removesuffix("\n\n").split("\ndata: ")
    assert head == "id: 7\nevent: partial"
    assert len(data.splitlines()) == 1
    assert json.loads(data) == {"text": text}


# --- by asking ---


def test_asking_gives_the_same_news_and_where_to_go_on(user: User) -> None:
    recorded = RecordedRun(user)
    recorded.round()
    client = Client()
    client.force_login(user)
    url = reverse("playground:run_updates", args=[recorded.run.pk])

    first = client.get(url, {"after": 2}).json()
    second = client.get(url, {"after": first["after"], "revision": first["revision"]}).json()
    recorded.end()
    third = client.get(url, {"after": first["after"], "revision": first["revision"]}).json()

    assert [event["event"] for event in first["events"]] == ["step", "step", "summary", "state"]
    assert first["after"] == 4 and first["ended"] is False
    assert second["events"] == [] and second["revision"] == first["revision"]
    assert third["events"][-1]["event"] == "end" and third["ended"] is True


@pytest.mark.parametrize("query", [{"after": "-1"}, {"after": "x"}, {"after": "9" * 40}, {"revision": "²"}, {}])
def test_asking_with_nonsense_begins_at_the_beginning(user: User, query: dict[str, str]) -> None:
    recorded = RecordedRun(user)
    recorded.request()
    client = Client()
    client.force_login(user)

    response = client.get(reverse("playground:run_updates", args=[recorded.run.pk]), query)

    assert [event["id"] for event in response.json()["events"] if event["id"]] == [1]


# --- as a stream ---


@dataclass
class Stream:
    """A stream as a browser reads it."""

    parts: AsyncIterator[bytes]
    buffer: str = ""

    async def next(self) -> tuple[str, dict[str, Any], str | None]:
        """The next event: its name, its data and its id."""
        while True:
            while "\n\n" in self.buffer:
                block, self.buffer = self.buffer.split("\n\n", 1)
                fields = dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":"))
                if "event" in fields:
                    return fields["event"], json.loads(fields["data"]), fields.get("id")
            part = await asyncio.wait_for(anext(self.parts), WAIT_S)
            self.buffer += part.decode()

    async def until(self, name: str) -> list[tuple[str, dict[str, Any], str | None]]:
        events = [await self.next()]
        while events[-1][0] != name:
            events.append(await self.next())
        return events


@pytest.fixture
async def open_stream() -> AsyncIterator[Callable[..., Any]]:
    opened = []

    async def open_one(user: User, run: Run, query: str = "", **headers: str) -> Stream:
        client = AsyncClient()
        await client.aforce_login(user)
        response = await client.get(reverse("playground:run_events", args=[run.pk]) + query, headers=headers)
        assert response.status_code == 200
        assert response.headers["Content-Type"] == "text/event-stream"
        assert "no-cache" in response.headers["Cache-Control"] and response.headers["X-Accel-Buffering"] == "no"
        opened.append(response)
        return Stream(aiter(response.streaming_content))

    yield open_one
    for response in opened:
        await response.streaming_content.aclose()


@pytest.mark.django_db(transaction=True)
async def test_a_stream_tells_each_step_once_to_the_end(open_stream: Callable[..., Any]) -> None:  # D4
    def begin() -> tuple[User, RecordedRun]:
        owner = UserFactory(is_superuser=True)
        return owner, RecordedRun(owner)

    user, recorded = await sync_to_async(begin)()
    stream = await open_stream(user, recorded.run)
    await stream.until("state")

    seen = []
    await sync_to_async(recorded.round)()
    while sum(event[0] == "step" for event in seen) < 1 or seen[-1][2] != "4":
        event = await stream.next()
        if event[0] == "step":
            seen.append(event)
    await sync_to_async(recorded.answer)("Done.")
    await sync_to_async(recorded.end)(EndReason.COMPLETED)
    seen += await stream.until("end")

    final = {event[1]["line"]: event[1]["html"] for event in seen if event[0] == "step"}
    assert set(final) - {0} == {1, 3, 5}
    assert not any("is-active" in html for html in final.values())
    with pytest.raises(StopAsyncIteration):
        await anext(stream.parts)


@pytest.mark.django_db(transaction=True)
async def test_a_browser_that_comes_back_goes_on_where_it_was(open_stream: Callable[..., Any]) -> None:  # D4
    def begin() -> tuple[User, Run]:
        owner = UserFactory(is_superuser=True)
        return owner, finished_run(owner, rounds=2)

    user, run = await sync_to_async(begin)()
    stream = await open_stream(user, run, f"?after=0&revision={run.revision}", **{"Last-Event-ID": "6"})

    events = await stream.until("end")

    assert [id for name, _, id in events if name == "step" and id] == ["8", "10"]


@pytest.mark.django_db(transaction=True)
async def test_a_stream_of_a_run_that_is_up_to_date_waits(
    open_stream: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin() -> tuple[User, RecordedRun]:
        owner = UserFactory(is_superuser=True)
        recorded = RecordedRun(owner)
        recorded.request()
        recorded.run.refresh_from_db()
        return owner, recorded

    monkeypatch.setattr(live, "HEARTBEAT_S", 0.2)
    user, recorded = await sync_to_async(begin)()
    stream = await open_stream(user, recorded.run, f"?after=1&revision={recorded.run.revision}")

    while "event: beat" not in stream.buffer:
        stream.buffer += (await asyncio.wait_for(anext(stream.parts), WAIT_S)).decode()

    assert stream.buffer.count("event:") == stream.buffer.count("event: beat")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("loss", ["deactivated", "logged out", "right withdrawn"])
async def test_a_stream_ends_soon_after_the_reader_lost_the_right(
    open_stream: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, loss: str
) -> None:
    def begin() -> tuple[User, RecordedRun]:
        owner = UserFactory(permissions=["playground.view_run"])
        return owner, RecordedRun(owner)

    def lose() -> None:
        match loss:
            case "deactivated":
                User.objects.update(is_active=False)
            case "logged out":
                Session.objects.all().delete()
            case "right withdrawn":
                User.objects.get().user_permissions.clear()

    monkeypatch.setattr(live, "HEARTBEAT_S", 0.2)
    user, recorded = await sync_to_async(begin)()
    stream = await open_stream(user, recorded.run)
    await stream.until("state")
    await sync_to_async(lose)()

    ended = False
    while not ended:
        stream.buffer += (part := await asyncio.wait_for(anext(stream.parts, b""), WAIT_S)).decode()
        ended = not part
        if loss == "right withdrawn" and "event: beat" in stream.buffer and not ended:
            await sync_to_async(recorded.partial)(text="secret")
    assert "secret" not in stream.buffer


@pytest.mark.django_db(transaction=True)
async def test_a_stream_is_refused_like_a_page() -> None:
    def begin() -> tuple[User, User, Run]:
        owner, other = (
            UserFactory(permissions=["playground.view_run"]),
            UserFactory(permissions=["playground.view_run"]),
        )
        return owner, other, RecordedRun(owner, status=RunStatus.QUEUED).run

    _, other, run = await sync_to_async(begin)()
    url = reverse("playground:run_events", args=[run.pk])
    reader = AsyncClient()
    await reader.aforce_login(other)

    assert (await AsyncClient().get(url, headers={"Accept": "text/event-stream"})).status_code == 403
    assert (await reader.get(url)).status_code == 404
