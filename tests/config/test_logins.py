"""Who fails to log in too often has to wait: counted in the database, so for all processes of the site."""

from __future__ import annotations

from datetime import timedelta

import pytest
from axes.models import AccessAttempt
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User
from django.db.models import F
from django.http import HttpResponse
from django.test import AsyncClient, Client
from django.urls import reverse
from pytest_django import Settings

from tests.factories import PASSWORD, UserFactory

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def quick_hashes(settings: Settings) -> None:
    """Hashing is slow on purpose, and done for each failed login."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def somebody() -> User:
    return UserFactory(password=make_password(PASSWORD))  # type: ignore[no-any-return]


def log_in(username: str, password: str, *, address: str = "192.0.2.1") -> HttpResponse:
    form = {"username": username, "password": password}
    return Client(REMOTE_ADDR=address).post(reverse("admin:login"), form)  # type: ignore[return-value]


def fail(username: str, times: int) -> list[int]:
    return [log_in(username, "wrong").status_code for _ in range(times)]


def test_fifth_failure_locks_the_name_out_and_says_for_how_long() -> None:
    user = somebody()
    assert fail(user.username, 4) == [200] * 4
    response = log_in(user.username, "wrong")
    assert response.status_code == 429
    text = " ".join(response.content.decode().split())
    assert f"Too many failed logins for “{user.username}” from your address. You can try again in 15 minutes." in text
    assert log_in(user.username, PASSWORD).status_code == 429, "the right password doesn't help either"


def test_name_is_shown_as_text() -> None:
    fail("<b>x</b>", 5)
    assert b"<b>x" not in log_in("<b>x</b>", "wrong").content


def test_nobody_is_locked_out_by_others() -> None:
    user, other = somebody(), somebody()
    fail(user.username, 6)
    assert log_in(other.username, PASSWORD).status_code == 302
    assert log_in(user.username, PASSWORD, address="192.0.2.2").status_code == 302


def test_lock_opens_by_itself_and_failing_on_does_not_lengthen_it() -> None:
    user = somebody()
    fail(user.username, 5)
    AccessAttempt.objects.update(attempt_time=F("attempt_time") - timedelta(minutes=14))
    assert fail(user.username, 1) == [429]
    AccessAttempt.objects.update(attempt_time=F("attempt_time") - timedelta(minutes=2))
    assert log_in(user.username, PASSWORD).status_code == 302


def test_failures_before_a_login_are_forgotten() -> None:
    user = somebody()
    for _ in range(3):
        assert fail(user.username, 4) == [200] * 4
        assert log_in(user.username, PASSWORD).status_code == 302


@pytest.mark.django_db(transaction=True)
async def test_lock_holds_under_asgi_too() -> None:
    client = AsyncClient()
    form = {"username": "nobody", "password": "wrong"}
    codes = [(await client.post(reverse("admin:login"), form)).status_code for _ in range(6)]
    assert codes == [200] * 4 + [429] * 2


def test_no_password_is_kept() -> None:
    log_in("nobody", "hunter2-is-secret")
    (attempt,) = AccessAttempt.objects.values()
    assert "hunter2" not in str(attempt)
