"""What is too large for a page as a file: the whole of it, for those who may see the run."""

from __future__ import annotations

import json

import pytest
from django.contrib.auth.models import User
from django.test import AsyncClient, Client
from django.urls import reverse

from llmcore.messages import FinishReason
from llmcore.tools.results import ToolResult
from playground.models import Run
from tests.factories import UserFactory
from tests.playground.recorded import RecordedRun, lookup

pytestmark = pytest.mark.django_db

WHOLE = json.dumps({"orders": [{"number": number, "city": "Zürich"} for number in range(20_000)]}, ensure_ascii=False)
TEXT = "<script>alert(1)</script> ünïcode\n" * 5_000


@pytest.fixture
def run(user: User) -> Run:
    """Step 3 has JSON, step 7 a text."""
    recorded = RecordedRun(user)
    for number, whole in enumerate((WHOLE, TEXT)):
        recorded.request()
        recorded.response(calls=[lookup(number)], finish_reason=FinishReason.TOOL_CALLS)
        recorded.tool_call(lookup(number))
        recorded.tool_result(lookup(number), ToolResult(text=whole[:1_000], full=whole, size=len(whole)))
    return recorded.end()


def address(run: Run, sequence: int, box: str = "full") -> str:
    path = reverse("playground:run_step", args=[run.pk, sequence])
    return f"{path}?tab=result&box={box}&as=file"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("sequence", "whole", "content_type", "ending"),
    [(3, WHOLE, "application/json", "json"), (7, TEXT, "text/plain; charset=utf-8", "txt")],
)
async def test_the_whole_of_a_box_is_a_file(
    run: Run, user: User, sequence: int, whole: str, content_type: str, ending: str
) -> None:
    client = AsyncClient()
    await client.aforce_login(user)

    response = await client.get(address(run, sequence))
    pieces = [piece async for piece in response]

    assert b"".join(pieces).decode() == whole
    assert len(pieces) > 1, "it comes piece by piece"
    assert response["Content-Type"] == content_type
    assert response["Content-Disposition"] == f'attachment; filename="run-{run.pk}-step-{sequence}-full.{ending}"'
    assert response["X-Content-Type-Options"] == "nosniff"
    assert int(response["Content-Length"]) == len(whole.encode())


def test_the_page_of_a_step_offers_large_boxes_as_files_and_small_ones_not(run: Run, user: User) -> None:
    client = Client()
    client.force_login(user)

    html = client.get(reverse("playground:run_step", args=[run.pk, 3])).content.decode()

    assert "box=full&amp;as=file" in html
    assert "box=arguments&amp;as=file" not in html


def test_a_file_of_a_run_that_one_may_not_see_is_not_there(run: Run) -> None:
    stranger = Client()
    stranger.force_login(UserFactory(is_staff=True, permissions=["playground.view_run"]))

    assert stranger.get(address(run, 3)).status_code == 404


def test_a_file_of_a_box_that_is_not_there_is_not_found(run: Run, user: User) -> None:
    client = Client()
    client.force_login(user)

    assert client.get(address(run, 3, box="other")).status_code == 404
