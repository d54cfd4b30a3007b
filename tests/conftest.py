"""What all tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.services import redis_server


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests last: Playwright keeps an event loop running, which asynchronous tests can't stand."""
    items.sort(key=lambda item: "tests/e2e" in item.path.as_posix())


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    with redis_server() as url:
        yield url
