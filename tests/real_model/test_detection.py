"""A real server is found with what it says of itself, and what was entered runs."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from demo.local_model.server import CONTEXT_WINDOW, MODEL_NAME
from llmcore.enrollment import detect
from llmcore.models import Configuration
from llmcore.providers.local_servers import LOCAL_SERVERS
from playground.services.drive_run import drive_run
from playground.services.start_run import RunRequest, write_run
from tests.real_model.served import LocalModel

pytestmark = pytest.mark.django_db(transaction=True)


def test_llama_cpp_is_found_and_its_model_runs_at_once(model: LocalModel) -> None:
    place = replace(LOCAL_SERVERS[1], port=urlsplit(model.base_url).port)
    (enrolled,) = detect(timeout_s=10.0, places=[place]).enrolled
    assert enrolled.name == "llama.cpp", "it says itself what it is"
    (found,) = enrolled.found.models
    assert (found.model.name, found.model.context_window) == (MODEL_NAME, CONTEXT_WINDOW)
    configuration = Configuration.objects.get()
    Configuration.objects.update(max_tokens=20)
    request = RunRequest(configuration=configuration.slug, prompt="What is the capital of France?")
    run = write_run(request=request, by=None)
    assert drive_run(run_id=run.pk, worker="test")
    run.refresh_from_db()
    assert run.reason in ("completed", "truncated"), run.error
