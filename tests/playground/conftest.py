"""Who reads the pages, and the workers that tests start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from tests.factories import UserFactory
from tests.playground.beside import environment_beside
from tests.playground.workers import LEASE_S, StartWorker, workers


@pytest.fixture
def user() -> User:
    return UserFactory(is_superuser=True)


@pytest.fixture
def client(user: User) -> Client:
    """The browser of `user`."""
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def environment(tmp_path: Path, settings: Settings) -> dict[str, str]:
    """What programs beside the test need to work on its database and queue, with a short lease."""
    settings.LLM_LEASE_S = LEASE_S
    return environment_beside(tmp_path, LLM_LEASE_S=str(LEASE_S))


@pytest.fixture
def start_worker(environment: dict[str, str], tmp_path: Path) -> Iterator[StartWorker]:
    with workers(environment, tmp_path) as start:
        yield start
