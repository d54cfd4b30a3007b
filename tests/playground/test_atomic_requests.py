"""The pages in a site where each request is in a transaction (ATOMIC_REQUESTS)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.core.handlers.base import BaseHandler
from django.db import connections
from django.test import AsyncClient
from django.urls import URLPattern, resolve, reverse

from playground import internal_urls, urls
from tests.factories import UserFactory
from tests.playground.recorded import finished_run

Put = Callable[[Callable[..., Any]], Callable[..., Any]]


@pytest.fixture(autouse=True)
def atomic_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)


@pytest.fixture
def put_in_transaction() -> Put:
    """What Django makes of a view before it calls it."""
    return BaseHandler().make_view_atomic


@pytest.mark.parametrize("pattern", [*urls.urlpatterns, *internal_urls.urlpatterns], ids=str)
def test_no_view_of_ours_is_in_a_transaction(pattern: URLPattern, put_in_transaction: Put) -> None:
    assert put_in_transaction(pattern.callback) is pattern.callback


@pytest.mark.parametrize("name", ["mcpserver_list", "mcpserver_changelist", "provider_changelist"])
def test_no_transaction_waits_for_another_service(name: str, put_in_transaction: Put) -> None:
    view = resolve(reverse(f"admin:llmcore_{name}", args=[1] if name.endswith("_list") else None)).func
    assert put_in_transaction(view) is view


def test_other_pages_of_the_admin_are_as_the_site_has_them(put_in_transaction: Put) -> None:
    view = resolve(reverse("admin:llmcore_provider_add")).func
    assert put_in_transaction(view) is not view


@pytest.mark.django_db(transaction=True)
async def test_the_stream_and_the_list_as_a_file_are_served() -> None:
    user = await sync_to_async(UserFactory)(is_superuser=True)
    run = await sync_to_async(finished_run)()
    client = AsyncClient()
    await client.aforce_login(user)
    for name, args, said in (("run_events", [run.pk], "event: end"), ("runs_export", [], run.title)):
        response = await client.get(reverse(f"playground:{name}", args=args))
        assert said in b"".join([piece async for piece in response]).decode()
