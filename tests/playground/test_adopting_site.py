"""The pages in a site that has no middleware for them."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any, cast

import pytest
from asgiref.sync import sync_to_async
from django.core.checks import run_checks
from django.test import AsyncClient, Client
from django.urls import reverse
from django.utils import translation
from django.utils.formats import number_format

from llmcore.conf import CONTENT_SECURITY_POLICY
from playground.management.running import user_of
from playground.models import Run
from playground.reading import beginning
from tests.factories import UserFactory
from tests.playground.recorded import RecordedRun, finished_run, long_run

pytestmark = pytest.mark.django_db

RUNS = "playground:runs"
CSP = "Content-Security-Policy"


@pytest.fixture
def site(settings: Any, client: Client) -> Any:
    """The settings of a site that has what Django's own start project has."""
    settings.MIDDLEWARE = [name for name in settings.MIDDLEWARE if name.startswith("django.")]
    client.force_login(UserFactory(is_superuser=True), "django.contrib.auth.backends.ModelBackend")
    return settings


def test_pages_work_and_bring_their_own_content_policy(site: Any, client: Client) -> None:
    response = client.get(reverse(RUNS))
    assert response.status_code == 200 and response.headers[CSP] == CONTENT_SECURITY_POLICY
    assert CSP not in client.get(reverse("admin:index")).headers


def test_fragments_are_told_from_pages(site: Any, client: Client) -> None:
    client.logout()
    response = client.get(reverse(RUNS), headers={"HX-Request": "true"})
    assert response.headers["HX-Redirect"].startswith(reverse("admin:login")) and CSP in response.headers


def test_a_site_can_set_another_policy_or_none(site: Any, client: Client) -> None:
    site.LLM_CONTENT_SECURITY_POLICY = "default-src 'self'"
    assert client.get(reverse(RUNS)).headers[CSP] == "default-src 'self'"
    site.LLM_CONTENT_SECURITY_POLICY = ""
    assert CSP not in client.get(reverse(RUNS)).headers


def test_the_policy_of_the_sites_own_middleware_counts(site: Any, client: Client) -> None:
    site.MIDDLEWARE = [*site.MIDDLEWARE, "csp.middleware.CSPMiddleware"]
    site.CONTENT_SECURITY_POLICY = {"DIRECTIVES": {"script-src": ["'self'"]}}
    policy = client.get(reverse(RUNS)).headers[CSP]
    assert set(policy.split("; ")) == {"script-src 'self'", "default-src 'self'"}


def test_a_server_that_cannot_stream_refuses_the_stream(site: Any, client: Client) -> None:
    run = finished_run()
    assert client.get(reverse("playground:run_events", kwargs={"pk": run.pk})).status_code == 501


def test_a_user_is_found_by_the_name_of_the_sites_own_model() -> None:
    user = UserFactory(username="ada")
    assert user_of("ada") == user and user_of(None) is None


@pytest.mark.parametrize("scripted", [False, True], ids=["pages", "fragments"])
def test_numbers_are_written_as_everywhere_whatever_the_site_writes_its_own_like(
    site: Any, client: Client, scripted: bool
) -> None:
    run = long_run(id=41_234, rounds=30)
    other = long_run(id=52_345, rounds=2)
    at = f"runs/{run.pk}"
    paths = [
        *("", "calls/", "actions/", f"new/?from={run.pk}", f"compare/?a={run.pk}&b={other.pk}"),
        *(f"{at}/", f"{at}/delete/", f"{at}/since/", f"{at}/steps/?at=40", f"{at}/updates/", f"{at}/search/?q=stock"),
        *(f"{at}/about/", f"{at}/steps/4/?tab=messages", f"{at}/steps/4/?tab=tokens", f"{at}/steps/7/"),
    ]
    headers = {"HX-Request": "true"} if scripted else {}

    def shown() -> dict[str, str]:
        with translation.override(None):
            answers = {path: client.get(reverse(RUNS) + path, headers=headers) for path in paths}
        assert {answer.status_code for answer in answers.values()} == {200}
        # But for tokens against forged requests.
        return {path: re.sub(r'"\w{64}"', "", answer.content.decode()) for path, answer in answers.items()}

    usual = shown()
    site.USE_THOUSAND_SEPARATOR, site.NUMBER_GROUPING = True, 1
    site.THOUSAND_SEPARATOR, site.DECIMAL_SEPARATOR = "'", ","
    with translation.override(None):
        assert number_format(41_234.5) == "4'1'2'3'4,5"
    assert shown() == usual


@pytest.mark.django_db(transaction=True)
async def test_a_site_that_packs_its_answers_leaves_alone_what_comes_in_pieces(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Else a busy machine might ask for the page when its run has begun too long ago.
    monkeypatch.setattr(beginning, "JUST_NOW", timedelta(minutes=5))
    settings.MIDDLEWARE = ["django.middleware.gzip.GZipMiddleware", *settings.MIDDLEWARE]
    client = AsyncClient()
    user = await sync_to_async(UserFactory)(is_superuser=True)
    await client.aforce_login(user, "django.contrib.auth.backends.ModelBackend")
    run = (await sync_to_async(RecordedRun)(user)).run

    packed = {"Accept-Encoding": "gzip"}
    assert (await client.get(reverse(RUNS), headers=packed)).headers["Content-Encoding"] == "gzip"
    # Of several packages one after the other browsers read the first.
    pages = {f"runs/{run.pk}/": "<!DOCTYPE html>", f"runs/{run.pk}/events/": "retry: ", "export/": "\ufeffrun,"}
    for page, begin in pages.items():
        response = cast(Any, await client.get(reverse(RUNS) + page, headers=packed))
        assert response.streaming and response.headers["Content-Encoding"] == "identity"
        assert (await anext(aiter(response.streaming_content))).decode().lstrip().startswith(begin)
        await response.streaming_content.aclose()


def test_a_cache_of_the_whole_site_keeps_no_page(site: Any, client: Client) -> None:
    caches = ("UpdateCacheMiddleware", "FetchFromCacheMiddleware")
    site.MIDDLEWARE = [f"django.middleware.cache.{name}" for name in caches] + site.MIDDLEWARE
    # Else their cookies keep most pages out of it.
    site.CSRF_USE_SESSIONS = True
    run = finished_run()
    page = reverse("playground:run", args=[run.pk])
    # The first answer brings the session its token.
    before, again = (client.get(page).content.decode() for _ in range(2))
    assert "Asked for anew" not in before + again
    Run.objects.filter(pk=run.pk).update(title="Asked for anew")
    assert "Asked for anew" in client.get(page).content.decode()


class Replica:
    """Runs are read from another database than they are written to."""

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return "replica" if model._meta.label == "playground.Run" else None


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("USE_TZ", False, "playground.E001"),
        ("DATABASE_ROUTERS", [f"{__name__}.Replica"], "playground.E002"),
        ("USE_TZ", True, None),
    ],
)
def test_settings_that_the_apps_cannot_live_with_are_told_by_check(
    settings: Any, name: str, value: Any, told: str | None
) -> None:
    setattr(settings, name, value)
    assert {message.id for message in run_checks() if message.id.startswith("playground")} == ({told} - {None})
