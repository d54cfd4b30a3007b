"""Model servers on this machine, as far as detection and a first run need them: Ollama, over real HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LLAMA = {
    "capabilities": ["completion", "tools"],
    "parameters": 'stop "<|eot_id|>"',
    "model_info": {"general.architecture": "llama", "llama.context_length": 131_072, "llama.block_count": 28},
}
QWEN = {
    "capabilities": ["completion", "tools", "thinking", "vision"],
    "parameters": "num_ctx                        8192\ntemperature                    0.6",
    "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40_960},
}
EMBEDDER = {"capabilities": ["embedding"], "model_info": {"nomic-bert.context_length": 2048}}


@dataclass
class OllamaDouble:
    """An Ollama that knows `models`, by name, as /api/show describes each, and says `answer` in every chat."""

    models: dict[str, Any] = field(default_factory=dict)
    answer: str = "Good morning."
    base_url: str = ""
    requests: list[tuple[str, str, Any]] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.base_url.rpartition(":")[2])

    def reply(self, method: str, path: str, body: Any) -> tuple[int, bytes]:
        self.requests.append((method, path, body))
        match method, path:
            case "GET", "/api/tags":
                return 200, json.dumps({"models": [{"name": name, "model": name} for name in self.models]}).encode()
            case "POST", "/api/show" if body["model"] in self.models:
                return 200, json.dumps(self.models[body["model"]]).encode()
            case "POST", "/api/chat":
                return 200, b"".join(json.dumps(line).encode() + b"\n" for line in self.chat(body))
        return 404, b'{"error":"not found"}'

    def chat(self, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        text = {"role": "assistant", "content": self.answer}
        yield {"model": body["model"], "message": text, "done": False}
        counts = {"prompt_eval_count": 12, "eval_count": 3}
        yield {"model": body["model"], "message": {"content": ""}, "done": True, "done_reason": "stop", **counts}


@contextmanager
def serve_ollama(models: Mapping[str, Any], *, port: int = 0) -> Iterator[OllamaDouble]:
    double = OllamaDouble(dict(models))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            length = int(self.headers.get("content-length", "0"))
            body = json.loads(self.rfile.read(length)) if length else None
            status, reply = double.reply(self.command, self.path, body)
            self.send_response(status)
            self.send_header("content-type", "application/x-ndjson" if self.path == "/api/chat" else "application/json")
            self.send_header("content-length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        do_GET = do_POST = answer

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        server.daemon_threads = True
        double.base_url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield double
        finally:
            server.shutdown()
            thread.join()
