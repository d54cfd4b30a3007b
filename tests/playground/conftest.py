"""Fixtures of tests that start workers of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from tests.playground.beside import environment_beside
from tests.playground.workers import LEASE_S, StartWorker, workers


@pytest.fixture
def environment(tmp_path: Path, settings: Settings) -> dict[str, str]:
    """What programs beside the test need to work on its database and queue, with a short lease."""
    settings.LLM_LEASE_S = LEASE_S
    return environment_beside(tmp_path, LLM_LEASE_S=str(LEASE_S))


@pytest.fixture
def start_worker(environment: dict[str, str], tmp_path: Path) -> Iterator[StartWorker]:
    with workers(environment, tmp_path) as start:
        yield start
