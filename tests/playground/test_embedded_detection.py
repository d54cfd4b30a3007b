"""A first start on a machine that has an Ollama and an API key."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.llmcore.model_servers import LLAMA, serve_ollama
from tests.playground.driven import wait_for
from tests.playground.test_embedded import START_S, Product, started
from tests.services import free_port

pytestmark = pytest.mark.embedded

KEY = "sk-proj-0123456789abcdef"


def begin(product: Product) -> None:
    """Wait until all children are started; that is after the machine was looked at."""
    web_log = product.data_dir / "logs" / "web.log"
    wait_for(lambda: web_log.exists() or product.process.poll() is not None, "the web server to be started", START_S)
    assert web_log.exists(), product.output


def test_what_this_machine_has_is_ready_for_new_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # W7
    data_dir = tmp_path / "data"
    with serve_ollama({"llama3.2:latest": LLAMA}) as ollama:
        monkeypatch.setenv("OLLAMA_HOST", f"127.0.0.1:{ollama.port}")
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
        with started(data_dir, port=free_port()) as product:
            begin(product)
            assert f"Found Ollama at 127.0.0.1:{ollama.port}, ready for new runs: llama3.2" in product.output
            assert "Found OpenAI with the key in OPENAI_API_KEY, ready for new runs: " in product.output
            configurations = product.rows("SELECT slug FROM llmcore_configuration")
            assert {("ollama-llama3-2",), ("openai-gpt-5-mini",)} <= set(configurations)
            assert product.stop() == 0
        (data_dir / "logs" / "web.log").unlink()
        with started(data_dir, port=free_port()) as product:
            begin(product)
            assert "Found" not in product.output
            assert product.rows("SELECT slug FROM llmcore_configuration") == configurations
            assert product.stop() == 0
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in written if KEY.encode() in path.read_bytes()]
