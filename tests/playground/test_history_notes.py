"""Title, tags and note of a run: who may write them, what is kept of them, and that nothing typed is lost."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from llmcore.runs.outcome import EndReason
from playground.models import Run, RunTag
from playground.privacy import PrivacyLevel
from playground.search import found_runs
from playground.services import annotate_run
from playground.services.annotate_run import MAX_TAGS, NoteChanged, digest_of_note, tag_names, tag_runs, write_note
from playground.services.start_run import RunRequest, given_title, write_run
from tests.factories import ConfigurationFactory, ProviderFactory, UserFactory
from tests.playground.recorded import RecordedRun, finished_run

pytestmark = pytest.mark.django_db

HTMX = {"HX-Request": "true"}
EVIL = "<img src=x onerror=alert(1)>"
TAG = "/admin/playground/tag/"


@pytest.fixture
def user() -> User:
    return UserFactory(permissions=["playground.view_run", "playground.add_run"])


@pytest.fixture
def client(user: User) -> Client:
    return client_of(user)


@pytest.fixture
def run(user: User) -> Run:
    return finished_run(user)


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def about(run: Run) -> str:
    return reverse("playground:run_about", args=[run.pk])


def note(run: Run) -> str:
    return reverse("playground:run_own_note", args=[run.pk])


def page_of(client: Client, run: Run) -> str:
    return html.unescape(client.get(reverse("playground:run", args=[run.pk])).content.decode())


def tags_of(run: Run) -> list[str]:
    return [tag.name for tag in RunTag.objects.filter(run=run)]


def found(text: str) -> list[int]:
    return list(found_runs(Run.objects.all(), text).values_list("pk", flat=True))


# Title and tags


def test_title_and_tags_are_saved_and_shown(client: Client, run: Run) -> None:
    form = client.get(about(run), headers=HTMX).content.decode()
    assert 'value="Where is my order?"' in form and f'hx-post="{about(run)}"' in form

    response = client.post(
        about(run), {"title": " Late\n parcel ", "tags": "Refunds, #Baseline,, refunds"}, headers=HTMX
    )

    run.refresh_from_db()
    assert (run.title, tags_of(run)) == ("Late parcel", ["baseline", "refunds"])
    head = response.content.decode()
    assert response.status_code == 200 and 'id="run-head" hx-swap-oob="true"' in head
    assert "Late parcel" in head and 'href="/admin/playground/?tag=refunds"' in head
    assert found("late baseline") == [run.pk] and found("order") == []
    assert 'href="/admin/playground/?tag=baseline"' in client.get("/admin/playground/").content.decode()


def test_tags_are_exactly_those_of_the_form(client: Client, run: Run) -> None:
    client.post(about(run), {"title": "T", "tags": "a, b"}, headers=HTMX)
    client.post(about(run), {"title": "T", "tags": "b, c"}, headers=HTMX)
    assert tags_of(run) == ["b", "c"] and found("a") == []


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        ({"title": "   ", "tags": "kept"}, "Enter a title."),
        ({"title": "x" * 201, "tags": "kept"}, "at most 200 characters"),
        ({"title": "Kept", "tags": ",".join(f"t{n}" for n in range(MAX_TAGS + 1))}, "at most 12 tags"),
        ({"title": "Kept", "tags": "y" * 41}, "at most 40 characters"),
        ({"title": "Kept\x00", "tags": "kept"}, "Null characters"),
        ({"title": "Kept", "tags": "kept\x00"}, "Null characters"),
    ],
)
def test_what_was_typed_stays_where_it_can_not_be_saved(
    client: Client, run: Run, sent: dict[str, str], problem: str
) -> None:
    response = client.post(about(run), sent, headers=HTMX)
    page = html.unescape(response.content.decode())
    assert response.status_code == 422 and problem in page and 'aria-invalid="true"' in page
    assert "kept" in page.lower() or sent["tags"] in page
    run.refresh_from_db()
    assert (run.title, tags_of(run)) == ("Where is my order?", [])


def test_form_works_without_scripts(client: Client, run: Run) -> None:
    response = client.post(about(run), {"title": "Plain", "tags": ""})
    assert response.headers["Location"] == reverse("playground:run", args=[run.pk])
    assert client.get(about(run)).status_code == 200


def test_tags_are_plain_words() -> None:
    assert tag_names(" A  b ,#c; C\nd,,# ,") == ["a b", "c", "d"]


# The note


def test_note_is_saved_and_shown_as_text(client: Client, run: Run) -> None:
    text = f"First {EVIL}\r\nsecond  \r\n"
    response = client.post(note(run), {"note": text, "seen": digest_of_note("")}, headers=HTMX)
    run.refresh_from_db()
    assert response.status_code == 200 and "Saved" in response.content.decode()
    assert run.note == f"First {EVIL}\nsecond"
    assert digest_of_note(run.note) in response.content.decode()
    for address in (reverse("playground:run", args=[run.pk]), "/admin/playground/"):
        page = client.get(address).content.decode()
        assert "&lt;img src=x" in page and "<img" not in page
    assert found("onerror") == [run.pk]


def test_note_of_somebody_else_is_not_overwritten_unseen(run: Run) -> None:
    assert write_note(run=run, note="Mine", seen=digest_of_note("")) == "Mine"
    with pytest.raises(NoteChanged) as caught:
        write_note(run=run, note="Theirs", seen=digest_of_note(""))
    assert caught.value.note == "Mine"
    # The same words twice are no conflict: an answer that got lost is asked for again.
    assert write_note(run=run, note="Mine", seen="") == "Mine"


def test_conflict_shows_both_notes_and_can_be_resolved(client: Client, run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(note=f"Theirs {EVIL}")
    response = client.post(note(run), {"note": "Mine", "seen": digest_of_note("")}, headers=HTMX)
    page = response.content.decode()
    assert response.status_code == 422 and "Theirs &lt;img" in page
    # The field itself is no part of the answer: what is being typed in it stays.
    assert "<textarea" not in page
    seen = re.search(r'name="seen" value="(\w+)"', page)
    assert seen and client.post(note(run), {"note": "Mine", "seen": seen[1]}, headers=HTMX).status_code == 200
    run.refresh_from_db()
    assert run.note == "Mine"


def test_overlong_note_is_refused_and_the_old_one_kept(client: Client, run: Run) -> None:
    response = client.post(note(run), {"note": "x" * 10_001, "seen": digest_of_note("")}, headers=HTMX)
    assert response.status_code == 422 and "10000" in response.content.decode()
    run.refresh_from_db()
    assert run.note == ""
    # A line end is one character, as the field counts it.
    lines = "\r\n".join("y" * 99 for _ in range(100))
    assert client.post(note(run), {"note": lines, "seen": digest_of_note("")}, headers=HTMX).status_code == 200


def test_secrets_of_the_site_are_never_stored(run: Run) -> None:  # R1
    ProviderFactory(key="sk-very-secret-key-1234567890")
    annotate_run.describe_run(run=run, title="Key sk-very-secret-key-1234567890", tags=[])
    write_note(run=run, note="It is sk-very-secret-key-1234567890.", seen=digest_of_note(""))
    run.refresh_from_db()
    assert "very-secret" not in run.title + run.note


def test_below_full_privacy_a_note_keeps_nothing_that_looks_like_a_secret(run: Run) -> None:  # R2
    Run.objects.filter(pk=run.pk).update(privacy_level=PrivacyLevel.REDACTED)
    run.refresh_from_db()
    write_note(run=run, note="Authorization: Bearer abcdefgh12345678ZYX", seen=digest_of_note(""))
    run.refresh_from_db()
    assert "abcdefgh12345678ZYX" not in run.note


def test_note_can_be_written_while_the_run_goes_on_and_survives_its_end(client: Client, user: User) -> None:
    recorded = RecordedRun(user)
    assert "data-own-note" in page_of(client, recorded.run)
    client.post(note(recorded.run), {"note": "Early", "seen": digest_of_note("")}, headers=HTMX)
    recorded.answer("Done.")
    assert recorded.end(EndReason.COMPLETED, answer="Done.").note == "Early"


# Who may


@pytest.mark.parametrize(
    ("permissions", "own", "status"),
    [
        (["playground.view_run"], True, 200),
        (["playground.view_all_runs"], True, 200),
        (["playground.view_all_runs"], False, 403),
        (["playground.view_all_runs", "playground.annotate_all_runs"], False, 200),
        (["playground.view_run", "playground.annotate_all_runs"], False, 404),
        (["playground.annotate_all_runs"], True, 403),
        ([], True, 403),
    ],
)
def test_who_may_annotate(permissions: list[str], own: bool, status: int) -> None:  # R3
    user = UserFactory(permissions=permissions)
    run = finished_run(user if own else UserFactory())
    client = client_of(user)
    responses = [
        client.get(about(run), headers=HTMX),
        client.post(about(run), {"title": "New", "tags": "t"}, headers=HTMX),
        client.post(note(run), {"note": "New", "seen": digest_of_note("")}, headers=HTMX),
    ]
    assert [response.status_code for response in responses] == [status] * 3
    run.refresh_from_db()
    assert (run.title == "New", run.note == "New") == (status == 200, status == 200)


@pytest.mark.parametrize("address", [about, note, lambda run: TAG])
def test_changes_take_a_login_a_post_and_its_token(address: Any, run: Run, user: User) -> None:
    assert Client().post(address(run)).headers["Location"].startswith("/admin/login/")
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(user)
    assert strict.post(address(run), {"title": "x", "note": "x", "tag": "x", "run": run.pk}).status_code == 403
    if address is not about:
        assert strict.get(address(run)).status_code == 405


def test_reader_without_the_right_sees_the_note_and_no_controls(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(note="Read me")
    page = page_of(client_of(UserFactory(permissions=["playground.view_all_runs"])), run)
    assert "Read me" in page
    assert "data-own-note" not in page and "run-about-open" not in page
    Run.objects.filter(pk=run.pk).update(note="")
    assert 'id="own-note"' not in page_of(client_of(UserFactory(permissions=["playground.view_all_runs"])), run)


# Many runs at once


def test_tag_is_added_to_and_removed_from_the_selected_runs(client: Client, user: User) -> None:
    runs = [finished_run(user) for _ in range(3)]
    chosen = {"run": [run.pk for run in runs[:2]], "tag": " Weekly "}
    response = client.post(TAG, chosen, headers=HTMX)
    page = html.unescape(response.content.decode())
    assert "“weekly” added to 2 runs." in page
    assert all(f'id="run_{run.pk}_tags" hx-swap-oob="true"' in page for run in runs[:2])
    assert [tags_of(run) for run in runs] == [["weekly"], ["weekly"], []]
    assert sorted(found("weekly")) == [runs[0].pk, runs[1].pk]

    again = html.unescape(client.post(TAG, chosen, headers=HTMX).content.decode())
    assert "Nothing changed. 2 runs had it already." in again

    page = html.unescape(client.post(TAG, {**chosen, "remove": "1"}, headers=HTMX).content.decode())
    assert "“weekly” removed from 2 runs." in page
    assert [tags_of(run) for run in runs] == [[], [], []] and found("weekly") == []


def test_only_what_the_user_may_annotate_is_tagged(user: User) -> None:  # R3
    mine, theirs, unseen = finished_run(user), finished_run(UserFactory()), finished_run(UserFactory())
    reader = UserFactory(permissions=["playground.view_run"])
    assert tag_runs(run_ids=[mine.pk], by=reader, name="x").changed == ()
    everything = UserFactory(permissions=["playground.view_all_runs"])
    Run.objects.filter(pk=mine.pk).update(user=everything)
    page = html.unescape(
        client_of(everything).post(TAG, {"run": [mine.pk, theirs.pk], "tag": "x"}, headers=HTMX).content.decode()
    )
    assert "“x” added to 1 run. You may not tag 1 run of others." in page
    assert [tags_of(run) for run in (mine, theirs, unseen)] == [["x"], [], []]


def test_run_with_all_its_tags_takes_no_more(client: Client, run: Run) -> None:
    RunTag.objects.bulk_create(RunTag(run=run, name=f"t{number}") for number in range(MAX_TAGS))
    page = html.unescape(client.post(TAG, {"run": run.pk, "tag": "more"}, headers=HTMX).content.decode())
    assert "Nothing changed. 1 run can't take another tag." in page and len(tags_of(run)) == MAX_TAGS


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        ({"run": [1], "tag": " , "}, "Enter a tag."),
        ({"run": [1], "tag": "a, b"}, "One tag at a time."),
        ({"run": [1], "tag": "x" * 41}, "at most 40 characters"),
        ({"tag": "x"}, "Select at least one run."),
        ({"run": ["x"], "tag": "x"}, "no ids of runs"),
        ({"run": list(range(200)), "tag": "x"}, "too many runs"),
    ],
)
def test_selection_that_can_not_be_tagged_says_why(client: Client, sent: dict[str, Any], problem: str) -> None:
    response = client.post(TAG, sent, headers=HTMX)
    assert response.status_code == 422 and problem in html.unescape(response.content.decode())


def test_selection_offers_tags_to_those_only_who_may_set_them(run: Run, user: User) -> None:
    def page(reader: User) -> str:
        return client_of(reader).get("/admin/playground/").content.decode()

    assert 'name="tag" maxlength="40"' in page(user)
    reader = UserFactory(permissions=["playground.view_all_runs"])
    assert 'name="tag" maxlength="40"' not in page(reader) and "data-export-selected" in page(reader)


# Runs made from a run


def test_rerun_carries_the_title_that_a_person_gave(client: Client, user: User) -> None:
    configuration = ConfigurationFactory()
    request = RunRequest(configuration=configuration.slug, prompt="Where is it?\nReally.")
    run = write_run(request=request, by=user)
    assert given_title(run=run, request=request) == ""
    named = write_run(request=RunRequest(configuration=configuration.slug, prompt="P", title="Named"), by=user)
    assert named.title == "Named"
    annotate_run.describe_run(run=run, title="Named since", tags=["t"])
    page = client.get("/admin/playground/new/", {"from": run.pk}).content.decode()
    assert 'name="title" id="id_title" maxlength="200" value="Named since"' in page
    page = client.get("/admin/playground/new/", {"from": named.pk}).content.decode()
    assert 'value="Named"' in page


def test_long_title_is_kept_and_that_of_a_prompt_is_short() -> None:
    configuration = ConfigurationFactory()
    given = write_run(request=RunRequest(configuration=configuration.slug, prompt="P", title="t" * 200), by=None)
    own = write_run(request=RunRequest(configuration=configuration.slug, prompt="p" * 200), by=None)
    assert given.title == "t" * 200 and own.title == "p" * 79 + "…"
