"""`manage.py demo_model` as a process."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest
from django.conf import settings

COMMAND = [sys.executable, "-u", "manage.py", "demo_model", "--port"]


def start(port: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, port], cwd=settings.BASE_DIR, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.fixture
def server() -> Iterator[tuple[subprocess.Popen[str], str]]:
    with start("0") as process:
        assert process.stdout is not None
        words = process.stdout.readline().split()
        yield process, words[3]
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_demo_model_answers_and_ends_cleanly_even_while_it_streams(
    server: tuple[subprocess.Popen[str], str], number: signal.Signals
) -> None:
    process, url = server
    request = {"model": "demo-slow", "stream": True, "messages": [{"role": "user", "content": "Write."}]}

    assert {"demo-support", "demo-report"} <= {model["id"] for model in httpx.get(f"{url}/models").json()["data"]}
    with httpx.stream("POST", f"{url}/chat/completions", json=request, timeout=60) as response:
        next(response.iter_lines())
        process.send_signal(number)
        out, err = process.communicate(timeout=60)

    assert (process.returncode, out, err) == (0, "", "")


def test_taken_port_is_said_in_one_line(server: tuple[subprocess.Popen[str], str]) -> None:
    port = server[1].removesuffix("/v1").rsplit(":", 1)[1]
    with start(port) as second:
        out, err = second.communicate(timeout=60)

    assert second.returncode == 1
    assert err.strip() == f"CommandError: Can't listen on 127.0.0.1:{port}: Address already in use."
    assert out == ""
