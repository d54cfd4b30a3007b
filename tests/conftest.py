"""What all tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import pytest_django
from django.db import connection
from hypothesis import settings

from tests.services import Redis, redis_server

# How long an example takes says only how busy the machine is.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests last: Playwright keeps an event loop running, which asynchronous tests can't stand."""
    items.sort(key=lambda item: "tests/e2e" in item.path.as_posix())


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    with redis_server() as url:
        yield url


@pytest.fixture
def server() -> Iterator[Redis]:
    """A Redis that the test may stop."""
    started = Redis()
    started.start()
    yield started
    started.stop()


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: pytest_django.DjangoDbBlocker) -> Iterator[None]:
    """PostgreSQL drops no database that is in use, and threads of asynchronous tests keep their connections."""
    yield
    if connection.vendor == "postgresql":
        with django_db_blocker.unblock(), connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
