"""What the error of a call says to do, with the names and figures of that call."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llmcore.configuration import Secret
from llmcore.errors import ADVICE, ErrorKind, ProviderError, advice_of
from llmcore.management.wire_check.server import Script, serve_script
from llmcore.metering.client import ModelClient, open_http
from llmcore.providers.advice import SWITCHES, refused_parameter
from tests.llmcore.voices import KEY, VOICES, ask, call_to

CHAT = VOICES[0]


async def error_of(status: int, body: Any, **options: Any) -> ProviderError:
    async with serve_script(Script(status=status, writes=[json.dumps(body).encode()])) as server, open_http() as http:
        completion = await ask(ModelClient(http=http), call_to(CHAT, server.origin, **options))
    assert completion.response.error is not None
    error: ProviderError = completion.response.error
    return error


def test_every_kind_has_advice() -> None:
    assert set(ADVICE) == set(ErrorKind)  # W5


async def test_a_missing_key_is_told_from_a_wrong_one() -> None:
    refused = {"error": {"message": "No."}}
    assert "has no API key here" in (await error_of(401, refused, provider={"api_key": Secret("")})).advice
    assert "enter a valid key" in (await error_of(401, refused)).advice


async def test_a_model_that_is_not_there_is_named_with_the_address() -> None:
    error = await error_of(404, {"error": {"message": "Not found"}})

    assert "test-model" in error.advice and "http://127.0.0.1:" in error.advice


async def test_a_full_window_is_told_in_figures() -> None:
    body = {
        "error": {"type": "exceed_context_size_error", "message": "Too long", "n_prompt_tokens": 9001, "n_ctx": 8192}
    }
    error = await error_of(400, body, model={"context_window": 8192}, max_tokens=1_000)

    assert error.kind is ErrorKind.CONTEXT_LENGTH
    assert error.message == "Too long (9,001 tokens of prompt in a window of 8,192)"
    assert "8,192 tokens" in error.advice and "1,000 of it" in error.advice
    assert "enter it at the model" in (await error_of(400, body)).advice


async def test_a_refused_parameter_is_named_with_its_switch() -> None:
    error = await error_of(400, {"error": {"message": "Unsupported value.", "param": "temperature"}}, temperature=0.5)

    assert error.advice == (
        "test-model doesn't take temperature as it was sent. To leave it out, untick “temperature” at the model."
    )


@pytest.mark.parametrize(
    ("message", "param", "found"),
    [
        ("Unsupported parameter: 'max_tokens' is not supported with this model.", None, "max_tokens"),
        ("`temperature` is deprecated for this model.", None, "temperature"),
        ("thinking.enabled.budget_tokens: Extra inputs are not permitted", None, "thinking"),
        ("Thinking level is not supported for this model.", None, "thinking"),
        ("Unknown name thinkingLevel at generation_config", None, "thinkinglevel"),
        ("anything", "reasoning.summary", "reasoning"),
        ("anything", "tools[0].function", "tools"),
        ("anything", "messages[0]", None),
        ("The temperature of the office is fine.", None, None),
        ("Unsupported file.", None, None),
    ],
)
def test_the_parameter_is_read_from_what_the_service_says(message: str, param: str | None, found: str | None) -> None:
    error = ProviderError(kind=ErrorKind.INVALID_REQUEST, message=message, param=param)

    assert refused_parameter(error) == found
    assert found is None or found in SWITCHES


REFUSALS = [
    ("openai_chat", 400, "Unsupported parameter: 'reasoning_effort'", "reasoning_effort", "untick “thinking effort”"),
    ("openai_chat", 400, "Unsupported value: 'temperature'", "temperature", "untick “temperature”"),
    ("openai_responses", 400, "Unsupported parameter", "reasoning.effort", "untick “thinking effort”"),
    ("azure_openai", 400, "Unrecognized request argument supplied: parallel_tool_calls", None, "leave it as"),
    ("anthropic", 400, "`temperature` may only be set to 1 when thinking is enabled.", None, "untick “temperature”"),
    ("anthropic", 400, "output_config.effort: Extra inputs are not permitted", None, "untick “thinking effort”"),
    ("anthropic", 400, "tool_choice: forced tool use is not supported by this model", None, "untick “tool choice”"),
    ("gemini", 400, "Budget 0 is invalid. This model only works in thinking mode.", None, "untick “thinking effort”"),
    ("gemini", 400, "Function calling is not enabled for models/gemma-3", None, "untick “tools”"),
    ("gemini", 400, "Unknown name seed at generation_config: Cannot find field.", None, "leave it blank"),
    ("ollama", 400, "registry.ollama.ai/library/x:latest does not support tools", None, "untick “tools”"),
    ("ollama", 400, "x does not support thinking", None, "untick “thinking effort”"),
    ("openrouter", 404, "No endpoints found that support tool use.", None, "untick “tools”"),
    ("openrouter", 404, "No endpoints found that support image input", None, "untick “images”"),
    ("mistral", 422, "reasoning_effort: Extra inputs are not permitted", None, "untick “thinking effort”"),
    ("groq", 400, "`reasoning_format` is not supported with this model", None, "untick “thinking effort”"),
    ("groq", 400, "property 'top_p' is unsupported", None, "untick “temperature”"),
    ("deepseek", 400, "deepseek-v4-pro does not support this tool_choice", None, "untick “tool choice”"),
    ("openai_compat", 500, "tools param requires --jinja flag", None, "Start the server with --jinja"),
    (
        "openai_compat",
        400,
        '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
        None,
        "Start the server with --enable-auto-tool-choice",
    ),
]


@pytest.mark.parametrize(("adapter", "status", "message", "param", "advice"), REFUSALS)
async def test_what_each_service_refuses_is_named_with_its_switch(
    adapter: str, status: int, message: str, param: str | None, advice: str
) -> None:
    voice = next(voice for voice in VOICES if voice.adapter == adapter)
    body = json.dumps({"error": {"message": message, "param": param}}).encode()
    script = Script(status=status, headers={"content-type": "application/json"}, writes=[body])
    async with serve_script(script) as server, open_http() as http:
        error = (await ask(ModelClient(http=http), call_to(voice, server.origin))).response.error

    assert error is not None
    assert advice in error.advice


async def test_a_server_that_is_not_there_is_named_with_its_address() -> None:
    async with open_http() as http:
        completion = await ask(ModelClient(http=http), call_to(CHAT, "http://127.0.0.1:9"))

    assert "http://127.0.0.1:9/v1" in completion.response.error.advice
    assert KEY not in completion.response.error.advice


def test_recorded_errors_of_any_age_have_advice() -> None:
    assert advice_of({"kind": "timeout"}) == ADVICE[ErrorKind.TIMEOUT]
    assert advice_of({"kind": "timeout", "hint": "Wait."}) == "Wait."
    assert advice_of({"kind": "never heard of"}) == advice_of({}) == ""
