"""`manage.py local_model` beside a site, as a person starts it."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import httpx
import pytest

from tests.playground.driven import wait_for
from tests.real_model.served import LocalModel, command, local_model

STREAM = {"messages": [{"role": "user", "content": "Write a very long story."}], "max_tokens": 3000, "stream": True}


def finished(data_dir: Path, *arguments: str) -> str:
    with command(data_dir, *arguments) as process:
        output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    return output


def test_it_is_usable_as_soon_as_the_site_has_a_database(model: LocalModel) -> None:
    assert model.base_url.startswith("http://127.0.0.1:")
    wait_for(lambda: "There is no database yet" in model.output, "the notice")

    finished(model.data_dir, "migrate", "--verbosity", "0")
    wait_for(lambda: "Its configuration is ready" in model.output, "the configuration")
    run = json.loads(finished(model.data_dir, "llm_run", "local-model", "--prompt", "Say hello.", "--json"))

    assert run["run"]["reason"] == "completed" and run["run"]["answer"].strip()
    assert run["run"]["output_tokens"] > 0

    port = int(model.base_url.removesuffix("/v1").rpartition(":")[2])
    with local_model(model.data_dir, port=port) as second:
        assert second.base_url != model.base_url
        wait_for(lambda: "Its configuration is ready" in second.output, "the second one's configuration")
        run = json.loads(finished(model.data_dir, "llm_run", "local-model", "--prompt", "Hi.", "--dry-run", "--json"))
        assert run["run"]["plan"]["configuration"]["provider"]["base_url"] == second.base_url


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_at_once_even_while_it_answers(tmp_path: Path, number: signal.Signals) -> None:
    with local_model(tmp_path) as model:
        url = f"{model.base_url}/chat/completions"
        with httpx.Client(trust_env=False, timeout=30) as client, client.stream("POST", url, json=STREAM) as response:
            next(response.iter_lines())
            asked = time.monotonic()
            model.process.send_signal(number)
            assert model.process.wait(10) == 0
            assert time.monotonic() - asked < 5
        wait_for(lambda: "Stopped." in model.output, "the last word")
        assert "Traceback" not in model.output
