"""How a provider's usage becomes our counts, and that what is shown as the formula is what was computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from llmcore.providers.registry import adapter_for, adapters
from tests.llmcore.test_wire_cases import CASES


def usages(value: Any) -> Iterator[Mapping[str, Any]]:
    """All that looks like a usage in a recorded response."""
    match value:
        case dict():
            for name, inner in value.items():
                if name in ("usage", "usageMetadata") and isinstance(inner, dict):
                    yield inner
                elif name == "prompt_eval_count":
                    yield value
                else:
                    yield from usages(inner)
        case list():
            for item in value:
                yield from usages(item)


REPORTED = [
    (case["adapter"], raw) for case in CASES.values() if case["adapter"] in adapters() for raw in usages(dict(case))
]


def test_there_are_recorded_usages_of_each_kind() -> None:
    assert len(REPORTED) > 30
    assert {"anthropic", "gemini", "openai_compat"} <= {adapter for adapter, _ in REPORTED}


@pytest.mark.parametrize(("adapter", "raw"), REPORTED, ids=[f"{n}-{a}" for n, (a, _) in enumerate(REPORTED)])
def test_the_formula_is_what_was_computed(adapter: str, raw: Mapping[str, Any]) -> None:
    fields = adapter_for(adapter).usage_fields
    usage = fields.read(raw)
    counts = {name: count for name, count in (usage.to_json() if usage else {}).items() if name != "raw"}
    explained = {formula.name: formula.result for formula in fields.explain(raw)}
    assert explained == {name: count for name, count in counts.items() if count is not None}


def test_anthropic_counts_cached_tokens_apart() -> None:  # M1
    raw = {"input_tokens": 10, "cache_read_input_tokens": 700, "cache_creation_input_tokens": 90, "output_tokens": 5}
    prompt, *_, total = adapter_for("anthropic").usage_fields.explain(raw)
    assert (prompt.terms, prompt.result) == (
        (("input_tokens", 10), ("cache_read_input_tokens", 700), ("cache_creation_input_tokens", 90)),
        800,
    )
    assert (total.terms, total.result) == ((("input_tokens", 800), ("output_tokens", 5)), 805)


def test_gemini_counts_thoughts_apart() -> None:  # M1
    raw = {"promptTokenCount": 10, "thoughtsTokenCount": 7, "totalTokenCount": 17}
    assert [(formula.name, formula.terms) for formula in adapter_for("gemini").usage_fields.explain(raw)] == [
        ("input_tokens", (("promptTokenCount", 10),)),
        ("output_tokens", (("thoughtsTokenCount", 7),)),
        ("reasoning_output_tokens", (("thoughtsTokenCount", 7),)),
        ("total_tokens", (("totalTokenCount", 17),)),
    ]


def test_nothing_reported_is_nothing_to_explain() -> None:
    assert adapter_for("openai_chat").usage_fields.explain(None) == []
    assert adapter_for("openai_chat").usage_fields.explain({"prompt_tokens": None}) == []


def test_each_wire_format_says_what_its_prompt_count_includes() -> None:
    assert all("cache" in adapter.usage_fields.note for adapter in adapters().values())
