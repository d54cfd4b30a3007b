"""The list of runs: who sees which, in what order, and what each row tells."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from llmcore.models import UsageRecord
from llmcore.runs.outcome import STATUS_OF, EndReason, RunStatus
from playground.models import Run
from playground.reading.ends import END_LOOKS
from playground.reading.run_rows import RunRow, Scale, brief, compact, end_of_scale, run_rows
from playground.services.list_runs import RunFilters, list_runs
from tests.factories import ConfigurationFactory, UserFactory
from tests.playground.new_run_form import client_with

pytestmark = pytest.mark.django_db

URL = "/admin/playground/"
LIVE = "/admin/playground/live/"
ON_A_SCALE = {"tokens": 1000, "ms": 1000}


@pytest.fixture
def user() -> User:
    return UserFactory(permissions=["playground.view_run", "playground.add_run"])


def make_run(user: User | None = None, **columns: Any) -> Run:
    values = {"configuration_name": "Support", "model_name": "m-1", "title": "A run", "prompt": "A run", "request": {}}
    return Run.objects.create(user=user, **{**values, **columns})


def make_runs(count: int, user: User, **columns: Any) -> list[Run]:
    return [make_run(user, title=f"Run {number}", **columns) for number in range(count)]


def page_of(response: HttpResponse) -> str:
    assert response.status_code == 200
    return html.unescape(response.content.decode())


def ids_in(page: str) -> list[int]:
    return [int(pk) for pk in re.findall(r'<tr id="run_(\d+)"', page)]


def link(page: str, word: str) -> str | None:
    found = re.search(rf'<a class="pg-btn pg-btn--sm"[^>]* href="([^"]+)">{word}</a>', page)
    return found[1] if found else None


def chips_in(page: str) -> dict[str, int]:
    chips = re.findall(r'<a class="pg-chip"[^>]*>(?:<[^a][^>]*>)*([A-Z][a-z ]+) <span class="n">(\d+)<', page)
    return {word: int(count) for word, count in chips}


def row_of(run: Run, **scale: float) -> RunRow:
    [row] = run_rows([run], now=timezone.now(), scale=Scale(tokens=scale.get("tokens", 1000), ms=scale.get("ms", 1000)))
    return row


# Who sees what


def test_a_queued_run_says_how_many_wait_before_it(user: User) -> None:
    now = timezone.now()
    for title, seconds in (("late", 1), ("early", 3), ("between", 2)):
        queued_at = now - timedelta(seconds=seconds)
        make_run(user, title=title, status=RunStatus.QUEUED, queued_at=queued_at)
    make_run(user, title="runs already", status=RunStatus.RUNNING, queued_at=now - timedelta(hours=1))
    # Others wait in the same queue.
    make_run(title="of another", status=RunStatus.QUEUED, queued_at=now - timedelta(seconds=4))
    said = {row.run.title: row.excerpt for row in run_rows(list_runs(user=user).runs, now=now)}
    for title, position in (("early", 2), ("between", 3), ("late", 4)):
        assert said[title] == f"Waiting for a free worker, position {position}"
    assert set(said) == {"early", "between", "late", "runs already"} and not said["runs already"].startswith("Waiting")


def test_list_is_for_those_who_may_see_runs() -> None:
    assert Client().get(URL).status_code == 302
    assert client_with("playground.add_run").get(URL).status_code == 403
    assert client_with("playground.view_all_runs").get(URL).status_code == 200


def test_user_sees_own_runs_only(client: Client, user: User) -> None:  # R3
    mine, theirs = make_run(user), make_run(UserFactory())
    page = page_of(client.get(URL))
    assert ids_in(page) == [mine.pk]
    assert 'name="who"' not in page
    assert chips_in(page) == {"All": 1, "Queued": 1}
    # An address with somebody else's wish changes nothing.
    assert ids_in(page_of(client.get(URL, {"who": "everybody"}))) == [mine.pk]
    assert ids_in(page_of(client.get(LIVE, {"ids": f"{mine.pk},{theirs.pk}", **ON_A_SCALE}))) == [mine.pk]


def test_user_who_may_sees_all_runs_and_can_narrow_them_to_own(user: User) -> None:
    client = client_with("playground.view_all_runs")
    me = User.objects.get(pk=client.session["_auth_user_id"])
    mine, theirs, nobodys = make_run(me), make_run(user), make_run(None)
    assert ids_in(page_of(client.get(URL))) == [nobodys.pk, theirs.pk, mine.pk]
    page = page_of(client.get(URL, {"who": "mine"}))
    assert ids_in(page) == [mine.pk]
    assert '<option value="mine" selected>' in page


def test_new_run_is_offered_to_those_who_may_start_one(client: Client, user: User) -> None:
    make_run(user)
    assert reverse("playground:new_run") in page_of(client.get(URL))
    assert reverse("playground:new_run") not in page_of(client_with("playground.view_run").get(URL))


# Filters


def test_filters_narrow_the_list_and_stand_in_the_address(client: Client, user: User) -> None:
    one, two = ConfigurationFactory(name="One"), ConfigurationFactory(name="Two")
    done = make_run(user, configuration=one, status=RunStatus.COMPLETED, reason=EndReason.COMPLETED)
    failed = make_run(user, configuration=one, status=RunStatus.FAILED, reason=EndReason.INTERNAL_ERROR)
    other = make_run(user, configuration=two, status=RunStatus.FAILED, reason=EndReason.PROVIDER_FAILED)
    assert ids_in(page_of(client.get(URL, {"status": "failed"}))) == [other.pk, failed.pk]
    page = page_of(client.get(URL, {"status": "failed", "configuration": one.slug}))
    assert ids_in(page) == [failed.pk]
    # The counts are those of all statuses within the other filters.
    assert chips_in(page) == {"All": 2, "Done": 1, "Failed": 1}
    assert f'href="{URL}?status=completed&configuration={one.slug}"' in page
    assert f'<option value="{one.slug}" selected>' in page
    assert '<input type="hidden" name="status" value="failed" form="runs_filters">' in page
    assert ids_in(page_of(client.get(f"{URL}?status=completed&configuration={one.slug}"))) == [done.pk]


@pytest.mark.parametrize("query", ["status=nonsense", "configuration=gone", "before=x", "after=-1", "who=me"])
def test_nonsense_in_the_address_narrows_nothing(client: Client, user: User, query: str) -> None:
    run = make_run(user)
    assert ids_in(page_of(client.get(f"{URL}?{query}"))) == [run.pk]


def test_status_that_is_chosen_is_shown_even_where_no_run_has_it(client: Client, user: User) -> None:
    configuration = ConfigurationFactory(name="Support triage")
    make_run(user)
    page = page_of(client.get(URL, {"status": "cancelled", "configuration": configuration.slug}))
    assert chips_in(page) == {"All": 0, "Cancelled": 0}
    assert "No run matches these filters" in page
    assert "Status Cancelled, Configuration Support triage" in page
    assert f'<a class="pg-btn" href="{URL}">Clear filters</a>' in page


def test_empty_list_offers_the_first_run(client: Client) -> None:
    page = page_of(client.get(URL))
    assert "No runs yet" in page and "<table" not in page.partition('class="pg pg-runs"')[2]
    assert "data-runs-filters" not in page


# Pages


def test_pages_follow_each_other_without_gap_or_repetition(client: Client, user: User) -> None:
    made = [run.pk for run in make_runs(60, user)]
    seen: list[int] = []
    address: str | None = URL
    while address:
        page = page_of(client.get(address))
        seen += ids_in(page)
        address = link(page, "Older")
    assert seen == made[::-1]
    back = link(page, "Newer")
    assert back and ids_in(page_of(client.get(back))) == made[10:35][::-1]


def test_page_keeps_its_runs_while_new_ones_arrive(client: Client, user: User) -> None:
    make_runs(60, user)
    second = link(page_of(client.get(URL)), "Older")
    assert second
    before = ids_in(page_of(client.get(second)))
    make_runs(7, user)
    page = page_of(client.get(second))
    assert ids_in(page) == before
    newer = link(page, "Newer")
    assert newer
    next_newer = ids_in(page_of(client.get(newer)))
    assert len(next_newer) == 25 and next_newer[-1] == before[0] + 1


def test_newest_page_is_a_full_one(client: Client, user: User) -> None:
    made = [run.pk for run in make_runs(30, user)]
    page = page_of(client.get(URL, {"after": made[20]}))
    assert ids_in(page) == made[5:][::-1]
    assert link(page, "Newer") is None


def test_pages_keep_the_filters(client: Client, user: User) -> None:
    make_runs(30, user, status=RunStatus.COMPLETED)
    older = link(page_of(client.get(URL, {"status": "completed"})), "Older")
    assert older and older.startswith("/admin/playground/?status=completed&before=")


def test_page_beyond_the_oldest_run_is_the_newest_page(user: User) -> None:
    run = make_run(user)
    assert list_runs(user=user, before=run.pk).runs == (run,)
    assert list_runs(user=UserFactory(), filters=RunFilters(who="mine"), before=1).runs == ()


def test_number_of_queries_does_not_grow_with_the_rows(
    client: Client, user: User, django_assert_max_num_queries: Any
) -> None:
    def make(count: int) -> None:
        for _ in range(count):
            make_run(user, configuration=ConfigurationFactory(), status=RunStatus.RUNNING)

    def queries(rows: int) -> int:
        with django_assert_max_num_queries(30) as captured:
            page = page_of(client.get(URL))
        assert len(ids_in(page)) == rows
        return len(captured)

    make(10)
    few = queries(rows=10)
    make(40)
    assert queries(rows=25) == few


def test_rows_do_not_load_what_they_do_not_show(user: User) -> None:
    make_run(user, prompt="x" * 10_000, plan={"large": "y" * 10_000})
    [run] = list_runs(user=user).runs
    assert {"prompt", "plan", "request", "answer", "findings"} <= run.get_deferred_fields()


# Rows


@pytest.mark.parametrize("reason", EndReason)
def test_each_end_has_a_pill_of_its_own(client: Client, user: User, reason: EndReason) -> None:  # L14
    make_run(user, status=STATUS_OF[reason], reason=reason)
    look = END_LOOKS[reason]
    page = page_of(client.get(URL))
    assert re.search(rf'pg-pill--{look.css}">.*#i-{look.icon}"/></svg>{look.word}</span>', page)


def test_row_tells_what_ran_how_it_went_and_what_it_took(client: Client, user: User) -> None:
    run = make_run(
        user,
        title="Double charge",
        prompt="Customer says she was charged twice.",
        status=RunStatus.COMPLETED,
        reason=EndReason.COMPLETED,
        rounds=4,
        tool_calls=6,
        tool_errors=1,
        input_tokens=20_000,
        cache_read_input_tokens=15_000,
        output_tokens=1_200,
        cost=Decimal("0.0074"),
        wall_ms=18_400,
        model_ms=15_000,
        tool_ms=3_000,
        queue_ms=300,
        overhead_ms=100,
    )
    page = page_of(client.get(URL)).replace("\u00a0", " ")
    row = page.partition(f'id="run_{run.pk}"')[2].partition("</tr>")[0]
    for text in (
        "Double charge",
        "Customer says",
        "Support · m-1",
        str(user),
        "1 failed",
        "21.2 k",
        "18.4 s",
        "$0.0074",
    ):
        assert text in row
    assert f'href="{reverse("playground:run", args=[run.pk])}"' in row
    parts = [name for name in re.findall(r'class="f-(\w+)"', row) if name != "sep"]
    assert parts == ["cached", "fresh", "out", "none", "queue", "model", "ttool", "over", "none"]


def test_unknown_figures_are_blank_not_zero(client: Client, user: User) -> None:
    make_run(user, status=RunStatus.FAILED, reason=EndReason.PROVIDER_FAILED)
    page = page_of(client.get(URL))
    assert "$0" not in page
    assert page.count('<span class="num">–') == 2 and '<td class="num cost">–</td>' in page


def test_what_comes_from_people_and_models_is_never_markup(client: Client, user: User) -> None:
    evil = "<img src=x onerror=alert(1)>"
    make_run(user, title=evil, prompt="x " + evil, configuration_name=evil, model_name=evil)
    make_run(user, status=RunStatus.FAILED, reason=EndReason.PROVIDER_FAILED, detail=evil)
    assert "<img" not in client.get(URL).content.decode()


@pytest.mark.parametrize(
    ("columns", "excerpt"),
    [
        ({"title": "Refunds", "prompt": "Check\nall  refunds."}, "Check all refunds."),
        ({"title": "Check all refunds…", "prompt": "Check all refunds. Then write."}, "…. Then write."),
        ({"title": "Check all", "prompt": "Check all", "answer": "All checked."}, "All checked."),
        (
            {"reason": EndReason.PROVIDER_FAILED, "status": RunStatus.FAILED, "detail": "Rate limit reached."},
            "Rate limit reached.",
        ),
        ({"title": "T", "prompt": "p" * 300}, "p" * 159 + "…"),
    ],
)
def test_second_line_tells_what_the_title_does_not(user: User, columns: dict[str, Any], excerpt: str) -> None:
    make_run(user, **{"status": RunStatus.COMPLETED, **columns})
    [run] = list_runs(user=user).runs
    assert row_of(run).excerpt == excerpt


def test_time_of_a_run_is_short_and_exact_enough(user: User) -> None:
    now = datetime(2026, 11, 30, 14, 31, tzinfo=UTC)

    def when(**age: float) -> str:
        run = make_run(user)
        run.created_at = now - timedelta(**age)
        return RunRow(run=run, now=now, scale=Scale(tokens=1, ms=1)).when

    assert when(seconds=59) == "just now"
    assert when(hours=2) == "12:31"
    assert when(days=2) == "28 Nov, 14:31"
    assert when(days=400) == "26 Oct 2025, 14:31"


def test_time_of_a_running_run_goes_on(user: User) -> None:
    run = make_run(user, status=RunStatus.RUNNING, wall_ms=100.0)
    now = run.created_at + timedelta(seconds=7)
    [row] = run_rows([run], now=now)
    assert (row.wall_ms, row.time_text) == (7000.0, "7.0\u00a0s")


def test_bars_of_a_table_share_a_scale_that_no_giant_flattens() -> None:
    assert end_of_scale([300, 500, 400], least=100) == 500
    assert end_of_scale([3_000, 4_000, 5_000, 2_900_000], least=100) == 30_000
    assert end_of_scale([31_000], least=1_000) == 40_000
    assert end_of_scale([], least=1_000) == 1_000
    assert end_of_scale([3], least=1_000) == 1_000


def test_bar_of_a_giant_is_full_and_says_so(user: User) -> None:
    row = row_of(make_run(user, input_tokens=5_000, output_tokens=10), tokens=1_000)
    assert [(piece.css, piece.value) for piece in row.token_bar] == [
        ("cached", 0),
        ("fresh", 1000),
        ("out", 0),
        ("none", 0),
    ]
    assert (row.tokens_text, row.tokens_off_scale) == ("5\u00a0k", True)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (950, "950"), (999.96, "1 k"), (30_300, "30.3 k"), (999_960, "1 M"), (2_900_000, "2.9 M")],
)
def test_counts_are_compact(count: float, text: str) -> None:
    assert compact(count) == text.replace(" ", "\u00a0")


@pytest.mark.parametrize(
    ("ms", "text"),
    [(94, "0.1 s"), (59_949, "59.9 s"), (59_950, "1 min"), (1_260_000, "21 min"), (11_100_000, "3 h 05 min")],
)
def test_durations_are_brief(ms: float, text: str) -> None:
    assert brief(ms).replace("\u00a0", " ") == text


# Live


def test_table_asks_again_only_for_runs_that_are_not_over(client: Client, user: User) -> None:
    running = make_run(user, status=RunStatus.RUNNING)
    make_run(user, status=RunStatus.COMPLETED, reason=EndReason.COMPLETED)
    page = page_of(client.get(URL))
    poll = re.search(r'id="runs_live" hidden data-poll hx-get="([^"]+)" hx-trigger="every 2s"', page)
    assert poll and f"ids={running.pk}&" in poll[1]

    still = page_of(client.get(poll[1], headers={"HX-Request": "true"}))
    assert ids_in(still) == [running.pk] and 'hx-swap-oob="true"' in still and 'id="runs_live"' in still
    assert chips_in(still) == {"All": 2, "Running": 1, "Done": 1}

    Run.objects.filter(pk=running.pk).update(status=RunStatus.COMPLETED, reason=EndReason.COMPLETED)
    over = page_of(client.get(poll[1], headers={"HX-Request": "true"}))
    assert ids_in(over) == [running.pk] and "pg-pill--done" in over
    assert 'id="runs_live"' not in over
    assert chips_in(over) == {"All": 2, "Done": 2}


def test_table_of_finished_runs_asks_for_nothing(client: Client, user: User) -> None:
    make_run(user, status=RunStatus.COMPLETED, reason=EndReason.COMPLETED)
    assert "runs_live" not in page_of(client.get(URL))


@pytest.mark.parametrize("query", [{}, {"ids": "x", **ON_A_SCALE}, {"ids": "1"}, {"ids": "1,", **ON_A_SCALE}])
def test_live_rows_refuse_what_no_page_asks_for(client: Client, query: dict[str, Any]) -> None:
    assert client.get(LIVE, query).status_code == 400


def test_lists_are_read_only(client: Client) -> None:
    assert client.post(URL).status_code == 405
    assert client.post(LIVE).status_code == 405


def test_a_usage_record_leads_to_its_run_and_says_its_error_in_words(client: Client) -> None:
    run = make_run()
    UsageRecord.objects.create(run_id=run.pk, provider_slug="demo", model_name="m-1", error_kind="rate_limit")
    UsageRecord.objects.create(provider_slug="demo", model_name="m-1")
    client.force_login(UserFactory(is_superuser=True))

    page = page_of(client.get(reverse("admin:llmcore_usagerecord_changelist")))

    assert f'<a href="{reverse("playground:run", args=[run.pk])}">{run.pk}</a>' in page
    assert ">rate limit<" in page and page.count(f"{URL}runs/") == 1
