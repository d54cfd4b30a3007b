"""Narrowing the list of runs: each filter alone, all of them together, and what the page says about them."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import QueryDict
from django.test import Client
from django.utils import timezone

from llmcore.runs.outcome import STATUS_OF, EndReason, RunStatus
from playground.filters import Made, Period, RunFilters
from playground.forms.runs import RunFilterForm, query_of
from playground.models import Run, RunTag, RunTool
from playground.search import index_run
from playground.services.filter_choices import FilterChoices, load_filter_choices
from playground.services.list_runs import count_runs, list_runs
from tests.factories import ConfigurationFactory, LanguageModelFactory, ProviderFactory, UserFactory

pytestmark = pytest.mark.django_db

URL = "/admin/playground/"
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@pytest.fixture
def user() -> User:
    return UserFactory(permissions=["playground.view_all_runs"], username="maren")


def make_run(
    reason: EndReason | None = EndReason.COMPLETED,
    *,
    tags: tuple[str, ...] = (),
    tools: tuple[str, ...] = (),
    age: timedelta = timedelta(0),
    **columns: Any,
) -> Run:
    values: dict[str, Any] = {
        "configuration_name": "Support",
        "model_name": "m-1",
        "title": "A run",
        "prompt": "",
        "request": {},
        "reason": reason or "",
        "status": STATUS_OF[reason] if reason else RunStatus.RUNNING,
    }
    run = Run.objects.create(**{**values, **columns})
    Run.objects.filter(pk=run.pk).update(created_at=columns.get("created_at", timezone.now()) - age)
    RunTag.objects.bulk_create(RunTag(run=run, name=name) for name in tags)
    RunTool.objects.bulk_create(RunTool(run=run, name=name) for name in tools)
    index_run(run.pk)
    return run


def page_of(client: Client, address: str = URL, **query: Any) -> str:
    response = client.get(address, query)
    assert response.status_code == 200
    return html.unescape(response.content.decode())


def ids_in(page: str) -> list[int]:
    return [int(pk) for pk in re.findall(r'<tr id="run_(\d+)"', page)]


def chips_in(page: str) -> dict[str, int]:
    nav = page.partition('id="status_chips"')[2].partition("</nav>")[0]
    return {word: int(count) for word, count in re.findall(r"([A-Z][a-z ]+) <span class=\"n\">(\d+)<", nav)}


def applied_in(page: str) -> dict[str, str]:
    """The words of the filters in force, and where each is taken back."""
    part = page.partition('aria-label="Filters in force"')[2].partition("</ul>")[0]
    links = re.findall(r'<a class="pg-chip" href="([^"]*)"><span class="pg-sr">[^<]*</span> (.*?)<svg', part)
    return {re.sub(r"<[^>]*>", "", words): address for address, words in links}


# Each filter


Pick = Callable[[User], dict[str, Any]]


@pytest.mark.parametrize(
    ("query", "those"),
    [
        ({"q": "needle"}, {"prompt": "a needle in it"}),
        ({"status": "failed"}, {"reason": EndReason.INTERNAL_ERROR}),
        ({"outcome": "max_rounds"}, {"reason": EndReason.MAX_ROUNDS}),
        ({"model": "m-2"}, {"model_name": "m-2"}),
        ({"tool": "look_up"}, {"tools": ("look_up", "refund")}),
        ({"tag": "baseline"}, {"tags": ("baseline", "weekly")}),
        ({"tag": "Baseline"}, {"tags": ("baseline",)}),
        ({"cost_from": "0.01"}, {"cost": Decimal("0.01")}),
        ({"cost_to": "0.01"}, {"cost": Decimal("0.01")}),
        ({"cost_from": "0.005", "cost_to": "0.0105"}, {"cost": Decimal("0.01")}),
        ({"failed": "on"}, {"tool_errors": 1}),
        ({"failed": "on"}, {"error": {"message": "x"}, "reason": EndReason.INTERRUPTED}),
        ({"failed": "on"}, {"reason": EndReason.INTERNAL_ERROR}),
    ],
)
def test_filter_keeps_those_and_no_others(client: Client, query: dict[str, Any], those: dict[str, Any]) -> None:
    make_run(prompt="haystack", tags=("other",), tools=("other",))
    run = make_run(**those)
    make_run(None)
    page = page_of(client, **query)
    assert ids_in(page) == [run.pk]
    assert len(applied_in(page)) == (0 if "status" in query else 1)


def test_runs_of_a_person_and_of_a_configuration(client: Client, user: User) -> None:
    configuration, other = ConfigurationFactory(name="Triage"), UserFactory(username="ortiz")
    mine = make_run(user=user, configuration=configuration)
    theirs = make_run(user=other)
    nobodys = make_run(user=None)
    assert ids_in(page_of(client, who="mine")) == [mine.pk]
    assert ids_in(page_of(client, who=other.pk)) == [theirs.pk]
    assert ids_in(page_of(client, configuration=configuration.slug)) == [mine.pk]
    assert ids_in(page_of(client, who="999999")) == [nobodys.pk, theirs.pk, mine.pk]


def test_a_run_that_a_fallback_served_is_found_under_both_models(client: Client) -> None:
    LanguageModelFactory(provider=ProviderFactory(slug="spare"), name="big", label="Big one")
    asked = make_run(model_name="m-1")
    labelled, gone = (make_run(model_name="m-1", served_by=path) for path in ("spare/big", "gone/org/old"))
    direct = make_run(model_name="Big one")
    page = page_of(client)

    assert ids_in(page_of(client, model="m-1")) == [gone.pk, labelled.pk, asked.pk]
    assert ids_in(page_of(client, model="Big one")) == [direct.pk, labelled.pk]
    assert ids_in(page_of(client, model="org/old")) == [gone.pk]
    assert ids_in(page_of(client, model="spare/big")) == []
    assert re.findall(r'<option value="([^"]+)"', page.partition('name="model"')[2].partition("</select>")[0]) == [
        "Big one",
        "m-1",
        "org/old",
    ]
    assert "Support · m-1, served by spare/big" in page


def test_models_that_served_others_are_not_offered(client: Client) -> None:
    reader = UserFactory(permissions=["playground.view_run"])
    make_run(user=UserFactory(), served_by="spare/secret")
    client.force_login(reader)

    assert "secret" not in page_of(client)


def test_cost_of_an_unpriced_run_is_in_no_range(client: Client) -> None:
    make_run(cost=None)
    assert ids_in(page_of(client, cost_to="1000")) == []


@pytest.mark.parametrize(
    ("period", "start"),
    [
        (Period.TODAY, datetime(2026, 11, 30, 0, 0, tzinfo=UTC)),
        (Period.DAY, NOW - timedelta(days=1)),
        (Period.WEEK, NOW - timedelta(days=7)),
        (Period.MONTH, NOW - timedelta(days=30)),
    ],
)
def test_period_reaches_from_its_start_to_now(user: User, period: Period, start: datetime) -> None:
    inside, outside = make_run(), make_run()
    Run.objects.filter(pk=inside.pk).update(created_at=start)
    Run.objects.filter(pk=outside.pk).update(created_at=start - timedelta(microseconds=1))
    assert [run.pk for run in list_runs(user=user, filters=RunFilters(period=period), now=NOW).runs] == [inside.pk]


def test_dates_are_whole_days_of_the_sites_time_zone(user: User, settings: Any) -> None:
    settings.TIME_ZONE = "Europe/Berlin"
    timezone.get_default_timezone.cache_clear()
    try:
        runs = [make_run() for _ in range(4)]
        moments = ["2026-11-01T22:59", "2026-11-01T23:00", "2026-11-03T22:59", "2026-11-03T23:00"]
        for run, moment in zip(runs, moments, strict=True):
            Run.objects.filter(pk=run.pk).update(created_at=datetime.fromisoformat(f"{moment}+00:00"))
        filters = RunFilters(since=date(2026, 11, 2), until=date(2026, 11, 3), period=Period.TODAY)
        found = [run.pk for run in list_runs(user=user, filters=filters, now=NOW).runs]
    finally:
        timezone.get_default_timezone.cache_clear()
    assert found == [runs[2].pk, runs[1].pk]


# Together


def test_filters_search_and_pages_go_together(client: Client, user: User) -> None:
    wanted = [
        make_run(prompt="Where is the needle", model_name="m-2", tags=("weekly",), tools=("look_up",), user=user)
        for _ in range(30)
    ]
    make_run(prompt="Where is the needle", model_name="m-1", tags=("weekly",), tools=("look_up",), user=user)
    make_run(prompt="Where is it", model_name="m-2", tags=("weekly",), tools=("look_up",), user=user)
    make_run(prompt="Where is the needle", model_name="m-2", tools=("look_up",), user=user)
    query = {"q": "the need", "model": "m-2", "tag": "weekly", "tool": "look_up", "who": "mine", "outcome": "completed"}
    first = page_of(client, **query)
    older = re.search(r'rel="next" href="([^"]+)"', first)
    assert older
    assert ids_in(first) + ids_in(page_of(client, older[1])) == [run.pk for run in reversed(wanted)]


def test_address_says_all_filters_and_is_read_back() -> None:
    filters = RunFilters(
        search='"two words" & more',
        status=RunStatus.FAILED,
        outcome=EndReason.INTERNAL_ERROR,
        configuration="triage",
        model="m 1/ü",
        tool="look_up",
        who="mine",
        period=Period.WEEK,
        since=date(2026, 11, 1),
        until=date(2026, 11, 30),
        tag="a&b",
        cost_from=Decimal("0.000000000001"),
        cost_to=Decimal("12.5"),
        failed=True,
        made_with=Made(kind="snippet", object_id=2, number=1),
    )
    assert all(getattr(filters, field.name) != field.default for field in fields(RunFilters))
    choices = FilterChoices(configurations=(("triage", "Triage"),), models=(), tools=(), tags=(), users=())
    form = RunFilterForm(QueryDict(query_of(filters).removeprefix("?")), choices=choices, sees_all=True)
    assert form.filters() == filters
    assert query_of(RunFilters()) == ""


def test_name_that_occurs_nowhere_finds_nothing_and_stays_chosen(client: Client) -> None:
    make_run()
    page = page_of(client, tag="gone")
    assert ids_in(page) == []
    assert '<option value="gone" selected>gone</option>' in page and "Tag gone" in page


@pytest.mark.parametrize(
    "query",
    [
        "since=yesterday&until=2026-13-45",
        "since=0001-01-01&until=9999-12-31",
        "cost_from=-1&cost_to=cheap",
        "cost_from=NaN&cost_to=Infinity",
        "cost_from=1e400",
        "when=always&outcome=good&who=-1&failed=",
        "model=" + "x" * 5000,
        "q=%00&tag=%00&model=%00",
        "q=" + "%22" * 3000,
    ],
)
def test_nonsense_in_the_address_breaks_nothing(client: Client, query: str) -> None:
    make_run()
    page_of(client, f"{URL}?{query}")


# What the page says


def test_counts_respect_all_other_filters(client: Client, user: User) -> None:
    for reason in (EndReason.COMPLETED, EndReason.MAX_ROUNDS, EndReason.TRUNCATED, EndReason.TRUNCATED):
        make_run(reason, tags=("weekly",), prompt="needle")
    make_run(EndReason.COMPLETED, prompt="needle")
    make_run(EndReason.CANCELLED, tags=("weekly",))
    page = page_of(client, tag="weekly", q="needle")
    assert chips_in(page) == {"All": 4, "Done": 1, "Incomplete": 3}
    assert "Round limit (1)" in page and "Cut off (2)" in page and "Cancelled (" not in page
    page = page_of(client, tag="weekly", q="needle", outcome="truncated")
    assert chips_in(page) == {"All": 2, "Incomplete": 2}
    # Another outcome is one choice away, with its own number.
    assert "Round limit (1)" in page and '<option value="truncated" selected>Cut off (2)</option>' in page
    page = page_of(client, tag="weekly", q="needle", status="completed")
    assert chips_in(page) == {"All": 4, "Done": 1, "Incomplete": 3}
    assert "Done (1)" in page and "Cut off (" not in page


def test_head_sums_up_what_is_listed(client: Client, user: User) -> None:
    make_run(cost=Decimal("0.25"))
    make_run(cost=None)
    make_run(cost=Decimal("1"), age=timedelta(days=8))
    assert "2 runs in the last 7 days, $0.25" in page_of(client, when="7d")
    assert "3 runs, $1.25" in page_of(client)
    assert count_runs(user=user, filters=RunFilters(cost_from=Decimal(50))).cost is None


def test_each_filter_can_be_taken_back_alone(client: Client, user: User) -> None:
    make_run(tags=("weekly",))
    query = "?q=run&tag=weekly&since=2026-01-01&until=2026-12-31&cost_from=0.1&cost_to=2&failed=on"
    applied = applied_in(page_of(client, URL + query))
    assert list(applied) == [
        "Search “run”",
        "Tag weekly",
        "When 1 Jan 2026 – 31 Dec 2026",
        "Cost $0.1000 – $2.00",
        "Something failed",
    ]
    assert applied["Tag weekly"] == f"{URL}?q=run&since=2026-01-01&until=2026-12-31&cost_from=0.1&cost_to=2&failed=on"
    assert applied["When 1 Jan 2026 – 31 Dec 2026"] == f"{URL}?q=run&tag=weekly&cost_from=0.1&cost_to=2&failed=on"
    assert applied["Something failed"].endswith("cost_to=2")


def test_found_words_are_shown_and_marked(client: Client) -> None:
    long = "word " * 500
    make_run(title="About refunds", prompt=f"{long}the Refund policy <b>says</b>", tags=("t",))
    page = client.get(URL, {"q": "policy refund"}).content.decode()
    assert "About <mark>refund</mark>s" in page
    page = client.get(URL, {"q": "refund policy"}).content.decode()
    assert "the <mark>Refund</mark> <mark>policy</mark> &lt;b&gt;says&lt;/b&gt;" in page


def test_choices_are_what_occurs_in_runs_that_the_user_may_see(user: User) -> None:  # R3
    other = UserFactory(permissions=["playground.view_run"])
    make_run(user=user, tags=("secret",), tools=("hidden_tool",), model_name="m-9")
    make_run(user=other, tags=("mine",), tools=("look_up",))
    own = load_filter_choices(user=other)
    assert (own.tags, own.tools, own.models, own.users) == (("mine",), ("look_up",), ("m-1",), ())
    every = load_filter_choices(user=user)
    assert (every.tags, every.tools, every.models) == (("mine", "secret"), ("hidden_tool", "look_up"), ("m-1", "m-9"))
    assert every.users == ((str(user.pk), "maren"), (str(other.pk), other.username))


def test_search_and_filters_never_reach_beyond_what_the_user_may_see() -> None:  # R3
    reader, other = UserFactory(permissions=["playground.view_run"]), UserFactory()
    make_run(user=other, prompt="needle", tags=("weekly",))
    client = Client()
    client.force_login(reader)
    for query in ({"q": "needle"}, {"tag": "weekly"}, {"who": other.pk}, {"q": "needle", "who": "mine"}):
        page = page_of(client, **query)
        assert ids_in(page) == [] and chips_in(page).get("All", 0) == 0


def test_number_of_queries_is_the_same_for_any_filters_and_rows(
    client: Client, user: User, django_assert_max_num_queries: Any
) -> None:
    def queries(**query: Any) -> int:
        with django_assert_max_num_queries(30) as captured:
            page_of(client, **query)
        return len(captured)

    make_run(tags=("a",), tools=("t",), user=user)
    few = queries()
    for number in range(40):
        make_run(
            EndReason.COMPLETED if number % 2 else EndReason.TRUNCATED,
            prompt="needle",
            tags=("a", f"tag {number}"),
            tools=("t", f"tool_{number}"),
            user=UserFactory(),
            model_name=f"m-{number}",
            configuration=ConfigurationFactory(),
            note="A note",
            cost=Decimal("0.5"),
            tool_errors=1,
        )
    assert queries() == few
    assert queries(q="needle", tag="a", tool="t", outcome="completed", when="7d", cost_to="1", failed="on") == few
    assert queries(q="needle", tag="a") == few
