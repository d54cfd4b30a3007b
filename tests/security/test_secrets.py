"""No secret is written anywhere, wherever a server or a tool echoes it and wherever a limit cuts it."""

from __future__ import annotations

import base64
import io
import json
from typing import Any
from urllib.parse import quote

import pytest
from django.core.management import call_command

from config.env import secret_values
from llmcore.providers.scripted.scenario import Turn
from llmcore.redaction import Redactor
from llmcore.tools.base import Tool
from playground.services.export_run import export_run
from tests.playground.driven import call, script, site_tool
from tests.security.written import database, longest_piece

pytestmark = pytest.mark.django_db(transaction=True)

KEY = "gw-9f27c1e80b4d6a35f1029c7be84d55aa"
# What a service of its own key says of another one, which this site doesn't know.
OTHER = "sk-proj-Zx81mQ0vLw2Rt7Yb5Nc3Kd9Pf4Hs6Jg"


def body(**changes: Any) -> str:
    message = {"role": "assistant", "content": "Good day.", **changes.pop("message", {})}
    choice = {"index": 0, "message": message, "finish_reason": changes.pop("finish_reason", "stop")}
    return json.dumps({"id": "a", "model": "scripted", "choices": [choice], **changes})


def event(delta: dict[str, Any], finish: str | None = None) -> str:
    return "data: " + json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}) + "\n\n"


TOOL_CALL = {"id": f"call-{KEY}", "type": "function", "function": {"name": f"get_{KEY}", "arguments": f'{{"{KEY}":1}}'}}
ECHOES = {
    "model": Turn(raw=body(model=f"model {KEY}")),
    "id": Turn(raw=body(id=KEY)),
    "usage": Turn(raw=body(usage={"prompt_tokens": 3, "completion_tokens": 1, "account": {KEY: f"Bearer {KEY}"}})),
    "finish reason": Turn(raw=body(finish_reason=KEY)),
    "refusal": Turn(raw=body(message={"content": None, "refusal": f"not for {KEY}"})),
    "tool call": Turn(raw=body(message={"content": None, "tool_calls": [TOOL_CALL]}, finish_reason="tool_calls")),
    "broken arguments": Turn(tool_calls=({"name": "x", "arguments": f'{{"key": "{KEY}'},)),
    "thinking": Turn(raw=body(message={"reasoning_content": KEY})),
    "error": Turn(status=401, error={"message": f"no account for {KEY}", "code": KEY, "param": KEY, "type": KEY}),
    "error frame": Turn(error=f"no account for Authorization: Bearer {KEY}"),
    "failed generation": Turn(status=400, error={"message": "no", "failed_generation": f"<{KEY}>"}),
    "retried": Turn(status=503, error=f"busy, {KEY}", headers={"retry-after-ms": "1"}),
    "page": Turn(status=502, raw=f"<html><title>{KEY}</title>{KEY}</html>"),
    "plain text": Turn(status=500, raw=f"Traceback: headers={{'authorization': 'Bearer {KEY}'}}"),
    "no JSON": Turn(raw=f"data: {{{KEY}\n\n"),
    "headers": Turn(text="Good day.", headers={"x-echo": f"Bearer {KEY}", "set-cookie": KEY, KEY: "1"}),
    "redirect": Turn(status=307, raw="", headers={"location": f"http://example.com/?key={quote(KEY)}"}),
    "base64": Turn(text=f"Basic {base64.b64encode(f'user:{KEY}'.encode()).decode()}"),
}


@pytest.mark.parametrize("turn", ECHOES.values(), ids=ECHOES.keys())
def test_a_key_that_the_server_echoes_is_written_nowhere(turn: Turn, caplog: pytest.LogCaptureFixture) -> None:
    with script(turn, key=KEY, max_rounds=2) as model:
        run = model.run(capture_raw=True)

    written = database() + caplog.text + json.dumps(export_run(run=run, raw=True))
    assert KEY not in written
    assert base64.b64encode(KEY.encode()).decode()[:24] not in written


@pytest.mark.parametrize("offset", range(0, len(KEY), 5))
@pytest.mark.parametrize("limit", [300, 2_000])
def test_a_key_that_the_limit_of_a_message_cuts_is_not_written_in_part(
    limit: int, offset: int, caplog: pytest.LogCaptureFixture
) -> None:
    said = "x " * ((limit - offset) // 2)
    turn = Turn(status=500, raw=said + KEY) if limit == 300 else Turn(status=500, error={"message": said + KEY})
    with script(turn, key=KEY) as model:
        model.configuration.model.provider.max_attempts = 1
        model.configuration.model.provider.save()
        run = model.run()

    written = database() + caplog.text + json.dumps(export_run(run=run))
    assert len(longest_piece(KEY, written)) < len(KEY) / 2


@pytest.mark.parametrize("place", [180, 190, 49_800, 49_990])
def test_a_secret_in_a_result_that_is_shortened_is_not_written_in_part(place: int, settings: Any) -> None:
    settings.LLM_SECRET_VALUES = lambda: [KEY]
    tool = Tool(name="show", description="Shows.", parameters={"type": "object"}, run=lambda: "y" * place + KEY * 20)
    turns = (Turn(tool_calls=(call("show"),)), Turn(text="Done."))
    with site_tool(tool), script(*turns, tool_groups=["general"]) as model:
        model.run()

    assert len(longest_piece(KEY, database())) < len(KEY) / 2


def test_what_looks_like_a_secret_in_an_error_of_the_provider_is_masked(caplog: pytest.LogCaptureFixture) -> None:
    with script(Turn(status=401, error=f"Incorrect API key provided: {OTHER}."), key=KEY) as model:
        run = model.run()

    assert run.error["message"].startswith("Incorrect API key provided: •••")
    assert OTHER not in database() + caplog.text


@pytest.mark.parametrize("size", [1, 4, 9])
def test_a_key_spelled_by_many_events_is_not_in_the_captured_stream(size: int) -> None:
    pieces = [event({"content": KEY[start : start + size]}) for start in range(0, len(KEY), size)]
    begin, end = event({"role": "assistant", "content": "It is "}), event({"content": ", isn't it?"}, "stop")
    with script(Turn(raw=begin + "".join(pieces) + end + "data: [DONE]\n\n"), key=KEY) as model:
        run = model.run(capture_raw=True)

    captured = bytes(run.exchanges.get().response_body).decode()
    spelled = [json.loads(line[6:]) for line in captured.splitlines() if line.startswith("data: {")]
    assert "".join(item["choices"][0]["delta"]["content"] for item in spelled).replace("•", "") == "It is , isn't it?"
    assert sum(length for _, length in run.exchanges.get().chunk_times) == len(captured.encode())
    assert run.answer == "It is •••, isn't it?"


def test_a_run_in_a_terminal_prints_no_secret(settings: Any, capsys: pytest.CaptureFixture[str]) -> None:
    settings.LLM_SECRET_VALUES = lambda: [KEY]
    tool = Tool(name="show", description="Shows.", parameters={"type": "object"}, run=lambda: f"It is {KEY}.")
    turns = (Turn(tool_calls=(call("show"),)), Turn(text=f"It is {KEY}."))
    out = io.StringIO()
    with site_tool(tool), script(*turns, tool_groups=["general"]) as model, pytest.raises(SystemExit):
        call_command("llm_run", model.configuration.slug, prompt="What is it?", stdout=out)

    assert "It is •••." in out.getvalue()
    assert KEY not in out.getvalue() + capsys.readouterr().err


def test_many_echoes_in_many_pieces_are_masked_in_time() -> None:
    encoded = base64.b64encode(KEY.encode())
    chunks = [encoded[:20], encoded[20:] + b" "] * 50_000

    masked = Redactor([KEY]).known_chunks(chunks)

    assert len(masked) == len(chunks) and encoded not in b"".join(masked)


def test_words_and_paths_are_no_halves_of_secrets() -> None:
    redactor = Redactor(["/run/secrets/openai-key-1.txt", "https://sso2.example.com/realms", "payments-production-db"])
    text = "/run/secrets/other and https://sso2.example.org in payments-production"
    assert redactor.known(text) == text


def test_passwords_in_addresses_of_the_environment_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAIL", "smtp+tls://robot%40example.com:p%40ss-word-81@mail.example.com:587/?x=1")
    monkeypatch.setenv("SOME_CREDENTIALS", "cred-5d41402abc4b2a76")
    monkeypatch.setenv("CACHE", "redis://shop@cache:raw@pass-word-82@cache.internal:6379/0")
    monkeypatch.setenv("ADDRESS", "https://example.com/a:b@c?d=http://e:f@")

    known = secret_values()

    assert {"p@ss-word-81", "raw@pass-word-82", "cred-5d41402abc4b2a76"} <= set(known)
    assert not any("example.com" in value for value in known)
