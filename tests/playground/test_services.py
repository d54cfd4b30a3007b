"""Starting, cancelling, continuing, exporting and sweeping runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from celery.signals import after_task_publish
from django.db import transaction
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from llmcore.errors import ConfigurationError
from llmcore.models import LanguageModel
from llmcore.providers.scripted.scenario import Turn
from llmcore.tools.base import Tool
from playground.models import Run, RunPartial
from playground.services.cancel_run import cancel_run
from playground.services.continue_run import continue_run
from playground.services.export_run import export_run, import_run
from playground.services.prepare_run import prepare_run
from playground.services.start_run import RunRequest, start_run, write_run
from playground.services.sweep import sweep
from tests.factories import ConfigurationFactory, SkillFactory, UserFactory
from tests.playground.driven import call, script, site_tool

pytestmark = pytest.mark.django_db(transaction=True)

TOOL = Tool(
    name="look_up", description="Looks.", parameters={"type": "object"}, run=lambda: "Seen.", group="test",
    permission="playground.view_raw",
)  # fmt: skip


@contextmanager
def published() -> Iterator[list[int]]:
    """The numbers of the runs that are handed over to the workers."""
    runs: list[int] = []

    def note(sender: str, body: Any, **_: Any) -> None:
        assert sender == "playground.drive_run"
        runs.append(body[0][0])

    after_task_publish.connect(note)
    try:
        yield runs
    finally:
        after_task_publish.disconnect(note)


def request(**changes: Any) -> RunRequest:
    return RunRequest(**{"configuration": ConfigurationFactory().slug, "prompt": "Hello?", **changes})


def age(run: Run, **delta: float) -> None:
    """Let the run's times be that much earlier."""
    times = ("created_at", "queued_at", "started_at", "lease_until")
    earlier = {name: value - timedelta(**delta) for name in times if (value := getattr(run, name)) is not None}
    Run.objects.filter(pk=run.pk).update(**earlier)
    run.refresh_from_db()


# Starting


def test_a_request_survives_json() -> None:
    asked = request(skills=("a", "b"), tools=(), system_override="", temperature=0.5, thinking="low", dry_run=True)
    assert RunRequest.from_json(json.loads(json.dumps(asked.to_json()))) == asked


@pytest.mark.parametrize("wrong", [{"thinking": "a lot"}, {"override_mode": "prepend"}])
def test_a_request_refuses_what_no_form_offers(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="not one of"):
        request(**wrong)


def test_a_run_is_handed_over_when_it_is_committed() -> None:  # D1
    with published() as runs:
        with transaction.atomic():
            run = start_run(request=request(title="First"), by=UserFactory(username="ada"))
            assert runs == []
        assert runs == [run.pk]
    assert (run.status, run.title, run.user.username, run.attempt) == ("queued", "First", "ada", 0)  # type: ignore[union-attr]


def test_a_run_that_is_rolled_back_is_handed_to_nobody() -> None:  # D1
    asked = request()
    with published() as runs:
        with transaction.atomic():
            start_run(request=asked, by=None)
            transaction.set_rollback(True)
        assert runs == [] and not Run.objects.exists()


def test_a_run_without_a_title_gets_the_first_line_of_its_prompt() -> None:
    assert write_run(request=request(prompt="\n  Why is\tthe sky blue?\nAnd " + "long " * 99), by=None).title == (
        "Why is the sky blue?"
    )
    assert len(write_run(request=request(prompt="x" * 500), by=None).title) == 80


@pytest.mark.parametrize("change", [{"enabled": False}, {"slug": "renamed"}])
def test_a_configuration_that_is_not_there_is_refused_at_once(change: dict[str, Any]) -> None:
    asked = request()
    row = ConfigurationFactory._meta.model.objects.get(slug=asked.configuration)
    for name, value in change.items():
        setattr(row, name, value)
    row.save()
    with pytest.raises(ConfigurationError, match=r"disabled|no configuration"):
        start_run(request=asked, by=None)
    assert not Run.objects.exists()


def test_a_rerun_knows_the_run_it_came_from() -> None:
    first = write_run(request=request(), by=None)
    again = start_run(request=RunRequest.from_json(first.request), by=None, parent=first)
    assert again.parent == first and again.request == first.request


@pytest.mark.parametrize(("asked", "allowed"), [(None, 5), (3, 3), (500, 50), (0, 5)])
def test_rounds_are_bounded_by_the_site(asked: int | None, allowed: int) -> None:  # L1
    run = write_run(request=request(max_rounds=asked), by=None)
    assert run.max_rounds == allowed
    prepared = prepare_run(request=RunRequest.from_json(run.request), user=None)
    assert prepared.state.limits.max_rounds == allowed


# Preparing


def test_what_the_request_asks_for_goes_before_the_configuration() -> None:  # L5
    prepared = prepare_run(request=request(temperature=0.1, max_tokens=77, thinking="high"), user=None)
    assert prepared.state.parameters.temperature == 0.1
    assert prepared.call.parameters.max_tokens == 77
    body = json.loads(prepared.wire.body)
    assert body["temperature"] == 0.1


def test_a_tool_that_needs_a_right_is_offered_to_those_who_have_it() -> None:  # L2
    with site_tool(TOOL):
        asked = request(configuration=ConfigurationFactory(tool_groups=["test"]).slug)
        without, holder = UserFactory(), UserFactory(permissions=["playground.view_raw"])
        assert prepare_run(request=asked, user=holder).state.offered == ("look_up",)
        for user in (None, without):
            gate = prepare_run(request=asked, user=user).gate
            assert gate.names == () and [item.reason for item in gate.left_out if item.name == "look_up"] == [
                "no_permission"
            ]


def test_no_tools_is_not_the_same_as_no_wish() -> None:  # L3
    with site_tool(TOOL):
        asked = request(configuration=ConfigurationFactory(tool_groups=["test"]).slug, tools=())
        prepared = prepare_run(request=asked, user=UserFactory(is_superuser=True))
        assert prepared.gate.names == () and b'"tools"' not in prepared.wire.body


def test_a_first_request_over_the_limit_is_refused(settings: Settings) -> None:
    settings.LLM_MAX_REQUEST_BYTES = 1000
    with pytest.raises(ConfigurationError, match="this site allows 1,000"):
        prepare_run(request=request(prompt="long " * 300), user=None)


def test_a_plan_has_no_key_and_names_messages_by_digest() -> None:
    prepared = prepare_run(request=request(skills=(SkillFactory().slug,)), user=None)
    plan = prepared.plan()
    assert set(plan["state"]["messages"]) == prepared.contents().keys()
    assert json.loads(json.dumps(plan)) == plan
    assert "api_key" not in json.dumps(plan) and plan["configuration"]["model"]["name"]


# Cancelling


def test_a_queued_run_is_cancelled_at_once() -> None:
    user = UserFactory(username="ada")
    run = write_run(request=request(), by=user)
    assert cancel_run(run=run, by=user, now=timezone.now())
    run.refresh_from_db()
    assert (run.status, run.reason, run.detail) == ("cancelled", "cancelled", "Cancelled by ada.")
    assert run.wall_ms == run.queue_ms and run.overhead_ms == 0


def test_a_driven_run_is_asked_once_and_names_who_asked_first() -> None:
    ada, bob = UserFactory(username="ada"), UserFactory(username="bob")
    run = write_run(request=request(), by=ada)
    Run.objects.filter(pk=run.pk).update(status="running", attempt=1)
    first = timezone.now()
    assert cancel_run(run=run, by=ada, now=first)
    assert cancel_run(run=run, by=bob, now=timezone.now())
    run.refresh_from_db()
    assert (run.status, run.cancelled_by, run.cancel_requested_at) == ("running", ada, first)


@pytest.mark.parametrize("status", ["completed", "interrupted", "failed", "cancelled"])
def test_a_run_that_has_ended_stays_as_it_is(status: str) -> None:
    run = write_run(request=request(), by=None)
    Run.objects.filter(pk=run.pk).update(status=status)
    before = Run.objects.values().get(pk=run.pk)
    assert not cancel_run(run=run, by=None, now=timezone.now())
    assert Run.objects.values().get(pk=run.pk) == before


# Continuing


def test_only_an_interrupted_run_goes_on_and_only_once() -> None:
    run = write_run(request=request(), by=None)
    Run.objects.filter(pk=run.pk).update(status="interrupted", reason="interrupted", ended_at=timezone.now())
    with published() as runs:
        assert continue_run(run=run, by=None)
        assert not continue_run(run=run, by=None)
        assert runs == [run.pk]
    run.refresh_from_db()
    assert (run.status, run.reason, run.ended_at) == ("queued", "", None)


# Sweeping


def test_a_run_that_nobody_claimed_is_handed_over_again_more_and_more_rarely() -> None:  # D1
    run = write_run(request=request(), by=None)
    with published() as runs:
        sweep(now=timezone.now())
        assert runs == []
        handed_over = []
        for second in range(0, 600, 5):
            sweep(now=run.queued_at + timedelta(seconds=second))
            if len(runs) > len(handed_over):
                handed_over.append(second)
    assert handed_over[0] <= 40 and 3 <= len(handed_over) <= 6
    gaps = [after - before for before, after in pairwise(handed_over)]
    assert gaps == sorted(gaps)


def test_two_sweeps_hand_a_run_over_once() -> None:
    run = write_run(request=request(), by=None)
    age(run, minutes=5)
    now = timezone.now()
    with published() as runs:
        sweep(now=now)
        sweep(now=now)
        assert runs == [run.pk]


def test_a_run_within_its_lease_is_left_alone() -> None:
    run = write_run(request=request(), by=None)
    lease = timezone.now() + timedelta(seconds=10)
    Run.objects.filter(pk=run.pk).update(status="running", attempt=1, lease_until=lease)
    sweep(now=lease - timedelta(seconds=1))
    run.refresh_from_db()
    assert run.status == "running"


def test_text_of_runs_that_are_no_longer_driven_is_removed() -> None:
    driven, ended = write_run(request=request(), by=None), write_run(request=request(), by=None)
    Run.objects.filter(pk=driven.pk).update(status="running", lease_until=timezone.now() + timedelta(minutes=1))
    Run.objects.filter(pk=ended.pk).update(status="failed")
    for run in (driven, ended):
        RunPartial.objects.create(run=run, text="Half a")
    sweep(now=timezone.now())
    assert list(RunPartial.objects.values_list("run_id", flat=True)) == [driven.pk]


def test_a_sweep_with_nothing_to_do_costs_little(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    for _ in range(3):
        write_run(request=request(), by=None)
    # Lost workers, what lost calls have reserved, late decisions about runs and about actions of engines, text that
    # nobody watches any more, forgotten runs.
    with django_assert_num_queries(6):
        sweep(now=timezone.now())


# Exporting


def test_an_exported_run_is_read_in_again_without_loss() -> None:  # T6
    turns = Turn(tool_calls=(call("look_up"),)), Turn(text="Good day, Łukasz.", thinking="Hm.")
    with site_tool(TOOL), script(*turns, tool_groups=["test"]) as model:
        LanguageModel.objects.update(input_price="0.15", output_price="0.6")
        run = write_run(request=model.request(capture_raw=True), by=UserFactory(is_superuser=True))
        model.drive(run)
        exported = json.loads(json.dumps(export_run(run=run, raw=True)))
        again = import_run(data=exported, by=None)

    assert again.pk != run.pk and again.answer == run.answer == "Good day, Łukasz."
    assert again.cost == run.cost and again.created_at == run.created_at
    assert export_run(run=again, raw=True) == exported
    assert exported["redacted"] == [] and len(exported["exchanges"]) == 2
    assert bytes(again.exchanges.all()[1].request_body) == model.model.requests[1].body


def test_raw_exchanges_are_exported_only_when_asked_for() -> None:  # R3
    with script(Turn(text="Good day.")) as model:
        assert "exchanges" not in export_run(run=model.run(capture_raw=True))


def test_what_looks_like_a_secret_leaves_the_site_masked() -> None:  # R1
    with script(Turn(text="Use sk-proj-abcdefghijklmnop1234567890 then.")) as model:
        run = model.run()
    assert "sk-proj-abcdefghijklmnop1234567890" in run.answer
    exported = export_run(run=run)
    assert "sk-proj-abcdefghijklmnop1234567890" not in json.dumps(exported)
    assert exported["redacted"] == [run.steps.get(kind="response").data["message"]]


def test_anything_else_is_no_exported_run() -> None:
    with pytest.raises(ValueError, match="no exported run"):
        import_run(data={"format": "something else"}, by=None)
