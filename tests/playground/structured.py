"""A prompt of a pack for tests of runs: registered with the site for as long as they need it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from llmcore.structured.packs import Prompt, site_prompts
from playground.structured_run import GivenInput, StructuredRun
from tests.llmcore.prompt_packs import registry_in

TEXT = "Ada met Grace."


@contextmanager
def site_prompt(folder: Path, **prompt: Any) -> Iterator[Prompt]:
    """The prompt `test.names` and its schema, as the site's own."""
    made = registry_in(folder, **prompt).prompt("test.names")
    before = dict(site_prompts.prompts())
    site_prompts._prompts[made.id] = made
    try:
        yield made
    finally:
        site_prompts._prompts = before


def structured(text: str = TEXT, **changes: Any) -> StructuredRun:
    return StructuredRun(**{"prompt": "test.names", "inputs": (GivenInput(name="text", text=text),), **changes})
