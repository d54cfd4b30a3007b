"""Keys are encrypted, bound to one host, rotated, and their absence is explained."""

from __future__ import annotations

import logging
import pickle
import traceback
from collections.abc import Callable
from io import StringIO

import pytest
from cryptography.fernet import Fernet
from django.core.management import CommandError, call_command
from pytest_django import Settings

from llmcore import keys
from llmcore.errors import ConfigurationError, SecretUnavailable
from llmcore.models import Provider
from llmcore.redaction import MASK, Redactor
from llmcore.redaction.logs import RedactedRecord
from tests.factories import ProviderFactory

pytestmark = pytest.mark.django_db
KEY = "sk-keys-0123456789"


def encryption_key() -> str:
    return Fernet.generate_key().decode()


def rotate(*arguments: str) -> str:
    out = StringIO()
    call_command("llm_rotate_keys", *arguments, stdout=out)
    return out.getvalue()


def stored(provider: Provider) -> Provider:
    return Provider.objects.get(pk=provider.pk)


def test_a_saved_key_is_read_back_and_never_stored_in_clear() -> None:  # W7
    provider = stored(ProviderFactory(key=KEY))
    assert keys.read_key(provider).reveal() == KEY
    assert KEY.encode() not in bytes(provider.encrypted_key)
    assert KEY not in repr(provider) and KEY.encode() not in pickle.dumps(provider)
    assert provider.key_host == "llm.example.com"


def test_a_key_that_was_read_is_kept_out_of_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:  # R1
    monkeypatch.setattr(RedactedRecord, "redactor", Redactor())
    key = "correct-horse-battery-7"

    keys.read_key(ProviderFactory(key=key))
    logging.getLogger("some.library").warning("refused: %s", key)

    assert caplog.messages == [f"refused: {MASK}"]


def test_a_provider_without_a_key_has_an_empty_one() -> None:
    assert not keys.read_key(ProviderFactory())


def test_a_lost_encryption_key_is_explained(settings: Settings) -> None:  # W7
    provider = ProviderFactory(name="Acme", key=KEY)
    settings.LLM_ENCRYPTION_KEYS = [encryption_key()]
    with pytest.raises(SecretUnavailable) as caught:
        keys.read_key(provider)
    text = str(caught.value)
    assert "“Acme” can't be decrypted" in text and "LLM_ENCRYPTION_KEYS" in text and "enter the API key again" in text


@pytest.mark.parametrize("damage", [b"", b"gAAAA", b"\xff\xfe"])
def test_a_damaged_token_is_explained_as_well(damage: bytes) -> None:
    provider = ProviderFactory(key=KEY)
    provider.encrypted_key = bytes(provider.encrypted_key)[:20] + damage
    with pytest.raises(SecretUnavailable, match="can't be decrypted"):
        keys.read_key(provider)


def test_a_bad_encryption_key_is_named_by_its_place_and_not_shown(settings: Settings) -> None:
    settings.LLM_ENCRYPTION_KEYS = [encryption_key(), "not-a-fernet-key"]
    with pytest.raises(SecretUnavailable, match="Value 2 of LLM_ENCRYPTION_KEYS") as caught:
        ProviderFactory(key=KEY)
    assert "not-a-fernet-key" not in "".join(traceback.format_exception_only(caught.value))
    assert caught.value.__cause__ is None and caught.value.__suppress_context__


def test_no_encryption_key_at_all_is_explained(settings: Settings) -> None:
    settings.LLM_ENCRYPTION_KEYS = []
    with pytest.raises(SecretUnavailable, match="LLM_ENCRYPTION_KEYS is empty"):
        ProviderFactory(key=KEY)


@pytest.mark.parametrize(
    "base_url",
    [
        "https://elsewhere.example.com/v1",
        "https://llm.example.com:8443/v1",
        "http://llm.example.com/v1",
        "https://llm.example.com.evil.example/v1",
        "https://llm.example.com@evil.example/v1",
    ],
)
def test_a_key_never_goes_to_another_host(base_url: str) -> None:  # W6
    provider = ProviderFactory(key=KEY)
    provider.base_url = base_url
    assert keys.is_for_other_host(provider)
    with pytest.raises(SecretUnavailable, match=r"saved for llm\.example\.com and is not sent to"):
        keys.read_key(provider)


def test_not_even_a_changed_row_sends_a_key_elsewhere() -> None:  # W6
    provider = ProviderFactory(key=KEY)
    Provider.objects.update(base_url="https://evil.example/v1", key_host="evil.example")
    with pytest.raises(SecretUnavailable, match=r"saved for llm\.example\.com"):
        keys.read_key(stored(provider))


@pytest.mark.parametrize(
    "base_url", ["https://llm.example.com/v2", "https://LLM.example.com/v1/", "https://llm.example.com:443/v1"]
)
def test_another_path_of_the_same_host_keeps_the_key(base_url: str) -> None:
    provider = ProviderFactory(key=KEY)
    provider.base_url = base_url
    assert keys.read_key(provider).reveal() == KEY


def test_a_key_is_read_from_the_environment_at_each_use(settings: Settings) -> None:  # W7
    environment = {"SHOP_API_KEY": "sk-first-value\n"}
    settings.LLM_ENVIRONMENT_SECRET = environment.get
    provider = stored(ProviderFactory(key_env="SHOP_API_KEY"))
    assert keys.read_key(provider).reveal() == "sk-first-value"
    environment["SHOP_API_KEY"] = "sk-second-value"
    assert keys.read_key(provider).reveal() == "sk-second-value"
    assert b"sk-" not in pickle.dumps(stored(provider))


def test_a_variable_is_bound_to_the_host_it_was_saved_for() -> None:  # W6
    provider = ProviderFactory(key_env="SHOP_API_KEY")
    assert provider.key_host == "llm.example.com"
    Provider.objects.update(base_url="https://evil.example/v1")
    with pytest.raises(SecretUnavailable, match=r"saved for llm\.example\.com"):
        keys.read_key(stored(provider))


@pytest.mark.parametrize("value", [None, "", "  \n"])
def test_an_unset_variable_is_explained(settings: Settings, value: str | None) -> None:
    settings.LLM_ENVIRONMENT_SECRET = {"SHOP_API_KEY": value}.get
    with pytest.raises(SecretUnavailable, match=r"variable SHOP_API_KEY, .+ is not set\. Set it for the web server"):
        keys.read_key(ProviderFactory(key_env="SHOP_API_KEY"))


def test_a_variable_that_would_break_a_header_is_refused(settings: Settings) -> None:
    settings.LLM_ENVIRONMENT_SECRET = {"SHOP_API_KEY": "sk-one\nX-Other: two"}.get
    with pytest.raises(SecretUnavailable, match="line breaks") as caught:
        keys.read_key(ProviderFactory(key_env="SHOP_API_KEY"))
    assert "sk-one" not in str(caught.value)


@pytest.mark.parametrize("name", ["SECRET_KEY", "DATABASE_URL", "LLM_ENCRYPTION_KEYS", "AWS_SECRET_ACCESS_KEY", "PATH"])
def test_no_other_secret_of_the_process_can_be_named(settings: Settings, name: str) -> None:
    settings.LLM_ENVIRONMENT_SECRET = {name: "a-secret-of-the-site"}.get
    with pytest.raises(SecretUnavailable, match="must end with _API_KEY"):
        keys.read_key(ProviderFactory(key_env=name))
    with pytest.raises(ConfigurationError, match="must end with _API_KEY"):
        keys.use_environment_key(ProviderFactory(), name)


def test_the_operator_can_allow_another_name(settings: Settings) -> None:
    settings.LLM_KEY_VARIABLES = ["HF_TOKEN"]
    settings.LLM_ENVIRONMENT_SECRET = {"HF_TOKEN": "hf-0123456789"}.get
    provider = ProviderFactory()
    keys.use_environment_key(provider, "HF_TOKEN")
    assert keys.read_key(provider).reveal() == "hf-0123456789"


@pytest.mark.parametrize("key", ["sk with space", "sk-line\nbreak", "sk-12", "sk-schlüssel-1", "sk-tab\t12345"])
def test_what_is_no_key_is_not_saved(key: str) -> None:
    provider = ProviderFactory()
    with pytest.raises(ConfigurationError, match="paste") as caught:
        keys.save_key(provider, key)
    assert not keys.has_key(provider) and key not in str(caught.value)


def test_a_new_key_takes_the_place_of_a_variable_and_the_other_way_round() -> None:
    provider = ProviderFactory(key_env="SHOP_API_KEY")
    keys.save_key(provider, KEY)
    assert provider.key_env == "" and keys.read_key(provider).reveal() == KEY
    keys.use_environment_key(provider, "SHOP_API_KEY")
    assert provider.encrypted_key == b""
    keys.forget_key(provider)
    assert not keys.has_key(provider) and provider.key_host == ""


def test_old_encryption_keys_still_decrypt(settings: Settings) -> None:  # W7
    old = encryption_key()
    settings.LLM_ENCRYPTION_KEYS = [old]
    provider = ProviderFactory(key=KEY)
    settings.LLM_ENCRYPTION_KEYS = [encryption_key(), old]
    assert keys.read_key(provider).reveal() == KEY


def test_rotation_encrypts_all_keys_with_the_newest_and_counts_them(settings: Settings) -> None:  # W7
    old, new = encryption_key(), encryption_key()
    settings.LLM_ENCRYPTION_KEYS = [old]
    first, second = ProviderFactory(key=KEY), ProviderFactory(key=KEY + "-b")
    ProviderFactory(key_env="SHOP_API_KEY")
    settings.LLM_ENCRYPTION_KEYS = [new, old]

    out = rotate()

    assert "newest encryption key: 2." in out and "without a stored key: 1." in out and KEY not in out
    settings.LLM_ENCRYPTION_KEYS = [new]
    assert keys.read_key(stored(first)).reveal() == KEY
    assert keys.read_key(stored(second)).reveal() == KEY + "-b"


def test_rotation_changes_nothing_when_a_key_is_lost(settings: Settings) -> None:  # W7
    old, lost, new = encryption_key(), encryption_key(), encryption_key()
    settings.LLM_ENCRYPTION_KEYS = [lost]
    ProviderFactory(name="Orphan", key=KEY)
    settings.LLM_ENCRYPTION_KEYS = [old]
    kept = ProviderFactory(name="Kept", key=KEY)
    settings.LLM_ENCRYPTION_KEYS = [new, old]

    with pytest.raises(CommandError, match="Nothing was changed: the keys of “Orphan” can't be decrypted"):
        rotate()

    settings.LLM_ENCRYPTION_KEYS = [old]
    assert keys.read_key(stored(kept)).reveal() == KEY


def test_a_generated_key_can_be_used_at_once(settings: Settings) -> None:
    settings.LLM_ENCRYPTION_KEYS = ["broken"]
    settings.LLM_ENCRYPTION_KEYS = [rotate("--generate").strip()]
    assert keys.read_key(ProviderFactory(key=KEY)).reveal() == KEY


def test_nothing_to_rotate_is_no_error() -> None:
    assert "newest encryption key: 0." in rotate()


@pytest.mark.parametrize("act", [keys.read_key, keys.is_for_other_host, keys.has_key])
def test_looking_at_a_key_costs_no_query(act: Callable[[Provider], object], django_assert_num_queries: object) -> None:
    provider = stored(ProviderFactory(key=KEY))
    with django_assert_num_queries(0):  # type: ignore[operator]
        act(provider)
