"""The cache map of a model call, and of two runs: what was the same, what was read, and why not more."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from llmcore.prompts.cache import Reason, Reuse
from llmcore.providers.prompt_cache import OPENAI, CacheRules
from llmcore.providers.scripted.scenario import Turn
from llmcore.tools.base import Tool
from llmcore.usage import Usage
from playground.erasure import delete_contents
from playground.models import Run
from playground.reading.cache_map import read_cache_map
from playground.reading.cache_words import explained
from playground.reading.sent_requests import request_before
from playground.reading.step_record import StepRecord
from playground.services.fork_run import retry_round
from playground.services.start_run import write_run
from tests.factories import SkillFactory
from tests.playground.driven import Script, call, script, site_tool
from tests.playground.recorded import RecordedRun
from tests.playground.shown import text_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.htmx]

LONG = "The rules of returns are long. " * 300


def greeter() -> Tool:
    return Tool(name="greet", description="Greets.", parameters={"type": "object"}, run=lambda: "hello", group="test")


def panel(client: Client, run: Run, round: int) -> str:
    step = run.steps.filter(kind__in=("request", "assembled"), round=round).order_by("sequence").last()
    assert step is not None
    response = client.get(f"/admin/playground/runs/{run.pk}/steps/{step.sequence}/", {"tab": "cache"})
    assert response.status_code == 200
    return text_of(response.content.decode())


def cached_run(site: Script, user: User, **changes: Any) -> Run:
    return site.drive(write_run(request=site.request(**changes), by=user))


def test_a_round_reads_what_the_one_before_sent(client: Client, user: User) -> None:
    turns = (Turn(tool_calls=(call("greet"),)), Turn(text="Done."))
    with site_tool(greeter()), script(*turns, tool_groups=["test"], system_prompt=LONG) as site:
        run = cached_run(site, user)

    first, second = panel(client, run, 1), panel(client, run, 2)

    assert "Nothing was answered before it in this run" in first and "cache boundary" in first
    assert "The provider read what it could." in second and "Messages kept 2 of 2" in second
    assert "none: it goes on after all that was sent before, at byte" in second and "Transcript, 2 messages" in second
    assert second.count(" same ") >= 3 and " new " in second
    assert not [finding for finding in run.findings if finding["id"] in ("prefix_changed", "cached_below_planned")]


def test_the_offset_is_where_the_bodies_differ(user: User) -> None:
    turns = (Turn(tool_calls=(call("greet"),)), Turn(text="Done."))
    with site_tool(greeter()), script(*turns, tool_groups=["test"]) as site:
        run = cached_run(site, user)
        bodies = [received.body for received in site.model.requests]
    step = run.steps.filter(kind="request").order_by("sequence").last()
    assert step is not None
    record = StepRecord(run, step.sequence, user=user)

    found = read_cache_map(request_before(record), record)

    assert found.offset is not None and found.prefix is not None
    start = found.offset
    # Between the last message of the one and the next of the other stands what separates them.
    assert bodies[0][: start - 1] == bodies[1][: start - 1] and bodies[1][start - 1 : start + 1] == b",{"
    assert sum(piece.size for piece in found.pieces) == found.size
    assert sum(piece.same for piece in found.pieces) == found.shared < found.size


def test_a_short_prompt_is_told_to_be_too_short(client: Client, user: User) -> None:
    turns = (Turn(tool_calls=(call("greet"),)), Turn(text="Done."))
    with site_tool(greeter()), script(*turns, tool_groups=["test"]) as site:
        run = cached_run(site, user)

    assert "most providers cache prompts from 1,024 tokens on" in panel(client, run, 2)


def test_a_miss_stands_in_the_list_of_steps_and_is_explained(client: Client, user: User) -> None:
    recorded = RecordedRun(user)
    usage = Usage(input_tokens=5_000, output_tokens=10, total_tokens=5_010, cache_read_input_tokens=0)
    for _ in range(2):
        recorded.request()
        recorded.response("Well.", usage=usage)
    run = recorded.end()

    page = text_of(client.get(f"/admin/playground/runs/{run.pk}/").content.decode())
    assert "5,000 tokens planned, 0 read from the cache." in panel(client, run, 2)
    assert "5,000 tokens were read anew" in panel(client, run, 2)
    assert page.count("Model call cache miss") == 1


def test_a_provider_that_reports_nothing_is_told(client: Client, user: User) -> None:
    recorded = RecordedRun(user)
    for _ in range(2):
        recorded.request()
        recorded.response("Well.", usage=Usage(input_tokens=5_000, output_tokens=10))
    run = recorded.end()

    assert "5,000 tokens planned, none reported. The provider doesn't report" in panel(client, run, 2)


def test_a_dry_run_shows_its_tiers(client: Client, user: User) -> None:
    with script(Turn(text="Done."), system_prompt=LONG, skills=[SkillFactory(slug="returns", name="Returns")]) as site:
        run = cached_run(site, user, dry_run=True)

    shown = panel(client, run, 1)

    assert "Nothing was sent." in shown and "Planned" not in shown
    assert re.search(
        r"Tier 1 .* Configuration prompt cache boundary .* Tier 2 .* Returns cache boundary .* Tier 3", shown
    )


@pytest.mark.parametrize(
    ("reason", "rules", "words"),
    [
        (Reason.BELOW_MINIMUM, OPENAI, "this provider caches prompts from 1,024 tokens on"),
        (Reason.EXPIRED, OPENAI, "Expired: 6 min 40 s had passed, and a prefix is kept for about 5 min 00 s."),
        (Reason.NO_ANSWER, OPENAI, "no answer"),
    ],
)
def test_each_reason_has_its_words(reason: Reason, rules: CacheRules, words: str) -> None:
    said = explained(Reuse(reason=reason, rules=rules, planned=5_000, reported=0, idle_s=400))

    assert words in said.replace("\xa0", " ")


def test_of_deleted_contents_the_figures_are_left(client: Client, user: User) -> None:
    turns = (Turn(tool_calls=(call("greet"),)), Turn(text="Done."))
    with site_tool(greeter()), script(*turns, tool_groups=["test"], system_prompt=LONG) as site:
        run = cached_run(site, user)
    delete_contents(run, kept_days=None, now=timezone.now())

    shown = panel(client, run, 2)

    assert "The provider read what it could." in shown and "The contents are no longer stored" in shown
    assert LONG[:20] not in shown


def test_the_first_request_of_a_fork_is_held_against_its_parent(client: Client, user: User) -> None:
    turns = (Turn(tool_calls=(call("greet"),)), Turn(text="Done."), Turn(text="Done."))
    with site_tool(greeter()), script(*turns, tool_groups=["test"], system_prompt=LONG) as site:
        run = cached_run(site, user)
        fork = site.drive(retry_round(run=run, by=user))

    shown = panel(client, fork, 2)

    assert f"as in round 2 of run {run.pk}, from which it was forked" in shown
    assert "(100 %)" in shown and "none: nothing follows" in shown


def test_two_runs_part_at_the_skill_that_changed(user: User) -> None:
    skill = SkillFactory(slug="returns", name="Returns", body=f"{LONG} 30 days.")
    with script(Turn(text="Yes."), Turn(text="Yes."), skills=[skill]) as site:
        a = cached_run(site, user)
        skill.body = f"{LONG} 14 days."
        skill.seal()
        skill.save()
        b = cached_run(site, user)
    client = Client()
    client.force_login(user)

    html = client.get("/admin/playground/compare/", {"a": a.pk, "b": b.pk}).content.decode()
    shown = text_of(html[html.index('id="cache"') :])

    assert re.search(r"First difference after [\d,]+ bytes of the prompt, at byte [\d,]+ of the body", shown)
    assert "In A S Returns" in shown and "In B S Returns" in shown and "long. 30 days." in shown and "14 days." in shown
    assert "as if it had followed A" in shown
