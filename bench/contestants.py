"""The contestants of `bench.loop`; `python -m bench.contestants NAME` is one of them, in a process of its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import httpx

from bench import recorded
from bench.conversation import PARAMETERS, Contestant, Conversation, model_url, serve
from llmcore.configuration import LanguageModel, Limits, Parameters, Provider
from llmcore.messages import Message
from llmcore.metering.client import ModelClient, open_http
from llmcore.runs.loop import ToolLoop
from llmcore.runs.outcome import EndReason
from llmcore.runs.state import RunState
from llmcore.tools.base import Tool
from llmcore.trace import RunTrace

JSON = dict[str, Any]
HEADERS = {"content-type": "application/json"}
TOOL = {"type": "function", "function": {"name": "lookup", "description": "Look up.", "parameters": PARAMETERS}}


@cache
def floor_http() -> httpx.AsyncClient:
    return httpx.AsyncClient(timeout=60, headers=HEADERS)


async def floor(conversation: Conversation) -> str:
    """Raw httpx, and the whole list of messages is encoded each round, as a careless loop does."""
    messages: list[JSON] = [{"role": "user", "content": conversation.prompt}]
    while True:
        body = json.dumps({"model": "bench", "messages": messages, "tools": [TOOL]}).encode()
        reply = await floor_http().post(model_url() + "/chat/completions", content=body)
        message = json.loads(reply.content)["choices"][0]["message"]
        messages.append(message)
        if not message.get("tool_calls"):
            return str(message["content"])
        messages += results(conversation, message)


async def floor_cached(conversation: Conversation) -> str:
    """As the floor, but each message is encoded once."""
    head = b'{"model": "bench", "tools": %b, "messages": [' % json.dumps([TOOL]).encode()
    pieces = [json.dumps({"role": "user", "content": conversation.prompt}).encode()]
    while True:
        body = head + b",".join(pieces) + b"]}"
        reply = await floor_http().post(model_url() + "/chat/completions", content=body)
        message = json.loads(reply.content)["choices"][0]["message"]
        pieces.append(json.dumps(message).encode())
        if not message.get("tool_calls"):
            return str(message["content"])
        pieces += [json.dumps(result).encode() for result in results(conversation, message)]


async def floor_streamed(conversation: Conversation) -> str:
    """As the floor, with the answers streamed."""
    messages: list[JSON] = [{"role": "user", "content": conversation.prompt}]
    while True:
        body = json.dumps({"model": "bench", "stream": True, "messages": messages, "tools": [TOOL]}).encode()
        message: JSON = {"role": "assistant", "content": ""}
        async with floor_http().stream("POST", model_url() + "/chat/completions", content=body) as reply:
            async for line in reply.aiter_lines():
                if line.startswith("data: {"):
                    for choice in json.loads(line[6:])["choices"]:
                        take(message, choice["delta"])
        messages.append(message)
        if not message.get("tool_calls"):
            return str(message["content"])
        messages += results(conversation, message)


def take(message: JSON, delta: JSON) -> None:
    message["content"] += delta.get("content") or ""
    for piece in delta.get("tool_calls", ()):
        calls = message.setdefault("tool_calls", [])
        if piece["index"] == len(calls):
            calls.append({"id": piece["id"], "type": "function", "function": piece["function"]})
        else:
            calls[piece["index"]]["function"]["arguments"] += piece["function"]["arguments"]


def results(conversation: Conversation, message: JSON) -> list[JSON]:
    return [
        {
            "role": "tool",
            "tool_call_id": call["id"],
            "content": conversation.lookup(json.loads(call["function"]["arguments"])["key"]),
        }
        for call in message["tool_calls"]
    ]


@cache
def client() -> ModelClient:
    return ModelClient(http=open_http())


async def ours(conversation: Conversation, trace: Callable[[], RunTrace | None]) -> str:
    """The tool loop as it is."""

    async def lookup(key: str) -> str:
        return conversation.lookup(key)

    tool = Tool(name="lookup", description="Look up.", parameters=PARAMETERS, run=lookup)
    loop = ToolLoop(
        client=client(),
        provider=Provider(
            slug="bench", name="bench", adapter="openai_compat", base_url=model_url(), allow_private_hosts=True
        ),
        model=LanguageModel(name="bench"),
        tools={tool.name: tool},
        trace=trace(),
    )
    state = RunState(
        messages=(Message.of("user", conversation.prompt),),
        parameters=Parameters(stream=conversation.stream),
        limits=Limits(max_rounds=conversation.rounds + 1),
        offered=(tool.name,),
    )
    end = await loop.run(state)
    if end.outcome.reason is not EndReason.COMPLETED:
        raise RuntimeError(f"the run did not complete: {end.outcome}")
    return end.outcome.answer


async def untraced(conversation: Conversation) -> str:
    return await ours(conversation, lambda: None)


async def traced(conversation: Conversation) -> str:
    return await ours(conversation, RunTrace)


CONTESTANTS: dict[str, Contestant] = {
    "floor": floor,
    "floor_cached": floor_cached,
    "floor_streamed": floor_streamed,
    "untraced": untraced,
    "traced": traced,
    "recorded": recorded.drive,
}


if __name__ == "__main__":
    serve(CONTESTANTS[sys.argv[1]])
