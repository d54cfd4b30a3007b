"""The cards of proposed actions on the page of a run, the list of those that wait, and their count in the menu."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from llmcore.actions.proposals import DecisionKind
from llmcore.models import ActionRule
from llmcore.providers.scripted.scenario import Turn
from llmcore.tools.base import Action, ActionKind, Tool
from playground.models import DecisionRecord, ProposedAction, Run
from playground.reading.watch import Watch
from playground.services.decide_action import decide_action
from playground.services.start_run import write_run
from playground.services.sweep import sweep
from tests.factories import UserFactory
from tests.playground.driven import call, script, site_tool
from tests.playground.recorded import finished_run
from tests.playground.shown import text_of

pytestmark = pytest.mark.django_db(transaction=True)

LINE = "rm -rf build && echo <b>done</b>"
TEXT = {"type": "object", "properties": {"line": {"type": "string"}}, "required": ["line"]}


def terminal(ran: list[str]) -> Tool:
    def describe(arguments: Any, context: Any) -> Action:
        line = arguments["line"]
        return Action(kind=ActionKind.COMMAND, title="Run", command=line, shell=True, directory="/srv/shop")

    def run(line: str) -> str:
        ran.append(line)
        return "ok"

    return Tool(
        name="shell",
        description="Run a line.",
        parameters=TEXT,
        run=run,
        group="test",
        requires_approval=True,
        describe_action=describe,
    )


@pytest.fixture
def starter() -> User:
    user: User = UserFactory(is_superuser=True)
    return user


@pytest.fixture
def ran() -> list[str]:
    return []


@pytest.fixture
def waiting(starter: User, ran: list[str]) -> Iterator[Run]:
    """A run that waits for a decision about a shell line."""
    with (
        site_tool(terminal(ran)),
        script(Turn(tool_calls=(call("shell", line=LINE),)), Turn(text="Done."), tool_groups=["test"]) as model,
    ):
        run = model.drive(write_run(request=model.request(title="Tidy up"), by=starter))
        assert run.status == "awaiting_approval"
        run.model = model  # type: ignore[attr-defined]
        yield run


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def page(client: Client, run: Run) -> str:
    return client.get(reverse("playground:run", args=[run.pk])).content.decode()


def action_of(run: Run) -> ProposedAction:
    return ProposedAction.objects.get(run=run)


def post(client: Client, run: Run, *, htmx: bool = True, **changes: str) -> Any:
    action = action_of(run)
    data = {"decision": "approve", "digest": action.turn_digest, **changes}
    headers = {"HX-Request": "true"} if htmx else {}
    return client.post(reverse("playground:action_decide", args=[run.pk, action.pk]), data, headers=headers)


def test_the_card_shows_the_exact_line_where_it_runs_and_why_a_person_is_asked(waiting: Run, starter: User) -> None:
    html = page(client_of(starter), waiting)

    assert "rm -rf build &amp;&amp; echo &lt;b&gt;done&lt;/b&gt;</pre>" in html
    assert "Shell line, exactly as it will run" in html and "/srv/shop" in html
    assert "A person must decide" in html or "needs approval" in html
    assert "Awaiting approval" in html and 'name="again"' in html
    assert action_of(waiting).turn_digest in html


def test_approving_lets_the_run_go_on(waiting: Run, starter: User, ran: list[str]) -> None:
    response = post(client_of(starter), waiting)

    assert response.status_code == 200 and 'id="run-approvals"' in response.content.decode()
    waiting.refresh_from_db()
    assert waiting.status == "queued"
    waiting.model.drive(waiting)  # type: ignore[attr-defined]
    assert ran == [LINE] and waiting.status == "completed"
    html = page(client_of(starter), waiting)
    assert "data-action>" not in html and ">approved<" in html
    assert re.search(r'pg-step__i--appr"><svg[^>]*><use href="#i-check"', html), "seen where the word has no room"
    detail = client_of(starter).get(reverse("playground:run_step", args=[waiting.pk, action_of(waiting).sequence]))
    text = detail.content.decode()
    assert "Round 1 · Approval of shell" in text
    assert "Approved" in text and starter.username in text and "rm -rf build" in text


def test_a_denial_takes_its_reason_along(waiting: Run, starter: User, ran: list[str]) -> None:
    response = post(client_of(starter), waiting, htmx=False, decision="deny", reason="Not <today>.")

    assert response.status_code == 302
    waiting.model.drive(waiting)  # type: ignore[attr-defined]
    sent = waiting.model.model.requests[-1].json["messages"][-1]["content"]  # type: ignore[attr-defined]
    assert ran == [] and "Not <today>." in sent
    detail = client_of(starter).get(reverse("playground:run_step", args=[waiting.pk, action_of(waiting).sequence]))
    assert "Denied" in detail.content.decode() and "Not &lt;today&gt;." in detail.content.decode()


@pytest.mark.parametrize("htmx", [True, False])
def test_a_second_decision_is_a_409_that_says_who_was_first(waiting: Run, starter: User, htmx: bool) -> None:  # P3
    first, second = client_of(starter), client_of(UserFactory(is_superuser=True))
    assert post(first, waiting).status_code == 200

    response = post(second, waiting, htmx=htmx, decision="deny")

    assert response.status_code == 409
    assert f"This was approved by {starter.username} already. Nothing was changed." in response.content.decode()
    assert DecisionRecord.objects.count() == 1


def test_a_decision_about_something_else_than_was_shown_is_a_409(waiting: Run, starter: User) -> None:
    response = post(client_of(starter), waiting, digest="0" * 64)

    assert response.status_code == 409 and "has changed" in response.content.decode()
    assert action_of(waiting).waits


@pytest.mark.parametrize("data", [{"decision": "expire"}, {"decision": ""}, {"digest": ""}, {"reason": "x" * 5000}])
def test_what_is_no_decision_is_refused(waiting: Run, starter: User, data: dict[str, str]) -> None:
    assert post(client_of(starter), waiting, **data).status_code == 400
    assert action_of(waiting).waits


def test_who_may_not_decide_sees_why_and_who_can(waiting: Run, starter: User) -> None:
    reader = client_of(UserFactory(permissions=["playground.view_all_runs"]))

    html = unescape(page(reader, waiting))

    assert "You can't decide." in html and "You lack the permission to approve or deny" in html
    assert f"Can decide: {starter.username}" in html and 'value="approve"' not in html
    assert post(reader, waiting).status_code == 403 and action_of(waiting).waits


def test_a_starter_who_may_not_decide_is_told_so(waiting: Run, starter: User) -> None:
    waiting.model.configuration.requires_other_decider = True  # type: ignore[attr-defined]
    waiting.model.configuration.save()  # type: ignore[attr-defined]

    html = unescape(page(client_of(starter), waiting))

    assert "wants somebody else to decide" in html and "nobody can decide" in html
    assert post(client_of(starter), waiting).status_code == 403


def test_runs_of_others_are_not_there_to_be_decided(waiting: Run) -> None:
    stranger = client_of(UserFactory(permissions=["playground.view_run", "playground.decide_action"]))

    assert post(stranger, waiting).status_code == 404
    assert "Tidy up" not in stranger.get(reverse("playground:actions")).content.decode()


def test_an_expired_run_says_what_happened(waiting: Run, starter: User) -> None:
    ProposedAction.objects.update(expires_at=timezone.now())
    assert "It has expired." in page(client_of(starter), waiting)

    sweep(now=timezone.now())

    html = page(client_of(starter), waiting)
    assert "Nobody decided about “shell” in time." in html and 'data-reason="approval_expired"' in html
    assert ">expired<" in html


def test_a_denied_call_is_called_denied_and_not_failed(waiting: Run, starter: User) -> None:
    post(client_of(starter), waiting, decision="deny")
    waiting.model.drive(waiting)  # type: ignore[attr-defined]

    assert (waiting.tool_calls, waiting.tool_errors, waiting.tool_denials) == (1, 0, 1)
    html = page(client_of(starter), waiting)
    runs = client_of(starter).get(reverse("playground:runs")).content.decode()
    compared = client_of(starter).get(
        reverse("playground:compare"), {"a": waiting.pk, "b": finished_run(starter, rounds=1).pk}
    )
    assert "0 ok, 1 denied" in text_of(html) and 'data-chip="err">Failed <span class="n">0<' in html
    assert "1 denied" in text_of(runs) and "1 failed" not in text_of(runs)
    assert "Tool calls 1, 1 denied 1" in text_of(compared.content.decode())


def test_watchers_get_the_card_when_it_comes_and_when_it_is_decided_elsewhere(waiting: Run, starter: User) -> None:
    watch = Watch(run_id=waiting.pk, user=starter, after=0)
    (shown,) = [event for event in watch.look() if event.name == "approvals"]
    assert "rm -rf build" in shown.data["html"] and shown.data["message"] == "1 action waits for a decision."
    action = action_of(waiting)

    decide_action(run=waiting, action_id=action.pk, digest=action.turn_digest, kind=DecisionKind.DENY, by=starter)

    events = watch.look()
    (gone,) = [event for event in events if event.name == "approvals"]
    assert "data-action" not in gone.data["html"]
    line = next(event for event in events if event.name == "step" and event.data["line"] == action.sequence)
    assert ">denied<" in line.data["html"]
    assert not [event for event in watch.look() if event.name == "approvals"]


def test_the_list_shows_what_waits_and_what_was_decided(waiting: Run, starter: User) -> None:
    client = client_of(starter)
    html = unescape(client.get(reverse("playground:actions")).content.decode())
    assert LINE in html and "Tidy up" in html and f"#action-{action_of(waiting).pk}" in html
    assert client.get(reverse("admin:playground_proposedaction_changelist")).status_code == 302

    post(client, waiting)

    html = client.get(reverse("playground:actions"), headers={"HX-Request": "true"}).content.decode()
    assert "Nothing waits" in html and ">approved<" in html and "<html" not in html
    assert client.get(reverse("admin:playground_decisionrecord_changelist")).status_code == 200


def test_the_menu_counts_what_the_reader_can_decide(waiting: Run, starter: User) -> None:
    def counted(user: User) -> bool:
        return "Proposed actions (1)" in client_of(user).get(reverse("admin:index")).content.decode()

    assert counted(starter)
    assert not counted(UserFactory(permissions=["playground.view_all_runs"]))
    assert not counted(UserFactory(permissions=["playground.view_run", "playground.decide_action"]))


# The simulator


def simulated(user: User, **data: str) -> str:
    url = reverse("admin:llmcore_actionrule_try")
    return re.sub(r"\s+", " ", unescape(client_of(user).post(url, data).content.decode()))


def test_the_simulator_says_what_would_happen_and_which_rule_says_so(starter: User, ran: list[str]) -> None:  # P1
    ActionRule.objects.create(name="lists", ruling="auto_approve", tool="shell", pattern="ls*")
    ActionRule.objects.create(name="no removal", ruling="deny", tool="shell", pattern="rm *")
    with site_tool(terminal(ran)):
        assert "It would run without being asked for" in simulated(starter, tool="shell", arguments='{"line": "ls -l"}')
        denied = simulated(starter, tool="shell", arguments='{"line": "ls; rm -rf /"}')
        asked = simulated(starter, tool="shell", arguments='{"line": "ls > x"}')
        assert "no JSON" in simulated(starter, tool="shell", arguments="{")
        assert "don't fit the tool's schema" in simulated(starter, tool="shell", arguments="{}")

    assert "It would be denied" in denied and "“no removal”" in denied and "Open the rule" in denied
    assert "A person would be asked" in asked and "can't approve it" in asked
    assert ran == []


def test_rules_are_made_in_the_admin_by_those_who_may(starter: User) -> None:
    url = reverse("admin:llmcore_actionrule_add")
    data = {"name": "small", "ruling": "auto_approve", "tool": "pay", "pattern": "", "position": "0", "enabled": "on"}

    assert client_of(starter).post(url, {**data, "argument": "n"}).status_code == 200, "an argument needs a pattern"
    assert client_of(starter).post(url, data).status_code == 302
    assert ActionRule.objects.get().ruling == "auto_approve"
    reader = UserFactory(permissions=["llmcore.view_configuration"])
    assert client_of(reader).get(reverse("admin:llmcore_actionrule_try")).status_code == 403
    assert "Try the rules" in client_of(starter).get(reverse("admin:llmcore_actionrule_changelist")).content.decode()
