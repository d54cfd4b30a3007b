"""Structured completions of the local model, whose server holds its answers to a grammar made of the schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from llmcore.structured.packs import Prompt
from llmcore.trace import StepKind
from tests.playground.structured import TEXT, site_prompt, structured
from tests.real_model.served import Site


@pytest.fixture(autouse=True)
def prompt(tmp_path: Path) -> Iterator[Prompt]:
    with site_prompt(tmp_path) as made:
        yield made


def test_an_answer_that_is_held_to_its_schema_is_valid_or_has_no_end(site: Site, prompt: Prompt) -> None:
    found = site.run("", structured=structured(TEXT), capture_raw=True)

    assert prompt.schema is not None
    sent = json.loads(bytes(found.exchange.request_body))["response_format"]["json_schema"]["schema"]
    assert sent == {name: part for name, part in prompt.schema.json.items() if name != "$schema"}
    assert found.run.answer.lstrip().startswith("{"), "the server holds every answer to the schema"
    # A model this small doesn't always find the end of a list; a check of what has no end would say nothing.
    if found.run.reason == "truncated":
        assert not [step for step in found.steps if step.kind is StepKind.VALIDATION]
        return
    assert found.run.reason == "completed"
    check = found.data(StepKind.VALIDATION)
    assert check["valid"] and check["native"] and check["attempt"] == 1
    value = json.loads(found.run.answer)
    assert isinstance(value["names"], list) and isinstance(value["count"], int)


def test_an_answer_that_has_no_room_is_truncated_and_not_repaired(site: Site) -> None:
    site.configure(max_tokens=5)

    found = site.run("", structured=structured(TEXT, repairs=3))

    assert found.run.reason == "truncated" and found.run.rounds == 1
    assert not [step for step in found.steps if step.kind is StepKind.VALIDATION]
