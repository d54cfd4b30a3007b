"""The head of a run's page has the actions of its open step from the start: what comes later moves nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from llmcore.runs.outcome import EndReason
from playground.erasure import delete_contents
from playground.models import Run
from tests.playground.recorded import RecordedRun, finished_run, provider_error

pytestmark = pytest.mark.django_db


def failed_run(user: User) -> Run:
    recorded = RecordedRun(user)
    recorded.round()
    recorded.request()
    recorded.response(error=provider_error(), finish_reason=None, usage=None)
    return recorded.end(EndReason.PROVIDER_FAILED)


def running(user: User) -> Run:
    recorded = RecordedRun(user)
    recorded.round()
    return recorded.run


def without_contents(user: User) -> Run:
    run = finished_run(user)
    delete_contents(run, kept_days=None, now=timezone.now())
    return run


def head_of(client: Client, run: Run, **query: int) -> tuple[int, str]:
    """The step that the page opens on, and its head."""
    page = client.get(reverse("playground:run", args=[run.pk]), query).content.decode()
    opened = query.get("at", int(re.findall(r'data-start="(\d+)"', page)[0]))
    return opened, page.partition('id="run-head"')[2].partition("</header>")[0]


def found(pattern: str, html: str) -> str:
    return (re.findall(pattern, html) or [""])[0]


@pytest.mark.parametrize("make", [finished_run, failed_run, running, without_contents])
def test_the_head_says_from_the_start_what_the_open_step_will_say(
    client: Client, user: User, make: Callable[[User], Run]
) -> None:
    run = make(user)

    for query in ({}, {"at": 3}, {"at": 0}):
        opened, head = head_of(client, run, **query)
        detail = client.get(reverse("playground:run_step", args=[run.pk, opened])).content.decode()
        fork, retry, curl = (found(rf'data-{name}="([^"]*)"', detail) for name in ("fork", "retry", "curl"))
        if "data-fork" in head:
            assert found(r"data-fork-label>([^<]*)<", head) == fork
            assert int(found(r'\?at=(\d+)" data-fork', head)) == opened
            assert found(r"data-retry-label>([^<]*)<", head) == retry
            assert (" hidden data-retry-form" in head) is not bool(retry), "an action without a name is hidden"
        assert found(r'data-copy-url="([^"]*)"', head) == curl
        assert (" hidden data-copy-url" in head) is not bool(curl)


def test_the_actions_work_without_waiting_for_the_step(client: Client, user: User) -> None:
    run = failed_run(user)

    page = client.get(reverse("playground:run", args=[run.pk])).content.decode()

    assert 'name="at" value="5"' in page and "Retry round 2" in page
    assert f'{reverse("playground:run_fork", args=[run.pk])}?at=5"' in page
    assert "Copy round 2 as cURL" in unescape(page)
