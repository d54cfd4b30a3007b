"""What the pages show of permits: a wait that goes on, one that is over, and all calls of this moment."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from llmcore.models import PermitTicket, Provider
from llmcore.permits.database import DatabaseTickets
from llmcore.runs.outcome import EndReason
from playground.models import Run, RunStep
from playground.reading.step_rows import load_rows
from playground.reading.steps import read_lines
from playground.reading.summary import time_shares
from playground.reading.watch import Event, Watch
from tests.factories import ProviderFactory, UserFactory
from tests.llmcore.permit_stores import ticket
from tests.playground.recorded import PROVIDER, RecordedRun

pytestmark = pytest.mark.django_db


def page_of(client: Client, run: Run, part: str = "") -> str:
    """The words of the run's page, or of one part of it."""
    html = client.get(reverse("playground:run", args=[run.pk])).content.decode()
    if part:
        html = html[html.index(f'id="{part}"') :].split("\n<", 1)[0]
    return words(html)


def words(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def waiting_run(user: User) -> RecordedRun:
    recorded = RecordedRun(user)
    recorded.request()
    recorded.place(3, 5)
    return recorded


# --- a wait that goes on ---


def test_a_waiting_run_says_where_its_call_stands(client: Client, user: User) -> None:  # S4
    run = waiting_run(user).run
    assert "Waiting for a permit: 3rd of 5 for Demo model." in page_of(client, run, "run-waiting")
    detail = client.get(reverse("playground:run_step", args=[run.pk, 1])).content.decode()
    assert "Waiting for a permit: 3rd of 5 for Demo model" in detail


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"of_site": True}, "3rd of 5 for all providers. This site takes only so many calls at once."),
        ({"away": True}, "nobody can say whose turn it is. Where the calls in flight are counted"),
        ({"recounting": True}, "the calls in flight are being counted again. Redis was started anew."),
    ],
)
def test_it_is_said_what_is_waited_for(client: Client, user: User, more: dict[str, bool], said: str) -> None:
    recorded = RecordedRun(user)
    recorded.request()
    recorded.place(3, 5, **more)
    assert f"Waiting for a permit: {said}" in page_of(client, recorded.run, "run-waiting")


def test_a_run_that_does_not_wait_says_nothing_of_permits(client: Client, user: User) -> None:
    recorded = RecordedRun(user)
    recorded.request()
    recorded.partial(text="Good")
    assert "Waiting for a permit:" not in page_of(client, recorded.run)


def news(reader: Watch) -> list[Event]:
    return [event for event in reader.look() if event.name == "permit"]


def test_a_watcher_is_told_of_each_new_place_once(user: User) -> None:  # S4
    recorded = waiting_run(user)
    reader = Watch(run_id=recorded.run.pk, user=user, after=1)
    (first,) = news(reader)
    assert first.data["message"] == "Waiting for a permit: 3rd of 5 for Demo model."
    recorded.place(3, 5)
    assert news(reader) == []
    recorded.place(2, 4)
    (second,) = news(reader)
    assert "2nd of 4 for Demo model" in second.data["html"]
    recorded.permit(took_ms=500, position=3, waiting=5)
    recorded.partial(text="Good", waiting=None)
    (end,) = news(reader)
    assert "pg-note" not in end.data["html"]
    recorded.partial(text="Good day", waiting=None)
    assert news(reader) == []


def test_a_watcher_who_comes_after_a_wait_takes_it_off_the_page(user: User) -> None:  # D4
    recorded = waiting_run(user)
    recorded.permit(took_ms=500)
    Run.objects.filter(pk=recorded.run.pk).update(permit_ms=500)
    recorded.partial(waiting=None)
    (end,) = news(Watch(run_id=recorded.run.pk, user=user, after=1))
    assert "pg-note" not in end.data["html"]


def test_a_watcher_of_a_run_that_never_waited_hears_nothing_of_permits(user: User) -> None:
    recorded = RecordedRun(user)
    recorded.request()
    recorded.partial(text="Good day")
    assert news(Watch(run_id=recorded.run.pk, user=user, after=0)) == []


# --- a wait that is over ---


def ended(user: User, **columns: Any) -> Run:
    recorded = RecordedRun(user)
    recorded.request()
    recorded.permit(took_ms=3_200, position=3, waiting=5)
    recorded.wait(800)
    recorded.response("Good day.")
    return recorded.end(**{"permit_ms": 3_200.0, "model_ms": 800.0, "tool_ms": 0.0, "overhead_ms": 0.0, **columns})


def bars(run: Run) -> list[tuple[str, float, float]]:
    (line,) = read_lines(run, load_rows(RunStep.objects.filter(run=run)))
    return [(bar.css, round(bar.start_ms), round(bar.length_ms)) for bar in line.bars]


def test_the_wait_is_drawn_before_the_call_that_waited(user: User) -> None:
    assert bars(ended(user)) == [
        ("permit", 0, 3_200),
        ("wait", 3_200, 100),
        ("think", 3_300, 20),
        ("model", 3_320, 680),
    ]


def test_a_wait_within_a_call_is_drawn_once(user: User) -> None:
    recorded = RecordedRun(user)
    recorded.request()
    began = recorded._request_ms
    recorded.wait(1_000)
    recorded.permit(took_ms=2_000)
    recorded._request_ms = began
    recorded.wait(500)
    recorded.response("Good day.", first_token_ms=None)
    drawn = bars(recorded.end())
    assert drawn == [("model", 0, 1_000), ("permit", 1_000, 2_000), ("model", 3_000, 500)]


def test_the_call_says_how_long_it_waited_and_from_where(client: Client, user: User) -> None:  # S4
    detail = client.get(reverse("playground:run_step", args=[ended(user).pk, 1])).content.decode()
    assert "waited 3.20\u00a0s for a permit, 3rd of 5 for Demo model at first" in re.sub(
        r"<[^>]+>", "", unescape(detail)
    )


def test_the_wait_is_a_share_of_the_time_and_all_shares_are_the_whole(user: User) -> None:  # T2
    shares = {share.name: share.value for share in time_shares(ended(user))}
    assert shares["Permit wait"] == 3_200 and sum(shares.values()) == pytest.approx(4_000)


def test_a_call_that_was_cancelled_in_line_is_told_as_never_sent(client: Client, user: User) -> None:
    recorded = RecordedRun(user)
    recorded.request()
    recorded.permit(took_ms=900, granted=False)
    recorded.response(usage=None, finish_reason=None, cancelled=True, attempts=0, first_token_ms=None)
    run = recorded.end(EndReason.CANCELLED, permit_ms=900.0)
    page = page_of(client, run)
    assert "not sent" in page and "Nothing was sent." in page
    assert "not reported" not in page and "No usage was reported" not in page
    detail = client.get(reverse("playground:run_step", args=[run.pk, 1]), {"tab": "response"}).content.decode()
    assert "It was never sent." in detail and "No visible text" not in detail


def test_the_list_of_runs_says_which_one_waits(client: Client, user: User) -> None:
    recorded = waiting_run(user)
    assert "Waiting for a permit, 3rd of 5" in words(client.get(reverse("playground:runs")).content.decode())
    recorded.permit(took_ms=500)
    recorded.partial(text="Good", waiting=None)
    assert "Waiting for a permit" not in words(client.get(reverse("playground:runs")).content.decode())


# --- the calls of this moment ---


def calls(client: Client) -> str:
    response = client.get(reverse("playground:calls"))
    assert response.status_code == 200
    return words(response.content.decode())


@pytest.fixture
def busy(user: User) -> Run:
    """The run whose call waits behind one that is for no run."""
    ProviderFactory(slug=PROVIDER.slug, name="Demo model", max_calls_in_flight=1)
    run = RecordedRun(user).run
    store = DatabaseTickets()
    store.look(ticket(PROVIDER.slug))
    store.look(ticket(PROVIDER.slug, run_id=run.pk))
    return run


def test_calls_in_flight_are_listed_with_their_runs(client: Client, busy: Run) -> None:
    page = calls(client)
    assert "Demo model 1 of 1 in flight, 1 waiting" in page
    assert "in flight no run Demo model" in page
    assert f"waits, 1st of 1 {busy.title} Demo model" in page


def test_runs_of_others_are_counted_but_not_named(busy: Run) -> None:  # R3
    stranger = Client()
    stranger.force_login(UserFactory(permissions=["playground.view_run"]))
    page = calls(stranger)
    assert "waits, 1st of 1 a run of somebody else" in page
    assert busy.title not in page and f"/runs/{busy.pk}/" not in page


def test_the_list_asks_for_the_right_to_see_runs() -> None:
    nobody = Client()
    nobody.force_login(UserFactory(permissions=["llmcore.view_provider"]))
    assert nobody.get(reverse("playground:calls")).status_code == 403


def test_the_limit_of_the_site_is_listed_with_the_calls_of_all(client: Client, busy: Run, settings: Settings) -> None:
    settings.LLM_MAX_CALLS_IN_FLIGHT = 7
    assert "All providers 1 of 7 in flight, 1 waiting" in calls(client)


def test_without_limits_there_is_nothing_to_list(client: Client) -> None:
    Provider.objects.update(max_calls_in_flight=None)
    assert "No limits" in calls(client) and not PermitTicket.objects.exists()


def test_a_redis_that_is_away_is_said(client: Client, settings: Settings) -> None:
    settings.LLM_PERMITS_URL = "redis://127.0.0.1:1/0"
    assert "can’t be counted now" in calls(client)


def test_the_admin_leads_to_the_list(client: Client) -> None:
    index = client.get(reverse("admin:index")).content.decode()
    entry = reverse("admin:llmcore_permitticket_changelist")
    assert entry in index
    assert client.get(entry).headers["Location"] == reverse("playground:calls")
