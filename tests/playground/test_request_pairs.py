"""Any request of a run against any other one: how far they begin alike, where they part, what the cache made of it."""

from __future__ import annotations

import html as html_module
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from llmcore.providers.scripted.scenario import Turn
from llmcore.tools.base import Tool
from llmcore.usage import Usage
from playground.erasure import delete_contents
from playground.models import Run
from playground.numbers import duration
from playground.services.fork_run import retry_round
from playground.services.start_run import write_run
from tests.factories import SnippetFactory, UserFactory
from tests.playground.driven import call, script, site_tool
from tests.playground.recorded import RecordedRun, finished_run, long_run
from tests.playground.shown import text_of

pytestmark = pytest.mark.django_db(transaction=True)

URL = "/admin/playground/compare/"
LONG = "The rules of returns are long. " * 300
TURNS = (Turn(tool_calls=(call("greet"),)), Turn(tool_calls=(call("greet", to="you"),)), Turn(text="Done."))


@pytest.fixture
def client(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def greeter(answer: str = "hello") -> Tool:
    return Tool(
        name="greet",
        description="Greets.",
        parameters={"type": "object", "properties": {"to": {"type": "string"}}},
        run=lambda to="": answer,
        group="test",
    )


def three_rounds(user: User, *answers: str, **configuration: Any) -> list[Run]:
    """A run for each of the `answers` that its tool gives; they differ in nothing else."""
    runs = []
    with script(*TURNS * len(answers), tool_groups=["test"], system_prompt=LONG, **configuration) as site:
        for answer in answers:
            with site_tool(greeter(answer)):
                runs.append(site.drive(write_run(request=site.request(), by=user)))
    return runs


def html_of(client: Client, a: Run, b: Run, a_round: int | str = "", b_round: int | str = "", **query: Any) -> str:
    response = client.get(URL, {"a": a.pk, "b": b.pk, "a_round": a_round, "b_round": b_round, **query})
    assert response.status_code == 200
    return response.content.decode()


def panel(html: str) -> str:
    found = re.search(r'<section[^>]*id="cache".*?</section>', html, re.S)
    assert found
    return text_of(found[0])


def test_any_round_of_one_run_is_held_against_any_of_the_other(client: Client, user: User) -> None:
    a, b = three_rounds(user, "hello", "hi")

    first, third = panel(html_of(client, a, b)), panel(html_of(client, a, b, 3, 3))
    across = panel(html_of(client, a, b, 1, 3))

    assert f"round 1 of run {a.pk}" in first and f"round 1 of run {b.pk}" in first
    assert "none: nothing follows" in first and "(100 %)" in first and "Messages kept 2 of 2" in first
    assert re.search(r"Same beginning [\d.]+ kB of [\d.]+ kB \(\d+ %\), ≈ [\d,]+ tokens, as in A", third)
    assert re.search(r"First difference after [\d,]+ bytes of the prompt, at byte [\d,]+ of the body of B", third)
    assert re.search(r"In A T Tool result .*\"h ello", third) and re.search(r"In B T Tool result .*\"h i", third)
    assert "Messages kept 3 of 6" in third and "What comes after the first difference was sent anew." in third
    assert "Messages kept 2 of 2" in across and "none: it goes on after all that was sent before" in across


def test_rounds_of_one_run_are_held_against_each_other(client: Client, user: User) -> None:
    (run,) = three_rounds(user, "hello")

    html = html_of(client, run, run, 1, 3)

    assert "Compare two rounds" in html and "Messages kept 2 of 2" in panel(html)
    asked, answered = run.steps.get(kind="request", round=3), run.steps.get(kind="response", round=1)
    passed = asked.started_ms - answered.started_ms - answered.duration_ms
    said = re.search(r"Time between (\S+ s)", panel(html))
    # By the clock it may be rounded otherwise than by the run's own times.
    assert said and said[1] in {duration(passed + ms).replace("\N{NO-BREAK SPACE}", " ") for ms in (-1, 0, 1)}
    assert f"a={run.pk}&amp;b={run.pk}&amp;a_round=3&amp;b_round=1" in html
    assert "Messages kept 2 of 2" in panel(html_of(client, run, run))
    backwards = panel(html_of(client, run, run, 3, 1))
    assert "none: it ends where the other one goes on" in backwards and "before the other one was answered" in backwards


def test_a_request_is_not_held_against_itself(client: Client, user: User) -> None:
    run = finished_run(user)

    html = html_of(client, run, run, 2, 2)

    assert "A and B are the same request." in panel(html) and "planned" not in panel(html)
    assert "swap A and B" not in html and "a_round=3&amp;b_round=3" not in html


def test_the_next_pair_is_a_click_away_and_the_rest_of_the_page_stays(client: Client, user: User) -> None:
    a, b = finished_run(user), finished_run(user, rounds=3)

    html = html_of(client, a, b, 1, 2, view="side", align="round")

    kept = "&amp;align=round&amp;view=side#cache"
    assert f"?a={a.pk}&amp;b={b.pk}&amp;a_round=2&amp;b_round=3{kept}" in html and "Both a round earlier" not in html
    assert f"?a={a.pk}&amp;b={b.pk}&amp;a_round=3&amp;b_round=3{kept}" in html
    assert '<input type="hidden" name="view" value="side">' in html
    assert f"?a={b.pk}&amp;b={a.pk}&amp;a_round=2&amp;b_round=1&amp;" in html
    assert f"?a={a.pk}&amp;b={b.pk}&amp;a_round=1&amp;b_round=2&amp;align=round#prompt" in html


def test_a_call_leads_to_its_comparison_with_another_round(client: Client, user: User) -> None:
    run = finished_run(user)

    def fields_of(round: int) -> dict[str, str]:
        step = run.steps.filter(kind="request", round=round).get()
        tab = client.get(f"/admin/playground/runs/{run.pk}/steps/{step.sequence}/", {"tab": "cache"}).content.decode()
        assert f'action="{URL}#cache"' in tab and "Compare with round" in text_of(tab)
        return dict(re.findall(r'<input type="\w+" name="(\w+)" value="(\d+)"', tab))

    fields = fields_of(2)
    assert fields == {"a": str(run.pk), "a_round": "1", "b": str(run.pk), "b_round": "2"}
    assert fields_of(1)["a_round"] == "2" and fields_of(3)["a_round"] == "1"
    assert "Messages kept 2 of 2" in panel(html_of(client, run, run, fields["a_round"], fields["b_round"]))


@pytest.mark.parametrize(
    ("rounds", "said"),
    [
        ((4, 1), "has no round 4: it has rounds 1 to 3."),
        ((1, 999_999_999), "has no round 999,999,999: it has rounds 1 to 3."),
    ],
)
def test_a_round_that_there_is_not_is_told(client: Client, user: User, rounds: tuple[int, int], said: str) -> None:
    a, b = finished_run(user), finished_run(user)

    html = html_of(client, a, b, *rounds)

    assert said in panel(html) and "planned" not in panel(html) and "Round by round" in html


@pytest.mark.parametrize("value", ["x", "-1", "0", "1e3", "9" * 30, "٣"])
def test_what_is_no_round_shows_the_first(client: Client, user: User, value: str) -> None:
    a, b = finished_run(user), finished_run(user)

    assert f"round 1 of run {a.pk}" in panel(html_of(client, a, b, value, value))


def test_a_run_without_requests_is_told(client: Client, user: User) -> None:
    queued = RecordedRun(user).run

    assert f"Run {queued.pk} sent no request." in panel(html_of(client, finished_run(user), queued))
    assert 'id="cache"' not in html_of(client, queued, RecordedRun(user).run)
    assert client.get(URL, {"a": queued.pk, "b": queued.pk}).status_code == 400


def test_rounds_of_runs_of_others_are_not_found(client: Client, user: User) -> None:
    reader = UserFactory(permissions=["playground.view_run"])
    client.force_login(reader)
    mine, other = finished_run(reader), finished_run(user)

    for a, b in ((mine, other), (other, mine), (other, other)):
        assert client.get(URL, {"a": a.pk, "b": b.pk, "a_round": 1, "b_round": 2}).status_code == 404


def test_time_between_two_requests_is_by_the_clock(client: Client, user: User) -> None:
    a, b = finished_run(user), finished_run(user)
    Run.objects.filter(pk=b.pk).update(started_at=a.started_at + timedelta(minutes=12))

    later, earlier = panel(html_of(client, a, b)), panel(html_of(client, b, a))

    assert "Time between 11 min 59 s" in later or "Time between 12 min 00 s" in later
    assert "before the other one was answered" in earlier
    assert "A was not answered yet when B was sent" in earlier and "B was sent first: swap A and B" in earlier


def test_of_deleted_contents_digests_tell_where_requests_part(client: Client, user: User) -> None:
    tone = SnippetFactory(slug="tone", name="Tone", body="Be kind.")
    with script(Turn(text="Hello."), Turn(text="Hello."), snippets=[tone]) as site:
        a = site.drive(write_run(request=site.request(), by=user))
        tone.body = "Be brief, for a secret reason."
        tone.save()
        b = site.drive(write_run(request=site.request(), by=user))
    delete_contents(a, kept_days=None, now=timezone.now())

    html = html_of(client, a, b)

    assert "The contents are no longer stored as they were" in panel(html)
    assert "First difference in message 2 P Tone" in panel(html) and "Messages kept 1 of 3" in panel(html)
    assert "secret reason" not in re.findall(r'id="cache".*?</section>', html, re.S)[0]


def test_the_source_that_differs_can_be_edited_by_those_who_may(user: User) -> None:
    reader = UserFactory(permissions=["playground.view_all_runs"])
    tone = SnippetFactory(slug="tone", name="Tone", body="Be kind.")
    with script(Turn(text="Hello."), Turn(text="Hello."), snippets=[tone]) as site:
        a = site.drive(write_run(request=site.request(), by=user))
        tone.body = "Be brief."
        tone.save()
        b = site.drive(write_run(request=site.request(), by=user))

    pages = {}
    for who in (user, reader):
        client = Client()
        client.force_login(who)
        pages[who] = re.findall(r'id="cache".*?</section>', html_of(client, a, b), re.S)[0]

    assert f"/admin/llmcore/snippet/{tone.pk}/change/" in pages[user]
    assert "/change/" not in pages[reader] and "In B P Tone" in text_of(pages[reader])


def test_what_stands_at_a_difference_is_short_escaped_and_shows_what_cant_be_seen(client: Client, user: User) -> None:
    hostile = "<script>alert(1)</script>\u202e" + "long " * 10_000
    a, b = three_rounds(user, "<b>same</b> a", f"<b>same</b> {hostile}")

    found = re.findall(r'id="cache".*?</section>', html_of(client, a, b, 2, 2), re.S)[0]

    assert "<script>" not in found and html_module.escape("<script>alert(1)</script>") in found
    assert '<mark class="pg-unseen">U+202E</mark>' in found and len(found) < 20_000


def test_a_pair_of_a_long_run_takes_no_more_queries_than_of_a_short_one(client: Client, user: User) -> None:
    short, long = finished_run(user), long_run(user, rounds=60)
    html_of(client, short, short, 1, 2)

    with CaptureQueriesContext(connection) as few:
        html_of(client, short, short, 1, 3)
    with CaptureQueriesContext(connection) as many:
        html_of(client, long, long, 2, 60)

    assert len(many) <= len(few)


def test_the_last_request_of_a_round_is_the_one_that_counts(client: Client, user: User) -> None:
    a = finished_run(user)
    b = finished_run(user)
    b.steps.filter(kind="request", round=2).update(round=1)

    assert f"round 1 of run {b.pk} , the last of its 2 requests" in panel(html_of(client, a, b))


@pytest.mark.parametrize(
    ("minutes", "said"),
    [
        (2, "5,000 tokens were read anew without a reason that shows here."),
        (12, "Expired: 12 min 00 s had passed, and a prefix is kept for about 5 min 00 s."),
    ],
)
def test_the_time_between_is_held_against_the_lifetime_of_the_cache(
    client: Client, user: User, minutes: int, said: str
) -> None:
    usage = Usage(input_tokens=5_000, output_tokens=10, total_tokens=5_010, cache_read_input_tokens=0)
    runs = []
    for _ in "ab":
        recorded = RecordedRun(user)
        recorded.request()
        recorded.response("Well.", usage=usage)
        runs.append(recorded.end())
        step = recorded.run.steps.get(kind="request")
        recorded.run.steps.filter(pk=step.pk).update(data={**step.data, "adapter": "openai_chat"})
    Run.objects.filter(pk=runs[1].pk).update(started_at=runs[0].started_at + timedelta(minutes=minutes))

    found = panel(html_of(client, *runs)).replace("\xa0", " ")

    word = "within" if minutes == 2 else "longer than"
    assert f"Time between {minutes} min 00 s , {word} the 5 min 00 s that this provider keeps a prefix for" in found
    assert "5,000 tokens planned, 0 read from the cache." in found and said in found
    assert "caches from 1,024 tokens on in steps of 128" in found


def test_a_fork_leads_to_its_comparison_with_the_round_that_it_was_forked_at(client: Client, user: User) -> None:
    with site_tool(greeter()), script(*TURNS, *TURNS, tool_groups=["test"], system_prompt=LONG) as site:
        run = site.drive(write_run(request=site.request(), by=user))
        fork = site.drive(retry_round(run=run, by=user))

    page = client.get(f"/admin/playground/runs/{fork.pk}/").content.decode()
    link = html_module.unescape(re.findall(rf'href="({URL}[^"]*)"', page)[0])

    assert link == f"{URL}?a={run.pk}&b={fork.pk}&a_round={fork.forked_at_round}"
    shown = panel(client.get(link).content.decode())
    assert f"A round {fork.forked_at_round} of run {run.pk}" in shown and "(100 %)" in shown
