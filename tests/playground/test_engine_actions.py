"""Actions that other engines propose: asked for over HTTP, decided by a person in the admin, told to the engine."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connections
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from llmcore.models import ActionRule, Configuration
from llmcore.tools.base import Tool
from playground.models import DecisionRecord, EngineAction, Run
from playground.services.purge import purge
from playground.services.sweep import sweep
from tests.factories import ConfigurationFactory, UserFactory
from tests.playground.driven import site_tool
from tests.playground.shown import text_of

pytestmark = pytest.mark.django_db(transaction=True)

TOKEN = "token-of-the-other-engine-0123456789"
LINE = "rm -rf build && echo <b>done</b>"
Propose = Callable[..., Any]


@pytest.fixture(autouse=True)
def tokens(settings: Settings) -> None:
    settings.LLM_SERVICE_TOKENS = [TOKEN]


@pytest.fixture
def configuration() -> Configuration:
    row: Configuration = ConfigurationFactory(name="Harness", tool_groups=["workspace"], workspace="shop")
    return row


@pytest.fixture
def propose(configuration: Configuration) -> Propose:
    """What the engine gets for a call of the terminal."""

    def post(line: str = LINE, *, session: str = "table-7", **more: Any) -> Any:
        body = {"configuration": configuration.slug, "name": "terminal", "arguments": {"command": line}, **more}
        response = engine("post", f"/internal/sessions/{session}/actions", data=body)
        assert response.status_code == 200, response.content
        return response.json()

    return post


def engine(method: str, path: str, **more: Any) -> Any:
    headers = {"authorization": f"Bearer {TOKEN}"}
    return getattr(Client(), method)(path, headers=headers, content_type="application/json", **more)


def state(proposal: Any, session: str = "table-7") -> Any:
    return engine("get", f"/internal/sessions/{session}/actions/{proposal['id']}").json()


def decide(client: Client, proposal: Any, **changes: str) -> Any:
    data = {"decision": "approve", "digest": proposal["digest"], **changes}
    return client.post(reverse("playground:engine_action_decide", args=[proposal["id"]]), data)


def card(client: Client, proposal: Any) -> str:
    return client.get(reverse("playground:engine_action", args=[proposal["id"]])).content.decode()


def reader(*rights: str, **more: Any) -> Client:
    client = Client()
    client.force_login(UserFactory(permissions=[f"playground.{right}" for right in rights], **more))
    return client


def in_threads(*work: Callable[[], Any]) -> list[Any]:
    """What the functions give that run at the same time."""
    start = threading.Barrier(len(work))

    def run(each: Callable[[], Any]) -> Any:
        try:
            start.wait(60)
            return each()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(work)) as pool:
        return list(pool.map(run, work))


def test_a_call_that_needs_approval_waits_in_the_inbox_and_the_engine_is_told_what_was_decided(
    propose: Propose, client: Client, user: User
) -> None:  # M4, P3, P5
    told = propose(call="c-1")
    proposal = told["proposal"]
    assert told["ruling"] == "require" and proposal["state"] == "waits" and proposal["call"] == "c-1"
    assert state(proposal)["state"] == "waits"

    page = client.get(reverse("playground:actions")).content.decode()
    inbox = text_of(page)
    assert "terminal" in inbox and "Session table-7" in inbox and "Decide" in inbox
    # It named no user.
    assert '<td data-label="User">–</td>' in page
    assert "Proposed actions (1)" in client.get(reverse("admin:index")).content.decode()
    html = card(client, proposal)
    assert "rm -rf build &amp;&amp; echo &lt;b&gt;done&lt;/b&gt;</pre>" in html and proposal["digest"] in html

    assert decide(client, proposal).status_code == 302
    found = state(proposal)
    assert (found["state"], found["decided_by"], found["name"]) == ("approved", user.username, "terminal")
    record = DecisionRecord.objects.get()
    assert (record.session, record.call_id, record.run_id) == ("table-7", "c-1", None)
    assert (record.username, record.turn_digest, record.decision) == (user.username, proposal["digest"], "approve")
    assert 'name="decision"' not in card(client, proposal) and "approved" in card(client, proposal)
    assert "Decided lately" in client.get(reverse("playground:actions")).content.decode()
    assert "table-7" in client.get(reverse("admin:playground_decisionrecord_changelist")).content.decode()
    assert not Run.objects.exists()


def test_a_denial_takes_its_reason_to_the_engine(propose: Propose, client: Client) -> None:  # P3
    proposal = propose()["proposal"]
    decide(client, proposal, decision="deny", reason="Use make clean.")
    found = state(proposal)
    assert (found["state"], found["reason"]) == ("denied", "Use make clean.")


def test_a_denial_of_a_named_call_stands_though_a_rule_would_approve_it_by_now(
    propose: Propose, client: Client
) -> None:  # P3
    proposal = propose("make", call="c-1")["proposal"]
    decide(client, proposal, decision="deny")
    ActionRule.objects.create(name="make", ruling="auto_approve", tool="terminal", pattern="make")

    again, other = propose("make", call="c-1"), propose("make", call="c-2")

    assert (again["ruling"], again["proposal"]["state"]) == ("require", "denied")
    assert again["proposal"]["id"] == proposal["id"] and again["rule"] is None
    assert (other["ruling"], other["proposal"]) == ("auto_approve", None)


def test_what_needs_nobody_is_not_kept(propose: Propose) -> None:  # P1
    ActionRule.objects.create(name="Look only", ruling="auto_approve", tool="terminal", pattern="ls")
    ActionRule.objects.create(name="Never", ruling="deny", tool="terminal", pattern="shutdown *")
    assert [propose(line)["ruling"] for line in ("ls", "shutdown now")] == ["auto_approve", "deny"]
    assert propose("ls")["proposal"] is None and not EngineAction.objects.exists()


def test_an_engine_that_asks_again_waits_for_the_same_decision(propose: Propose, client: Client) -> None:  # M4
    first = propose()["proposal"]
    assert propose()["proposal"]["id"] == first["id"]
    others = [propose("ls")["proposal"], propose(session="table-8")["proposal"], propose(call="a")["proposal"]]
    assert len({first["id"], *(other["id"] for other in others)}) == 4
    decide(client, first)
    decide(client, others[2])
    # A call that has a name is decided about once; without one, it may be another.
    assert propose(call="a")["proposal"]["state"] == "approved"
    assert propose()["proposal"]["state"] == "waits"


def test_of_two_engines_and_two_deciders_at_once_one_is_first(propose: Propose) -> None:  # P3
    proposals = in_threads(*[propose] * 4)
    assert len({found["proposal"]["id"] for found in proposals}) == 1
    proposal = proposals[0]["proposal"]
    deciders = [reader("view_all_runs", "decide_action") for _ in range(4)]
    answers = in_threads(*(partial(decide, client, proposal) for client in deciders))
    assert sorted(answer.status_code for answer in answers) == [302, 409, 409, 409]
    assert DecisionRecord.objects.count() == 1


def test_a_decision_about_something_else_or_too_late_changes_nothing(propose: Propose, client: Client) -> None:  # P3
    proposal = propose()["proposal"]
    stale = decide(client, proposal, digest="0" * 64)
    assert stale.status_code == 409 and "not what was shown to you" in stale.content.decode()
    assert decide(client, proposal, decision="withdraw").status_code == 400
    EngineAction.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert state(proposal)["state"] == "expired"
    assert decide(client, proposal).status_code == 409
    assert not DecisionRecord.objects.exists()
    assert "It has expired" in card(client, proposal)

    sweep(now=timezone.now())
    assert state(proposal)["state"] == "expired"
    assert list(DecisionRecord.objects.values_list("decision", "username")) == [("expire", "")]


def test_who_may_see_and_decide(propose: Propose, configuration: Configuration) -> None:  # R3, P3
    kim = UserFactory(username="kim", permissions=["playground.view_run", "playground.decide_action"])
    proposal = propose(user="kim")["proposal"]
    own = Client()
    own.force_login(kim)
    stranger, looker = reader("view_run", "decide_action"), reader("view_all_runs")
    for name in ("engine_action", "engine_action_whole"):
        assert stranger.get(reverse(f"playground:{name}", args=[proposal["id"]])).status_code == 404
    assert decide(stranger, proposal).status_code == 404
    assert "Session" not in stranger.get(reverse("playground:actions")).content.decode()
    assert decide(looker, proposal).status_code == 403 and "You lack the permission" in card(looker, proposal)

    assert 'name="decision"' in card(own, proposal)
    Configuration.objects.update(requires_other_decider=True)
    assert decide(own, proposal).status_code == 403 and "wants somebody else" in card(own, proposal)
    assert state(proposal)["state"] == "waits"
    assert decide(reader("view_all_runs", "decide_action"), proposal).status_code == 302


def test_only_the_session_that_proposed_an_action_is_told_of_it(propose: Propose) -> None:  # M4
    proposal = propose()["proposal"]
    path = f"/internal/sessions/table-7/actions/{proposal['id']}"
    assert engine("get", path.replace("table-7", "table-8")).status_code == 404
    assert Client().get(path).status_code == 401
    assert engine("post", path, data={}).status_code == 405


@pytest.mark.parametrize(("level", "kept"), [("full", True), ("redacted", True), ("metadata", False)])
def test_what_stays_of_it_is_what_its_privacy_level_allows(
    propose: Propose, client: Client, settings: Settings, level: str, kept: bool
) -> None:  # R2
    settings.LLM_PRIVACY_LEVEL = level
    proposal = propose("deploy --token=ghp_0123456789abcdefghij0123456789abcdef")["proposal"]
    decide(client, proposal, decision="deny", reason="Not with password=hunter2hunter2.")

    row = EngineAction.objects.get()
    assert (row.content is not None) is kept and bool(row.reason) is kept
    assert ("ghp_0123" in str(row.content)) is (level == "full")
    assert ("hunter2" in row.reason) is (level == "full")
    assert ("no longer stored" in card(client, proposal)) is not kept
    assert state(proposal)["state"] == "denied"


def test_it_is_purged_as_runs_are_and_never_while_it_waits(
    propose: Propose, client: Client, settings: Settings
) -> None:  # R2
    settings.LLM_RAW_RETENTION_DAYS, settings.LLM_CONTENT_RETENTION_DAYS = 1, 7
    settings.LLM_METADATA_RETENTION_DAYS = 30
    decided, waiting = propose()["proposal"], propose("ls")["proposal"]
    decide(client, decided)

    purge(now=timezone.now() + timedelta(days=8))
    assert EngineAction.objects.get(pk=decided["id"]).content is None
    assert EngineAction.objects.get(pk=waiting["id"]).content is not None
    purge(now=timezone.now() + timedelta(days=31))
    assert list(EngineAction.objects.values_list("pk", flat=True)) == [waiting["id"]]
    assert DecisionRecord.objects.count() == 1


def test_all_of_a_long_action_can_be_read(propose: Propose, client: Client) -> None:
    Configuration.objects.update(tool_groups=["test"])
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    mail = Tool(name="mail", description="Sends.", parameters=schema, run=str, group="test", requires_approval=True)
    with site_tool(mail):
        proposal = propose(name="mail", arguments={"text": "x\n" * 15_000 + "the very last"})["proposal"]
    address = reverse("playground:engine_action_whole", args=[proposal["id"]])
    html = card(client, proposal)
    assert "You don't see all of it." in unescape(html)
    assert address in html and "the very last" not in html
    whole = client.get(address)
    assert "the very last" in whole.content.decode() and whole["X-Content-Type-Options"] == "nosniff"


def test_the_inbox_costs_as_many_queries_however_much_waits(
    propose: Propose, client: Client, django_assert_max_num_queries: Any
) -> None:
    for number in range(3):
        propose(f"ls {number}", user=UserFactory(username=f"kim-{number}").username)
    with django_assert_max_num_queries(20):
        client.get(reverse("playground:actions"))
