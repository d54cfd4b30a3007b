"""Where the models stand in the admin."""

from __future__ import annotations

import re

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client, RequestFactory

from tests.factories import UserFactory

pytestmark = pytest.mark.django_db


def headings(user: User) -> dict[str, list[str]]:
    request = RequestFactory().get("/admin/")
    request.user = user
    return {app["name"]: [model["name"] for model in app["models"]] for app in admin.site.get_app_list(request)}


def test_runs_stand_under_the_heading_of_the_runtime() -> None:
    shown = headings(UserFactory(is_superuser=True))

    assert "LLM playground" not in shown
    assert "Playground runs" in shown["LLM"] and "Configurations" in shown["LLM"]
    assert shown["LLM"] == sorted(shown["LLM"], key=lambda name: name.lower())


def test_those_who_see_runs_only_find_them_under_the_same_heading() -> None:
    shown = headings(UserFactory(permissions=["playground.view_run"]))

    assert shown == {"LLM": ["Calls in flight", "Playground runs", "Proposed actions"]}


def test_what_belongs_to_the_pages_has_a_heading_of_its_own_for_those_who_see_nothing_else() -> None:
    shown = headings(UserFactory(permissions=["playground.view_decisionrecord"]))

    assert shown == {"LLM playground": ["Decisions"]}


def test_the_playground_has_one_name_in_all_breadcrumbs() -> None:
    client = Client()
    client.force_login(UserFactory(is_superuser=True))

    for path in ("", "new/", "actions/", "compare/", "decisionrecord/"):
        page = client.get(f"/admin/playground/{path}").content.decode()
        crumbs = page.partition('class="breadcrumbs"')[2].partition("</div>")[0]
        assert re.findall(r"[\w ]*[Pp]layground(?![/\w])", re.sub(r"<[^>]+>", "", crumbs)) == [" LLM playground"], path


def test_the_page_of_the_runtime_lists_the_runs_too() -> None:
    client = Client()
    client.force_login(UserFactory(is_superuser=True))

    assert "Playground runs" in client.get("/admin/llmcore/").content.decode()
    assert "Playground runs" not in client.get("/admin/auth/").content.decode().split('id="nav-sidebar"')[0]


def test_what_is_not_there_is_said_with_a_way_on() -> None:
    client = Client()
    client.force_login(UserFactory(is_superuser=True))

    response = client.get("/admin/playground/runs/1/")

    assert response.status_code == 404
    page = response.content.decode()
    assert "Page not found" in page and "isn't yours to see" in page
    assert 'href="/admin/playground/"' in page


def test_what_is_not_allowed_names_the_user_as_text() -> None:
    client = Client()
    client.force_login(UserFactory(is_staff=True, username="<b>maren</b>"))

    response = client.get("/admin/playground/")

    assert response.status_code == 403
    assert "logged in as &lt;b&gt;maren&lt;/b&gt;" in response.content.decode()
