"""The provider pages: keys go in and never come out, addresses are checked, models hang together."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries, Settings

from llmcore.keys import read_key
from llmcore.models import LanguageModel, Provider
from tests.factories import ConfigurationFactory, LanguageModelFactory, ProviderFactory, UserFactory

pytestmark = pytest.mark.django_db
KEY = "sk-admin-0123456789"
LIST = "admin:llmcore_provider_changelist"
ADD = "admin:llmcore_provider_add"


@pytest.fixture
def admin(client: Client) -> Client:
    client.force_login(UserFactory(is_superuser=True))
    return client


def change_url(row: Any) -> str:
    return reverse(f"admin:llmcore_{row._meta.model_name}_change", args=[row.pk])


def provider_form(**changes: Any) -> dict[str, Any]:
    return {
        "slug": "acme",
        "name": "Acme",
        "adapter": "openai_compat",
        "base_url": "https://llm.example.com/v1",
        "enabled": "on",
        "connect_timeout_s": 10,
        "read_timeout_s": 120,
        "total_timeout_s": 600,
        "max_attempts": 3,
        **changes,
    }


def errors_of(response: Any) -> dict[str, list[str]]:
    assert response.status_code == 200, "the form was accepted"
    errors: dict[str, list[str]] = response.context["adminform"].form.errors
    return errors


def save(admin: Client, row: Provider | None = None, **changes: Any) -> Any:
    return admin.post(change_url(row) if row else reverse(ADD), provider_form(**changes), follow=True)


def test_a_provider_is_added_with_a_key(admin: Client) -> None:
    response = save(admin, api_key=f" {KEY} ", base_url="https://LLM.example.com/v1/")
    provider = Provider.objects.get()
    assert response.redirect_chain and read_key(provider).reveal() == KEY
    assert provider.base_url == "https://llm.example.com/v1" and provider.key_host == "llm.example.com"


def test_a_saved_key_is_in_no_page_and_no_log(admin: Client) -> None:  # W7
    save(admin, api_key=KEY)
    provider = Provider.objects.get()
    token = bytes(provider.encrypted_key).decode()
    pages = [
        admin.get(reverse(LIST)),
        admin.get(change_url(provider)),
        admin.get(reverse("admin:llmcore_provider_history", args=[provider.pk])),
        admin.get(reverse("admin:llmcore_provider_delete", args=[provider.pk])),
        admin.get(reverse("admin:index")),
        save(admin, provider, api_key=KEY, slug="not a slug"),
        save(admin, provider, api_key=KEY),
    ]
    for page in pages:
        assert page.status_code == 200
        assert KEY not in page.content.decode() and token not in page.content.decode()
    for entry in LogEntry.objects.all():
        assert KEY not in entry.change_message + entry.object_repr + entry.get_change_message()
    assert "API key" in LogEntry.objects.first().get_change_message()  # type: ignore[union-attr]


def test_the_page_says_for_which_host_a_key_is_saved(admin: Client) -> None:
    page = admin.get(change_url(ProviderFactory(key=KEY))).content.decode()
    assert 'placeholder="A key is saved for llm.example.com"' in page
    assert "saved for llm.example.com" in page and 'name="remove_key"' in page
    page = admin.get(change_url(ProviderFactory())).content.decode()
    assert "A key is saved" not in page and 'name="remove_key"' not in page


def test_a_blank_key_keeps_the_saved_one(admin: Client) -> None:
    provider = ProviderFactory(key=KEY)
    save(admin, provider, name="New name", base_url="https://llm.example.com/v2")
    provider.refresh_from_db()
    assert provider.name == "New name" and read_key(provider).reveal() == KEY


def test_a_new_key_replaces_the_saved_one(admin: Client) -> None:
    provider = ProviderFactory(key=KEY)
    save(admin, provider, api_key=KEY + "-new", base_url="https://elsewhere.example.com/v1")
    provider.refresh_from_db()
    assert read_key(provider).reveal() == KEY + "-new" and provider.key_host == "elsewhere.example.com"


def test_a_key_is_removed_by_its_tick_only(admin: Client) -> None:
    provider = ProviderFactory(key=KEY)
    save(admin, provider, remove_key="on")
    provider.refresh_from_db()
    assert not provider.encrypted_key and provider.key_host == ""


def test_another_host_asks_for_the_key_again(admin: Client) -> None:  # W6
    provider = ProviderFactory(key=KEY)
    errors = errors_of(save(admin, provider, base_url="https://evil.example/v1"))
    assert "never sent to another host" in errors["api_key"][0] and "evil.example" in errors["api_key"][0]
    provider.refresh_from_db()
    assert provider.base_url == "https://llm.example.com/v1"

    save(admin, provider, base_url="https://evil.example/v1", remove_key="on")
    provider.refresh_from_db()
    assert provider.base_url == "https://evil.example/v1" and not provider.encrypted_key


def test_another_host_needs_consent_for_the_key_in_a_variable(admin: Client) -> None:  # W6
    provider = ProviderFactory(key_env="ACME_API_KEY")
    moved = {"base_url": "https://elsewhere.example.com/v1", "key_env": "ACME_API_KEY"}
    assert "was meant for llm.example.com" in errors_of(save(admin, provider, **moved))["send_to_new_host"][0]

    save(admin, provider, **moved, send_to_new_host="on")
    provider.refresh_from_db()
    assert provider.key_host == "elsewhere.example.com"


def test_the_first_save_through_the_form_keeps_what_the_form_does_not_show(admin: Client) -> None:
    provider = ProviderFactory(key_env="ACME_API_KEY")
    save(admin, provider, key_env="ACME_API_KEY", name="Renamed")
    provider.refresh_from_db()
    assert (provider.name, provider.key_env, provider.key_host) == ("Renamed", "ACME_API_KEY", "llm.example.com")
    save(admin, provider, key_env="")
    provider.refresh_from_db()
    assert (provider.key_env, provider.key_host) == ("", "")


def test_a_variable_takes_the_place_of_a_saved_key_only_with_its_removal(admin: Client) -> None:
    provider = ProviderFactory(key=KEY)
    assert "tick “remove the saved key”" in errors_of(save(admin, provider, key_env="ACME_API_KEY"))["key_env"][0]
    save(admin, provider, key_env="ACME_API_KEY", remove_key="on")
    provider.refresh_from_db()
    assert not provider.encrypted_key and provider.key_env == "ACME_API_KEY"


@pytest.mark.parametrize(
    ("changes", "field", "advice"),
    [
        ({"api_key": KEY, "key_env": "ACME_API_KEY"}, "key_env", "not both"),
        ({"api_key": KEY, "remove_key": "on"}, "remove_key", "untick this"),
        ({"api_key": "sk two words"}, "api_key", "paste the key alone"),
        ({"api_key": "sk-1"}, "api_key", "paste the whole key"),
        ({"key_env": "SECRET_KEY"}, "key_env", "must end with _API_KEY"),
        ({"base_url": "http://llm.example.com/v1"}, "base_url", "tick “allow a local or private address”"),
        ({"base_url": "https://169.254.169.254/"}, "base_url", "never called"),
        ({"base_url": "https://u:p@llm.example.com/"}, "base_url", "Remove the user name"),
        ({"base_url": "https://llm.example.com/v1?key=1"}, "base_url", "the key has a field of its own"),
        ({"base_url": ""}, "base_url", "enter the server's base URL"),
        ({"adapter": "telepathy"}, "adapter", "not one of the available choices"),
        ({"total_timeout_s": 60}, "total_timeout_s", "raise this one"),
        ({"max_attempts": 0}, "max_attempts", "greater than or equal to 1"),
        ({"max_calls_in_flight": 0}, "max_calls_in_flight", "would let no call through. Enter 1 or more"),
        ({"max_calls_in_flight": -1}, "max_calls_in_flight", "would let no call through. Enter 1 or more"),
        ({"connect_timeout_s": "nan"}, "connect_timeout_s", "Enter a number"),
    ],
)
def test_what_cannot_work_is_refused_with_advice(
    admin: Client, changes: dict[str, Any], field: str, advice: str
) -> None:
    errors = errors_of(save(admin, **changes))
    assert advice in errors[field][0]
    assert not Provider.objects.exists()


def test_a_blank_address_is_the_usual_one_of_the_wire_format(admin: Client) -> None:
    save(admin, adapter="openai_chat", base_url="", api_key=KEY)
    assert Provider.objects.get().base_url == "https://api.openai.com/v1"


def test_a_wire_format_that_is_gone_is_shown_and_refused(admin: Client) -> None:
    provider = ProviderFactory(adapter="telepathy")
    assert "telepathy (not known to this site)" in admin.get(change_url(provider)).content.decode()
    assert "telepathy (not known to this site)" in admin.get(reverse(LIST)).content.decode()
    assert "choose another one" in errors_of(save(admin, provider, adapter="telepathy"))["adapter"][0]


def test_a_lost_encryption_key_is_told_on_the_page(admin: Client, settings: Settings) -> None:  # W7
    provider = ProviderFactory(key=KEY)
    settings.LLM_ENCRYPTION_KEYS = [Fernet.generate_key().decode()]
    page = admin.get(change_url(provider))
    assert "LLM_ENCRYPTION_KEYS" in page.content.decode()
    # And it can be mended there.
    save(admin, provider, api_key=KEY)
    provider.refresh_from_db()
    assert read_key(provider).reveal() == KEY


def test_an_unset_variable_and_a_missing_key_are_told_after_saving(admin: Client) -> None:
    assert "UNSET_API_KEY" in save(admin, key_env="UNSET_API_KEY").content.decode()
    page = save(admin, slug="openai", adapter="openai_chat", base_url="")
    assert "has no key yet" in page.content.decode()


def test_the_value_of_a_variable_is_on_no_page(admin: Client, settings: Settings) -> None:  # W7
    settings.LLM_ENVIRONMENT_SECRET = {"ACME_API_KEY": "from-the-environment"}.get
    provider = ProviderFactory(key_env="ACME_API_KEY")
    for url in (change_url(provider), reverse(LIST)):
        page = admin.get(url).content.decode()
        assert "ACME_API_KEY" in page and "from-the-environment" not in page


def test_the_list_of_providers_takes_the_same_queries_for_any_number(
    admin: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(12):
        LanguageModelFactory(provider=ProviderFactory(key=KEY if number % 2 else None))
    with django_assert_max_num_queries(7):
        page = admin.get(reverse(LIST))
    assert page.status_code == 200 and len(page.context["cl"].result_list) == 12


def test_the_list_of_models_takes_the_same_queries_for_any_number(
    admin: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    LanguageModelFactory(input_price="1.250000", output_price="10")
    for _number in range(12):
        LanguageModelFactory()
    with django_assert_max_num_queries(7):
        page = admin.get(reverse("admin:llmcore_languagemodel_changelist"))
    assert "1.25 / 10" in page.content.decode()


def test_providers_are_filtered_by_the_names_of_their_wire_formats(admin: Client) -> None:
    ProviderFactory(name="Wanted", adapter="anthropic")
    ProviderFactory(name="Other", adapter="gone")

    page = admin.get(reverse(LIST), {"adapter": "anthropic"}).content.decode()

    assert ">Anthropic</a>" in page and ">gone (not known to this site)</a>" in page
    assert ">Wanted</a>" in page and ">Other</a>" not in page


@pytest.mark.parametrize("search", ["acme", "LLM.example", "Acme Corp"])
def test_providers_are_found_by_name_slug_and_address(admin: Client, search: str) -> None:
    ProviderFactory(slug="acme", name="Acme Corp", base_url="https://llm.example.com/v1")
    ProviderFactory(slug="other", name="Other", base_url="https://api.other.example/v1")
    page = admin.get(reverse(LIST), {"q": search})
    assert [row.slug for row in page.context["cl"].result_list] == ["acme"]


def model_form(provider: Provider, **changes: Any) -> dict[str, Any]:
    ticked = {"enabled": "on", "supports_tools": "on"}
    return {"provider": provider.pk, "name": "m-1", "thinking_control": "effort", **ticked, **changes}


@pytest.mark.parametrize(
    ("changes", "field", "advice"),
    [
        ({"context_window": 1000, "max_output_tokens": 2000}, "max_output_tokens", "raise the window"),
        ({"input_price": "1"}, "output_price", "A cost needs both prices"),
        ({"output_price": "1"}, "input_price", "A cost needs both prices"),
        ({"cache_read_price": "1"}, "cache_read_price", "input and output prices too"),
        ({"input_price": "-1", "output_price": "1"}, "input_price", "greater than or equal to 0"),
    ],
)
def test_a_model_that_does_not_hang_together_is_refused(
    admin: Client, changes: dict[str, Any], field: str, advice: str
) -> None:
    url = reverse("admin:llmcore_languagemodel_add")
    errors = errors_of(admin.post(url, model_form(ProviderFactory(), **changes), follow=True))
    assert advice in errors[field][0]


def test_a_free_model_is_priced_at_zero_not_blank(admin: Client) -> None:
    form = model_form(ProviderFactory(), input_price="0", output_price="0")
    admin.post(reverse("admin:llmcore_languagemodel_add"), form)
    assert LanguageModel.objects.get().input_price == 0


def test_a_provider_in_use_is_not_deleted(admin: Client) -> None:
    provider = ConfigurationFactory().model.provider
    page = admin.post(reverse("admin:llmcore_provider_delete", args=[provider.pk]), {"post": "yes"})
    assert page.status_code == 200 and Provider.objects.filter(pk=provider.pk).exists()
