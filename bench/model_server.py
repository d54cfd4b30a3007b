"""A model server that costs next to nothing, so that a measurement shows its client: `python -m bench.model_server`.

The first message says what is played: `rounds=N parallel=P` means N − 1 answers that call the tool `lookup` P times and
a last one that is the text `done:N`. Where the conversation stands is the number of assistant messages in the body,
which is counted, not parsed. With `"stream":true` in the body the answer comes as server-sent events; `latency=MS` lets
it come after so many milliseconds.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from typing import Any

ROUNDS = re.compile(rb"rounds=(\d+)")
PARALLEL = re.compile(rb"parallel=(\d+)")
LATENCY = re.compile(rb"latency=(\d+)")
ASSISTANT = (b'"role":"assistant"', b'"role": "assistant"')
STREAM = re.compile(rb'"stream": ?true')
LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
PIECE_CHARS = 6

JSON = dict[str, Any]


def number(pattern: re.Pattern[bytes], text: bytes, missing: int = 1) -> int:
    found = pattern.search(text)
    return int(found.group(1)) if found else missing


def message_for(body: bytes) -> tuple[int, JSON]:
    """Which round it is, counted from 0, and what is answered in it."""
    rounds, parallel = number(ROUNDS, body), number(PARALLEL, body)
    at = sum(body.count(role) for role in ASSISTANT)
    if at >= rounds - 1:
        return at, {"role": "assistant", "content": f"done:{rounds}"}
    calls = [
        {
            "id": f"call_{at}_{index}",
            "type": "function",
            "function": {"name": "lookup", "arguments": json.dumps({"key": f"k{at * parallel + index}"})},
        }
        for index in range(parallel)
    ]
    return at, {"role": "assistant", "content": None, "tool_calls": calls}


def usage_for(body: bytes) -> JSON:
    tokens = len(body) // 4
    return {"prompt_tokens": tokens, "completion_tokens": 12, "total_tokens": tokens + 12}


def whole(body: bytes) -> bytes:
    at, message = message_for(body)
    choice = {"index": 0, "message": message, "finish_reason": finish_of(message)}
    return json.dumps({**envelope(at, "chat.completion"), "choices": [choice], "usage": usage_for(body)}).encode()


def events(body: bytes) -> Iterator[bytes]:
    """The same answer in pieces, as providers cut it."""
    at, message = message_for(body)
    frame = envelope(at, "chat.completion.chunk")

    def event(choices: list[JSON], **more: JSON) -> bytes:
        return b"data: " + json.dumps({**frame, "choices": choices, **more}).encode() + b"\n\n"

    def delta(delta: JSON, finish_reason: str | None = None) -> bytes:
        return event([{"index": 0, "delta": delta, "finish_reason": finish_reason}])

    yield delta({"role": "assistant", "content": message["content"]})
    for index, call in enumerate(message.get("tool_calls", ())):
        arguments = call["function"]["arguments"]
        yield delta({"tool_calls": [{**call, "index": index, "function": {**call["function"], "arguments": ""}}]})
        for start in range(0, len(arguments), PIECE_CHARS):
            piece = {"arguments": arguments[start : start + PIECE_CHARS]}
            yield delta({"tool_calls": [{"index": index, "function": piece}]})
    yield delta({}, finish_of(message))
    yield event([], usage=usage_for(body))
    yield b"data: [DONE]\n\n"


def envelope(at: int, kind: str) -> JSON:
    return {"id": f"chatcmpl-{at}", "object": kind, "created": 1, "model": "bench"}


def finish_of(message: JSON) -> str:
    return "tool_calls" if "tool_calls" in message else "stop"


def reply_to(body: bytes) -> bytes:
    # The field stands at either end of a body; in the midst are the messages, which may be long.
    if STREAM.search(body[:1000]) or STREAM.search(body[-1000:]):
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        return b"".join([head, *(b"%x\r\n%b\r\n" % (len(event), event) for event in events(body)), b"0\r\n\r\n"])
    reply = whole(body)
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(reply), reply)


async def serve_client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.readexactly(number(LENGTH, head, missing=0))
            if latency := number(LATENCY, body, missing=0):
                await asyncio.sleep(latency / 1000)
            writer.write(reply_to(body))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main() -> None:
    server = await asyncio.start_server(serve_client, "127.0.0.1", 0, limit=2**20)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        # Ends with whoever started it.
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
