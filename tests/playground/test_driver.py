"""A run from its claim to its end, with a real model server and a real database."""

from __future__ import annotations

import pytest

from llmcore.providers.scripted.scenario import Turn
from tests.playground.driven import script

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_run_is_written_down_step_by_step() -> None:
    with script(Turn(text="Good day.")) as model:
        run = model.run()

    assert (run.status, run.reason, run.answer) == ("completed", "completed", "Good day.")
    assert [step.kind for step in run.steps.all()] == ["request", "response"]
    assert run.last_sequence == 2
