"""What these tests share: the local model served by the command that users start, and runs and calls of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from demo.local_model.registration import SLUG, register_local_model
from llmcore import store
from llmcore.messages import JSON
from llmcore.models import Configuration
from llmcore.providers.base import ModelCall
from llmcore.trace import RunStep, StepKind
from playground.models import Run, WireExchangeRecord
from playground.rows import load_contents, load_steps
from playground.services.drive_run import drive_run
from playground.services.start_run import RunRequest, write_run
from tests.playground.driven import wait_for

ROOT = Path(__file__).resolve().parent.parent.parent
START_S = 60.0
ADDRESS = re.compile(r"Local model on (\S+):")


@dataclass
class LocalModel:
    """A running `manage.py local_model` and what it has printed."""

    process: subprocess.Popen[str]
    data_dir: Path
    said: list[str] = field(default_factory=list)

    @property
    def output(self) -> str:
        return "".join(self.said)

    @property
    def base_url(self) -> str:
        wait_for(lambda: ADDRESS.search(self.output) or self.process.poll() is not None, "the local model", START_S)
        found = ADDRESS.search(self.output)
        assert found, self.output
        return found[1]

    def ask(self, path: str, body: JSON = None) -> Any:
        """What llmcore doesn't use of the server: how it works, and what it makes of a prompt."""
        url = self.base_url.removesuffix("/v1") + path
        with httpx.Client(trust_env=False, timeout=30) as client:
            return (client.get(url) if body is None else client.post(url, json=body)).raise_for_status().json()

    def tokens_of(self, messages: Sequence[JSON]) -> int:
        """How many tokens the model reads, by its own template and its own tokenizer."""
        prompt = self.ask("/apply-template", {"messages": messages})["prompt"]
        return len(self.ask("/tokenize", {"content": prompt, "add_special": True, "parse_special": True})["tokens"])

    @property
    def is_busy(self) -> bool:
        return any(slot["is_processing"] for slot in self.ask("/slots"))


def command(data_dir: Path, *arguments: str) -> subprocess.Popen[str]:
    """A `manage.py` with the data of `data_dir`."""
    environment = {**os.environ, "DATA_DIR": str(data_dir)}
    for name in ("DATABASE_URL", "REDIS_URL"):
        environment.pop(name, None)
    return subprocess.Popen(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@contextmanager
def local_model(data_dir: Path, *, port: int = 0) -> Iterator[LocalModel]:
    with command(data_dir, "local_model", "--port", str(port)) as process:
        model = LocalModel(process, data_dir)
        reader = threading.Thread(target=lambda: model.said.extend(process.stdout or ()))
        reader.start()
        try:
            yield model
        finally:
            process.kill()
            reader.join()


@dataclass(frozen=True)
class Recorded:
    """A run as it stands in the database, of one round."""

    run: Run
    steps: list[RunStep]
    contents: dict[str, JSON]
    exchanges: list[WireExchangeRecord]

    def data(self, kind: StepKind) -> Any:
        (step,) = [step for step in self.steps if step.kind is kind]
        return step.data

    @property
    def response(self) -> Any:
        return self.data(StepKind.RESPONSE)

    @property
    def exchange(self) -> WireExchangeRecord:
        (exchange,) = self.exchanges
        return exchange

    @property
    def events(self) -> list[Any]:
        """The JSON of the captured stream's events, read by hand."""
        lines = bytes(self.exchange.response_body).decode().splitlines()
        texts = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
        assert texts[-1] == "[DONE]"
        return [json.loads(text) for text in texts[:-1]]


@dataclass(frozen=True)
class Site:
    """This test's database with the local model in it, as the command enters it."""

    model: LocalModel

    def configure(self, **changes: object) -> Configuration:
        Configuration.objects.filter(slug=SLUG).update(**changes)
        return Configuration.objects.get(slug=SLUG)

    def write(self, prompt: str, **changes: Any) -> Run:
        return write_run(request=RunRequest(configuration=SLUG, prompt=prompt, **changes), by=None)

    def run(self, prompt: str, **changes: Any) -> Recorded:
        """A run, driven to its end."""
        run = self.write(prompt, **changes)
        assert drive_run(run_id=run.pk, worker="test")
        return recorded(run)

    def call(self, **changes: Any) -> ModelCall:
        value = store.load_configuration(SLUG)
        return ModelCall(provider=value.provider, model=value.model, parameters=value.parameters, **changes)


def recorded(run: Run) -> Recorded:
    run.refresh_from_db()
    return Recorded(run, load_steps(run.pk), load_contents(run.pk), list(run.exchanges.all()))


def site_of(model: LocalModel) -> Site:
    register_local_model(model.base_url)
    return Site(model)
