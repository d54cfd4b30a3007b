"""What the tool loop costs beside raw httpx: CPU per round of this process, `python -m bench.loop`.

Contestants take turns, so that noise falls on all alike; a ratio is the median of the ratios to the floor's turn in the
same repeat. The floor encodes the whole message list each round, as a careless loop does; `floor_cached` encodes each
message once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

import httpx

from llmcore.configuration import LanguageModel, Limits, Parameters, Provider
from llmcore.messages import Message
from llmcore.metering.client import ModelClient, open_http
from llmcore.runs.loop import ToolLoop
from llmcore.runs.outcome import EndReason
from llmcore.runs.state import RunState
from llmcore.tools.base import Tool
from llmcore.trace import RunTrace

LINE = 'The quick brown fox, id "42", jumps over the lazy dog; path=/srv/data/item.json ok\n'
SHAPES = ((20, 100), (100, 100), (20, 10_000), (100, 10_000))
PARAMETERS = {
    "type": "object",
    "properties": {"key": {"type": "string"}},
    "required": ["key"],
    "additionalProperties": False,
}
Contestant = Callable[[httpx.AsyncClient, str, int, int], Awaitable[None]]


def lookup_result(key: str, size: int) -> str:
    head = f"{key}: "
    return (head + LINE * (size // len(LINE) + 1))[:size]


def tool_json() -> dict[str, object]:
    return {"type": "function", "function": {"name": "lookup", "description": "Look up.", "parameters": PARAMETERS}}


async def floor(http: httpx.AsyncClient, url: str, rounds: int, size: int) -> None:
    messages: list[dict[str, object]] = [{"role": "user", "content": f"rounds={rounds}"}]
    while True:
        body = {"model": "bench", "messages": messages, "tools": [tool_json()]}
        content = json.dumps(body).encode()
        reply = await http.post(
            url + "/chat/completions", content=content, headers={"content-type": "application/json"}
        )
        message = json.loads(reply.content)["choices"][0]["message"]
        messages.append(message)
        if not message.get("tool_calls"):
            return
        for call in message["tool_calls"]:
            result = lookup_result(json.loads(call["function"]["arguments"])["key"], size)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


async def floor_cached(http: httpx.AsyncClient, url: str, rounds: int, size: int) -> None:
    head = b'{"model": "bench", "tools": %s, "messages": [' % json.dumps([tool_json()]).encode()
    pieces = [json.dumps({"role": "user", "content": f"rounds={rounds}"}).encode()]
    while True:
        content = head + b",".join(pieces) + b"]}"
        reply = await http.post(
            url + "/chat/completions", content=content, headers={"content-type": "application/json"}
        )
        message = json.loads(reply.content)["choices"][0]["message"]
        pieces.append(json.dumps(message).encode())
        if not message.get("tool_calls"):
            return
        for call in message["tool_calls"]:
            result = lookup_result(json.loads(call["function"]["arguments"])["key"], size)
            pieces.append(json.dumps({"role": "tool", "tool_call_id": call["id"], "content": result}).encode())


async def ours(http: httpx.AsyncClient, url: str, rounds: int, size: int, trace: RunTrace | None = None) -> None:
    async def lookup(key: str) -> str:
        return lookup_result(key, size)

    tool = Tool(name="lookup", description="Look up.", parameters=PARAMETERS, run=lookup)
    provider = Provider(slug="bench", name="bench", adapter="openai_compat", base_url=url, allow_private_hosts=True)
    loop = ToolLoop(
        client=ModelClient(http=http),
        provider=provider,
        model=LanguageModel(name="bench"),
        tools={tool.name: tool},
        trace=trace,
    )
    state = RunState(
        messages=(Message.of("user", f"rounds={rounds}"),),
        parameters=Parameters(stream=False),
        limits=Limits(max_rounds=rounds + 1),
        offered=(tool.name,),
    )
    end = await loop.run(state)
    if end.outcome.reason is not EndReason.COMPLETED or end.state.rounds_used != rounds:
        raise RuntimeError(f"not the run that was to be measured: {end.outcome}")


async def ours_traced(http: httpx.AsyncClient, url: str, rounds: int, size: int) -> None:
    await ours(http, url, rounds, size, RunTrace())


CONTESTANTS: dict[str, Contestant] = {
    "floor": floor,
    "floor_cached": floor_cached,
    "ours, trace off": ours,
    "ours, trace on": ours_traced,
}


async def measure(contestant: Contestant, url: str, rounds: int, size: int) -> tuple[float, float]:
    """CPU and wall milliseconds per round."""
    opened = httpx.AsyncClient(timeout=60) if contestant in (floor, floor_cached) else open_http()
    async with opened as http:
        await contestant(http, url, 3, size)
        wall, cpu = time.perf_counter(), time.process_time()
        await contestant(http, url, rounds, size)
        return (time.process_time() - cpu) * 1000 / rounds, (time.perf_counter() - wall) * 1000 / rounds


def import_seconds(module: str) -> float:
    code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    times = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(5)]
    return statistics.median(times[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    with subprocess.Popen(
        [sys.executable, "-m", "bench.model_server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None and server.stdin is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        for rounds, size in SHAPES:
            figures: dict[str, list[tuple[float, float]]] = {name: [] for name in CONTESTANTS}
            for repeat in range(repeats):
                for name in list(CONTESTANTS)[:: 1 if repeat % 2 == 0 else -1]:
                    figures[name].append(asyncio.run(measure(CONTESTANTS[name], url, rounds, size)))
            print(f"\n{rounds} rounds, results of {size} bytes, {repeats} repeats: milliseconds per round")
            print(f"{'':18}{'cpu':>8}{'x floor':>9}{'wall':>8}{'x floor':>9}")
            for name, values in figures.items():
                row = ""
                for column in (0, 1):
                    ratio = statistics.median(
                        value[column] / floor_value[column]
                        for value, floor_value in zip(values, figures["floor"], strict=True)
                    )
                    row += f"{statistics.median(value[column] for value in values):8.2f}{ratio:9.2f}"
                print(f"{name:18}{row}")
        server.stdin.close()
    for module in ("llmcore.runs.loop", "httpx"):
        print(f"import {module}: {import_seconds(module):.3f} s")


if __name__ == "__main__":
    main()
