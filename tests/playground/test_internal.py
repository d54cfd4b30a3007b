"""Turns for other engines over real HTTP: who gets in, what comes back, and what a hostile body can't do."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import pytest
from django.core.exceptions import ImproperlyConfigured
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from llmcore.conf import service_tokens
from llmcore.models import ToolGroupSwitch, UsageRecord
from llmcore.providers.scripted.scenario import Turn
from llmcore.store import secret_values
from playground.models import Run
from tests.factories import BudgetFactory, ConfigurationFactory, UserFactory
from tests.playground.driven import Script, call, script

pytestmark = pytest.mark.django_db(transaction=True)

TOKEN = "token-of-the-other-engine-0123456789"
OLD = "token-that-is-being-replaced-0123456789"
HI = [{"role": "user", "content": "Hello?"}]
USED = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
DICE = {"name": "roll", "description": "Rolls dice.", "parameters": {"type": "object", "properties": {}}}

Ask = Callable[..., httpx.Response]


@pytest.fixture(autouse=True)
def tokens(settings: Settings) -> None:
    settings.LLM_SERVICE_TOKENS = [TOKEN, OLD]


@pytest.fixture
def ask(live_server: LiveServer) -> Iterator[Ask]:
    with httpx.Client(base_url=live_server.url, timeout=30) as client:

        def post(
            body: Any, *, what: str = "llm-turn", session: str = "table 7", token: str | None = TOKEN, **more: Any
        ) -> httpx.Response:
            headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            path = f"/internal/sessions/{session}/{what}"
            return client.post(path, content=content, headers=headers | more.pop("headers", {}))

        yield post


def turn(model: Script, **changes: object) -> dict[str, object]:
    return {"configuration": model.configuration.slug, "messages": HI, **changes}


def test_a_whole_turn_comes_back_and_is_metered(ask: Ask) -> None:  # M4
    answer = Turn(text="I roll.", tool_calls=(call("roll", sides=6),), usage=USED)
    user = UserFactory(username="kim")
    with script(answer, system_prompt="You are a clerk.") as model:
        response = ask(turn(model, tools=[DICE], user="kim"))
        (sent,) = model.model.requests
    assert response.status_code == 200 and response.headers["cache-control"] == "no-store"
    data = response.json()
    assert (data["session"], data["content"], data["finish_reason"]) == ("table 7", "I roll.", "tool_calls")
    assert [(found["name"], found["arguments"]) for found in data["message"]["tool_calls"]] == [("roll", {"sides": 6})]
    assert data["usage"]["total_tokens"] == 120 and data["error"] is None and data["attempts"] == 1
    # The engine owns the transcript: nothing of the configuration's prompt is sent.
    assert [message["role"] for message in sent.json["messages"]] == ["user"]
    assert [tool["function"]["name"] for tool in sent.json["tools"]] == ["roll"]
    record = UsageRecord.objects.get()
    assert (record.session, record.user, record.total_tokens, record.run_id) == ("table 7", user, 120, None)
    assert record.configuration == model.configuration and not Run.objects.exists()


def test_the_answer_goes_back_as_it_came_with_the_results(ask: Ask) -> None:  # M4, L11
    with script(Turn(tool_calls=(call("roll"),)), Turn(text="A six.")) as model:
        first = ask(turn(model, tools=[DICE])).json()["message"]
        result = {"role": "tool", "tool_call_id": first["tool_calls"][0]["id"], "name": "roll", "content": "6"}
        data = ask(turn(model, tools=[DICE], messages=[*HI, first, result])).json()
        sent = model.model.requests[-1].json["messages"]
    assert data["content"] == "A six." and data["repairs"] == []
    assert [message["role"] for message in sent] == ["user", "assistant", "tool"]


def test_a_transcript_that_no_provider_takes_is_mended_and_said_so(ask: Ask) -> None:  # M4, L13
    open_call = {"role": "assistant", "content": "", "tool_calls": [{"id": "a", "name": "roll", "arguments": {}}]}
    with script(Turn(text="Fine.")) as model:
        data = ask(turn(model, tools=[DICE], messages=[*HI, open_call])).json()
    assert len(data["repairs"]) == 1


def test_a_failed_turn_says_why_and_is_metered(ask: Ask) -> None:  # M4
    with script(Turn(status=401, error="no such key"), key="sk-very-secret-key") as model:
        response = ask(turn(model))
    assert response.status_code == 502
    error = response.json()["error"]
    assert error["kind"] == "authentication" and "valid key" in error["advice"]
    assert "sk-very-secret-key" not in response.text
    assert UsageRecord.objects.get().error_kind == "authentication"


def test_a_turn_keeps_to_the_budgets(ask: Ask) -> None:  # M3, M4
    BudgetFactory(name="Per day", max_requests=1)
    with script(Turn(text="Hi.", usage=USED)) as model:
        assert ask(turn(model)).status_code == 200
        response = ask(turn(model))
    assert response.status_code == 429 and response.json()["error"]["kind"] == "budget"
    assert "“Per day” allows 1 request a day" in response.json()["error"]["message"]
    assert UsageRecord.objects.count() == 1


def test_a_fallback_answers_where_the_model_can_not(ask: Ask) -> None:  # M4
    with script(Turn(status=503)) as away, script(Turn(text="Here.")) as model:
        away.configuration.fallbacks.add(model.configuration.model, through_defaults={"position": 1})
        data = ask(turn(away)).json()
    assert data["content"] == "Here." and data["provider"] == model.configuration.model.provider.slug
    # Each attempt is one, at whatever model.
    errors = list(UsageRecord.objects.order_by("pk").values_list("error_kind", flat=True))
    assert set(errors[:-1]) == {"overloaded"} or set(errors[:-1]) == {"server"}
    assert errors[-1] == ""


def test_without_a_token_nothing_is_told(ask: Ask) -> None:  # M4
    """Whatever is asked for, and however it is wrong, the answer is the same."""
    with script(Turn(text="Hi.")) as model:
        answers = [
            ask(body, token=token, what=what, session=session)
            for token in (None, "", "wrong", TOKEN[:-1], TOKEN + "x")
            for body, what, session in (
                (turn(model), "llm-turn", "a"),
                ({}, "llm-turn", "a"),
                (b"\x00" * 10, "actions", "a"),
                (turn(model), "llm-turn", "x" * 500),
            )
        ]
        answers.append(ask(turn(model), headers={"authorization": f"Basic {TOKEN}"}))
    assert {(answer.status_code, answer.text) for answer in answers} == {
        (401, '{"error": {"kind": "unauthorized", "message": "A valid token is needed."}}')
    }
    assert not model.model.requests and not UsageRecord.objects.exists()


def test_a_large_body_without_a_token_is_not_read(live_server: LiveServer) -> None:  # M4
    address = urlsplit(live_server.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=20)
    connection.putrequest("POST", "/internal/sessions/a/llm-turn")
    connection.putheader("Content-Length", str(10**12))
    connection.putheader("Content-Type", "application/json")
    connection.endheaders()
    assert connection.getresponse().status == 401
    connection.close()


def test_an_old_token_holds_until_it_is_removed(ask: Ask, settings: Settings) -> None:  # M4
    with script(Turn(text="Hi.")) as model:
        assert ask(turn(model), token=OLD).status_code == 200
        settings.LLM_SERVICE_TOKENS = [TOKEN]
        assert ask(turn(model), token=OLD).status_code == 401


def test_without_tokens_there_is_no_endpoint(ask: Ask, settings: Settings) -> None:  # M4
    settings.LLM_SERVICE_TOKENS = []
    assert ask({}, token="").status_code == ask({}, token=TOKEN).status_code == 404


@pytest.mark.parametrize("tokens", [["short"], TOKEN, [TOKEN, ""]])
def test_a_token_that_is_no_secret_is_refused_at_start(settings: Settings, tokens: object) -> None:  # M4
    settings.LLM_SERVICE_TOKENS = tokens
    with pytest.raises(ImproperlyConfigured, match="at least 32 characters"):
        service_tokens()


def test_tokens_are_among_the_secrets_of_the_site() -> None:  # R1
    assert {TOKEN, OLD} <= set(secret_values())


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"configuration": NaN}', "not JSON"),
        (b"[]", "object"),
        (b"null", "object"),
        ({"configuration": "x"}, "messages"),
        ({"configuration": "x", "messages": []}, "messages"),
        ({"configuration": "x", "messages": [{"role": "root", "content": "a"}]}, "/messages/0/role"),
        ({"configuration": "x", "messages": [{"role": "user"}]}, "/messages/0"),
        ({"configuration": "x", "messages": [{"role": "user", "content": "a", "parts": []}]}, "/messages/0"),
        ({"configuration": "x", "messages": [{"role": "user", "content": 7}]}, "/messages/0/content"),
        ({"configuration": "x", "messages": HI, "tools": [{"name": "a"}]}, "/tools/0"),
        ({"configuration": "x", "messages": HI, "max_tokens": 0}, "/max_tokens"),
        ({"configuration": "x", "messages": HI, "temperature": 1e9}, "/temperature"),
        ({"configuration": "x", "messages": HI, "surprise": 1}, "surprise"),
        ({"configuration": "x", "messages": HI * 2_001}, "messages"),
        ({"configuration": "x", "messages": [{"role": "assistant", "parts": [{"kind": "evil"}]}]}, "/kind"),
    ],
)
def test_a_body_that_is_wrong_is_refused_with_the_place(ask: Ask, body: object, said: str) -> None:  # M4
    response = ask(body)
    assert response.status_code == 400 and response.json()["error"]["kind"] == "invalid_body"
    assert said in response.json()["error"]["message"] and len(response.text) < 10_000


@pytest.mark.parametrize(
    "changes",
    [
        {"messages": [{"role": "user", "content": "\ud800 \x00 \u202e"}]},
        {"messages": [{"role": "tool", "content": "6", "tool_call_id": "nobody", "name": "roll"}, *HI]},
        {"messages": [{"role": "assistant", "parts": [{"kind": "provider", "extra": {"wire": "x", "a": [1]}}]}, *HI]},
        {"messages": [{"role": "user", "parts": [{"kind": "image", "media_type": "a/b", "data": "%%%"}]}]},
        {"tools": [DICE, DICE]},
        {"tools": [{**DICE, "parameters": {"type": 7}}]},
        {"tools": [{**DICE, "name": "no name\n"}], "tool_choice": "required"},
    ],
)
def test_strange_but_well_formed_bodies_end_in_an_answer_in_json(ask: Ask, changes: dict[str, Any]) -> None:  # M4
    with script(Turn(text="Hi.")) as model:
        response = ask(turn(model, **changes))
    assert response.status_code in (200, 400, 422, 502) and "error" in response.json()


@pytest.mark.parametrize("name", ["a\x00b", "a\ud800b", "\udfff"])
def test_a_name_that_no_database_takes_names_nothing(ask: Ask, name: str) -> None:  # M4
    row = ConfigurationFactory(tool_groups=["workspace"], workspace="shop")
    action = {"configuration": row.slug, "name": "read_file", "arguments": {"path": "orders.csv"}}

    for body, what in (
        ({"configuration": name, "messages": HI}, "llm-turn"),
        ({"configuration": row.slug, "messages": HI, "user": name}, "llm-turn"),
        ({**action, "configuration": name}, "actions"),
        ({**action, "user": name}, "actions"),
    ):
        response = ask(body, what=what)
        assert response.status_code in (400, 422) and "error" in response.json()
    for tool, argument in (("read_file", "path"), ("terminal", "command"), (name, "path")):
        response = ask({**action, "name": tool, "arguments": {argument: name}}, what="actions")
        assert response.status_code == 200 and response.json()["ruling"] in ("auto_approve", "require", "deny")


def test_too_much_is_refused(ask: Ask, settings: Settings) -> None:  # M4
    settings.LLM_MAX_REQUEST_BYTES = 1_000
    response = ask({"configuration": "x", "messages": HI, "user": "y" * 2_000})
    assert (response.status_code, response.json()["error"]["kind"]) == (413, "too_large")


def test_what_else_is_wrong_is_named(ask: Ask, live_server: LiveServer) -> None:  # M4
    with script(Turn(text="Hi.")) as model:
        assert ask(turn(model, configuration="gone")).status_code == 422
        assert "no active user" in ask(turn(model, user="nobody")).json()["error"]["message"]
        assert ask(turn(model), headers={"content-type": "text/plain"}).status_code == 415
        assert ask(turn(model), session="x" * 201).status_code == 400
        assert ask(turn(model), session="%00").status_code == 400
    got = httpx.get(f"{live_server.url}/internal/sessions/a/llm-turn", headers={"authorization": f"Bearer {TOKEN}"})
    assert (got.status_code, got.headers["allow"]) == (405, "POST")


def test_a_call_is_judged_by_the_rules_and_nothing_runs(ask: Ask) -> None:  # M4, P1
    row = ConfigurationFactory(tool_groups=["workspace"], workspace="shop")

    def judged(name: str, **arguments: object) -> dict[str, Any]:
        body = {"configuration": row.slug, "name": name, "arguments": arguments}
        response = ask(body, what="actions")
        assert response.status_code == 200
        data: dict[str, Any] = response.json()
        return data

    assert judged("read_file", path="orders.csv")["ruling"] == "auto_approve"
    terminal = judged("terminal", command="ls")
    assert terminal["ruling"] == "require" and terminal["action"]["kind"] == "command" and terminal["why"]
    assert judged("read_file", way="x")["ruling"] == "deny"
    assert "no tool" in judged("launch")["why"]
    assert "doesn't offer" in judged("list_models")["why"]
    ToolGroupSwitch.objects.update_or_create(name="workspace", defaults={"enabled": False})
    assert "switched off" in judged("read_file", path="orders.csv")["why"]
    assert not Run.objects.exists() and not UsageRecord.objects.exists()


def test_secrets_of_this_site_in_what_is_passed_are_neither_sent_nor_shown_nor_stored(
    ask: Ask, settings: Settings
) -> None:  # M4, R1
    secret, text = settings.SECRET_KEY, "Who is «Bo\u200b», sk-of-somebody-else-0123456789?"
    thought = {"kind": "thinking", "text": "Hm.", "extra": {"signature": "abc=="}}
    roll = {"id": "a", "name": "roll", "arguments": {"sides": 6}}
    messages = [
        {"role": "user", "content": text},
        {"role": "assistant", "parts": [thought], "tool_calls": [roll]},
        {"role": "tool", "tool_call_id": "a", "name": "roll", "content": f"The key is {secret}!"},
    ]
    tool = {**DICE, "description": f"Rolls {secret}."}
    with script(Turn(text="Fine."), key="sk-key-of-the-provider") as model:
        session = f"s {secret} sk-key-of-the-provider"
        response = ask(turn(model, messages=messages, tools=[tool]), session=quote(session))
        (sent,) = model.model.requests
    assert response.status_code == 200 and response.json()["session"] == "s ••• •••"
    said = sent.json["messages"]
    # Only the secret is another: what looks like one, and what was signed, is the engine's own.
    assert said[0]["content"] == text and said[2]["content"] == "The key is •••!"
    assert sent.json["tools"][0]["function"]["description"] == "Rolls •••."
    assert UsageRecord.objects.get().session == "s ••• •••"

    refused = ask({"configuration": "x", "messages": HI, "tool_choice": secret})
    assert refused.status_code == 400 and "/tool_choice: '•••'" in refused.json()["error"]["message"]
    row = ConfigurationFactory(tool_groups=["workspace"], workspace="shop")
    body = {"configuration": row.slug, "name": "terminal", "arguments": {"command": f"echo {secret}"}}
    judged = ask(body, what="actions")
    assert judged.json()["action"]["command"] == "echo •••"


def test_costs_are_exact(ask: Ask) -> None:  # M2, M4
    with script(Turn(text="Hi.", usage=USED)) as model:
        model.configuration.model.input_price, model.configuration.model.output_price = Decimal("0.25"), Decimal(2)
        model.configuration.model.save()
        data = ask(turn(model)).json()
    assert Decimal(data["cost"]) == Decimal("0.000065")
