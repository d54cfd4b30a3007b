"""Who reads the pages, and the workers that tests start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from llmcore.structured.packs import Prompt
from tests.factories import UserFactory
from tests.playground.beside import environment_beside
from tests.playground.structured import site_prompt
from tests.playground.workers import LEASE_S, StartWorker, workers


@pytest.fixture
def user() -> User:
    return UserFactory(is_superuser=True)


@pytest.fixture
def client(user: User, request: pytest.FixtureRequest) -> Client:
    """The browser of `user`; of a test that is marked `htmx` it asks for fragments."""
    client = Client(headers={"HX-Request": "true"} if request.node.get_closest_marker("htmx") else {})
    client.force_login(user)
    return client


@pytest.fixture
def starter(client: Client) -> Client:
    """The browser of somebody who may start runs and read their own, and nothing else."""
    client.force_login(UserFactory(permissions=["playground.add_run", "playground.view_run"]))
    return client


@pytest.fixture
def prompt(tmp_path: Path) -> Iterator[Prompt]:
    """A prompt of a pack, `test.names`, while the test runs."""
    with site_prompt(tmp_path) as made:
        yield made


@pytest.fixture
def environment(tmp_path: Path, settings: Settings) -> dict[str, str]:
    """What programs beside the test need to work on its database and queue, with a short lease."""
    settings.LLM_LEASE_S = LEASE_S
    return environment_beside(tmp_path, LLM_LEASE_S=str(LEASE_S))


@pytest.fixture
def start_worker(environment: dict[str, str], tmp_path: Path) -> Iterator[StartWorker]:
    with workers(environment, tmp_path) as start:
        yield start
