"""What the script of a form that starts a run is told; the browser itself gets a redirect, or the form with reasons."""

from __future__ import annotations

import re
from typing import Any, cast

import pytest
from asgiref.sync import sync_to_async
from django.http import StreamingHttpResponse
from django.test import AsyncClient
from django.urls import reverse

from playground.models import Run
from tests.factories import ConfigurationFactory, UserFactory
from tests.playground.new_run_form import client_with, form_data

NEW_RUN = reverse("playground:new_run")
SCRIPT: dict[str, Any] = {"headers": {"HX-Request": "true"}}


def address(run: Run) -> str:
    return reverse("playground:run", args=[run.pk])


@pytest.mark.django_db
def test_the_page_of_the_run_comes_with_its_address() -> None:
    client = client_with("playground.add_run", "playground.view_run")

    response = client.post(NEW_RUN, form_data(ConfigurationFactory(), prompt="Where <is> it?"), **SCRIPT)

    page, run = response.content.decode(), Run.objects.get()
    assert (response.status_code, response.headers["Location"]) == (201, address(run))
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]
    title = re.search(r"<title>(.*?)</title>", page)
    assert title and title[1].split(" | ")[0] == "Where &lt;is&gt; it?"
    whole = client.get(address(run)).content.decode()
    assert title[0] in whole
    for part in ('id="run-head"', 'id="inspector"', 'class="breadcrumbs"', "live.js"):
        assert part in page and part in whole, part
    # The frame around it is on the form's page already.
    assert 'id="user-tools"' in whole and 'id="user-tools"' not in page


@pytest.mark.django_db
def test_who_may_start_but_not_see_runs_gets_the_address_alone() -> None:
    response = client_with("playground.add_run").post(NEW_RUN, form_data(ConfigurationFactory(), prompt="Go"), **SCRIPT)

    assert (response.status_code, response.headers["Location"]) == (201, address(Run.objects.get()))
    assert response.content == b""


@pytest.mark.django_db
@pytest.mark.parametrize("changes", [{"prompt": ""}, {"prompt": "Ask {{who}}."}, {"configuration": "gone"}])
def test_a_form_that_starts_nothing_is_left_to_the_browser(changes: dict[str, str]) -> None:
    client = client_with("playground.add_run", "playground.view_run")

    response = client.post(NEW_RUN, {**form_data(ConfigurationFactory(), prompt="Go"), **changes}, **SCRIPT)

    assert (response.status_code, response.content) == (204, b"")
    assert "Location" not in response.headers and not Run.objects.exists()


async def test_the_page_comes_in_two_pieces_as_for_a_browser(transactional_db: None) -> None:
    client = AsyncClient()
    await client.aforce_login(await sync_to_async(UserFactory)(is_superuser=True))
    data = form_data(await sync_to_async(ConfigurationFactory)(), prompt="Go")

    response = cast(StreamingHttpResponse, await client.post(NEW_RUN, data, **SCRIPT))

    assert response.streaming and response.status_code == 201
    run = await Run.objects.aget()
    assert response.headers["Location"] == await sync_to_async(address)(run)
    pieces = cast(Any, response).__aiter__()
    assert (await anext(pieces)).decode().endswith("</head>")
    assert 'id="run-head"' in (await anext(pieces)).decode()
