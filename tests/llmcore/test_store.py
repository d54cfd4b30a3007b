"""Rows become the runtime's values, in few queries, and secrets are known so that they can be removed."""

from __future__ import annotations

import base64
import json
import pickle
from decimal import Decimal
from io import StringIO
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.core.management import call_command
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoAssertNumQueries, Settings

from llmcore import store
from llmcore.errors import ConfigurationError, ErrorKind, ProviderError, SecretUnavailable
from llmcore.messages import ModelResponse
from llmcore.models import ToolGroupSwitch, ToolSwitch, UsageRecord
from llmcore.providers.base import ModelCall
from llmcore.site_usage import DatabaseMeter
from llmcore.usage import Usage
from tests.factories import (
    ConfigurationFactory,
    LanguageModelFactory,
    ProviderFactory,
    SkillFactory,
    SnippetFactory,
    UserFactory,
)

pytestmark = pytest.mark.django_db
KEY = "sk-store-0123456789"


def test_a_configuration_is_loaded_whole_in_four_queries(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    skills = [SkillFactory(allowed_tools=["look"]), SkillFactory()]
    snippets = [SnippetFactory(tags=["tone"]), SnippetFactory(), SnippetFactory()]
    model = LanguageModelFactory(provider=ProviderFactory(key=KEY), input_price="1.25", inline_think="tags")
    row = ConfigurationFactory(
        model=model, skills=skills[::-1], snippets=snippets, temperature=0.5, tool_groups=["shop"], tools=[]
    )

    with django_assert_num_queries(4):
        loaded = store.load_configuration(row.slug)

    assert [skill.slug for skill in loaded.skills] == [skill.slug for skill in skills[::-1]]
    assert [snippet.slug for snippet in loaded.snippets] == [snippet.slug for snippet in snippets]
    assert loaded.skills[1].allowed_tools == ("look",) and loaded.skills[0].allowed_tools is None
    assert loaded.snippets[0].tags == ("tone",)
    assert loaded.provider.api_key.reveal() == KEY
    assert loaded.model.prices.input == Decimal("1.25") and loaded.model.prices.output is None
    assert loaded.model.inline_think == "tags" and loaded.model.label == model.name
    assert loaded.parameters.temperature == 0.5 and loaded.parameters.thinking is None
    assert loaded.tool_groups == ("shop",) and loaded.tools == ()
    assert (loaded.id, loaded.version) == (row.pk, 1)


def test_no_list_of_tools_is_not_an_empty_one() -> None:  # L3
    assert store.load_configuration(ConfigurationFactory(tools=None)).tools is None
    assert store.load_configuration(ConfigurationFactory(tools=[])).tools == ()


@pytest.mark.parametrize(("site", "expected"), [(50, 50), (5_000, 1_000)])
def test_rounds_are_clamped_to_the_limit_of_the_site(settings: Settings, site: int, expected: int) -> None:  # L1
    settings.LLM_MAX_ROUNDS = site
    assert store.load_configuration(ConfigurationFactory(max_rounds=4_000)).limits.max_rounds == expected


def test_an_unknown_configuration_is_named() -> None:
    with pytest.raises(ConfigurationError, match="no configuration “nowhere”"):
        store.load_configuration("nowhere")


@pytest.mark.parametrize("part", ["configuration", "model", "provider"])
def test_a_disabled_part_is_refused_by_name(part: str) -> None:
    enabled = {"configuration": "enabled", "model": "model__enabled", "provider": "model__provider__enabled"}[part]
    row = ConfigurationFactory(**{enabled: False})
    with pytest.raises(ConfigurationError, match=f"The {part} “.+” is disabled"):
        store.load_configuration(row.slug)


def test_a_dry_run_needs_no_readable_key(settings: Settings) -> None:
    row = ConfigurationFactory(model__provider__key=KEY)
    settings.LLM_ENCRYPTION_KEYS = [Fernet.generate_key().decode()]

    with pytest.raises(SecretUnavailable):
        store.load_configuration(row.slug)
    provider = store.load_configuration(row.slug, read_keys=False).provider

    assert provider.api_key.reveal() == store.PLACEHOLDER


def test_a_provider_without_a_key_has_no_placeholder_either() -> None:
    assert not store.load_configuration(ConfigurationFactory(), read_keys=False).provider.api_key


def test_loaded_secrets_show_themselves_nowhere() -> None:  # W7
    loaded = store.load_configuration(ConfigurationFactory(model__provider__key=KEY))
    assert KEY not in repr(loaded) and KEY not in f"{loaded.provider.api_key}"
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(loaded)


def test_skills_and_snippets_come_in_the_order_asked_for(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    skills = [SkillFactory(enabled=False), SkillFactory(), SkillFactory()]
    snippets = [SnippetFactory(), SnippetFactory()]
    with django_assert_num_queries(2):
        found_skills = store.load_skills(skill.slug for skill in skills[::-1])
        found_snippets = store.load_snippets([snippet.slug for snippet in snippets[::-1]])
    assert [skill.id for skill in found_skills] == [skill.pk for skill in skills[::-1]]
    assert not found_skills[2].enabled
    assert [snippet.id for snippet in found_snippets] == [snippet.pk for snippet in snippets[::-1]]


def test_nothing_asked_for_costs_no_query(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    with django_assert_num_queries(0):
        assert store.load_skills([]) == store.load_snippets([]) == ()


def test_all_unknown_skills_and_snippets_are_named() -> None:
    known = SkillFactory().slug
    with pytest.raises(ConfigurationError, match="no skill “gone”, “lost”"):
        store.load_skills(["gone", known, "lost"])
    with pytest.raises(ConfigurationError, match="no prompt snippet “gone”"):
        store.load_snippets(["gone"])


def test_only_what_is_switched_off_is_disabled() -> None:
    ToolSwitch.objects.create(name="refund", enabled=False)
    ToolSwitch.objects.create(name="look", enabled=True)
    ToolGroupSwitch.objects.create(name="shop", enabled=False)
    switches = store.load_switches()
    assert switches.disabled_tools == {"refund"}
    assert switches.disabled_groups == {"shop"}


def test_every_secret_of_the_site_is_known(settings: Settings) -> None:  # R1
    old, new = Fernet.generate_key().decode(), Fernet.generate_key().decode()
    settings.LLM_ENCRYPTION_KEYS = [old]
    ProviderFactory(key="sk-unreadable-1")
    settings.LLM_ENCRYPTION_KEYS = [new]
    ProviderFactory(key=KEY, base_url="https://elsewhere.example.com/v1", enabled=False)
    ProviderFactory(key_env="SHOP_API_KEY")
    ProviderFactory(key_env="UNSET_API_KEY")
    settings.LLM_ENVIRONMENT_SECRET = {"SHOP_API_KEY": "from-the-environment"}.get
    settings.LLM_SECRET_VALUES = lambda: ["looks-like-a-token"]
    settings.CELERY_BROKER_URL = "redis://:queue%2Dpassword@redis:6379/0"
    settings.LLM_PERMITS_URL = "redis://:permits%2Dpassword@redis:6379/0"
    settings.SECRET_KEY_FALLBACKS = ["earlier-secret-key"]

    values = store.secret_values()

    expected = {KEY, "from-the-environment", "looks-like-a-token", "earlier-secret-key", new}
    expected |= {"queue-password", "permits-password"}
    assert expected | {settings.SECRET_KEY} <= set(values)
    assert "sk-unreadable-1" not in values and "" not in values
    assert values == sorted(values, key=lambda value: (-len(value), value))


def test_a_key_is_known_though_its_host_was_changed() -> None:  # R1
    provider = ProviderFactory(key=KEY)
    type(provider).objects.update(base_url="https://elsewhere.example.com")
    assert KEY in store.secret_values()


def test_a_password_as_short_as_a_word_is_not_removed_from_texts(settings: Settings) -> None:
    settings.CELERY_BROKER_URL = "redis://:shop@redis:6379/0"
    assert "shop" not in store.secret_values()


def test_dumped_data_shows_only_the_encrypted_key() -> None:  # W7
    ProviderFactory(key=KEY)
    out = StringIO()
    call_command("dumpdata", "llmcore.provider", stdout=out)
    (row,) = json.loads(out.getvalue())
    token = base64.b64decode(row["fields"]["encrypted_key"])
    assert token.startswith(b"gAAAA") and KEY.encode() not in base64.urlsafe_b64decode(token)
    assert KEY not in out.getvalue()


def model_call(row: Any) -> ModelCall:
    return ModelCall(provider=store.provider_value(row.provider), model=store.model_value(row))


def test_each_call_is_metered_with_what_is_known() -> None:  # M1
    model, user, configuration = LanguageModelFactory(), UserFactory(), ConfigurationFactory()
    usage = Usage(input_tokens=12, output_tokens=0, cache_read_input_tokens=4, raw={"prompt_tokens": 12})
    response = ModelResponse(usage=usage, served_model="model-2026")

    meter = DatabaseMeter(run_id=7, user=user, configuration_id=configuration.pk)
    meter.record(model_call(model), response, Decimal("0.000012000000"))

    record = UsageRecord.objects.get()
    assert (record.run_id, record.user, record.configuration) == (7, user, configuration)
    assert (record.provider_slug, record.model_name, record.served_model) == (
        model.provider.slug,
        model.name,
        "model-2026",
    )
    assert (record.input_tokens, record.output_tokens, record.cache_read_input_tokens) == (12, 0, 4)
    assert record.total_tokens is None and record.reasoning_output_tokens is None
    assert record.cost == Decimal("0.000012") and record.raw == {"prompt_tokens": 12} and record.error_kind == ""


def test_a_failed_call_is_metered_as_unknown_not_zero() -> None:  # M1
    error = ProviderError(ErrorKind.STREAM_INCOMPLETE, "cut")
    DatabaseMeter().record(model_call(LanguageModelFactory()), ModelResponse(error=error), None)
    record = UsageRecord.objects.get()
    assert record.error_kind == "stream_incomplete"
    assert record.input_tokens is None and record.raw is None and record.cost is None


@pytest.mark.parametrize("claimed", [-1, 10**12])
def test_what_a_server_claims_beyond_reason_is_stored_as_far_as_it_can_be(claimed: int) -> None:
    usage = Usage(input_tokens=claimed, output_tokens=3, raw={"note": "a\0b\ud800"})
    response = ModelResponse(usage=usage, served_model="m\0" * 300)
    DatabaseMeter().record(model_call(LanguageModelFactory()), response, None)
    record = UsageRecord.objects.get()
    assert "\0" not in record.raw["note"] and "\ud800" not in record.raw["note"]
    assert record.input_tokens is None and record.output_tokens == 3 and len(record.served_model) == 200


def test_metering_a_call_is_one_write(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    call = model_call(LanguageModelFactory())
    queries: CaptureQueriesContext
    with django_assert_num_queries(1) as queries:
        DatabaseMeter().record(call, ModelResponse(), None)
    assert queries[0]["sql"].startswith("INSERT")


def test_snippets_by_tag_cost_one_query_and_come_by_slug(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    row = ConfigurationFactory(snippet_tags=["tone", "law"], snippets=[listed := SnippetFactory(tags=["tone"])])
    for slug, tags in (("b", ["law"]), ("a", ["tone", "x"]), ("c", ["to"])):
        SnippetFactory(slug=slug, tags=tags)
    with django_assert_num_queries(5):
        loaded = store.load_configuration(row.slug)
    assert [snippet.slug for snippet in loaded.snippets] == [listed.slug]
    assert [snippet.slug for snippet in loaded.tagged_snippets] == ["a", "b", listed.slug]


def test_fallbacks_come_in_their_order_with_their_keys_and_without_those_that_are_switched_off(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    off = LanguageModelFactory(provider=ProviderFactory(enabled=False))
    keyed = LanguageModelFactory(provider=ProviderFactory(key=KEY), input_price="1.25")
    others = [LanguageModelFactory(), off, keyed, LanguageModelFactory(enabled=False)]
    row = ConfigurationFactory(fallbacks=others)

    with django_assert_num_queries(4):
        loaded = store.load_configuration(row.slug)

    assert [route.name for route in loaded.fallbacks] == [others[0].path, keyed.path]
    assert loaded.fallbacks[1].provider.api_key.reveal() == KEY
    assert loaded.fallbacks[1].model.prices.input == Decimal("1.25")
    assert [route.name for route in loaded.routes] == [row.model.path, others[0].path, keyed.path]
    assert KEY in store.secret_values()
    shown = store.load_configuration(row.slug, read_keys=False)
    assert shown.fallbacks[1].provider.api_key.reveal() == store.PLACEHOLDER
