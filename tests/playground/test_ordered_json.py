"""What is recorded comes back with its keys in order, on both databases, and can still be asked for keys."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from llmcore.providers.scripted.scenario import Turn
from llmcore.tools.base import Tool
from playground.models import Run, RunContent, RunStep
from playground.reading.exact_body import built_body
from playground.reading.step_record import StepRecord
from playground.services.fork_run import retry_round
from tests.factories import UserFactory
from tests.playground.driven import Script, call, script, site_tool
from tests.playground.recorded import finished_run

pytestmark = pytest.mark.django_db

UNSORTED = {"zebra": 1, "a": {"long": 1e-07, "b": 1.50, "äh": [{"y": 1e22, "x": None}]}, "mm": "123", "": "null"}


def run_with(value: object) -> Run:
    run = finished_run()
    Run.objects.filter(pk=run.pk).update(plan=value, request=value)
    RunContent.objects.create(run=run, digest="d" * 64, size=1, value=value)
    RunStep.objects.create(run=run, sequence=900, round=9, kind="error", started_ms=0, duration_ms=0, data=value)
    return run


def stored(run: Run) -> list[object]:
    return [
        *Run.objects.filter(pk=run.pk).values_list("plan", "request")[0],
        run.contents.get(digest="d" * 64).value,
        run.steps.get(sequence=900).data,
    ]


@pytest.mark.parametrize("value", [UNSORTED, [UNSORTED], "123", '"quoted"', "", 1.0, True])
def test_values_come_back_as_they_were_written(value: object) -> None:
    for back in stored(run_with(value)):
        assert repr(back) == repr(value)


def test_many_rows_written_at_once_keep_their_keys() -> None:
    run = run_with({})
    row = run.steps.get(sequence=900)
    row.data = UNSORTED

    RunStep.objects.bulk_update([row], ["data"])

    assert repr(run.steps.get(sequence=900).data) == repr(UNSORTED)


def test_keys_are_found_by_what_they_are() -> None:
    run = run_with({"name": "look_up", "n": 3, "failed": True, "error": {"message": None, "b": 1, "aa": 2}})
    steps = run.steps.filter(sequence=900)

    assert steps.filter(data__name="look_up", data__n=3, data__failed=True, data__n__gt=2).exists()
    assert steps.filter(data__name__in=["refund", "look_up"], data__name__startswith="look").exists()
    assert steps.filter(data__error__b__isnull=False, data__error__message=None).exists()
    assert not steps.filter(data__error__other__isnull=False).exists()
    assert steps.values_list("data__name", "data__n", "data__error__aa", "data__other").get() == ("look_up", 3, 2, None)


def test_whole_values_are_compared() -> None:
    run = run_with({"name": "look_up", "n": 3})

    assert run.steps.get(data={"name": "look_up", "n": 3}).sequence == 900
    assert not run.steps.filter(data={"name": "look_up"}).exists()
    assert run.contents.exclude(value=None).count() == run.contents.count()
    assert not Run.objects.filter(plan__isnull=True).exists()


# As neither `jsonb` nor an alphabet would have them.
SCHEMA = {
    "type": "object",
    "required": ["to", "n"],
    "properties": {"to": {"type": "string", "description": "Whom."}, "n": {"type": "integer"}},
}


@pytest.fixture
def site(transactional_db: None) -> Iterator[Script]:
    greet = Tool(name="greet", description="Greets.", parameters=SCHEMA, run=lambda to, n: f"{n}: {to}", group="test")
    turns = (Turn(tool_calls=(call("greet", to="Köln", n=3),)), Turn(text="Grüße"), Turn(text="Grüße"))
    with site_tool(greet), script(*turns, tool_groups=["test"]) as served:
        yield served


@pytest.fixture
def user(transactional_db: None) -> User:
    return UserFactory(is_superuser=True)


@pytest.mark.django_db(transaction=True)
def test_each_body_is_built_again_byte_for_byte(site: Script) -> None:
    run = site.run()

    sent = [received.body for received in site.model.requests]
    assert b'"type":"object","required":["to","n"],"properties":{"to":' in sent[0]
    assert b'{\\"to\\":' in sent[1]
    for body, step in zip(sent, run.steps.filter(kind="request"), strict=True):
        assert built_body(StepRecord(run, step.sequence, user=None)) == body


@pytest.mark.django_db(transaction=True)
def test_a_fork_sends_the_bytes_that_its_parent_sent(site: Script, user: User) -> None:
    run = site.run()

    site.drive(retry_round(run=run, by=user))

    parent, child = [received.body for received in site.model.requests][1:]
    assert child == parent


@pytest.mark.django_db(transaction=True)
def test_migrating_keeps_what_was_recorded(user: User) -> None:
    run = run_with({"name": "look_up", "n": 1.5})
    before = stored(run)
    try:
        MigrationExecutor(connection).migrate([("playground", "0005_forked_at_round")])
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM playground_runcontent WHERE run_id = %s", [run.pk])
            assert cursor.fetchone()[0] == run.contents.count()
    finally:
        executor = MigrationExecutor(connection)
        executor.migrate(executor.loader.graph.leaf_nodes())

    assert stored(run) == before
