"""Entering what was found: once, usable at once, and never against what people did since."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command

from llmcore import store
from llmcore.configuration import LanguageModel as ModelValue
from llmcore.configuration import Prices
from llmcore.detection.found import FoundModel, FoundProvider
from llmcore.enrollment import Enrolled, detect, enroll
from llmcore.errors import SecretUnavailable
from llmcore.models import Configuration, DetectedItem, LanguageModel, Provider
from llmcore.providers.local_servers import OLLAMA
from tests.factories import ProviderFactory
from tests.llmcore.model_servers import EMBEDDER, LLAMA, QWEN, OllamaDouble, serve_ollama
from tests.llmcore.test_detection import at

pytestmark = pytest.mark.django_db

KEY = "sk-proj-0123456789abcdef"


@pytest.fixture
def ollama() -> Iterator[OllamaDouble]:
    with serve_ollama({"llama3.2:latest": LLAMA, "qwen3:8b": QWEN, "nomic-embed-text": EMBEDDER}) as double:
        yield double


@pytest.fixture(autouse=True)
def empty_environment(settings: Any) -> dict[str, str]:
    """The variables that detection reads, to be filled."""
    variables: dict[str, str] = {}
    settings.LLM_ENVIRONMENT_SECRET = variables.get
    settings.LLM_SECRET_VALUES = lambda: list(variables.values())
    return variables


def look_at(double: OllamaDouble) -> Enrolled:
    (enrolled,) = detect(timeout_s=30.0, places=[at(double.base_url, OLLAMA)]).enrolled
    return enrolled


def everything_stored() -> str:
    """All rows of all tables, as text."""
    return repr([list(model.objects.values()) for model in apps.get_models()])


def test_a_found_server_becomes_a_provider_with_a_configuration_for_each_model(ollama: OllamaDouble):
    enrolled = look_at(ollama)
    assert enrolled.new_models == ("llama3.2", "qwen3:8b") and enrolled.problems == ()
    provider = Provider.objects.get()
    assert (provider.slug, provider.name, provider.adapter) == ("ollama", "Ollama", "ollama")
    assert (provider.base_url, provider.allow_private_hosts) == (ollama.base_url, True)
    configuration = Configuration.objects.get(slug="ollama-qwen3-8b")
    assert configuration.name == "qwen3:8b (Ollama)" and "127.0.0.1" in configuration.description
    loaded = store.load_configuration(configuration)
    assert (loaded.model.context_window, loaded.model.supports_thinking) == (8192, True)
    assert loaded.tools == () and "orders" in loaded.tool_groups
    configuration.full_clean()


@pytest.mark.parametrize("times", [2, 3])
def test_looking_again_changes_nothing(ollama: OllamaDouble, times: int):
    look_at(ollama)
    before = everything_stored()
    for _ in range(times - 1):
        assert look_at(ollama).new_models == ()
    assert everything_stored() == before


def test_a_model_that_was_pulled_since_is_added(ollama: OllamaDouble):
    look_at(ollama)
    ollama.models["mistral:7b"] = LLAMA
    assert look_at(ollama).new_models == ("mistral:7b",)
    assert Provider.objects.count() == 1 and Configuration.objects.filter(slug="ollama-mistral-7b").exists()


def test_what_people_changed_stays(ollama: OllamaDouble):
    look_at(ollama)
    Provider.objects.update(name="Our box", slug="box", enabled=False)
    LanguageModel.objects.update(context_window=4096, label="Changed")
    Configuration.objects.update(system_prompt="Be kind.")
    before = everything_stored()
    look_at(ollama)
    assert everything_stored() == before


def test_what_people_deleted_stays_deleted(ollama: OllamaDouble):
    look_at(ollama)
    Configuration.objects.filter(slug="ollama-llama3-2").delete()
    LanguageModel.objects.filter(name="llama3.2:latest").delete()
    look_at(ollama)
    assert not LanguageModel.objects.filter(name="llama3.2:latest").exists()
    assert not Configuration.objects.filter(slug="ollama-llama3-2").exists()

    Configuration.objects.all().delete()
    Provider.objects.all().delete()
    enrolled = look_at(ollama)
    assert enrolled.problems == ("It was deleted in the admin and is not entered again.",)
    assert not Provider.objects.exists() and not LanguageModel.objects.exists()


def test_a_provider_that_was_given_another_address_gets_no_models(ollama: OllamaDouble):
    look_at(ollama)
    Provider.objects.update(base_url="http://127.0.0.1:9")
    ollama.models["mistral:7b"] = LLAMA
    assert look_at(ollama).problems == ("Its address was changed in the admin, so nothing is added to it.",)
    assert not LanguageModel.objects.filter(name="mistral:7b").exists()


def test_a_server_that_was_entered_by_hand_is_left_alone(ollama: OllamaDouble):
    mine = ProviderFactory(name="Mine", base_url=f"http://localhost:{ollama.port}/v1", allow_private_hosts=True)
    assert look_at(ollama).problems == ("The provider “Mine” has this address already; it is left as it is.",)
    assert list(Provider.objects.all()) == [mine] and not LanguageModel.objects.exists()
    assert not DetectedItem.objects.exists()


def test_a_server_that_is_gone_stays_entered(ollama: OllamaDouble):
    look_at(ollama)
    before = everything_stored()
    (look,) = detect(timeout_s=0.5, places=[replace(OLLAMA, port=1)]).looks
    assert look.provider is None and everything_stored() == before


def test_taken_slugs_are_not_taken_again(ollama: OllamaDouble):
    ProviderFactory(slug="ollama", name="Another")
    look_at(ollama)
    assert Provider.objects.filter(slug="ollama-2", base_url=ollama.base_url).exists()
    assert Configuration.objects.filter(slug="ollama-2-qwen3-8b").exists()


def test_a_key_in_the_environment_is_named_and_never_copied(empty_environment: dict[str, str]):  # W7
    empty_environment["OPENAI_API_KEY"] = KEY
    (enrolled,) = detect(timeout_s=0.1, places=[]).enrolled
    assert len(enrolled.new_models) >= 5 and enrolled.problems == ()
    provider = Provider.objects.get()
    assert (provider.key_env, provider.key_host, bytes(provider.encrypted_key)) == (
        "OPENAI_API_KEY",
        "api.openai.com",
        b"",
    )
    assert not provider.allow_private_hosts
    assert KEY not in everything_stored()
    loaded = store.load_configuration("openai-gpt-5-mini")
    assert loaded.provider.api_key.reveal() == KEY and str(loaded.model.prices.input) == "0.250000"
    assert store.load_configuration("openai-gpt-5-6-luna").parameters.thinking == "off"
    for configuration in Configuration.objects.all():
        configuration.full_clean()


def test_a_key_that_has_left_the_environment_is_told_by_its_name(empty_environment: dict[str, str]):  # W7
    empty_environment["OPENAI_API_KEY"] = KEY
    detect(timeout_s=0.1, places=[])
    empty_environment.clear()
    detect(timeout_s=0.1, places=[])
    with pytest.raises(SecretUnavailable, match="OPENAI_API_KEY"):
        store.load_configuration("openai-gpt-5-mini")


def test_a_service_whose_key_was_entered_by_hand_is_left_alone(empty_environment: dict[str, str]):
    empty_environment["OPENAI_API_KEY"] = KEY
    ProviderFactory(name="Ours", adapter="openai_chat", base_url="https://api.openai.com/v1", key="sk-another-key-01")
    (enrolled,) = detect(timeout_s=0.1, places=[]).enrolled
    assert "“Ours” has this address already" in enrolled.problems[0]
    assert Provider.objects.count() == 1


def test_an_address_that_breaks_the_rules_is_not_entered():  # W6
    for url in ("http://169.254.169.254/v1", "http://192.0.2.1/v1", "ftp://127.0.0.1/v1"):
        found = FoundProvider(name="Odd", adapter="openai_compat", base_url=url, about="somewhere")
        assert enroll(found).problems[0].startswith("It can't be entered: ")
    assert not Provider.objects.exists()


def test_odd_models_are_refused_one_by_one():
    prices = Prices.from_json({"input": "1"})
    odd = FoundModel(model=ModelValue(name="half-priced", label="Half", prices=prices))
    fine = FoundModel(model=ModelValue(name="<b>fine</b>", label="<b>fine</b>" * 15))
    found = FoundProvider(
        name="Shop" * 30, adapter="openai_compat", base_url="http://127.0.0.1:9/v1", about="here", models=(odd, fine)
    )
    assert enroll(replace(found, name="Shop")).new_models == (fine.model.label,)
    assert [model.name for model in LanguageModel.objects.all()] == ["<b>fine</b>"]
    assert len(Configuration.objects.get().name) == 100
    assert enroll(replace(found, base_url="http://127.0.0.1:8/v1")).problems[0].startswith("It can't be entered: ")


def test_the_command_says_what_it_found(ollama: OllamaDouble, empty_environment: dict[str, str], settings: Any):
    empty_environment["OPENAI_API_KEY"] = KEY
    settings.LLM_OLLAMA_HOST = f"127.0.0.1:{ollama.port}"
    first, second = StringIO(), StringIO()
    call_command("llm_detect", timeout=30.0, stdout=first)
    call_command("llm_detect", timeout=30.0, stdout=second)
    assert f"Ollama, at 127.0.0.1:{ollama.port}: 2 models, 2 entered now" in first.getvalue()
    assert "OpenAI, with the key in OPENAI_API_KEY" in first.getvalue() and "llama3.2" in first.getvalue()
    assert f"Ollama, at 127.0.0.1:{ollama.port}: 2 models, nothing new" in second.getvalue()
    assert KEY not in first.getvalue() + second.getvalue()


def test_the_command_leaves_an_ollama_elsewhere_alone(settings: Any):
    settings.LLM_OLLAMA_HOST = "gpu-box"
    out = StringIO()
    call_command("llm_detect", timeout=0.5, stdout=out)
    assert "OLLAMA_HOST is no plain address of this machine" in out.getvalue()
    assert "Ollama at" not in out.getvalue()
