"""Attempts to have something run that nobody approved: by what is sent, and by what is changed meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from llmcore.providers.scripted.scenario import Turn
from playground.models import DecisionRecord, ProposedAction, Run
from playground.services.start_run import write_run
from tests.factories import UserFactory
from tests.playground.driven import Script, call, script

pytestmark = pytest.mark.django_db(transaction=True)

CHANGE = Turn(tool_calls=(call("write_file", path="vat.toml", content="AT = 0.20\n"),))
COMMAND = Turn(tool_calls=(call("terminal", command="echo run >> ran.txt"),))
DONE = Turn(text="Done.")


@pytest.fixture
def starter() -> User:
    user: User = UserFactory(is_superuser=True)
    return user


@pytest.fixture
def files(settings: Any, tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    root.mkdir()
    (root / "vat.toml").write_text("AT = 0.02\n")
    entry = {"root": str(root), "write": True, "write_freely": ["notes/**"], "terminal": True}
    settings.LLM_WORKSPACES = {"shop": entry}
    return root


@pytest.fixture
def shop(files: Path, request: pytest.FixtureRequest) -> Iterator[Script]:
    with script(*request.param, tool_groups=["workspace"], workspace="shop") as model:
        yield model


def started(model: Script, user: User) -> Run:
    run = model.drive(write_run(request=model.request(), by=user))
    assert run.status == "awaiting_approval"
    return run


def action_of(run: Run) -> ProposedAction:
    return ProposedAction.objects.get(run=run, decision="")


def browser(user: User | None, **options: Any) -> Client:
    client = Client(**options)
    if user is not None:
        client.force_login(user)
    return client


def address(run: Run, action: ProposedAction) -> str:
    return reverse("playground:action_decide", args=[run.pk, action.pk])


def approve(client: Client, run: Run, action: ProposedAction, **changes: Any) -> int:
    data = {"decision": "approve", "digest": action.turn_digest, **changes}
    return client.post(address(run, action), data, headers={"HX-Request": "true"}).status_code


@pytest.mark.parametrize("shop", [(COMMAND, DONE)], indirect=True)
def test_nobody_decides_but_by_a_form_of_the_site(shop: Script, files: Path, starter: User) -> None:
    run = started(shop, starter)
    action = action_of(run)

    query = f"?decision=approve&digest={action.turn_digest}"
    for method in ("get", "head", "put", "patch", "delete"):
        assert getattr(browser(starter), method)(address(run, action) + query).status_code == 405
    assert approve(browser(starter, enforce_csrf_checks=True), run, action) == 403
    for nobody in (None, UserFactory(is_staff=False, is_superuser=True)):
        data = {"decision": "approve", "digest": action.turn_digest}
        assert "/login/" in browser(nobody).post(address(run, action), data)["Location"]

    assert action_of(run) == action and not DecisionRecord.objects.exists() and not (files / "ran.txt").exists()


@pytest.mark.parametrize("shop", [(COMMAND, DONE)], indirect=True)
def test_rights_count_when_it_is_decided(shop: Script, starter: User) -> None:
    run = started(shop, starter)
    action = action_of(run)
    rights = ["playground.view_all_runs", "playground.decide_action"]

    assert approve(browser(UserFactory(permissions=rights[:1])), run, action) == 403
    assert approve(browser(UserFactory(permissions=[rights[1]])), run, action) == 403
    assert approve(browser(UserFactory(permissions=[rights[1], "playground.view_run"])), run, action) == 404
    decider = UserFactory(permissions=rights)
    client = browser(decider)
    assert client.get(reverse("playground:run", args=[run.pk])).status_code == 200
    decider.user_permissions.clear()
    assert approve(client, run, action) == 403
    assert action_of(run) == action


@pytest.mark.parametrize("shop", [(COMMAND, COMMAND, DONE)], indirect=True)
def test_a_decision_that_is_sent_again_decides_nothing_else(shop: Script, files: Path, starter: User) -> None:  # P3
    """The model asks for the very same command twice; somebody approved it once."""
    run = started(shop, starter)
    first, client = action_of(run), browser(starter)
    assert approve(client, run, first) == 200
    assert approve(client, run, first) == 409
    shop.drive(run)
    second = action_of(run)
    assert second.pk != first.pk and second.turn_digest != first.turn_digest

    assert approve(client, run, first) == 409
    assert approve(client, run, second, digest=first.turn_digest) == 409
    assert approve(client, run, second, digest=first.key) == 409
    assert approve(client, run, second, digest="") == 400

    assert action_of(run) == second and (files / "ran.txt").read_text() == "run\n"


@pytest.mark.parametrize("shop", [(COMMAND, DONE)], indirect=True)
def test_a_decision_about_one_run_is_none_about_another(shop: Script, files: Path, starter: User) -> None:
    run, other = started(shop, starter), started(shop, starter)
    mine, theirs = action_of(run), action_of(other)

    assert approve(browser(starter), run, theirs) == 409
    assert approve(browser(starter), other, mine) == 409
    assert (action_of(run), action_of(other)) == (mine, theirs)


@pytest.mark.parametrize("shop", [(CHANGE, DONE)], indirect=True)
def test_a_file_that_changes_after_it_was_looked_at_is_asked_about_again(
    shop: Script, files: Path, starter: User
) -> None:  # P3
    run = started(shop, starter)
    first = action_of(run)
    (files / "vat.toml").write_text("AT = 0.02\nDE = 0.19\n")
    assert approve(browser(starter), run, first) == 200

    shop.drive(run)

    assert run.status == "awaiting_approval" and "DE = 0.19" in (files / "vat.toml").read_text()
    again = action_of(run)
    assert again.turn_digest != first.turn_digest and approve(browser(starter), run, again) == 200
    shop.drive(run)
    assert run.status == "completed" and (files / "vat.toml").read_text() == "AT = 0.20\n"


@pytest.mark.parametrize("shop", [(CHANGE, DONE)], indirect=True)
def test_a_link_in_place_of_the_file_is_not_written_through(
    shop: Script, files: Path, starter: User, tmp_path: Path
) -> None:  # K3
    run = started(shop, starter)
    outside = tmp_path / "outside.toml"
    outside.write_text("AT = 0.02\n")
    assert approve(browser(starter), run, action_of(run)) == 200
    (files / "vat.toml").unlink()
    (files / "vat.toml").symlink_to(outside)

    shop.drive(run)

    assert run.status == "completed" and outside.read_text() == "AT = 0.02\n"
    assert "is a link" in shop.model.requests[-1].json["messages"][-1]["content"]


@pytest.mark.parametrize("shop", [(COMMAND, DONE)], indirect=True)
def test_a_workspace_that_is_moved_or_switched_off_after_the_approval_runs_nothing(
    shop: Script, files: Path, starter: User, settings: Any, tmp_path: Path
) -> None:  # L2
    run = started(shop, starter)
    assert approve(browser(starter), run, action_of(run)) == 200
    (tmp_path / "other").mkdir()
    settings.LLM_WORKSPACES = {"shop": {"root": str(tmp_path / "other"), "terminal": True}}
    shop.drive(run)
    assert run.status == "awaiting_approval", "another folder is another action"
    assert approve(browser(starter), run, action_of(run)) == 200
    settings.LLM_WORKSPACES = {"shop": {"root": str(tmp_path / "other")}}

    shop.drive(run)

    assert run.status == "completed" and not list(tmp_path.rglob("ran.txt"))
