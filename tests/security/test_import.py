"""A file that says it is an exported run gives nobody more than a run to look at."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from llmcore.messages import JSON
from llmcore.providers.scripted.scenario import Turn
from llmcore.runs.outcome import EndReason
from playground.models import Run
from playground.segments import next_segment
from playground.services.export_run import export_run, import_run
from playground.services.start_run import write_run
from tests.factories import UserFactory
from tests.playground.driven import call, script

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def exported() -> dict[str, JSON]:
    with script(Turn(text="Good day.")) as model:
        return export_run(run=model.run(capture_raw=True), raw=True)


@pytest.mark.parametrize("status", ["queued", "running", "awaiting_approval", "interrupted", "nonsense"])
def test_a_run_that_had_not_ended_is_refused(exported: dict[str, Any], status: str) -> None:
    for changes in ({"status": status}, {"status": status, "reason": "", "ended_at": None}):
        with pytest.raises(ValueError, match=r"had not ended|damaged|not a valid"):
            import_run(data={**exported, "run": {**exported["run"], **changes}}, by=UserFactory())

    assert Run.objects.count() == 1


def without(*path: Any) -> Callable[[Any], None]:
    def change(data: Any) -> None:
        for name in path[:-1]:
            data = data[name]
        del data[path[-1]]

    return change


def with_value(value: Any, *path: Any) -> Callable[[Any], None]:
    def change(data: Any) -> None:
        for name in path[:-1]:
            data = data[name]
        data[path[-1]] = value

    return change


@pytest.mark.parametrize(
    "damage",
    [
        without("run"), without("steps"), without("contents"), without("configuration"), without("steps", 0, "kind"),
        with_value("x", "run"), with_value("x", "steps"), with_value([[]], "steps"), with_value([], "contents"),
        with_value("never", "run", "created_at"), with_value("many", "run", "rounds"),
        with_value({"more": 1}, "steps", 0), with_value("odd", "steps", 0, "kind"), with_value(None, "run", "request"),
        with_value("no base64 é", "exchanges", 0, "response_body"),
    ],
)  # fmt: skip
def test_a_damaged_file_is_refused_whole(exported: dict[str, Any], damage: Callable[[Any], None]) -> None:
    data = copy.deepcopy(exported)
    damage(data)
    try:
        import_run(data=data, by=None)
    except ValueError:
        assert Run.objects.count() == 1
    else:
        assert Run.objects.count() == 2


def test_a_run_that_goes_on_keeps_to_the_limits_of_the_site(settings: Any) -> None:
    with script(Turn(tool_calls=(call("nothing"),)), Turn(text="Done."), max_rounds=40) as model:
        run = model.drive(write_run(request=model.request(), by=UserFactory()))
        Run.objects.filter(pk=run.pk).update(status="interrupted", reason=EndReason.INTERRUPTED)
        run.refresh_from_db()
        run.plan["state"]["limits"]["max_rounds"] = 1_000_000
        settings.LLM_MAX_ROUNDS = 7

        assert next_segment(run).state.limits.max_rounds == 7
