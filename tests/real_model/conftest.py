"""One served model for all of these tests, and a site that knows it for each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.real_model.served import LocalModel, Site, local_model, site_of


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalModel]:
    with local_model(tmp_path_factory.mktemp("served")) as served:
        yield served


@pytest.fixture
def site(model: LocalModel, transactional_db: None) -> Site:
    return site_of(model)
