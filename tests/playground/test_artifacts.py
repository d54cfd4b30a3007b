"""Artifacts on the page of a run, and as files: whatever tools and models put into them."""

from __future__ import annotations

import json
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from llmcore.tools.base import Artifact
from llmcore.tools.results import ToolResult
from playground.models import Run, RunContent
from playground.privacy import PrivacyLevel
from playground.reading.artifacts import MAX_LISTED, MAX_NOTE_CHARS, safe_name
from playground.services.apply_privacy import apply_privacy_at_end
from tests.factories import UserFactory
from tests.playground.recorded import RecordedRun
from tests.security.test_pages import EVIL, problems_of

pytestmark = pytest.mark.django_db

HOSTILE = "<script>alert(1)</script>"
NOTE = {"title": "VAT for Austria", "body": "**Too little**, says `DJ-1`."}
FILE = {"name": "orders.csv", "media_type": "text/csv", "content": "number;total\nDJ-1;148.40\n"}


@pytest.fixture
def user() -> User:
    user: User = UserFactory(is_superuser=True)
    return user


def run_with(user: User, *artifacts: tuple[str, Any], answer: str = "Done.") -> Run:
    """A run whose only tool result, step 4, handed these over."""
    recorded = RecordedRun(user)
    given = tuple(Artifact(type=type, payload=payload) for type, payload in artifacts)
    recorded.round(result=ToolResult(text="done", artifacts=given))
    return recorded.end(answer=answer)


def page(client: Client, run: Run) -> str:
    return unescape(client.get(reverse("playground:run", args=[run.pk])).content.decode())


def file_of(client: Client, run: Run, index: int = 0, sequence: int = 4) -> Any:
    return client.get(reverse("playground:run_artifact", args=[run.pk, sequence, index]))


def test_notes_are_rendered_beside_the_answer_and_files_are_listed(client: Client, user: User) -> None:
    run = run_with(user, ("note", NOTE), ("file", FILE), ("table", {"rows": [[1, 2]]}))

    html = page(client, run)

    assert "<strong>Too little</strong>, says <code>DJ-1</code>." in html
    assert 'href="#artifact-4-0"' in html and 'id="artifact-4-0"' in html
    assert "text/csv, 25\u00a0B, from round 1" in html and 'href="#step-3/result"' in html
    assert "Download orders.csv" in html and "Download VAT for Austria.md" in html and "Download table.json" in html
    assert file_of(client, run).content.decode() == NOTE["body"]
    assert file_of(client, run, 1).content.decode() == FILE["content"]
    assert json.loads(file_of(client, run, 2).content) == {"rows": [[1, 2]]}


def test_they_are_there_without_an_answer_too(client: Client, user: User) -> None:
    html = page(client, run_with(user, ("note", NOTE), answer=""))
    assert "<strong>Too little</strong>" in html and 'id="answer"' not in html


def test_a_run_without_any_has_no_list_of_them(client: Client, user: User) -> None:
    assert "h-artifacts" not in page(client, run_with(user))


@pytest.mark.parametrize(
    "media_type", ["text/html", "image/svg+xml", "application/javascript", "text/html\r\nX-Evil: 1"]
)
def test_a_file_is_only_ever_saved(client: Client, user: User, media_type: str) -> None:
    run = run_with(user, ("file", {"name": "page.html", "media_type": media_type, "content": HOSTILE}))

    response = file_of(client, run)

    assert response["Content-Type"] == "application/octet-stream"
    assert response["Content-Disposition"] == 'attachment; filename="page.html"'
    assert response["X-Content-Type-Options"] == "nosniff" and "sandbox" in response["Content-Security-Policy"]
    assert "no-store" in response["Cache-Control"] and "X-Evil" not in response.headers
    assert response.content.decode() == HOSTILE


def test_nothing_of_them_is_markup(client: Client, user: User) -> None:
    run = run_with(
        user,
        ("note", {"title": EVIL, "body": EVIL}),
        ("file", {"name": EVIL, "media_type": EVIL, "content": EVIL}),
        (EVIL, {EVIL: EVIL}),
    )
    step = reverse("playground:run_step", args=[run.pk, 3])

    for address in (reverse("playground:run", args=[run.pk]), step):
        html = client.get(address).content.decode()
        assert "needle" in html and list(problems_of(html)) == []
    for index in range(3):
        assert "\n" not in file_of(client, run, index)["Content-Disposition"]


@pytest.mark.parametrize(
    ("type", "payload"),
    [
        ("note", {}),
        ("note", {"title": 7, "body": "x"}),
        ("note", {"title": "x", "body": None}),
        ("note", "text"),
        ("note", None),
        ("file", {"name": ["x"], "content": "x"}),
        ("file", {"name": "", "content": ""}),
        ("", {"a": 1}),
    ],
)
def test_a_payload_that_is_none_of_its_type_is_shown_as_it_is(
    client: Client, user: User, type: str, payload: Any
) -> None:
    run = run_with(user, (type, payload))

    assert "h-artifacts" in page(client, run)
    assert client.get(reverse("playground:run_step", args=[run.pk, 3])).status_code == 200
    assert file_of(client, run)["Content-Disposition"].startswith("attachment; filename=")


@pytest.mark.parametrize(
    ("name", "ending", "saved"),
    [
        ("report.csv", "", "report.csv"),
        ("VAT: 2 % of “Wien”", ".md", "VAT_ 2 % of “Wien”.md"),
        ("../../etc/passwd", "", "_._etc_passwd"),
        ("C:\\autoexec.bat", "", "C__autoexec.bat"),
        (".bashrc", "", "bashrc"),
        ("  . ", "", "artifact"),
        ("", ".json", "artifact.json"),
        ("invoice\u202efdp.exe", "", "invoice_fdp.exe"),
        ("a\r\nSet-Cookie: x", "", "a__Set-Cookie_ x"),
        ("a\0b\u200b.txt", "", "a_b_.txt"),
        ("x" * 300 + ".csv", "", "x" * 96 + ".csv"),
        ("no ending", "", "no ending"),
        ("Größe.txt", "", "Größe.txt"),
    ],
)
def test_the_name_of_a_file_is_a_name_everywhere(name: str, ending: str, saved: str) -> None:
    assert safe_name(name, ending) == saved


def test_a_name_that_can_not_be_read_is_spelled_out_on_the_page(client: Client, user: User) -> None:
    run = run_with(user, ("file", {**FILE, "name": "invoice\u202efdp.exe"}))
    html = page(client, run)
    assert "invoice⟨U+202E⟩fdp.exe" in html and "\u202e" not in html


def test_what_the_page_holds_of_them_is_bounded(client: Client, user: User) -> None:
    notes = [("note", {"title": f"Note {n}", "body": "word " * 5_000}) for n in range(30)]
    run = run_with(user, *notes, *[("file", FILE)] * MAX_LISTED)
    step = client.get(reverse("playground:run_step", args=[run.pk, 3])).content.decode()
    html = page(client, run)

    for shown in (step, html):
        assert len(shown) < 1_000_000 and shown.count('class="pg-file"') == MAX_LISTED
        assert shown.count("The note goes on.") == 3 and "There are more" in shown
    assert len(html) < 250_000
    assert len(file_of(client, run, 29).content) == 25_000 > MAX_NOTE_CHARS
    assert file_of(client, run, MAX_LISTED + 29).content.decode() == FILE["content"]


def test_more_than_a_page_reads_is_left_to_the_steps(client: Client, user: User) -> None:
    recorded = RecordedRun(user)
    for number in range(5):
        file = Artifact(type="file", payload={**FILE, "name": f"{number}.csv", "content": f"{number}" * 900_000})
        recorded.round(result=ToolResult(text="done", artifacts=(file,)))
    html = page(client, recorded.end())
    assert "0.csv" in html and "1.csv" in html and "2.csv" not in html
    assert "There are more" in html


def test_many_cost_no_more_queries_than_one(client: Client, user: User, django_assert_max_num_queries: Any) -> None:
    few, many = run_with(user, ("note", NOTE)), run_with(user, *[("file", FILE)] * 50)
    with django_assert_max_num_queries(60) as first:
        page(client, few)
    with django_assert_max_num_queries(len(first.captured_queries)):
        page(client, many)


def test_those_of_another_run_or_step_are_not_there(client: Client, user: User) -> None:
    run, stranger = run_with(user, ("note", NOTE)), Client()
    stranger.force_login(UserFactory(permissions=["playground.view_run"]))

    assert file_of(stranger, run).status_code == 404
    for sequence, index in ((4, 1), (3, 0), (1, 0), (99, 0)):
        assert file_of(client, run, index, sequence).status_code == 404
    assert client.post(reverse("playground:run_artifact", args=[run.pk, 4, 0])).status_code == 405


def test_a_site_that_keeps_no_contents_keeps_none_of_them(client: Client, user: User) -> None:
    recorded = RecordedRun(user, privacy_level=PrivacyLevel.METADATA)
    recorded.round(result=ToolResult(text="done", artifacts=(Artifact(type="note", payload=NOTE),)))
    run = recorded.end(answer="")

    apply_privacy_at_end(run_id=run.pk, now=timezone.now())

    html = page(client, run)
    assert "VAT for Austria" not in html and "h-artifacts" in html and "data-gone" in html
    assert file_of(client, run).status_code == 404


def test_what_was_deleted_is_said_to_be_gone(client: Client, user: User) -> None:
    run = run_with(user, ("note", NOTE))
    RunContent.objects.filter(run=run, digest=run.steps.get(sequence=4).data["artifacts"]).delete()

    html = page(client, run)

    assert "Some are no longer stored." in html and "Too little" not in html
    assert file_of(client, run).status_code == 404
