"""The comparison of runs: what differs stands first, what is gone is said, and nobody sees more than they may."""

from __future__ import annotations

import html as html_module
import re
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from llmcore.messages import FinishReason, ToolCall
from llmcore.runs.outcome import EndReason, RunStatus
from playground.erasure import delete_contents
from playground.models import Run
from playground.numbers import SPACE
from playground.reading.compare.calls import Called, paired_calls
from playground.reading.compare.rounds import ROUNDS_AT_ONCE
from playground.reading.compare.sides import Side
from tests.factories import ConfigurationFactory, UserFactory
from tests.playground.recorded import RecordedRun, finished_run, long_run
from tests.playground.shown import text_of

pytestmark = pytest.mark.django_db

URL = "/admin/playground/compare/"


@pytest.fixture
def user() -> User:
    return UserFactory(permissions=["playground.view_run", "playground.add_run"])


def html_of(client: Client, a: Run, b: Run, **query: Any) -> str:
    response = client.get(URL, {"a": a.pk, "b": b.pk, **query})
    assert response.status_code == 200
    return response.content.decode()


def section(html: str, heading: str) -> str:
    """What stands under a heading, as text."""
    found = re.search(
        rf'<section[^>]*aria-labelledby="{heading}".*?</section>(?!\s*<section class="pg-seg)', html, re.S
    )
    assert found, f"no section {heading}"
    return text_of(found[0])


def pair(user: User, **b_columns: Any) -> tuple[Run, Run]:
    return finished_run(user), finished_run(user, rounds=1, answer="It is on its way to Graz.", **b_columns)


def test_figures_stand_with_their_change(client: Client, user: User) -> None:
    a, b = pair(user)

    figures = section(html_of(client, a, b), "h-figures")

    assert "Rounds 3 2 ▼ −1" in figures
    assert "Prompt tokens 3,000 2,000 ▼ −33 %" in figures
    assert "Cost $0.00090 $0.00060 ▼ −33 %" in figures
    assert "Served from cache 60 % 60 % =" in figures
    assert "B is faster and cheaper" in figures


def test_a_run_that_only_waited_longer_is_no_slower(client: Client, user: User) -> None:
    work = {"model_ms": 1_000.0, "tool_ms": 0.0, "overhead_ms": 0.0}
    a = finished_run(user, **work, wall_ms=9_000.0, queue_ms=5_000.0, permit_ms=1_000.0, approval_ms=2_000.0)
    b = finished_run(user, **work, wall_ms=1_000.0, queue_ms=0.0)
    slow = finished_run(user, **{**work, "model_ms": 3_000.0}, wall_ms=3_000.0, queue_ms=0.0)

    assert "faster" not in section(html_of(client, a, b), "h-figures")
    assert "A is faster" in section(html_of(client, a, slow), "h-figures")


def test_times_are_spelled_as_on_the_pages_of_the_runs(client: Client, user: User) -> None:
    """Rounded each for itself, the parts would be 0.02 s and 0.02 s of 0.03 s."""
    times = {"wall_ms": 30.0, "model_ms": 15.0, "tool_ms": 15.0, "overhead_ms": 0.0}
    a, b = finished_run(user, **times), finished_run(user, **{**times, "model_ms": 14.0, "tool_ms": 16.0})

    figures = section(html_of(client, a, b), "h-figures")

    for run in (a, b):
        page = text_of(client.get(reverse("playground:run", args=[run.pk])).content.decode())
        shown = dict(re.findall(r"(Model|Tools) (\d\.\d\d\ss)", page.partition("Where the time went")[2]))
        assert sum(float(value.split()[0]) for value in shown.values()) == pytest.approx(0.03)
        place = 0 if run == a else 1
        for label, name in (("Model time", "Model"), ("Tool time", "Tools")):
            told = re.search(rf"{label} (\d\.\d\d\ss) (\d\.\d\d\ss)", figures)
            assert told and told.groups()[place] == shown[name]


def test_unknown_figures_stay_blank_and_have_no_change(client: Client, user: User) -> None:
    a, b = pair(user, cost=None, input_tokens=None)

    figures = section(html_of(client, a, b), "h-figures")

    assert "Cost $0.00090 – " in figures and "Prompt tokens 3,000 – " in figures
    assert "Served from cache 60 % – " in figures and "cheaper" not in figures


def test_settings_that_differ_stand_first_and_are_marked(client: Client, user: User) -> None:
    a, b = pair(user)
    request = {**b.request, "system_override": "Be brief.", "override_mode": "append"}
    gate = {**b.plan["gate"], "offered": ["look_up"]}
    configuration = {**b.plan["configuration"], "version": 4}
    Run.objects.filter(pk=a.pk).update(plan={**a.plan, "configuration": {**a.plan["configuration"], "version": 3}})
    Run.objects.filter(pk=b.pk).update(
        request=request, plan={**b.plan, "gate": gate, "configuration": configuration}, capture_raw=True
    )

    html = html_of(client, a, b)
    differ, identical = section(html, "h-settings").split("identical", 1)

    assert "4 differ" in differ
    assert "Configuration Support, version 3 Support, version 4" in differ
    assert "Override – append" in differ and "Raw capture no yes" in differ
    assert "<del>refund</del>" in html and "<ins>Support, version 4</ins>" in html
    assert "Model demo-1" in identical and "Temperature 0.5" in identical
    assert "4 settings differ, same user prompt" in html


def test_settings_have_their_units(client: Client, user: User) -> None:
    a, b = pair(user)
    limits = {"skill_budget_bytes": 24_000, "compact_at_percent": 80, "margin_percent": 10.0, "keep_turns": 3}
    Run.objects.filter(pk=b.pk).update(plan={**b.plan, "state": {**b.plan["state"], "limits": limits}})

    settings = section(html_of(client, a, b), "h-settings")

    assert "Skill budget – 24,000 bytes" in settings and "Summarize at – 80 %" in settings.replace(SPACE, " ")
    assert "Margin of the window – 10 %" in settings.replace(SPACE, " ") and "Keep turns – 3" in settings


def test_rounds_stand_in_pairs_on_one_axis(client: Client, user: User) -> None:
    a, b = pair(user)

    html = html_of(client, a, b)
    rounds = section(html, "h-rounds")

    assert "both on the same time axis" in rounds and rounds.count("same calls") == 1
    assert "other calls" in rounds and "only in A" in rounds
    assert html.count('class="pg-wf"') == 3
    assert "each round from its start" in section(html_of(client, a, b, align="round"), "h-rounds")


def test_a_cache_miss_stands_at_its_round(client: Client, user: User) -> None:
    a, b = pair(user)
    sequence = a.steps.filter(kind="request", round=2).get().sequence
    finding = {"id": "cached_below_planned", "severity": "note", "title": "The cache gave less", "sequence": sequence}
    other = {"id": "slow_tool", "severity": "note", "title": "A slow tool", "sequence": sequence}
    Run.objects.filter(pk=a.pk).update(findings=[finding, other])

    rounds = section(html_of(client, a, b), "h-rounds")

    assert "A: cache miss" in rounds and "slow tool" not in rounds


def test_prompts_differ_source_by_source(client: Client, user: User) -> None:
    a = RecordedRun(user, system="You help.\nBe kind.\nNever lie.")
    b = RecordedRun(user, system="You help.\nBe brief.\nNever lie.", prompt="And now?")
    for recorded in (a, b):
        recorded.answer("Yes.")
        recorded.end()

    html = html_of(client, a.run, b.run)
    prompt = section(html, "h-prompt")

    assert "Configuration prompt changed" in prompt and "User prompt changed" in prompt
    assert "Tool definitions 2 offered identical" in prompt
    assert "− Be kind ." in prompt and "+ Be brief ." in prompt
    assert "<del>kind</del>" in html and "<ins>brief</ins>" in html
    assert "another user prompt" in html
    side = html_of(client, a.run, b.run, view="side")
    assert 'class="pg-diff pg-diff--side"' in side and 'aria-current="true">Side by side' in side


def test_a_long_text_that_only_one_has_is_shown_when_it_is_opened(client: Client, user: User) -> None:
    a, b = RecordedRun(user, system=""), RecordedRun(user, system="\n".join(f"Rule {n}." for n in range(40)))
    a.run.plan["segments"] = a.run.plan["segments"][1:]
    a.run.save(update_fields=["plan"])
    for recorded in (a, b):
        recorded.answer("Yes.")
        recorded.end()

    html = html_of(client, a.run, b.run)

    assert "Configuration prompt only in B Show 40 lines" in section(html, "h-prompt")
    assert re.search(r"<details[^>]*>(?:(?!</details>).)*Rule 39\.", html, re.S)


def test_each_part_of_the_page_is_a_jump_away(client: Client, user: User) -> None:
    a, b = pair(user)
    queued = RecordedRun(user, status=RunStatus.QUEUED, started_at=None, plan=None).run

    for html in (html_of(client, a, b), html_of(client, queued, RecordedRun(user, plan=None).run)):
        jumps = re.findall(r'<a href="#([\w-]+)"', html.partition('class="pg-jumps"')[2].partition("</nav>")[0])
        assert len(jumps) >= 2 and all(f'id="{place}"' in html for place in jumps)


def test_answers_differ_by_words(client: Client, user: User) -> None:
    a, b = pair(user)

    html = html_of(client, a, b)

    assert "<ins>to Graz</ins>" in html and "the same words" in section(html, "h-answer")


def test_calls_are_paired_by_tool_and_arguments(client: Client, user: User) -> None:
    def called(name: str, arguments: str) -> Called:
        return Called(
            sequence=1,
            round=1,
            name=name,
            arguments=arguments,
            preview="",
            failed=False,
            message=None,
            said="",
            size=None,
            duration_ms=None,
        )

    sides = [Side(letter, finished_run(user)) for letter in "AB"]
    a = [called("look_up", "1"), called("look_up", "2"), called("refund", "9")]
    b = [called("look_up", "1"), called("note", "7"), called("look_up", "3")]

    pairs = [(p.a and p.a.arguments, p.b and p.b.arguments, p.note) for p in paired_calls(sides, a, b)]

    assert pairs == [
        ("1", "1", "same call"),
        (None, "7", "only in B"),
        ("2", "3", "other arguments"),
        ("9", None, "only in A"),
    ]


def test_results_are_compared_in_full(client: Client, user: User) -> None:
    runs = []
    for end in ("same", "same", "other"):
        recorded = RecordedRun(user)
        recorded.request()
        recorded.response(calls=[ToolCall(id="c", name="look_up", arguments={})], finish_reason=FinishReason.TOOL_CALLS)
        recorded.tool_call(call := ToolCall(id=f"c{len(runs)}", name="look_up", arguments={}))
        recorded.tool_result(call, "x" * 500 + end.ljust(5))
        runs.append(recorded.end(rounds=1, tool_calls=1))

    assert "same result" in section(html_of(client, runs[0], runs[1]), "h-calls")
    assert "another result" in section(html_of(client, runs[0], runs[2]), "h-calls")


@pytest.mark.parametrize("query", [{"a": "x", "b": "1"}, {"a": "1"}, {"run": ["1", "-2"]}, {"a": "٣", "b": "1"}])
def test_what_is_no_run_is_not_found(client: Client, query: dict[str, Any]) -> None:
    assert client.get(URL, query).status_code == 404


def test_runs_of_others_are_not_found(client: Client, user: User) -> None:
    mine, other = finished_run(user), finished_run(UserFactory())

    for query in ({"a": mine.pk, "b": other.pk}, {"a": other.pk, "b": mine.pk}):
        assert client.get(URL, query).status_code == 404
    assert client.get(URL, {"run": [mine.pk, other.pk, finished_run(user).pk]}).status_code == 404


def test_strangers_are_led_to_the_login() -> None:
    assert "/login/" in Client().get(URL, {"a": 1, "b": 2})["Location"]


def test_the_list_asks_for_two_runs_the_older_one_first(client: Client, user: User) -> None:
    a, b = pair(user)

    response = client.get(URL, {"run": [b.pk, a.pk]})

    assert response["Location"] == f"{URL}?a={a.pk}&b={b.pk}"
    page = client.get(reverse("playground:runs")).content.decode()
    assert "data-compare-selected" in page


def test_one_run_or_too_many_are_refused_in_words(client: Client, user: User) -> None:
    a = finished_run(user, rounds=0)

    for query in ({"run": [a.pk]}, {"run": list(range(1, 9))}, {"a": a.pk, "b": a.pk}):
        response = client.get(URL, query)
        assert response.status_code == 400 and "in the list" in response.content.decode()


def test_the_page_alone_says_how_to_compare(client: Client) -> None:
    response = client.get(URL)

    assert response.status_code == 200 and "Choose 2 to 6 runs in the list" in response.content.decode()


def led_to(client: Client, run: Run) -> list[tuple[str, str]]:
    """The comparisons that the page of a run leads to."""
    page = client.get(reverse("playground:run", args=[run.pk])).content.decode()
    return re.findall(rf"{URL}\?a=(\w*)&amp;b=(\w*)", page)


def test_a_run_leads_to_the_comparisons_that_there_are_and_to_each_once(client: Client, user: User) -> None:
    configuration = ConfigurationFactory()
    parent, before, child = (finished_run(user) for _ in range(3))
    of_others = finished_run(UserFactory())
    Run.objects.filter(pk__in=[parent.pk, before.pk, child.pk]).update(configuration=configuration)

    assert led_to(client, parent) == []
    assert led_to(client, child) == [(str(before.pk), str(child.pk))]
    for made_from, others in ((parent, [before]), (before, []), (of_others, [])):
        Run.objects.filter(pk=child.pk).update(parent=made_from)
        first = before if made_from == of_others else made_from
        assert led_to(client, child) == [(str(run.pk), str(child.pk)) for run in [*others, first]]


def test_three_runs_are_a_table(client: Client, user: User) -> None:
    runs = [finished_run(user, rounds=rounds) for rounds in (1, 2, 3)]

    response = client.get(URL, {"run": [run.pk for run in runs]})
    html = response.content.decode()

    assert "Rounds 2 3 4" in section(html, "h-figures")
    assert "all the same" in section(html, "h-settings")
    assert all(reverse("playground:run", args=[run.pk]) in html for run in runs)


def test_deleted_contents_are_said_and_digests_still_tell(client: Client, user: User) -> None:
    a, b = pair(user)
    delete_contents(a, kept_days=None, now=timezone.now())

    html = html_of(client, a, b)

    assert "Contents were not kept" in html and "Rounds 3 2" in section(html, "h-figures")
    assert "User prompt identical" in section(html, "h-prompt")
    assert "No answer is stored." in section(html, "h-answer")


def test_what_differs_and_is_gone_is_not_called_the_same(client: Client, user: User) -> None:
    a, b = RecordedRun(user, system="You help."), RecordedRun(user, system="You help not.")
    for recorded in (a, b):
        recorded.answer("Yes.")
        recorded.end()
    delete_contents(a.run, kept_days=30, now=timezone.now())

    prompt = section(html_of(client, a.run, b.run), "h-prompt")

    assert "Configuration prompt no longer stored" in prompt and "The text is no longer stored." in prompt


def test_runs_compare_as_far_as_they_came(client: Client, user: User) -> None:
    done = finished_run(user)
    running = RecordedRun(user)
    running.round()
    running.request()
    queued = RecordedRun(user, status=RunStatus.QUEUED, started_at=None, plan=None).run
    unplanned = RecordedRun(user, plan=None)
    unplanned.error(ValueError("no"))
    dry = RecordedRun(user, dry_run=True)
    dry.assembled()

    assert "is going on" in html_of(client, done, running.run)
    assert "is going on" in html_of(client, queued, done)
    assert "before its prompt was assembled" in html_of(client, done, unplanned.end(EndReason.INTERNAL_ERROR))
    html = html_of(client, dry.end(EndReason.DRY_RUN), done)
    assert "It was a dry run" in html and "User prompt identical" in section(html, "h-prompt")


def test_what_models_and_people_wrote_is_never_markup(client: Client, user: User) -> None:
    hostile = "<script>alert(1)</script>"
    a = RecordedRun(user, system=hostile, prompt=hostile, title=hostile)
    a.round(tool=hostile, result=hostile)
    a.answer(f"{hostile} one")
    b = RecordedRun(user, system=f"{hostile} two", prompt=hostile)
    b.answer(f"{hostile} two")

    html = html_of(client, a.end(answer=f"{hostile} one", rounds=2), b.end(answer=f"{hostile} two", rounds=1))

    assert hostile not in html and html_module.escape(hostile) in html


def test_long_runs_are_read_and_shown_a_page_at_a_time(client: Client, user: User) -> None:
    a, b = (long_run(user, rounds=60, failed=[3]) for _ in "ab")
    html_of(client, a, b)

    with CaptureQueriesContext(
        connection,
    ) as short:
        first = html_of(client, *pair(user))
    with CaptureQueriesContext(connection) as long:
        html = html_of(client, a, b)
    last = html_of(client, a, b, round=999)

    assert f"Rounds 1 to {ROUNDS_AT_ONCE} of 61" in text_of(html) and "pg-pager" not in first
    assert html.count('scope="row" rowspan="2"') == ROUNDS_AT_ONCE
    assert "Rounds 51 to 61 of 61" in text_of(last) and "All counted." in last
    page = [query for query in long if "playground_runstep" in query["sql"]]
    assert all("LIMIT" in query["sql"] or '"round" <=' in query["sql"] for query in page)
    assert len(long) <= len(short)


def test_very_large_texts_and_very_many_calls_keep_the_page_small(client: Client, user: User) -> None:
    runs = []
    for letter in "ab":
        recorded = RecordedRun(user, system="\n".join(f"{letter}{n} " + "long " * 100 for n in range(3_000)))
        calls = [ToolCall(id=f"{letter}{n}", name="look_up", arguments={"n": n}) for n in range(150)]
        recorded.request()
        recorded.response(calls=calls, finish_reason=FinishReason.TOOL_CALLS)
        for made in calls:
            recorded.tool_call(made)
            recorded.tool_result(made, letter * 200_000)
        runs.append(recorded.end(rounds=1, tool_calls=150, answer=f"{letter} " * 500_000))

    html = html_of(client, *runs)

    assert len(html) < 700_000
    assert "100 more calls are on the pages of the runs." in text_of(html)
    assert "more lines:" in html and "Only the beginning was compared." in html


def test_who_may_not_see_raw_requests_gets_no_layout_of_captured_ones(client: Client, user: User) -> None:
    a, b = pair(user, capture_raw=True)

    assert "The requests can't be laid out" in section(html_of(client, a, b), "h-cache")


def test_the_cost_of_a_free_run_compares(client: Client, user: User) -> None:
    a, b = pair(user, cost=Decimal(0))

    assert "Cost $0.00090 $0 ▼ −100 %" in section(html_of(client, a, b), "h-figures")
    assert "Cost $0 $0.00090 ▲ from 0" in section(html_of(client, b, a), "h-figures")


def test_large_counts_are_spelled_alike_on_all_pages(client: Client, user: User) -> None:
    many = finished_run(user, rounds=1)
    Run.objects.filter(pk=many.pk).update(rounds=1_000, max_rounds=1_000, tool_calls=2_345, tool_errors=1_234)

    run, runs = (
        text_of(client.get(url).content.decode())
        for url in (reverse("playground:run", args=[many.pk]), reverse("playground:runs"))
    )
    figures = section(html_of(client, many, finished_run(user)), "h-figures")

    assert "Rounds 1,000 of 1,000 allowed" in run and "Tool calls 2,345 1,111 ok, 1,234 failed" in run
    assert " 1,000 2,345 1,234 failed " in runs
    assert "Rounds 1,000 3" in figures and "Tool calls 2,345, 1,234 failed 2" in figures
