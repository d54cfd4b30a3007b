"""What becomes of a turn whose engine hangs up, with a real web server and a real model server."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from llmcore.models import BudgetPeriod, BudgetReservation, UsageRecord
from llmcore.providers.scripted.scenario import Turn
from tests.factories import BudgetFactory
from tests.playground.beside import ROOT
from tests.playground.driven import Script, script, wait_for
from tests.services import free_port, stop, wait_for_port

pytestmark = pytest.mark.django_db(transaction=True)

TOKEN = "token-of-the-other-engine-0123456789"
# More than a minute, unless somebody ends it.
SLOW = Turn(text="word " * 2_000, chunk_chars=5, chunk_delay_s=0.05)


@pytest.fixture
def web(environment: dict[str, str]) -> Iterator[int]:
    """The port of a web server as production runs it."""
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "config.asgi:application", "--port", str(port), "--lifespan", "off"]
    process = subprocess.Popen(command, cwd=ROOT, env={**environment, "LLM_SERVICE_TOKENS": TOKEN})
    try:
        wait_for_port(port, process)
        yield port
    finally:
        assert stop(process), "the web server did not end when it was asked"


def asked(port: int, model: Script) -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    body = {"configuration": model.configuration.slug, "messages": [{"role": "user", "content": "Hello?"}]}
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    connection.request("POST", "/internal/sessions/table-7/llm-turn", json.dumps(body), headers)
    return connection


def test_an_engine_that_hangs_up_ends_its_call_which_is_counted_as_unknown(web: int) -> None:  # M1, M3, M4
    BudgetFactory(max_requests=5)
    with script(SLOW) as model, script(Turn(text="Here.")) as other:
        model.configuration.fallbacks.add(other.configuration.model, through_defaults={"position": 1})
        for asking in (1, 2):
            connection = asked(web, model)
            wait_for(lambda asking=asking: len(model.model.requests) == asking, "the model to be asked")
            connection.close()
            wait_for(lambda: model.model.requests[-1].disconnected, "the stream to be closed")
            wait_for(lambda asking=asking: UsageRecord.objects.count() == asking, "the call to be counted")
        wait_for(lambda: not BudgetReservation.objects.exists(), "what was reserved to be settled")

        # Nobody is asked in its place, and the server goes on.
        connection = asked(web, other)
        assert json.load(connection.getresponse())["content"] == "Here."
        connection.close()
        assert len(model.model.requests) == 2 and len(other.model.requests) == 1
    left = UsageRecord.objects.order_by("pk")[:2]
    assert [(record.output_tokens, record.error_kind, record.session) for record in left] == [(None, "", "table-7")] * 2
    assert BudgetPeriod.objects.get().requests == 3
