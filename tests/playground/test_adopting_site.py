"""The pages in a site that has no middleware for them."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from llmcore.conf import CONTENT_SECURITY_POLICY
from playground.management.running import user_of
from tests.factories import UserFactory
from tests.playground.recorded import finished_run

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
