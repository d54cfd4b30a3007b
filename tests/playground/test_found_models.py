"""Models that were found by themselves, run as they were entered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmcore.detection.found import FoundProvider
from llmcore.enrollment import detect
from llmcore.models import Configuration, Provider
from llmcore.providers.local_servers import LOCAL_SERVERS, OLLAMA, LocalServer
from llmcore.providers.scripted import Scenario, ScriptedModel, Turn, serve
from playground.models import Run
from playground.services.drive_run import drive_run
from playground.services.run_choices import load_run_choices
from playground.services.start_run import RunRequest, write_run
from tests.factories import UserFactory
from tests.llmcore.model_servers import LLAMA, serve_ollama

pytestmark = pytest.mark.django_db(transaction=True)

LM_STUDIO = next(server for server in LOCAL_SERVERS if server.name == "LM Studio")


def find(server: LocalServer, url: str) -> FoundProvider:
    place = replace(server, port=int(url.removesuffix("/v1").rpartition(":")[2]))
    (enrolled,) = detect(timeout_s=30.0, places=[place]).enrolled
    return enrolled.found


def run(configuration: str) -> Run:
    row = write_run(request=RunRequest(configuration=configuration, prompt="Good morning?"), by=None)
    assert drive_run(run_id=row.pk, worker="test")
    row.refresh_from_db()
    return row


def test_a_model_of_ollama_runs_at_once_with_a_window_that_is_asked_for() -> None:
    with serve_ollama({"llama3.2:latest": LLAMA}) as ollama:
        find(OLLAMA, ollama.base_url)
        ended = run("ollama-llama3-2")
    assert (ended.status, ended.reason) == ("completed", "completed"), ended.error
    body = next(body for _, path, body in ollama.requests if path == "/api/chat")
    assert body["model"] == "llama3.2:latest" and body["options"]["num_ctx"] == 16_384 and "tools" not in body


def test_a_model_of_an_openai_compatible_server_runs_at_once() -> None:
    with serve(ScriptedModel([Scenario(name="small", turns=(Turn(text="Good evening."),))])) as url:
        find(LM_STUDIO, url)
        ended = run("lm-studio-small")
    assert (ended.status, ended.reason) == ("completed", "completed"), ended.error


def test_its_tools_can_be_ticked_and_none_is_offered_unasked() -> None:
    with serve_ollama({"llama3.2:latest": LLAMA}) as ollama:
        find(OLLAMA, ollama.base_url)
    choices = load_run_choices(user=UserFactory(is_superuser=True), configuration="ollama-llama3-2")
    assert choices.tools and choices.default_tools == [] and choices.problem == ""


def test_a_run_with_a_server_that_is_gone_says_how_to_start_it() -> None:
    with serve_ollama({"llama3.2:latest": LLAMA}) as ollama:
        find(OLLAMA, ollama.base_url)
    Provider.objects.update(max_attempts=1)
    ended = run("ollama-llama3-2")
    assert ended.reason == "provider_failed"
    assert "start Ollama with “ollama serve”" in str(ended.error)
    assert Configuration.objects.filter(slug="ollama-llama3-2").exists()
