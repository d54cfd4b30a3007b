"""What a request could have read from a provider's cache is told against what was reported, with the reason."""

from __future__ import annotations

from typing import Any

import pytest

from llmcore.prompts.cache import Change, Reason, Reuse, Sent, reuse_of
from llmcore.providers.prompt_cache import OPENAI, UNKNOWN, CacheRules
from llmcore.providers.registry import adapter_for

RULES = CacheRules(minimum_tokens=1_024, step_tokens=128, lifetime_s=300)


def sent(
    *, messages: int = 2, kept: int = 0, counted: int | None = 3_000, cached: int | None = None, **more: Any
) -> Sent:
    times = {name: more.pop(name) for name in ("started_ms", "ended_ms", "answered") if name in more}
    data = {"messages": messages, "kept": kept, "model": "m", "tools": "t", "input_tokens_estimate": 2_900, **more}
    usage = {"input_tokens": counted, "cache_read_input_tokens": cached}
    return Sent(data=data, usage=usage, **{"answered": True, **times})


def reuse(before: Sent | None, now: Sent, rules: CacheRules = RULES, **options: Any) -> Reuse:
    return reuse_of(before, now, rules, **options)


def test_the_first_request_has_nothing_to_read() -> None:
    found = reuse(None, sent(cached=0))

    assert (found.reason, found.planned, found.reported) == (Reason.FIRST, 0, 0)


def test_a_failed_call_before_it_left_nothing_to_read() -> None:
    assert reuse(sent(answered=False), sent(kept=2, cached=0)).reason is Reason.FIRST


@pytest.mark.parametrize(
    ("cached", "reason"),
    [
        (3_000, Reason.READ),
        (2_944, Reason.READ),
        (3_300, Reason.READ),
        (1_000, Reason.MISSED),
        (0, Reason.MISSED),
        (None, Reason.NOT_REPORTED),
    ],
)
def test_the_whole_request_before_is_planned(cached: int | None, reason: Reason) -> None:
    found = reuse(sent(messages=2), sent(messages=4, kept=2, cached=cached))

    assert (found.planned, found.change, found.reason) == (3_000, None, reason)


def test_what_was_not_counted_is_planned_by_its_estimate() -> None:
    assert reuse(sent(counted=None), sent(kept=2, cached=0)).planned == 2_900


def test_a_message_that_changed_ends_what_can_be_read() -> None:
    before, now = sent(messages=4), sent(messages=5, kept=1, cached=0)

    assert (reuse(before, now).change, reuse(before, now).planned) == (Change.MESSAGE, 750)
    assert reuse(before, now, share=0.5).planned == 1_500
    assert reuse(before, now).reason is Reason.CHANGED


@pytest.mark.parametrize(("changed", "change"), [({"tools": "u"}, Change.TOOLS), ({"model": "n"}, Change.MODEL)])
def test_other_tools_or_another_model_leave_nothing_to_read(changed: dict[str, str], change: Change) -> None:
    found = reuse(sent(), sent(kept=2, cached=0, **changed))

    assert (found.change, found.planned, found.reason) == (change, 0, Reason.CHANGED)


def test_what_is_too_short_is_not_cached() -> None:
    short = sent(counted=900)

    assert reuse(short, sent(kept=2, cached=0)).reason is Reason.BELOW_MINIMUM
    assert reuse(short, sent(kept=2, cached=0), UNKNOWN).reason is Reason.BELOW_MINIMUM
    # With a minimum of its own, a service is held to that.
    assert reuse(short, sent(kept=2, cached=0), CacheRules(minimum_tokens=64)).reason is Reason.MISSED


def test_what_is_too_old_has_expired() -> None:
    before, now = sent(ended_ms=1_000), sent(kept=2, cached=0, started_ms=302_000)

    assert reuse(before, now).reason is Reason.EXPIRED
    assert reuse(before, now).idle_s == 301
    assert reuse(before, now, UNKNOWN).reason is Reason.MISSED


def test_a_call_without_an_answer_tells_nothing() -> None:
    assert reuse(sent(), sent(kept=2, answered=False)).reason is Reason.NO_ANSWER


@pytest.mark.parametrize(
    ("adapter", "model", "minimum"),
    [
        ("openai_chat", "gpt-5", 1_024),
        ("openai_responses", "gpt-5", 1_024),
        ("azure_openai", "mine", 1_024),
        ("anthropic", "claude-sonnet-4-5", 1_024),
        ("anthropic", "claude-haiku-4-5", 4_096),
        ("anthropic", "claude-opus-5", 512),
        ("gemini", "gemini-3-pro-preview", 4_096),
        ("gemini", "gemini-2.5-flash", 1_024),
        ("deepseek", "deepseek-chat", 64),
        ("groq", "kimi", None),
        ("openai_compat", "llama", None),
        ("ollama", "llama", None),
    ],
)
def test_services_have_rules_of_their_own(adapter: str, model: str, minimum: int | None) -> None:
    assert adapter_for(adapter).cache_rules(model).minimum_tokens == minimum


def test_the_rules_of_a_service_are_those_of_each_of_its_wire_formats() -> None:
    assert adapter_for("openai_chat").cache_rules("m") == adapter_for("openai_responses").cache_rules("m") == OPENAI


@pytest.mark.parametrize("changed", [{"provider": "q"}, {"adapter": "w"}])
def test_another_provider_has_a_cache_of_its_own(changed: dict[str, str]) -> None:
    found = reuse(sent(), sent(kept=2, cached=0, **changed), share=1.0)

    assert (found.change, found.planned, found.reason) == (Change.PROVIDER, 0, Reason.CHANGED)
    assert reuse(sent(), sent(kept=2, cached=0, model="n"), share=1.0).planned == 0


def test_a_request_that_ends_within_the_other_one_changed_nothing() -> None:
    found = reuse(sent(messages=4), sent(messages=2, kept=2, cached=1_500), share=0.5)

    assert (found.change, found.planned, found.reason) == (None, 1_500, Reason.READ)


def test_what_has_no_answer_yet_is_not_cached() -> None:
    before, now = sent(ended_ms=9_000), sent(kept=2, cached=0, started_ms=4_000)

    assert (reuse(before, now).reason, reuse(before, now).idle_s) == (Reason.NOT_YET, -5)
    # The clocks of two workers are never quite the same.
    assert reuse(sent(ended_ms=4_200), now).reason is Reason.MISSED


@pytest.mark.parametrize(
    ("cached", "started_ms", "shortfall"),
    [(2_000, 1_000, None), (0, 1_000, Reason.MISSED), (0, 900_000, Reason.EXPIRED)],
)
def test_of_what_is_the_same_before_a_change_the_reason_is_told_too(
    cached: int, started_ms: float, shortfall: Reason | None
) -> None:
    now = sent(messages=5, kept=3, cached=cached, started_ms=started_ms)
    found = reuse(sent(messages=4), now, share=0.7)

    assert (found.reason, found.shortfall) == (Reason.CHANGED, shortfall)
    assert reuse(sent(messages=4), now).shortfall is None
