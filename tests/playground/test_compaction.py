"""A run whose window fills up goes on with a summary: stored, shown, counted, forked and continued."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from llmcore import store
from llmcore.context.compaction import LEFT_OUT, SUMMARY, is_summary
from llmcore.models import Configuration, UsageRecord
from llmcore.providers.scripted.scenario import Scenario, Turn
from llmcore.tools.base import Tool
from playground.models import Run, RunContent, RunPartial
from playground.privacy import PrivacyLevel
from playground.reading.watch import Watch
from playground.segments import next_segment
from playground.services.cancel_run import cancel_run
from playground.services.continue_run import requeue_interrupted
from playground.services.drive_run import drive_run
from playground.services.export_run import export_run, import_run
from playground.services.fork_run import read_fork_point, retry_round
from playground.services.start_run import write_run
from tests.factories import ConfigurationFactory, LanguageModelFactory, ProviderFactory, SkillFactory, UserFactory
from tests.playground.driven import Script, call, in_background, script, site_tool, wait_for
from tests.playground.recorded import RecordedRun
from tests.playground.shown import text_of
from tests.playground.test_run_panels import open_step, tabs_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.htmx]

SAID = "Orders 1 and 2 left on Monday."
LONG = "The order left the house on Monday, and nobody has seen it since. "


@pytest.fixture(autouse=True)
def look_up() -> Iterator[None]:
    def look(n: int) -> str:
        """Look an order up."""
        return LONG * 10

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    with site_tool(Tool(name="look", description="Looks.", parameters=schema, run=look, group="test")):
        yield


@pytest.fixture
def crowded() -> Iterator[Script]:
    """A model with room for a few results, and another one that summarizes."""
    turns = [Turn(text=f"Turn {n}.", tool_calls=(call("look", n=n),)) for n in range(9)]
    with script(*turns, tool_groups=["test"], max_rounds=7, keep_turns=2, skills=[SkillFactory()]) as scripted:
        model = scripted.configuration.model
        model.context_window, model.max_output_tokens = 1_400, 100
        model.save()
        scripted.model.scenarios["short"] = Scenario(name="short", turns=(Turn(text=SAID),))
        short = LanguageModelFactory(provider=model.provider, name="short", input_price=2, output_price=10)
        scripted.configuration.summarizer = ConfigurationFactory(
            name="Shortener", model=short, system_prompt="Shorten it.", max_tokens=200
        )
        scripted.configuration.save()
        yield scripted


def compactions(run: Run) -> list[dict[str, object]]:
    return list(run.steps.filter(kind="compaction").order_by("sequence").values_list("data", flat=True))


def test_a_long_run_goes_on_with_a_summary_by_the_configuration_that_is_named(crowded: Script) -> None:  # C2
    run = crowded.run()
    assert (run.reason, run.rounds) == ("max_rounds", 8)
    first, *_ = compactions(run)
    assert (first["summarizer"], first["model"], first["problem"]) == ("Shortener", "short", None)
    asked = next(r.json for r in crowded.model.requests if r.json["model"] == "short")
    assert asked["messages"][0]["content"] == "Shorten it." and asked["max_tokens"] == 200
    assert run.plan is not None and run.plan["configuration"]["summarizer"]["model"]["name"] == "short"


def test_what_a_summary_costs_is_part_of_the_run_and_told_apart(crowded: Script) -> None:  # C3, M1
    run = crowded.run()
    summaries = UsageRecord.objects.filter(run_id=run.pk, purpose="summary")
    assert summaries.count() == len(compactions(run))
    assert set(summaries.values_list("model_name", flat=True)) == {"short"}
    assert run.cost == sum((Decimal(str(data["cost"])) for data in compactions(run)), Decimal(0)) > 0
    used = sum(UsageRecord.objects.filter(run_id=run.pk).values_list("input_tokens", flat=True))
    assert run.input_tokens == used


def test_the_page_shows_what_stands_there_now_and_what_stood_there_before(client: Client, crowded: Script) -> None:
    run = crowded.run()
    html = client.get(reverse("playground:run", args=[run.pk])).content.decode()
    assert "Compaction" in html and "Old turns gave way to a summary in round" in html
    assert f"{len(compactions(run))} compaction" in html
    sequence = run.steps.filter(kind="compaction").values_list("sequence", flat=True)[0]

    shown = open_step(client, run, sequence)

    assert tabs_of(shown) == ["summary", "before", "raw"]
    text = text_of(shown)
    assert SAID in text and "Shortener" in text and "part of the cost of the run" in text
    assert "Call of look" in open_step(client, run, sequence, "before")


def test_while_a_summary_is_written_the_live_page_says_by_whom_and_of_how_much(
    client: Client, crowded: Script, settings: Settings
) -> None:  # C2, D4
    settings.LLM_PRIVACY_LEVEL = PrivacyLevel.METADATA
    crowded.model.scenarios["short"] = Scenario(name="short", turns=(Turn(text=SAID, delay_s=60),))
    run, reader = write_run(request=crowded.request(), by=None), UserFactory(is_superuser=True)
    watch = Watch(run_id=run.pk, user=reader, after=0)
    with in_background(lambda: drive_run(run_id=run.pk, worker="test")):
        wait_for(lambda: RunPartial.objects.filter(run=run, waiting__summary__summarizer="Shortener").exists())
        partial = RunPartial.objects.get(run=run)
        messages = partial.waiting["summary"]["messages"]
        said = (
            f"A summary of {messages} messages is being written by “Shortener”, {partial.waiting['summary']['model']}"
        )
        (told,) = [event.data for event in watch.look() if event.name == "permit"]
        assert told["message"] == f"{said}." and said in told["html"] and "Calls in flight" not in told["html"]
        assert messages > 1 and not watch.look()
        page = client.get(reverse("playground:run", args=[run.pk]), headers={"HX-Request": ""}).content.decode()
        assert said in page
        assert (
            f"A summary of {messages} messages is being written"
            in client.get(reverse("playground:runs")).content.decode()
        )
        cancel_run(run=run, by=None, now=timezone.now())
        wait_for(lambda: Run.objects.get(pk=run.pk).status == "cancelled")
    assert not RunPartial.objects.exists() and not compactions(run)


def test_a_page_that_shows_a_summary_in_work_is_told_that_it_is_there() -> None:  # D4
    user = UserFactory(is_superuser=True)
    recorded = RecordedRun(user)
    recorded.round()
    recorded.partial(waiting={"summary": {"messages": 4, "summarizer": "", "model": "Mini"}})  # type: ignore[arg-type]
    watching = Watch(run_id=recorded.run.pk, user=user, after=0)
    assert "A summary of 4 messages is being written by Mini." in str(watching.look())
    # What waits for its permit is told as of the summary.
    place = {
        "provider": "demo",
        "position": 2,
        "waiting": 3,
        "summary": {"messages": 4, "summarizer": "", "model": "M"},
    }
    recorded.partial(waiting=place)  # type: ignore[arg-type]
    assert "A summary of 4 messages waits for a permit: 2nd of 3" in str(watching.look())
    recorded.compaction()
    recorded.partial(waiting={})  # type: ignore[arg-type]
    for watch in (watching, Watch(run_id=recorded.run.pk, user=user, after=0)):
        (told,) = [event.data for event in watch.look() if event.name == "permit"]
        assert told["message"] == "The run goes on." and "pg-note" not in told["html"]


def test_what_went_over_the_wire_is_kept_as_for_any_call(client: Client, crowded: Script) -> None:  # T5
    run, plain = crowded.run(capture_raw=True), crowded.run()
    steps = [one.steps.filter(kind="compaction").values_list("sequence", flat=True)[0] for one in (run, plain)]
    shown = text_of(open_step(client, run, steps[0], "raw"))
    assert "200 OK" in shown and "chat.completion" in shown
    assert plain.exchanges.count() == 0
    assert "200 OK" not in open_step(client, plain, steps[1], "raw")


def test_a_run_without_a_good_summary_says_so(client: Client, crowded: Script) -> None:
    crowded.model.scenarios["short"] = Scenario(name="short", turns=(Turn(status=401, error="Bad key."),))
    run = crowded.run()
    assert run.reason == "max_rounds" and compactions(run)[0]["problem"] == "failed"
    ids = [finding["id"] for finding in run.findings]
    assert "compaction_fell_back" in ids and "compacted" not in ids
    sequence = run.steps.filter(kind="compaction").values_list("sequence", flat=True)[0]
    shown = text_of(open_step(client, run, sequence))
    assert "left out without a summary" in shown and "Bad key." in shown and LEFT_OUT in shown


def test_the_cache_map_names_the_summary_as_the_reason(client: Client, crowded: Script) -> None:
    run = crowded.run()
    step = run.steps.filter(kind="compaction").order_by("sequence").first()
    assert step is not None
    assert "Compaction: old turns gave way to a summary" in text_of(open_step(client, run, step.sequence + 1, "cache"))


def test_a_lost_run_goes_on_with_its_summary(crowded: Script) -> None:  # L15b
    whole = crowded.run()
    after = whole.steps.filter(kind="compaction").order_by("sequence")[0].sequence
    whole.steps.filter(sequence__gt=after + 2).delete()
    Run.objects.filter(pk=whole.pk).update(status="interrupted", reason="interrupted", last_sequence=after + 2)
    assert requeue_interrupted(whole)
    segment = next_segment(Run.objects.get(pk=whole.pk))
    assert any(map(is_summary, segment.state.messages))
    assert {source.source.value for source in segment.sources} >= {"config", "skill", "user"}
    run = crowded.drive(Run.objects.get(pk=whole.pk))
    assert (run.reason, run.rounds) == ("max_rounds", 8)


def test_a_fork_takes_the_summary_along_or_begins_before_it(crowded: Script) -> None:
    run = crowded.run()
    step = run.steps.filter(kind="compaction").order_by("sequence").first()
    assert step is not None
    before, after = (read_fork_point(run=run, at=step.sequence + n) for n in (0, 1))
    assert before.fork.round == after.fork.round == step.round
    assert not any(map(is_summary, before.fork.state.messages)) and any(map(is_summary, after.fork.state.messages))
    child = crowded.drive(retry_round(run=run, at=step.sequence + 1, by=UserFactory(is_superuser=True)))
    assert child.reason == "max_rounds"
    assert SUMMARY in str(RunContent.objects.get(run=child, digest=step.data["message"]).value)


def test_an_export_keeps_it(crowded: Script) -> None:  # T6
    run = crowded.run()
    copy = import_run(data=json.loads(json.dumps(export_run(run=run))), by=None)
    assert compactions(copy) == compactions(run)


@pytest.mark.parametrize("level", PrivacyLevel)
def test_what_a_summary_says_is_kept_as_the_privacy_level_allows(  # R2
    crowded: Script, level: PrivacyLevel, settings: Settings
) -> None:
    settings.LLM_PRIVACY_LEVEL = level.value
    run = crowded.run()
    kept = str(list(RunContent.objects.filter(run=run).values_list("value", flat=True)))
    assert (SAID in kept) == (level is not PrivacyLevel.METADATA)
    assert compactions(run)[0]["model"] == "short" and compactions(run)[0]["tokens_after"]


def test_a_prompt_without_room_ends_its_run_before_a_call(client: Client, crowded: Script) -> None:  # C4
    run = crowded.run(prompt=LONG * 200)
    assert (run.status, run.reason, run.rounds) == ("incomplete", "context_exhausted", 0)
    assert not crowded.model.requests and "Nothing was sent" in run.detail
    step = run.steps.get()
    assert step.kind == "context"
    assert tabs_of(open_step(client, run, step.sequence)) == ["context"]
    assert "more than there is room for" in text_of(open_step(client, run, step.sequence))
    assert client.get(reverse("playground:run", args=[run.pk])).status_code == 200


# The configuration


def test_a_summarizer_that_is_switched_off_leaves_it_to_the_model() -> None:
    short = ConfigurationFactory(name="Shortener")
    row = ConfigurationFactory(summarizer=short, compact_at=70, keep_turns=5)
    loaded = store.load_configuration(row.slug)
    assert loaded.summarizer and loaded.summarizer.name == "Shortener"
    assert (loaded.limits.compact_at_percent, loaded.limits.keep_turns) == (70, 5)
    Configuration.objects.filter(pk=short.pk).update(enabled=False)
    assert store.load_configuration(row.slug).summarizer is None


def test_a_version_names_the_summarizer() -> None:
    short = ConfigurationFactory(name="Shortener", slug="short")
    row = ConfigurationFactory(summarizer=short)
    assert row.version_fields()["summarizer"] == "short"
    row.summarizer = None
    row.save()
    assert row.version == 2 and row.version_fields()["summarizer"] is None


def test_a_configuration_can_not_be_its_own_summarizer(client: Client) -> None:
    row = ConfigurationFactory(model=LanguageModelFactory(provider=ProviderFactory()))
    row.summarizer = row
    with pytest.raises(Exception, match="Leave it blank"):
        row.full_clean()
    page = client.get(reverse("admin:llmcore_configuration_change", args=[row.pk])).content.decode()
    assert "When the window fills up" in page and "0: never; a full window ends the run" in page
