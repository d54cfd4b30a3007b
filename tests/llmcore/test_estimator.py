"""Counting tokens before a provider does: by a vocabulary or a rule of thumb, and corrected by what runs taught."""

from __future__ import annotations

import pytest

from llmcore.configuration import LanguageModel
from llmcore.context.estimator import Estimator
from llmcore.context.learning import LEAST_SAMPLES, MOST_SAMPLES, Compared, compared, correction
from llmcore.context.tokenizers import counter, vocabulary_of
from llmcore.context.tokens import estimate_message, estimate_tokens
from llmcore.messages import Message, ToolSpec
from llmcore.trace import RunStep, StepKind

TEXT = "Customer Amelia Braun says that she was charged twice for order DJ-48213."


@pytest.mark.parametrize(
    ("model", "vocabulary"),
    [
        ("gpt-5-mini", "o200k_base"),
        ("openai/gpt-4o-2024-11-20", "o200k_base"),
        ("o3", "o200k_base"),
        ("openai/gpt-oss-20b", "o200k_base"),
        ("gpt-4-turbo", "cl100k_base"),
        ("llama3.2:3b", "llama3"),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama3"),
        ("deepseek-chat", "deepseek_v3"),
        ("deepseek-r1-distill-llama-70b", ""),
        ("qwen2.5-coder:7b", "qwen3"),
        ("gemma3:4b", "gemma3"),
        ("claude-sonnet-4-5", ""),
        ("gemini-2.5-pro", ""),
        ("", ""),
    ],
)
def test_a_model_is_counted_with_its_own_vocabulary_where_one_is_known(model: str, vocabulary: str) -> None:
    assert vocabulary_of(model) == vocabulary


def test_vocabularies_count_exactly() -> None:
    count = counter("o200k_base")
    assert count is not None
    # Source: OpenAI's cookbook on counting tokens.
    texts = ("", "hello world", "antidisestablishmentarianism", "お誕生日おめでとう")
    assert [count(text) for text in texts] == [0, 2, 6, 8]
    assert count("\ud800 is half a pair") > 0
    # What looks like a token of its own is text like any other.
    assert count("<|endoftext|>") > 1


def test_without_a_vocabulary_there_is_a_rule_of_thumb() -> None:
    assert counter("") is None
    assert Estimator.of(LanguageModel(name="claude-x")).text(TEXT) == estimate_tokens(TEXT)


@pytest.mark.parametrize("tokenizer", ["", "o200k_base"])
def test_the_correction_holds_for_texts_messages_and_tools(tokenizer: str) -> None:
    plain, doubled = Estimator(tokenizer=tokenizer), Estimator(tokenizer=tokenizer, ratio=2.0)
    message, spec = Message.of("user", TEXT), ToolSpec(name="look", description=TEXT, parameters={"type": "object"})
    assert doubled.text(TEXT) == 2 * plain.text(TEXT)
    assert doubled.message(message) == 2 * plain.message(message)
    assert doubled.tools([spec]) == 2 * plain.tools([spec])
    assert doubled.roughly(TEXT) == 2 * plain.roughly(TEXT) and doubled.size(400) == 2 * plain.size(400) == 200
    assert doubled.text("") == doubled.roughly("") == doubled.size(0) == 0
    assert Estimator(ratio=0.1).text("a") == 1, "a text is never nothing"


def test_a_message_is_counted_with_its_frame() -> None:
    message = Message.of("user", TEXT)
    assert Estimator().message(message) == estimate_message(message) > Estimator().text(TEXT)


def test_an_estimator_survives_the_plan_of_a_run() -> None:
    estimator = Estimator(tokenizer="llama3", ratio=1.25, samples=7)
    assert Estimator.from_json(estimator.to_json()) == estimator
    assert Estimator.from_json({}) == Estimator()


def step(kind: StepKind, **data: object) -> RunStep:
    return RunStep(sequence=1, round=1, kind=kind, started_ms=0, duration_ms=0, data=data)


def test_only_calls_of_which_both_counts_are_known_are_compared() -> None:
    found = compared(
        [
            step(StepKind.REQUEST, input_tokens_estimate=100),
            step(StepKind.RESPONSE, usage={"input_tokens": 110}),
            step(StepKind.REQUEST, input_tokens_estimate=200),
            step(StepKind.RETRY),
            step(StepKind.RESPONSE, usage={"input_tokens": 210}),
            step(StepKind.REQUEST, input_tokens_estimate=900),
            step(StepKind.RESPONSE, usage=None),
            step(StepKind.RESPONSE, usage={"input_tokens": 5}),
            step(StepKind.REQUEST, input_tokens_estimate=900),
        ]
    )
    assert found == Compared(estimated=300, reported=320)
    assert found.error == pytest.approx(-20 / 320)


def test_a_run_teaches_what_its_correction_left_over() -> None:
    assert Compared(estimated=1_200, reported=1_100).ratio() == round(1_100 / 1_200, 4)
    assert Compared(estimated=1_200, reported=1_100).ratio(correction=1.2) == 1.1


@pytest.mark.parametrize(("estimated", "reported"), [(0, 0), (40, 44), (1_000, 300), (1_000, 3_000), (1_000, 0)])
def test_what_has_another_cause_teaches_nothing(estimated: int, reported: int) -> None:
    assert Compared(estimated=estimated, reported=reported).ratio() is None


def test_the_correction_is_the_median_of_the_last_runs() -> None:
    assert correction([1.5] * (LEAST_SAMPLES - 1)) == 1.0, "too few to be believed"
    assert correction([1.1, 2.4, 1.2]) == 1.2
    assert correction([9.0] * 50 + [1.1] * MOST_SAMPLES) == 1.1
