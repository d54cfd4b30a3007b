"""A model server that costs next to nothing, so that a measurement shows its client: `python -m bench.model_server`.

A request asks for `rounds=N` somewhere in its first message: N − 1 answers call the tool `lookup`, the last is a text.
Where the conversation stands is the number of assistant messages in the body, which is counted, not parsed.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys

ROUNDS = re.compile(rb"rounds=(\d+)")
LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


def answer(body: bytes) -> bytes:
    found = ROUNDS.search(body)
    rounds = int(found.group(1)) if found else 1
    at = body.count(b'"role":"assistant"') + body.count(b'"role": "assistant"')
    message: dict[str, object] = {"role": "assistant", "content": f"done:{rounds}"}
    if at < rounds - 1:
        function = {"name": "lookup", "arguments": json.dumps({"key": f"k{at}"})}
        message = {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"call_{at}", "type": "function", "function": function}],
        }
    tokens = len(body) // 4
    return json.dumps(
        {
            "id": f"chatcmpl-{at}",
            "object": "chat.completion",
            "created": 1,
            "model": "bench",
            "choices": [
                {
                    "index": 0,
                    "message": message,
                    "finish_reason": "tool_calls" if "tool_calls" in message else "stop",
                }
            ],
            "usage": {"prompt_tokens": tokens, "completion_tokens": 12, "total_tokens": tokens + 12},
        }
    ).encode()


async def serve_client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            found = LENGTH.search(head)
            body = await reader.readexactly(int(found.group(1)) if found else 0)
            reply = answer(body)
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(reply) + reply
            )
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
