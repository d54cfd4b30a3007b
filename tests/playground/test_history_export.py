"""The list of runs as CSV: all that is listed and no more, harmless in a spreadsheet, and never whole in memory."""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.db import connection
from django.http import StreamingHttpResponse
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from llmcore.redaction import MASK, Redactor
from llmcore.runs.outcome import EndReason, RunStatus
from playground.filters import RunFilters
from playground.models import Run, RunTag, RunTool
from playground.search import index_run
from playground.services.export_list import COLUMNS, ROWS_AT_ONCE, TEXT_CHARS, cell, export_list, harmless
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db

URL = "/admin/playground/export/"


@pytest.fixture
def user() -> User:
    return UserFactory(permissions=["playground.view_all_runs"], username="maren")


@pytest.fixture
def client(user: User) -> Client:
    return client_of(user)


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def make_run(user: User | None = None, **columns: Any) -> Run:
    values = {"configuration_name": "Support", "model_name": "m-1", "title": "A run", "prompt": "", "request": {}}
    run = Run.objects.create(user=user, **{**values, **columns})
    index_run(run.pk)
    return run


def text_of(response: StreamingHttpResponse) -> str:
    async def collect() -> list[bytes]:
        return [piece async for piece in response.streaming_content]

    assert response.status_code == 200
    return b"".join(async_to_sync(collect)()).decode()


def rows_of(response: StreamingHttpResponse) -> list[dict[str, str]]:
    text = text_of(response)
    assert text.startswith("\ufeffrun,created,")
    return list(csv.DictReader(StringIO(text.removeprefix("\ufeff"))))


def test_row_has_all_that_is_known(client: Client, user: User) -> None:
    run = make_run(
        user,
        title="Double charge",
        prompt="She was\ncharged, twice",
        answer='Refund "one"',
        note="Check the skill",
        status=RunStatus.COMPLETED,
        reason=EndReason.COMPLETED,
        started_at=datetime(2026, 11, 30, 14, 31, 7, 999, tzinfo=UTC),
        rounds=4,
        tool_calls=6,
        tool_errors=1,
        tool_denials=2,
        input_tokens=1000,
        output_tokens=0,
        cost=Decimal("0.000000123400"),
        wall_ms=18_400.04,
        error={"message": "late"},
    )
    RunTag.objects.bulk_create([RunTag(run=run, name="refunds"), RunTag(run=run, name="baseline")])
    RunTool.objects.create(run=run, name="look_up")
    [row] = rows_of(client.get(URL))
    assert list(row) == list(COLUMNS)
    expected = {
        "run": str(run.pk),
        "user": "maren",
        "configuration": "Support",
        "model": "m-1",
        "title": "Double charge",
        "tags": "baseline, refunds",
        "tools": "look_up",
        "note": "Check the skill",
        "status": "completed",
        "outcome": "completed",
        "error": "late",
        "dry_run": "0",
        "started": "2026-11-30T14:31:07+00:00",
        "ended": "",
        "rounds": "4",
        "failed_tool_calls": "1",
        "denied_tool_calls": "2",
        "input_tokens": "1000",
        "output_tokens": "0",
        "reasoning_output_tokens": "",
        "cost_usd": "0.000000123400",
        "wall_ms": "18400.0",
        "queue_ms": "",
        "prompt": "She was\ncharged, twice",
        "answer": 'Refund "one"',
    }
    assert {name: row[name] for name in expected} == expected


def test_file_is_named_and_never_cached(client: Client) -> None:
    response = client.get(URL)
    assert response.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert f"runs-{timezone.localdate():%Y-%m-%d}.csv" in response.headers["Content-Disposition"]
    assert "no-store" in response.headers["Cache-Control"]
    assert rows_of(response) == []


def test_all_listed_runs_are_in_it_not_only_a_page(client: Client, user: User) -> None:
    for number in range(60):
        make_run(user, title=f"Run {number}", model_name="m-2" if number % 2 else "m-1", prompt="needle")
    make_run(user, model_name="m-2", prompt="haystack")
    rows = rows_of(client.get(URL, {"model": "m-2", "q": "needle"}))
    assert [row["title"] for row in rows] == [f"Run {number}" for number in range(59, 0, -2)]


def test_selected_runs_are_in_it_whatever_the_filters(client: Client) -> None:
    runs = [make_run() for _ in range(4)]
    rows = rows_of(client.get(URL, {"run": [runs[0].pk, runs[2].pk, 10**9], "q": "nothing"}))
    assert [row["run"] for row in rows] == [str(runs[2].pk), str(runs[0].pk)]
    assert client.get(URL, {"run": "1 OR 1=1"}).status_code == 400


@pytest.mark.parametrize(
    ("permissions", "titles"),
    [
        (["playground.view_run"], ["mine"]),
        (["playground.view_all_runs"], ["theirs", "mine"]),
        (["playground.add_run", "playground.annotate_all_runs"], None),
    ],
)
def test_who_gets_what(permissions: list[str], titles: list[str] | None) -> None:  # R3
    user = UserFactory(permissions=permissions)
    mine, theirs = make_run(user, title="mine"), make_run(UserFactory(), title="theirs")
    for query in ({}, {"run": [mine.pk, theirs.pk]}):
        response = client_of(user).get(URL, query)
        if titles is None:
            assert response.status_code == 403
        else:
            assert [row["title"] for row in rows_of(response)] == titles


def test_strangers_are_led_to_the_login_and_nothing_is_changed(client: Client) -> None:
    assert Client().get(URL).headers["Location"].startswith("/admin/login/")
    assert client.post(URL).status_code == 405


@pytest.mark.parametrize(
    "text",
    [
        "=HYPERLINK(A1)",
        "+1+1",
        "-2",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        " =1",
        "\n=1",
        "＝1+1",
        "＠x",
        "\u00a0=1",
    ],
)
def test_no_cell_is_a_formula(client: Client, text: str) -> None:
    user = UserFactory(username="@SUM(A1)", permissions=["playground.view_run"])
    run = make_run(
        user, title=text, prompt=text, answer=text, note=text, detail=text, configuration_name=text, model_name=text
    )
    RunTag.objects.create(run=run, name="=tag")
    RunTool.objects.create(run=run, name="-tool")
    [row] = rows_of(client_of(user).get(URL))
    for name in ("title", "prompt", "answer", "note", "detail", "configuration", "model"):
        assert row[name] == f"'{text}", name
    assert (row["user"], row["tags"], row["tools"]) == ("'@SUM(A1)", "'=tag", "'-tool")


def test_harmless_text_stays_as_it_is() -> None:
    for text in ("", "a = b", "1-2", "me@example.com", "'quoted'", "–"):
        assert harmless(text) == text


def test_what_looks_like_a_secret_is_masked(client: Client) -> None:  # R1
    secret = "Authorization: Bearer abcdefgh12345678ZYX"
    make_run(
        title=secret,
        prompt=f"{'x ' * 300}{secret}",
        answer=secret,
        note=secret,
        detail=secret,
        error={"message": secret},
    )
    text = text_of(client.get(URL))
    assert "abcdefgh12345678ZYX" not in text and text.count(MASK) == 6


def test_secret_is_masked_where_the_text_is_cut() -> None:  # R1
    key = "sk-" + "a1B2" * 12
    for before in range(TEXT_CHARS - len(key) - 5, TEXT_CHARS + 5):
        shown = cell("x" * (before - 1) + " " + key + " end", Redactor([]))
        assert len(shown) <= TEXT_CHARS and "a1B2" not in shown


def test_long_texts_are_cut(client: Client) -> None:
    make_run(prompt="p" * 100_000)
    [row] = rows_of(client.get(URL))
    assert row["prompt"] == "p" * (TEXT_CHARS - 1) + "…"


def test_rows_are_read_piece_by_piece(user: User) -> None:
    run = Run(configuration_name="S", model_name="m", title="T", prompt="", request={})
    Run.objects.bulk_create(
        [
            Run(**{f: getattr(run, f) for f in ("configuration_name", "model_name", "title", "prompt", "request")})
            for _ in range(2 * ROWS_AT_ONCE + 1)
        ]
    )
    pieces = export_list(user=user, filters=RunFilters(), now=timezone.now())
    sizes = []
    header = next(pieces)
    with CaptureQueriesContext(
        connection,
    ) as captured:
        sizes.append(next(pieces).count("\r\n"))
        # A run that comes meanwhile is not among them, and breaks no order.
        make_run(title="late")
        sizes += [piece.count("\r\n") for piece in pieces]
    assert header.count("\r\n") == 1 and sizes == [ROWS_AT_ONCE, ROWS_AT_ONCE, 1]
    reading = [query["sql"] for query in captured if query["sql"].startswith("SELECT") and "LIMIT 100" in query["sql"]]
    # The last one finds that nothing is left.
    assert len(reading) == 4


def test_columns_are_described() -> None:
    documented = (Path(__file__).parents[2] / "docs/stored-runs.md").read_text()
    missing = [name for name in COLUMNS if f"`{name}`" not in documented]
    assert not missing
