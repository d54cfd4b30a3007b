"""Who may see and do what on the pages of a run: each address, each kind of reader."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from llmcore.runs.outcome import EndReason, RunStatus
from playground.models import Run
from tests.factories import UserFactory
from tests.playground.recorded import RecordedRun, finished_run

pytestmark = pytest.mark.django_db

READ = ("run", "run_step", "run_updates", "run_export")
ACT = ("run_cancel", "run_continue")


def address(name: str, run: Run) -> str:
    arguments = [run.pk, 1] if name == "run_step" else [run.pk]
    return reverse(f"playground:{name}", args=arguments)


def client_of(user: object) -> Client:
    client = Client()
    if user is not None:
        client.force_login(user)
    return client


def status_of(client: Client, name: str, run: Run) -> int:
    url = address(name, run)
    return (client.post(url) if name in ACT else client.get(url)).status_code


@pytest.mark.parametrize("name", [*READ, *ACT])
def test_an_address_leads_strangers_to_the_login(name: str) -> None:
    run = finished_run(UserFactory())
    customer = UserFactory(is_staff=False, is_superuser=True)

    for client in (client_of(None), client_of(customer)):
        response = client.post(address(name, run)) if name in ACT else client.get(address(name, run))
        assert response.status_code == 302
        assert response.headers["Location"].startswith("/admin/login/?next=/admin/playground/")


@pytest.mark.parametrize("name", [*READ, *ACT])
def test_staff_without_the_right_are_refused(name: str) -> None:
    user = UserFactory(permissions=["playground.add_run", "playground.view_raw"])

    assert status_of(client_of(user), name, finished_run(user)) == 403


@pytest.mark.parametrize("name", READ)
def test_own_runs_can_be_read_and_others_are_not_there(name: str) -> None:
    user = UserFactory(permissions=["playground.view_run"])
    client = client_of(user)

    assert status_of(client, name, finished_run(user)) == 200
    assert status_of(client, name, finished_run(UserFactory())) == 404
    assert status_of(client, name, finished_run(None)) == 404


@pytest.mark.parametrize("name", READ)
def test_the_right_to_see_all_runs_is_enough(name: str) -> None:
    client = client_of(UserFactory(permissions=["playground.view_all_runs"]))

    assert status_of(client, name, finished_run(UserFactory())) == 200


@pytest.mark.parametrize(
    ("permissions", "own", "status"),
    [
        (["playground.view_run", "playground.add_run"], True, 302),
        (["playground.view_run"], True, 403),
        (["playground.view_all_runs", "playground.add_run"], False, 403),
        (["playground.view_all_runs", "playground.cancel_all_runs"], False, 302),
        (["playground.view_run", "playground.cancel_all_runs"], False, 404),
    ],
)
def test_who_may_cancel(permissions: list[str], own: bool, status: int) -> None:
    user = UserFactory(permissions=permissions)
    recorded = RecordedRun(user if own else UserFactory())
    recorded.request()

    assert status_of(client_of(user), "run_cancel", recorded.run) == status

    recorded.run.refresh_from_db()
    assert (recorded.run.cancel_requested_at is not None) == (status == 302)


@pytest.mark.parametrize(
    ("permissions", "own", "status"),
    [
        (["playground.view_run", "playground.add_run"], True, 302),
        (["playground.view_run"], True, 403),
        (["playground.view_all_runs", "playground.add_run", "playground.cancel_all_runs"], False, 403),
    ],
)
def test_who_may_continue(permissions: list[str], own: bool, status: int) -> None:
    user = UserFactory(permissions=permissions)
    recorded = RecordedRun(user if own else UserFactory())
    recorded.round()
    run = recorded.end(EndReason.INTERRUPTED)

    assert status_of(client_of(user), "run_continue", run) == status

    run.refresh_from_db()
    assert run.status == (RunStatus.QUEUED if status == 302 else RunStatus.INTERRUPTED)


@pytest.mark.parametrize("name", ACT)
def test_what_changes_something_takes_a_post_with_its_token(name: str) -> None:
    user = UserFactory(is_superuser=True)
    recorded = RecordedRun(user)
    client = Client(enforce_csrf_checks=True)
    client.force_login(user)

    assert client.get(address(name, recorded.run)).status_code == 405
    assert client.post(address(name, recorded.run)).status_code == 403


def test_a_script_is_told_to_go_to_the_login_and_not_given_it() -> None:
    run = finished_run(UserFactory())

    fragment = Client().get(
        address("run_step", run),
        headers={"HX-Request": "true", "HX-Current-URL": f"http://testserver{address('run', run)}"},
    )
    data = Client().get(address("run_updates", run), headers={"Accept": "application/json"})

    assert fragment.headers["HX-Redirect"] == f"/admin/login/?next={address('run', run)}"
    assert not fragment.content
    assert data.status_code == 403


def test_the_head_offers_only_what_the_reader_may_do() -> None:
    owner = UserFactory(permissions=["playground.view_run", "playground.add_run"])
    reader = UserFactory(permissions=["playground.view_all_runs"])
    live = RecordedRun(owner).run
    ended = finished_run(owner)

    def page(user: object, run: Run) -> str:
        return client_of(user).get(address("run", run)).content.decode()

    assert address("run_cancel", live) in page(owner, live)
    assert address("run_cancel", live) not in page(reader, live)
    assert address("run_cancel", ended) not in page(owner, ended)
    assert f"?from={ended.pk}" in page(owner, ended)
    assert f"?from={live.pk}" not in page(owner, live)
    assert f"?from={ended.pk}" not in page(reader, ended)


def test_the_index_of_the_admin_leads_to_the_runs() -> None:
    client = client_of(UserFactory(permissions=["playground.view_run"]))

    assert "Playground runs" in client.get("/admin/").content.decode()
    assert client.get("/admin/playground/run/").headers["Location"] == reverse("playground:runs")
    assert client.get("/admin/playground/run/add/").status_code == 403


def test_the_index_hides_runs_from_those_who_may_see_none() -> None:
    assert "Playground runs" not in client_of(UserFactory()).get("/admin/").content.decode()
