"""The list of a provider's models: the test of a connection, and the names nearest to a wrong one."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from llmcore.detection.listings import compatible_model
from llmcore.errors import ErrorKind
from llmcore.keys import save_key
from llmcore.metering.client import ModelClient, open_http
from llmcore.models import LanguageModel, Provider
from llmcore.providers.listing import Listing, nearest
from llmcore.providers.registry import adapter_for
from llmcore.providers.scripted import Scenario, ScriptedModel, Turn, serve
from tests.factories import LanguageModelFactory, ProviderFactory
from tests.llmcore.voices import KEY, VOICES, Voice, ask, call_to

NAMES = ("claude-sonnet-5", "gpt-5-mini", "gpt-5-nano")


@pytest.fixture(scope="module")
def model() -> ScriptedModel:
    return ScriptedModel([Scenario(name=name, turns=(Turn(text="Hi"),)) for name in NAMES])


@pytest.fixture(scope="module")
def origin(model: ScriptedModel) -> Iterator[str]:
    with serve(model) as url:
        yield url.removesuffix("/v1")


@pytest.mark.parametrize("voice", VOICES, ids=lambda voice: voice.adapter)
async def test_every_wire_format_lists_models_with_its_key(voice: Voice, origin: str, model: ScriptedModel) -> None:
    async with open_http() as http:
        listing = await ModelClient(http=http).listing(call_to(voice, origin).provider)

    assert (listing.names, listing.error) == (sorted(NAMES), None)
    request = model.requests[-1]
    assert (request.method, request.headers[voice.key_header]) == ("GET", voice.key_prefix + KEY)


@pytest.mark.parametrize("voice", VOICES, ids=lambda voice: voice.adapter)
async def test_a_name_that_a_provider_does_not_know_is_told_with_the_nearest(voice: Voice, origin: str) -> None:
    async with open_http() as http:
        call = call_to(voice, origin)
        completion = await ask(ModelClient(http=http), call)

    error = completion.response.error
    assert error is not None and error.kind is ErrorKind.NOT_FOUND
    assert error.advice.startswith("Test has no model test-model.") and "lists 3 other models" in error.advice


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("gpt5-mini", ["gpt-5-mini", "gpt-5-nano"]),
        ("GPT-5-MINI", ["gpt-5-mini", "gpt-5-nano"]),
        ("anthropic/claude-sonet-5", ["claude-sonnet-5"]),
        ("gpt", ["gpt-5-mini", "gpt-5-nano"]),
        ("llama", []),
        ("", []),
    ],
)
def test_nearest_names_are_those_that_look_alike(wanted: str, found: list[str]) -> None:
    assert nearest(wanted, NAMES) == found


@pytest.mark.parametrize("body", [None, 7, "x", [], {}, {"data": 3}, {"data": [1, {"id": 5}, {"id": "\0"}]}])
def test_what_is_no_list_has_no_names(body: Any) -> None:
    assert Listing(body=body).names == []


async def test_a_list_behind_a_wrong_key_is_an_error_without_the_key(origin: str) -> None:
    provider = call_to(VOICES[0], "http://127.0.0.1:9").provider
    async with open_http() as http:
        listing = await ModelClient(http=http).listing(provider)

    assert listing.error is not None and listing.error.kind is ErrorKind.CONNECTION
    assert KEY not in repr(listing)
    assert KEY not in adapter_for("gemini").listing(provider).url


def test_what_lists_tell_of_a_model_is_taken_over() -> None:
    routed = compatible_model(
        "vendor/m",
        {
            "context_length": 1000,
            "top_provider": {"max_completion_tokens": 100},
            "supported_parameters": ["reasoning", "max_tokens"],
            "architecture": {"input_modalities": ["text", "image"]},
            "pricing": {"prompt": "0.00000025", "completion": "0.000002", "input_cache_read": "-1"},
        },
    )
    assert (routed.context_window, routed.max_output_tokens, routed.label) == (1000, 100, "m")
    assert (routed.supports_tools, routed.supports_temperature, routed.supports_thinking) == (False, False, True)
    assert routed.supports_images
    assert (routed.prices.input, routed.prices.output, routed.prices.cache_read) == (Decimal("0.25"), Decimal(2), None)
    gemini = compatible_model("g", {"displayName": "G", "inputTokenLimit": 9, "outputTokenLimit": 4, "thinking": True})
    assert (gemini.label, gemini.context_window, gemini.max_output_tokens) == ("G", 9, 4) and gemini.supports_thinking
    mistral = compatible_model(
        "m", {"max_context_length": 5, "capabilities": {"function_calling": False, "vision": True}}
    )
    assert (mistral.context_window, mistral.supports_tools, mistral.supports_images) == (5, False, True)


def provider_at(origin: str, **changes: Any) -> Provider:
    row: Provider = ProviderFactory(
        name="Scripted", slug="scripted", base_url=f"{origin}/v1", allow_private_hosts=True, **changes
    )
    return row


def said(*arguments: str) -> str:
    out = StringIO()
    call_command("llm_models", *arguments, stdout=out)
    return out.getvalue()


@pytest.mark.django_db(transaction=True)
def test_the_command_tests_lists_and_enters(origin: str) -> None:
    row = provider_at(origin)

    assert said() == "Scripted: it answers and lists 3 models\n"
    assert "  gpt-5-mini\n" in said("scripted")
    assert "entered: gpt-5-mini" in said("scripted", "--add", "gpt-5-mini")
    assert "nothing new" in said("scripted", "--add", "gpt-5-mini")
    assert LanguageModel.objects.get(provider=row).name == "gpt-5-mini"
    with pytest.raises(CommandError, match="Did you mean gpt-5-mini"):
        said("scripted", "--add", "gpt-5-minni")
    with pytest.raises(CommandError, match="no provider"):
        said("nobody")


@pytest.mark.django_db(transaction=True)
def test_the_command_fails_where_nobody_answers() -> None:
    provider_at("http://127.0.0.1:9")
    out = StringIO()

    with pytest.raises(SystemExit):
        call_command("llm_models", stdout=out)
    assert "Can't connect" in out.getvalue() and "Check the base URL" in out.getvalue()


@pytest.mark.django_db(transaction=True)
def test_a_connection_is_tested_from_the_list_of_providers(origin: str) -> None:
    row = provider_at(origin)
    save_key(row, KEY)
    row.save()
    LanguageModelFactory(provider=row, name="gpt-6")
    client = Client()
    client.force_login(User.objects.create_superuser("root"))

    form = {"action": "test_connection", "_selected_action": [row.pk]}
    page = client.post(reverse("admin:llmcore_provider_changelist"), form, follow=True).content.decode()

    assert "Scripted answers and lists 3 models." in page
    assert "does not list gpt-6" in page
    assert KEY not in page
