"""The address `/healthz`, as containers and load balancers ask it."""

from __future__ import annotations

import pytest
from django.test import AsyncClient, Client

pytestmark = pytest.mark.django_db


def test_health_is_told_without_a_login_and_by_any_name() -> None:
    response = Client().get("/healthz", headers={"Host": "10.0.0.7:8000"})
    assert (response.status_code, response.content) == (200, b"ok\n")
    assert response.headers["Cache-Control"] == "no-store" and not response.cookies


async def test_health_is_told_asynchronously_too() -> None:
    assert (await AsyncClient().get("/healthz")).status_code == 200


@pytest.mark.parametrize("path", ["/healthz/", "/healthz/x", "/admin/healthz"])
def test_nothing_else_is_open(path: str) -> None:
    assert Client().get(path).status_code in (302, 404)
