"""Rights are looked at on each address and each object, and again as long as anything is sent."""

from __future__ import annotations

import asyncio
import time

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import AsyncClient, Client
from django.urls import URLPattern, reverse

from playground import urls
from playground.models import Run
from playground.views import live
from tests.factories import UserFactory
from tests.playground.driven import WAIT_S
from tests.playground.recorded import RecordedRun, finished_run


def address(pattern: URLPattern, run: Run) -> str:
    given = {"pk": run.pk, "sequence": 1, "index": 0, "action_id": 1, "digest": "0" * 64, "part": 0}
    return reverse(f"playground:{pattern.name}", kwargs={name: given[name] for name in pattern.pattern.converters})


def status_of(client: Client, url: str, method: str) -> int:
    return int(getattr(client, method)(url).status_code)


@pytest.mark.django_db
@pytest.mark.parametrize("pattern", urls.urlpatterns, ids=lambda pattern: pattern.name)
def test_no_address_answers_strangers_or_staff_without_rights(pattern: URLPattern) -> None:
    run = finished_run(UserFactory())
    url, staff, customer = address(pattern, run), Client(), Client()
    staff.force_login(UserFactory())
    customer.force_login(UserFactory(is_staff=False, is_superuser=True))

    for method in ("get", "post"):
        assert status_of(Client(), url, method) in (302, 405)
        assert status_of(customer, url, method) in (302, 405)
        assert status_of(staff, url, method) in (403, 405)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "pattern", [p for p in urls.urlpatterns if "pk" in p.pattern.converters], ids=lambda pattern: pattern.name
)
def test_no_address_leads_to_the_run_of_another(pattern: URLPattern) -> None:
    run = finished_run(UserFactory())
    rights = ["add_run", "view_run", "delete_run", "view_raw", "cancel_all_runs", "annotate_all_runs"]
    client = Client()
    client.force_login(UserFactory(permissions=[f"playground.{right}" for right in rights]))

    assert {status_of(client, address(pattern, run), method) for method in ("get", "post")} <= {404, 405}
    assert Run.objects.filter(pk=run.pk, title=run.title).exists()


@pytest.mark.django_db
@pytest.mark.parametrize("pattern", urls.urlpatterns, ids=lambda pattern: pattern.name)
def test_no_address_takes_a_post_without_its_token(pattern: URLPattern) -> None:
    user = UserFactory(is_superuser=True)
    client = Client(enforce_csrf_checks=True)
    client.force_login(user)

    assert status_of(client, address(pattern, finished_run(user)), "post") in (403, 405)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("loss", ["deactivated", "logged out", "right withdrawn"])
async def test_a_stream_that_never_falls_silent_ends_for_a_reader_who_lost_the_right(
    monkeypatch: pytest.MonkeyPatch, loss: str
) -> None:
    def begin() -> tuple[User, RecordedRun]:
        owner = UserFactory(permissions=["playground.view_run"])
        recorded = RecordedRun(owner)
        recorded.request()
        return owner, recorded

    def lose() -> None:
        match loss:
            case "deactivated":
                User.objects.update(is_active=False)
            case "logged out":
                Session.objects.all().delete()
            case "right withdrawn":
                User.objects.get().user_permissions.clear()

    monkeypatch.setattr(live, "HEARTBEAT_S", 1.0)
    user, recorded = await sync_to_async(begin)()
    client = AsyncClient()
    await client.aforce_login(user)
    response = await client.get(reverse("playground:run_events", args=[recorded.run.pk]))
    parts = aiter(response.streaming_content)
    await asyncio.wait_for(anext(parts), WAIT_S)
    await sync_to_async(lose)()
    lost_at = time.monotonic()
    text, number = "", 0
    while part := await asyncio.wait_for(anext(parts, b""), WAIT_S):
        text += part.decode()
        number += 1
        await sync_to_async(recorded.partial)(text=f"word {number}")
        if time.monotonic() - lost_at > WAIT_S:
            break
    await response.streaming_content.aclose()

    assert time.monotonic() - lost_at < WAIT_S, "it went on"
