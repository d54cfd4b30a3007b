"""Structured completions from a site's own code: rows in, usage records out."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pytest_django import Settings

from llmcore.errors import ConfigurationError, InvalidTarget, UnknownPrompt
from llmcore.models import LanguageModel, UsageRecord
from llmcore.providers.scripted import Turn
from llmcore.site_completions import complete_structured
from llmcore.structured.completion import CompletionFailed
from llmcore.structured.inputs import Material
from llmcore.structured.packs import site_prompts
from llmcore.structured.recorder import UseRecorder
from llmcore.structured.request import StructuredRequest
from tests.factories import UserFactory
from tests.llmcore.prompt_packs import GIVEN, INVALID, VALID, registry_in
from tests.playground.driven import in_background, script, wait_for

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The prompt of the tests, as one of the site's."""
    prompt = registry_in(tmp_path).prompt("test.names")
    monkeypatch.setitem(site_prompts._prompts, prompt.id, prompt)


def request_for(configuration: str, **changes: object) -> StructuredRequest:
    return StructuredRequest(prompt="test.names", configuration=configuration, inputs=GIVEN, **changes)  # type: ignore[arg-type]


def test_a_site_completes_a_prompt_with_one_of_its_configurations() -> None:
    user, recorder = UserFactory(), UseRecorder()
    with script(Turn(text=INVALID), Turn(text=VALID), key="sk-test-0123456789") as model:
        answer = complete_structured(request_for(model.configuration.slug), user=user, recorder=recorder)

    assert answer.data == VALID.encode() and answer.attempts == 2
    records = UsageRecord.objects.order_by("pk")
    assert [(r.user_id, r.configuration_id, r.run_id) for r in records] == [(user.pk, model.configuration.pk, None)] * 2
    assert all(record.input_tokens for record in records)
    (used,) = recorder.used()
    assert used.slug == model.configuration.slug and "sk-test" not in repr(recorder)


def test_a_failed_call_is_a_usage_record_too() -> None:
    with (
        script(Turn(status=401, error="No such key.")) as model,
        pytest.raises(CompletionFailed, match=r"test\.names"),
    ):
        complete_structured(request_for(model.configuration.slug))

    assert UsageRecord.objects.get().error_kind == "authentication"


def test_an_error_says_no_secret_of_the_site(settings: Settings) -> None:
    told = f"Who is {settings.SECRET_KEY}? And Authorization: Bearer abcdef0123456789abcdef"
    with script(Turn(status=400, error=told)) as model, pytest.raises(CompletionFailed) as raised:
        complete_structured(request_for(model.configuration.slug))

    assert settings.SECRET_KEY not in str(raised.value) and "abcdef0123456789" not in str(raised.value)
    assert "Who is" in str(raised.value)


def test_what_is_given_is_sent_and_kept_without_secrets_of_the_site(settings: Settings) -> None:  # R1
    secret = settings.SECRET_KEY
    given = {"text": Material(data=f"Ann «{secret}» Bo\n".encode(), origin=f"mail of {secret}")}
    with script(Turn(text=VALID)) as model:
        request = replace(request_for(model.configuration.slug, session=f"s {secret}"), inputs={**GIVEN, **given})
        answer = complete_structured(request)
        (sent,) = model.model.requests

    body = json.dumps(sent.json, ensure_ascii=False)
    assert secret not in body and "Ann «•••» Bo" in body
    assert secret not in json.dumps(answer.manifest) and answer.manifest["session"] == "s •••"


class TimeUp(Exception):
    """What a time limit raises in the thread that waits."""


def test_whoever_ends_the_waiting_cancels_the_call() -> None:
    def time_up(*_: object) -> None:
        raise TimeUp

    before = signal.signal(signal.SIGALRM, time_up)
    try:
        with script(Turn(text=VALID, delay_s=60)) as model:
            with in_background(lambda: interrupt_when(lambda: model.model.requests)), pytest.raises(TimeUp):
                complete_structured(request_for(model.configuration.slug))
            wait_for(lambda: model.model.requests[0].disconnected, "the end of the connection")
    finally:
        signal.signal(signal.SIGALRM, before)


def interrupt_when(ready: Callable[[], object]) -> None:
    wait_for(ready)
    os.kill(os.getpid(), signal.SIGALRM)


def test_what_a_model_row_can_not_do_is_said_in_the_prompt() -> None:
    with script(Turn(text=VALID)) as model:
        LanguageModel.objects.update(supports_structured_output=False)
        answer = complete_structured(request_for(model.configuration.slug))

    assert not answer.native and "response_format" not in model.model.requests[0].json


def test_mistakes_are_known_before_any_call() -> None:
    with script(Turn(text=VALID)) as model:
        with pytest.raises(UnknownPrompt):
            complete_structured(StructuredRequest(prompt="test.other", configuration=model.configuration.slug))
        with pytest.raises(InvalidTarget, match="no configuration of its own"):
            complete_structured(request_for(""))
        with pytest.raises(ConfigurationError, match=r"“test\.names” can.t be completed.*no configuration “gone”"):
            complete_structured(request_for("gone"))

    assert not model.model.requests and not UsageRecord.objects.exists()
