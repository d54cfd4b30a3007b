"""A structured completion through the loop of every run: repairs, ends, fallbacks, usage and trace (J1–J3, J7)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from llmcore.configuration import Configuration, LanguageModel, Limits, Route
from llmcore.findings import RunView, find
from llmcore.metering.client import Meter, ModelClient
from llmcore.providers.registry import adapters
from llmcore.providers.scripted import Scenario, Turn
from llmcore.runs.loop import ToolLoop
from llmcore.runs.outcome import EndReason
from llmcore.runs.state import RunState, replay
from llmcore.structured.completion import CompletionFailed, StructuredAnswer, complete, initial_state
from llmcore.structured.inputs import Material
from llmcore.structured.packs import PromptRegistry
from llmcore.structured.recorder import UseRecorder
from llmcore.structured.request import Ready, StructuredRequest, make_ready
from llmcore.trace import RunTrace, StepKind
from llmcore.usage import Prices
from tests.llmcore.conftest import LoopBench
from tests.llmcore.prompt_packs import GIVEN, INVALID, VALID, configuration_of, registry_in

SPACED = f"\n {VALID}\n"


@pytest.fixture
def registry(tmp_path: Path) -> PromptRegistry:
    return registry_in(tmp_path)


@pytest.fixture
def configuration(bench: LoopBench) -> Configuration:
    prices = Prices(input=Decimal(1), output=Decimal(2))
    return configuration_of(url=bench.url, prices=prices)


@pytest.fixture
def make(registry: PromptRegistry, configuration: Configuration) -> Callable[..., Ready]:
    def made(configuration: Configuration = configuration, **request: Any) -> Ready:
        asked = StructuredRequest(**{"prompt": "test.names", "inputs": GIVEN, **request})
        return make_ready(asked, registry=registry, configuration=configuration)

    return made


@dataclass
class Reporting:
    """Makes clients that report to a meter, over the connections of the bench."""

    bench: LoopBench

    def __call__(self, meter: Meter) -> ModelClient:
        return ModelClient(http=self.bench.client._http, meter=meter)


async def answer(bench: LoopBench, ready: Ready, **options: Any) -> StructuredAnswer:
    return await complete(ready, client=Reporting(bench), trace=bench.trace, **options)


@pytest.mark.parametrize("adapter", sorted(adapters()))
@pytest.mark.parametrize("held", [True, False], ids=["held", "told"])
async def test_an_answer_is_the_bytes_of_the_model(
    adapter: str, held: bool, bench: LoopBench, make: Callable[..., Ready]
) -> None:
    bench.script(Turn(text=SPACED))

    found = await answer(bench, make(configuration_of(adapter, url=bench.url, supports_structured_output=held)))

    assert found.data == SPACED.encode() and found.value == json.loads(VALID)
    assert found.native == (held and adapter != "deepseek")
    assert (found.derived is not None) == found.native
    assert ("Answer with one JSON object" in json.dumps(bench.bodies[0])) == (not found.native)
    assert (found.provider, found.model, found.configuration, found.attempts) == ("p", "scripted", "extraction", 1)
    (check,) = bench.data(StepKind.VALIDATION)
    assert check["valid"] and check["native"] == found.native and check["schema_sha256"] == found.schema.sha256


async def test_an_answer_that_does_not_fit_is_repaired(bench: LoopBench, make: Callable[..., Ready]) -> None:
    bench.script(Turn(text=INVALID), Turn(text=VALID))
    recorder = UseRecorder()

    found = await answer(bench, make(), recorder=recorder)

    assert found.data == VALID.encode() and found.attempts == 2
    first, second = bench.data(StepKind.VALIDATION)
    assert (first["valid"], first["attempt"], first["count"]) == (False, 1, 3)
    assert (second["valid"], second["attempt"], second["repair"]) == (True, 2, None)
    assert [each["pointer"] for each in bench.trace.contents[first["objections"]]] == ["/count", "/extra", "/names/1"]
    *_, wrong, told = bench.bodies[1]["messages"]
    assert wrong == {"role": "assistant", "content": INVALID}
    assert "- /names/1: '' should be non-empty" in told["content"] and told["role"] == "user"
    # Both calls are held to the schema, and only what is new was added.
    assert all("response_format" in body for body in bench.bodies)
    assert bench.data(StepKind.REQUEST)[1]["kept"] == 5
    assert [item.slug for item in recorder.used()] == ["extraction"]


async def test_usage_and_cost_are_those_of_all_attempts(bench: LoopBench, make: Callable[..., Ready]) -> None:
    used = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    bench.script(Turn(text=INVALID, usage=used), Turn(text=VALID, usage=used))

    found = await answer(bench, make())

    assert (found.usage.input_tokens, found.usage.output_tokens) == (200, 20)
    assert found.cost == Decimal("0.00024")


async def test_a_model_that_does_not_learn_gets_no_more_repairs_than_allowed(
    bench: LoopBench, make: Callable[..., Ready]
) -> None:
    bench.script(Turn(text=INVALID), Turn(text="No."), Turn(text="{}"))

    with pytest.raises(CompletionFailed, match=r"“test.names” got no valid answer \(invalid_answer\)") as raised:
        await answer(bench, make(repairs=2))

    assert len(bench.requests) == 3
    assert raised.value.outcome.reason is EndReason.INVALID_ANSWER
    assert [item.pointer for item in raised.value.objections] == ["/count", "/names"]
    findings = find(RunView(steps=bench.trace.steps, contents=bench.trace.contents))
    assert [(f.severity, f.impact) for f in findings if f.id == "answer_schema_violation"] == [
        ("error", ""),
        ("warning", "+1 round"),
        ("warning", "+1 round"),
    ]


async def test_no_repair_is_asked_for_where_none_is_allowed(bench: LoopBench, make: Callable[..., Ready]) -> None:
    bench.script(Turn(text=INVALID), Turn(text=VALID))

    with pytest.raises(CompletionFailed):
        await answer(bench, make(repairs=0))

    assert len(bench.requests) == 1


async def test_repairs_are_more_than_the_rounds_of_the_configuration(
    bench: LoopBench, configuration: Configuration, make: Callable[..., Ready]
) -> None:
    bench.script(*[Turn(text=INVALID)] * 3, Turn(text=VALID))

    found = await answer(bench, make(replace(configuration, limits=Limits(max_rounds=1)), repairs=3))

    assert found.attempts == 4


async def test_what_was_given_is_never_summarized(
    bench: LoopBench, configuration: Configuration, make: Callable[..., Ready]
) -> None:
    bench.script(*[Turn(text=INVALID)] * 3, Turn(text=VALID))
    limits = Limits(compact_at_percent=1, keep_turns=1)
    roomy = replace(configuration, limits=limits, model=replace(configuration.model, context_window=4_000))

    await answer(bench, make(roomy, repairs=3))

    assert not bench.data(StepKind.COMPACTION)
    assert bench.bodies[-1]["messages"][:5] == bench.bodies[0]["messages"]
    with pytest.raises(CompletionFailed) as raised:
        await answer(bench, make(replace(roomy, model=replace(roomy.model, context_window=100))))
    assert raised.value.outcome.reason is EndReason.CONTEXT_EXHAUSTED and len(bench.requests) == 4


@pytest.mark.parametrize("adapter", sorted(adapters()))
async def test_an_answer_that_was_cut_off_is_truncated_and_no_broken_json(
    adapter: str, bench: LoopBench, make: Callable[..., Ready]
) -> None:
    bench.script(Turn(text=VALID[:20], finish_reason="length"))

    with pytest.raises(CompletionFailed) as raised:
        await answer(bench, make(configuration_of(adapter, url=bench.url)))

    assert raised.value.outcome.reason is EndReason.TRUNCATED
    assert len(bench.requests) == 1 and not bench.data(StepKind.VALIDATION)


async def test_even_valid_json_is_not_taken_where_it_was_cut_off(bench: LoopBench, make: Callable[..., Ready]) -> None:
    bench.script(Turn(text=VALID, finish_reason="length"))

    with pytest.raises(CompletionFailed) as raised:
        await answer(bench, make())

    assert raised.value.outcome.reason is EndReason.TRUNCATED


@pytest.mark.parametrize(
    ("turn", "reason"),
    [
        (Turn(text="{", finish_reason="content_filter"), EndReason.CONTENT_FILTERED),
        (Turn(text=" "), EndReason.EMPTY_ANSWER),
        (Turn(status=401, error="Bad key sk-0123456789abcdefghijkl"), EndReason.PROVIDER_FAILED),
    ],
)
async def test_other_ends_are_what_they_are(
    turn: Turn, reason: EndReason, bench: LoopBench, make: Callable[..., Ready]
) -> None:
    bench.script(turn)

    with pytest.raises(CompletionFailed, match=r"test\.names") as raised:
        await answer(bench, make())

    assert raised.value.outcome.reason is reason
    assert not bench.data(StepKind.VALIDATION) and "sk-0123" not in str(raised.value)


async def test_a_fallback_is_asked_in_its_own_way(
    bench: LoopBench, configuration: Configuration, make: Callable[..., Ready]
) -> None:
    bench.script(Turn(status=503, error="Full."))
    bench.model.scenarios["other"] = Scenario(name="other", turns=(Turn(text=VALID),))
    model = LanguageModel(name="other", supports_structured_output=False)
    recorder = UseRecorder()

    ready = make(replace(configuration, fallbacks=(Route(provider=configuration.provider, model=model),)))
    found = await answer(bench, ready, recorder=recorder)

    assert (found.model, found.native, found.attempts) == ("other", False, 1)
    assert ["response_format" in body for body in bench.bodies] == [True, False]
    assert all("Answer with one JSON object" in json.dumps(body) for body in bench.bodies)
    assert [item.model for item in recorder.used()] == ["scripted", "other"]


async def test_a_cancelled_completion_ends_as_such(bench: LoopBench, make: Callable[..., Ready]) -> None:
    bench.script(Turn(text=VALID, delay_s=30))
    cancel = asyncio.Event()
    work = asyncio.create_task(answer(bench, make(), cancel=cancel))
    while not bench.requests:
        await asyncio.sleep(0.01)
    cancel.set()

    with pytest.raises(CompletionFailed) as raised:
        await work
    assert raised.value.outcome.reason is EndReason.CANCELLED


@dataclass(frozen=True)
class Found:
    names: tuple[str, ...]
    count: int
    note: str | None = None


async def test_an_answer_is_made_into_its_target(bench: LoopBench, make: Callable[..., Ready]) -> None:
    bench.script(Turn(text=VALID))

    found = await answer(bench, make(target=Found))

    assert found.target == Found(names=("Ada", "Grace"), count=2)
    assert found.data == VALID.encode()


@dataclass(frozen=True)
class Other:
    title: str


async def test_a_target_that_does_not_fit_the_schema_is_said(bench: LoopBench, make: Callable[..., Ready]) -> None:
    bench.script(Turn(text=VALID))

    with pytest.raises(CompletionFailed, match="can't be made into Other"):
        await answer(bench, make(target=Other))


@dataclass(frozen=True)
class Dated:
    names: tuple[str, ...]
    count: int
    note: date


async def test_what_a_target_says_of_a_value_is_cleaned_of_secrets(
    bench: LoopBench, make: Callable[..., Ready]
) -> None:
    bench.script(Turn(text='{"names": ["Ada"], "count": 1, "note": "key-of-the-site"}'))

    with pytest.raises(CompletionFailed, match="can't be made into Dated") as raised:
        await answer(bench, make(target=Dated), redact=lambda text: text.replace("key-of-the-site", "•••"))

    assert "•••" in str(raised.value) and "key-of-the-site" not in str(raised.value)


async def test_without_a_trace_nothing_is_recorded(bench: LoopBench, make: Callable[..., Ready]) -> None:
    bench.script(Turn(text=INVALID), Turn(text=VALID))

    found = await complete(make(), client=Reporting(bench))

    assert found.attempts == 2 and not bench.trace.steps


# The same state as every run


async def test_a_state_and_its_trace_survive_json(bench: LoopBench, make: Callable[..., Ready]) -> None:
    bench.script(Turn(text=INVALID), Turn(text=VALID))
    ready = make()
    state = RunState.from_json(json.loads(json.dumps(initial_state(ready).to_json())))
    await answer(bench, ready)

    assert state == initial_state(ready)
    assert RunTrace.from_json(json.loads(json.dumps(bench.trace.to_json()))).steps == bench.trace.steps


async def test_a_run_that_was_interrupted_after_a_repair_goes_on_with_it(
    bench: LoopBench, configuration: Configuration, make: Callable[..., Ready]
) -> None:
    bench.script(Turn(text=INVALID), Turn(text=VALID))
    ready = make()
    await answer(bench, ready)
    first = [step for step in bench.trace.steps if step.round == 1]

    state = replay(initial_state(ready), first, bench.trace.contents)

    assert state.repairs_used == 1 and state.rounds_used == 1 and state.finish_reason is None
    assert state.messages[-1].text.startswith("Your answer doesn't fit")
    bench.script(Turn(text=INVALID), Turn(text=INVALID))
    loop = ToolLoop(client=bench.client, provider=configuration.provider, model=configuration.model, tools={})
    end = await loop.run(state)
    # The one repair is used up.
    assert end.outcome is not None and end.outcome.reason is EndReason.INVALID_ANSWER
    assert end.state.rounds_used == 2


async def test_a_dry_run_shows_the_very_bytes_of_the_request(
    bench: LoopBench, configuration: Configuration, make: Callable[..., Ready]
) -> None:
    bench.script(Turn(text=VALID))
    ready, dry = make(), RunTrace()
    loop = ToolLoop(
        client=bench.client, provider=configuration.provider, model=configuration.model, tools={}, trace=dry
    )
    loop.dry_run(initial_state(ready))
    assert not bench.requests

    await answer(bench, ready)

    assert dry.contents[dry.steps[0].data["body"]].encode() == bench.requests[0].body
    assert dry.steps[0].data["response_schema"] == bench.data(StepKind.REQUEST)[0]["response_schema"]


async def test_inputs_of_many_megabytes_are_sent_as_they_are(bench: LoopBench, make: Callable[..., Ready]) -> None:
    bench.script(Turn(text=VALID))
    text = "[1] Ada: Grüß Gott.\n" * 50_000

    await answer(bench, make(inputs={"text": Material(data=text.encode())}))

    assert text in bench.bodies[0]["messages"][-1]["content"]
