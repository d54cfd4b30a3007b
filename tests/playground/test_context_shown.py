"""The page of a run shows where its window went: in the head of each round, and in a tab of its model call."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from llmcore.messages import FinishReason
from llmcore.providers.scripted.scenario import Turn
from playground.models import Run, RunStep
from playground.reading.watch import Watch
from playground.services.preview_run import preview_run
from tests.playground.driven import script
from tests.playground.recorded import RecordedRun, finished_run, lookup
from tests.playground.shown import text_of
from tests.playground.test_run_panels import open_step, tabs_of

pytestmark = [pytest.mark.django_db, pytest.mark.htmx]


def page_of(client: Client, run: Run) -> str:
    return client.get(reverse("playground:run", args=[run.pk])).content.decode()


def two_rounds(user: User) -> RecordedRun:
    recorded = RecordedRun(user)
    recorded.request()
    recorded.context()
    recorded.wait(100)
    recorded.response("Wait.", calls=[lookup()], finish_reason=FinishReason.TOOL_CALLS)
    recorded.tool_call(lookup())
    recorded.tool_result(lookup(), "order 1 " * 500)
    recorded.request()
    recorded.context()
    return recorded


def test_each_round_says_how_full_the_window_was_and_has_no_line_more(client: Client, user: User) -> None:
    recorded = two_rounds(user)
    recorded.response("On its way.")
    run = recorded.end()

    html = page_of(client, run)

    assert html.count('class="pg-full"') == 2 and "of the context window" in html
    first, second = RunStep.objects.filter(run=run, kind="context").order_by("sequence")
    assert "</svg>&lt;\u00a01\u00a0%" in html and f"</svg>{round(second.data['used'] / 163.84)}\u00a0%" in html
    assert f'id="step-{first.sequence}"' not in html and f'id="step-{second.sequence}"' not in html


def test_the_tab_shows_the_parts_and_that_they_were_counted(client: Client, user: User) -> None:
    run = two_rounds(user).run
    second = RunStep.objects.filter(run=run, kind="request").last()
    assert second is not None
    html = open_step(client, run, second.sequence, "context")
    text = text_of(html)
    assert tabs_of(html)[-1] == "context"
    for part in ("Tool definitions", "Configuration", "User", "Model", "Tool results", "Margin", "Free"):
        assert part in text
    assert "Reserved for the answer 1,000" in text and "of 16,384 tokens" in text
    assert "The provider counted 1,000 of it with the round before" in text
    assert 'role="img" aria-label="' in html and "style=" not in html


def test_the_step_of_a_window_leads_to_its_model_call(client: Client, user: User) -> None:
    run = two_rounds(user).run
    row = RunStep.objects.filter(run=run, kind="context").first()
    assert row is not None
    assert f'data-step="{row.sequence - 1}"' in open_step(client, run, row.sequence)


def test_a_run_from_before_windows_were_recorded_stays_readable(client: Client, user: User) -> None:
    run = finished_run(user)
    assert "pg-full" not in page_of(client, run)
    assert "context" not in tabs_of(open_step(client, run, 1))


def test_who_watches_gets_the_window_with_the_model_call(user: User) -> None:
    recorded = RecordedRun(user)
    recorded.request()
    watch = Watch(run_id=recorded.run.pk, user=user, after=0)
    watch.look()
    recorded.context()
    [event] = [event for event in watch.look() if event.name == "step"]
    assert (event.data["line"], event.id) == (1, 2)
    assert "pg-full" in event.data["round_html"]


def test_the_peak_is_a_share_of_the_window_of_the_model_that_was_asked(client: Client, user: User) -> None:
    recorded = two_rounds(user)
    for row in RunStep.objects.filter(run=recorded.run, kind="context"):
        RunStep.objects.filter(pk=row.pk).update(data={**row.data, "window": 2_000})
    recorded.response("On its way.")
    assert "50\u00a0% of 2,000" in page_of(client, recorded.end(context_peak=1_000))


@pytest.mark.django_db(transaction=True)
def test_the_preview_and_the_first_round_reckon_alike(user: User) -> None:  # C1
    with script(Turn(text="Hello.")) as scripted:
        scripted.configuration.model.context_window = 8_000
        scripted.configuration.model.save()
        seen = preview_run(request=scripted.request(), user=user).window.use
        run = scripted.run()
    assert run.steps.get(kind="context").data == seen.to_json()
