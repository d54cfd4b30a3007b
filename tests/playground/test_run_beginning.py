"""The page of a run that was started just now: it waits for the first step, and its head doesn't."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import cast

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.http import StreamingHttpResponse
from django.test import AsyncClient, Client
from django.urls import reverse
from django.utils import timezone

from llmcore.runs.outcome import EndReason, RunStatus
from playground.models import Run
from playground.reading import beginning
from playground.reading.beginning import PATIENCE_S, await_first_step, is_beginning
from playground.reading.step_rows import load_rows
from playground.reading.steps import read_steps
from tests.playground.recorded import RecordedRun

TOKEN = re.compile(r'(csrfmiddlewaretoken" value=|X-CSRFToken": )"\w+"')


def url(run: Run) -> str:
    return reverse("playground:run", args=[run.pk])


# --- waiting for the first step ---


@pytest.mark.django_db
def test_the_page_of_a_run_that_has_just_been_started_waits_for_its_first_step(user: User) -> None:
    recorded = RecordedRun(user)
    run = Run.objects.get(pk=recorded.run.pk)

    await_first_step(run, pause=recorded.request)

    assert run.last_sequence == 1
    assert read_steps(run, load_rows(run.steps.all()), timezone.now()).last == 1


@pytest.mark.django_db
def test_no_page_waits_longer_than_a_moment_or_for_anything_else(user: User) -> None:
    def waits(run: Run, **age: float) -> bool:
        return is_beginning(run, now=run.created_at + timedelta(**age))

    started = RecordedRun(user)
    before = time.monotonic()
    await_first_step(started.run)
    assert time.monotonic() - before >= PATIENCE_S and started.run.last_sequence == 0
    assert waits(started.run) and not waits(started.run, minutes=1)
    started.request()
    assert not waits(Run.objects.get(pk=started.run.pk))
    assert not waits(RecordedRun(user, status=RunStatus.CANCELLED, reason=EndReason.CANCELLED).run)


# --- in two pieces ---


@pytest.fixture
async def browser(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> AsyncClient:
    # Else a busy machine might ask for the page when its run has begun too long ago.
    monkeypatch.setattr(beginning, "JUST_NOW", timedelta(minutes=5))
    client = AsyncClient()
    await client.aforce_login(await User.objects.acreate_superuser("ada", "ada@example.com", "password"))
    return client


@sync_to_async
def begun(**columns: object) -> RecordedRun:
    return RecordedRun(User.objects.get(), **columns)


async def pieces_of(client: AsyncClient, run: Run) -> AsyncIterator[str]:
    response = cast(StreamingHttpResponse, await client.get(url(run)))
    assert response.streaming and response.status_code == 200
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]
    assert response.headers["X-Accel-Buffering"] == "no"
    async for piece in response:
        yield piece.decode()


async def test_the_head_of_the_page_is_sent_before_the_first_step_is_there(browser: AsyncClient) -> None:
    recorded = await begun(title="<b>Where</b> is </head> my order?")
    pieces = pieces_of(browser, recorded.run)

    head = await anext(pieces)
    # A title that looks like markup doesn't end it, and nothing of it can be seen: the page before stays till then.
    assert head.endswith("</head>") and head.count("</head>") == 1
    assert "live.js" in head and "&lt;b&gt;Where&lt;/b&gt; is &lt;/head&gt; my order?" in head

    await sync_to_async(recorded.request)()
    rest = await anext(pieces)
    assert 'id="step-1"' in rest and rest.rstrip().endswith("</html>") and "<!-- the run -->" not in rest
    with pytest.raises(StopAsyncIteration):
        await anext(pieces)


async def test_the_pieces_are_the_page(browser: AsyncClient) -> None:
    recorded = await begun()
    pieces = pieces_of(browser, recorded.run)
    page = await anext(pieces)
    await sync_to_async(recorded.request)()
    page += await anext(pieces)

    # The clock of the running run goes on between both.
    def same(html: str) -> str:
        return re.sub(r"[\d.]+", "", TOKEN.sub("", html))

    whole = await browser.get(url(recorded.run))
    assert not whole.streaming
    assert same(page).split() == same(whole.content.decode()).split()


async def test_the_menu_counts_and_messages_are_shown_once(browser: AsyncClient) -> None:
    gone = await sync_to_async(lambda: RecordedRun(User.objects.get()).end(EndReason.COMPLETED))()
    assert (await browser.post(reverse("playground:run_delete", args=[gone.pk]))).status_code == 302
    recorded = await begun()
    await sync_to_async(Run.objects.filter(pk=recorded.run.pk).update)(created_at=timezone.now())

    first = "".join([piece async for piece in pieces_of(browser, recorded.run)])
    again = "".join([piece async for piece in pieces_of(browser, recorded.run)])

    assert "was deleted" in first and "was deleted" not in again


async def test_a_page_that_fails_in_its_midst_says_so_and_logs_why(
    browser: AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    # What a release that was rolled back may leave behind.
    recorded = await begun(plan={"state": "not a state"})

    page = "".join([piece async for piece in pieces_of(browser, recorded.run)])

    assert "The run can’t be shown." in page and "Try again" in page and page.rstrip().endswith("</html>")
    assert "Traceback" not in page and "could not be made" in caplog.text


@pytest.mark.django_db
def test_a_server_that_sends_no_pieces_sends_the_page(client: Client, user: User) -> None:
    response = client.get(url(RecordedRun(user).run))

    assert not response.streaming and "Where is my order?" in response.content.decode()
