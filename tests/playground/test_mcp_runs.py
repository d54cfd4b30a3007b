"""Runs with tools of an MCP server: previewed without it, decided about, recorded, and silent about its key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.core import serializers
from django.utils import timezone

from llmcore.actions.proposals import DecisionKind
from llmcore.mcp_servers import accept_tools, list_tools, listed_tools
from llmcore.models import MCPServer, ToolGroupSwitch
from llmcore.providers.scripted.scenario import Turn
from playground.models import ProposedAction, Run, RunContent, RunStep
from playground.services.decide_action import decide_action
from playground.services.preview_run import preview_run
from playground.services.start_run import write_run
from tests.factories import MCPServerFactory, UserFactory
from tests.llmcore.mcp_servers import Shop, serve_shop
from tests.playground.driven import CALLED, call, script

pytestmark = pytest.mark.django_db(transaction=True)
KEY = "sk-mcp-run-0123456789"
GROUP = {"tool_groups": ["mcp:shop"]}


@pytest.fixture(scope="module")
def served() -> Iterator[Shop]:
    with serve_shop() as shop:
        yield shop


@pytest.fixture
def shop(served: Shop) -> Shop:
    """A server whose tools were accepted, and what it has been asked since."""
    row = MCPServerFactory(slug="shop", name="Shop", base_url=served.url, allow_private_hosts=True, key=KEY)
    list_tools(row, now=timezone.now())
    digests = {tool.listed.digest for tool in listed_tools(row) if tool.listed}
    accept_tools(row, digests, by=None, now=timezone.now())
    served.calls.clear()
    served.headers.clear()
    return served


def left_out(run: Run) -> dict[str, str]:
    assert run.plan is not None
    return {item["name"]: item["detail"] for item in run.plan["gate"]["left_out"]}


def stored(run: Run) -> str:
    """All that is kept of a run."""
    rows: list[Any] = [run, *RunStep.objects.filter(run=run), *RunContent.objects.filter(run=run)]
    return serializers.serialize("json", rows)


def test_a_call_waits_for_a_decision_and_then_goes_to_the_server_once(shop: Shop) -> None:
    turn = Turn(tool_calls=(call("shop__refund", number="A-1", cents=300),))
    user = UserFactory(is_superuser=True)
    with script(turn, Turn(text="Paid back."), **GROUP) as model:
        run = model.drive(write_run(request=model.request(), by=user))
        assert not shop.headers
        action = ProposedAction.objects.get(run=run)
        decide_action(run=run, action_id=action.pk, digest=action.turn_digest, kind=DecisionKind.APPROVE, by=user)
        model.drive(run)

    assert run.answer == "Paid back." and shop.calls == ["refund A-1"]
    result = RunStep.objects.get(run=run, kind="tool_result")
    assert result.data["is_error"] is False
    assert f"Bearer {KEY}" in {headers.get("authorization") for headers in shop.headers}
    assert KEY not in stored(run)


def test_a_believed_server_is_called_at_once_and_its_key_is_nowhere(shop: Shop) -> None:  # R1
    MCPServer.objects.update(believes_hints=True)
    with script(Turn(tool_calls=(call("shop__key"),)), Turn(text="Seen."), **GROUP) as model:
        run = model.run()
        sent = json.dumps([request.json for request in model.model.requests], ensure_ascii=False)
    kinds = list(RunStep.objects.filter(run=run).values_list("kind", flat=True))
    assert kinds[: len(CALLED)] == CALLED and run.answer == "Seen."
    assert "Bearer •••" in sent and KEY not in sent and KEY not in stored(run)


def test_the_preview_and_the_dry_run_connect_to_nothing(shop: Shop) -> None:  # A5
    with script(Turn(text="Hello."), **GROUP) as model:
        preview = preview_run(request=model.request(), user=UserFactory(is_superuser=True))
        run = model.run(dry_run=True)
    assert "shop__find_order" in preview.prepared.gate.names and run.reason == "dry_run"
    assert not shop.headers


def test_why_a_tool_is_not_offered_is_kept_with_the_run(shop: Shop) -> None:  # L2
    row = MCPServer.objects.get()
    row.listed = [{**item, "description": "Other."} if item["name"] == "refund" else item for item in row.listed]
    row.save()
    with script(Turn(text="Hello."), **GROUP) as model:
        run = model.run()
        assert "its definition has changed since it was accepted" in left_out(run)["shop__refund"]
        assert "shop__find_order" not in left_out(run)

        ToolGroupSwitch.objects.create(name="mcp:shop", enabled=False)
        assert "its group 'mcp:shop' is disabled" in left_out(model.run())["shop__find_order"]


def test_a_server_that_is_gone_breaks_neither_a_preview_nor_a_run(shop: Shop) -> None:
    MCPServer.objects.update(base_url="http://127.0.0.1:9/mcp", believes_hints=True, key_host="", encrypted_key=b"")
    with script(Turn(tool_calls=(call("shop__find_order", number="A-1"),)), Turn(text="Down."), **GROUP) as model:
        preview = preview_run(request=model.request(), user=UserFactory(is_superuser=True))
        assert "shop__find_order" in preview.prepared.gate.names
        run = model.run()
    assert run.answer == "Down." and "there is no connection to it" in stored(run)
