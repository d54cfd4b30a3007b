"""Calls of the local model through one client, which has to live with how its server keeps connections."""

from __future__ import annotations

import http.client
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from jsonschema import validate

from llmcore.messages import Message, ModelResponse
from llmcore.metering.client import Completion, ModelClient, open_http
from llmcore.providers.base import ModelCall, Transcript
from tests.real_model.served import Site

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 30}, "inhabitants": {"type": "integer"}},
    "required": ["city", "inhabitants"],
    "additionalProperties": False,
}
# In every fifteenth call or so the client doesn't notice in time that the connection is closed.
MANY = 40


@dataclass
class Meter:
    """Keeps what was recorded."""

    responses: list[ModelResponse] = field(default_factory=list)

    def record(self, call: ModelCall, response: ModelResponse, cost: Decimal | None) -> None:
        self.responses.append(response)


@dataclass
class Line:
    """One client of the local model, as one worker has it."""

    client: ModelClient
    call: ModelCall
    meter: Meter

    async def send(self, transcript: Transcript, **changes: Any) -> Completion:
        call = replace(self.call, **changes)
        return await self.client.send(call, self.client.prepare(call, transcript))

    def say(self, text: str) -> Transcript:
        return self.client.transcript(self.call, [Message.of("user", text)])


@pytest.fixture
def call(site: Site) -> ModelCall:
    return site.call()


@pytest.fixture
async def line(call: ModelCall) -> AsyncIterator[Line]:
    meter = Meter()
    async with open_http() as connections:
        yield Line(ModelClient(http=connections, meter=meter), call, meter)


def brief(call: ModelCall, max_tokens: int) -> dict[str, Any]:
    return {"parameters": replace(call.parameters, max_tokens=max_tokens)}


def test_the_server_closes_a_connection_after_a_stream_without_saying_so(call: ModelCall) -> None:
    """What the client has to live with: shown with one that sends on whatever connection it has."""
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2, "stream": True}
    connection = http.client.HTTPConnection(urlsplit(call.provider.base_url).netloc, timeout=30)

    def post() -> http.client.HTTPResponse:
        connection.request("POST", "/v1/chat/completions", json.dumps(body))
        return connection.getresponse()

    response = post()
    assert response.read().endswith(b"data: [DONE]\n\n") and not response.will_close
    with pytest.raises(ConnectionError):
        post()
    connection.close()


async def test_many_streamed_calls_over_one_client_all_succeed_at_once(line: Line) -> None:  # W4
    transcript = line.say("Hi")

    completions = [await line.send(transcript, **brief(line.call, 2)) for _ in range(MANY)]

    assert [completion.response.error for completion in completions] == [None] * MANY
    # The closed connection is no attempt: nothing of it reached the model, and nothing was used.
    assert {completion.attempts for completion in completions} == {1}
    assert len(line.meter.responses) == MANY


async def test_a_conversation_goes_on_over_one_client(line: Line) -> None:
    transcript = line.say("Name a color.")
    first = await line.send(transcript)
    transcript.extend([first.response.message, Message.of("user", "Name another one.")])
    second = await line.send(transcript)

    assert first.response.text and second.response.text
    assert first.response.usage is not None and second.response.usage is not None
    before, after = first.response.usage, second.response.usage
    assert after.input_tokens is not None and before.input_tokens is not None
    # What the model wrote was kept by the server, and the whole of the first turn is a prefix of the second.
    assert before.input_tokens <= (after.cache_read_input_tokens or 0) < after.input_tokens


@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_with_a_schema_is_json_that_meets_it(line: Line, stream: bool) -> None:
    parameters = replace(line.call.parameters, stream=stream)
    transcript = line.say("Which is the largest city of France, and how many inhabitants has it?")

    completion = await line.send(transcript, parameters=parameters, response_schema=SCHEMA)

    assert completion.response.finish_reason == "stop"
    validate(json.loads(completion.response.text), SCHEMA)


async def test_a_server_that_is_gone_is_a_clear_error(line: Line, unused_tcp_port: int) -> None:
    provider = replace(line.call.provider, base_url=f"http://127.0.0.1:{unused_tcp_port}/v1", max_attempts=1)

    completion = await line.send(line.say("Hi"), provider=provider)

    assert completion.response.error is not None and completion.response.error.kind == "connection"


def test_the_server_names_its_model_as_the_site_does(call: ModelCall) -> None:
    with httpx.Client(trust_env=False) as client:
        models = client.get(f"{call.provider.base_url}/models").json()["data"]
    assert [model["id"] for model in models] == [call.model.name]
    assert models[0]["meta"]["n_ctx"] == call.model.context_window
