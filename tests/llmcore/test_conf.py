"""The settings of a site that sets none of ours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from django.apps import apps
from django.conf import settings as site
from django.core.exceptions import ImproperlyConfigured

from llmcore import store
from llmcore.conf import DEFAULTS, most_calls_in_flight, settings
from llmcore.errors import SecretUnavailable
from llmcore.keys import read_key, save_key, use_environment_key
from tests.factories import ConfigurationFactory, ProviderFactory

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def bare_site(settings):
    """Django's settings without any of ours; yields them, to be changed."""
    for name in DEFAULTS:
        if hasattr(settings, name):
            delattr(settings, name)
    return settings


def test_a_setting_of_the_site_comes_before_the_default(bare_site):
    assert settings.LLM_MAX_ROUNDS == 50
    bare_site.LLM_MAX_ROUNDS = 7
    assert settings.LLM_MAX_ROUNDS == 7


def test_a_setting_that_exists_nowhere_is_an_error(bare_site):
    with pytest.raises(AttributeError):
        _ = settings.LLM_NOBODY_KNOWS


@pytest.mark.django_db
def test_a_site_that_sets_nothing_can_load_a_configuration(bare_site):
    configuration = ConfigurationFactory(max_rounds=80)
    assert store.load_configuration(configuration.slug).limits.max_rounds == 50


def test_keys_are_encrypted_with_the_secret_key_where_no_other_is_set(bare_site):  # W7
    provider = ProviderFactory.build(key="sk-0123456789")
    assert b"sk-0123456789" not in provider.encrypted_key
    assert read_key(provider).reveal() == "sk-0123456789"


def test_a_key_survives_the_rotation_of_the_secret_key(bare_site):  # W7
    provider = ProviderFactory.build(key="sk-0123456789")
    bare_site.SECRET_KEY_FALLBACKS, bare_site.SECRET_KEY = [site.SECRET_KEY], "another-secret-key"
    assert read_key(provider).reveal() == "sk-0123456789"
    save_key(provider, "sk-9876543210")
    bare_site.SECRET_KEY_FALLBACKS = []
    assert read_key(provider).reveal() == "sk-9876543210"


def test_the_derived_key_tells_nothing_of_the_secret_key(bare_site):
    (key,) = settings.LLM_ENCRYPTION_KEYS
    assert Fernet(key) and key not in site.SECRET_KEY and site.SECRET_KEY not in key


def test_without_a_way_to_read_the_environment_the_error_names_the_setting(bare_site):  # W7
    provider = ProviderFactory.build(base_url="https://llm.example.com/v1")
    use_environment_key(provider, "SHOP_API_KEY")
    with pytest.raises(SecretUnavailable, match=r"LLM_ENVIRONMENT_SECRET be os\.environ\.get"):
        read_key(provider)


@pytest.mark.django_db
def test_what_is_secret_by_the_name_of_its_setting_is_known_as_a_secret(bare_site):  # R1
    bare_site.STRIPE_API_KEY = "rk_live_0123456789"
    bare_site.SHORT_TOKEN = "abc"
    bare_site.AUTH_USER_MODEL = "auth.User"
    found = store.secret_values()
    assert "rk_live_0123456789" in found and site.SECRET_KEY in found
    assert "abc" not in found and "auth.User" not in found


def test_each_setting_that_the_apps_read_has_a_default():
    modules = [path for app in ("llmcore", "playground") for path in (ROOT / app).rglob("*.py")]
    # The settings themselves; and the demo's process tree belongs to one site only.
    texts = {path: path.read_text() for path in modules if path.name not in ("conf.py", "embedded.py")}
    read = {name for text in texts.values() for name in re.findall(r"\bsettings\.(LLM_\w+)", text)}
    assert read <= set(DEFAULTS)
    past_us = [path for path, text in texts.items() if "settings.LLM_" in text and "llmcore.conf" not in text]
    assert past_us == []


@pytest.mark.parametrize("limit", [0, -3])
def test_a_limit_of_calls_that_lets_none_through_is_refused_at_start(bare_site, limit):  # S1
    bare_site.LLM_MAX_CALLS_IN_FLIGHT = limit
    with pytest.raises(ImproperlyConfigured, match="Set it to 1 or more"):
        apps.get_app_config("llmcore").ready()


def test_without_a_limit_any_number_of_calls_may_be_in_flight(bare_site):
    assert most_calls_in_flight() is None
