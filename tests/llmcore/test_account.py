"""Where the window went: the parts always add up, and what a provider counted corrects what comes after it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmcore.configuration import LanguageModel, Parameters
from llmcore.context.account import Account
from llmcore.context.budget import WindowUse, longest_answer
from llmcore.context.estimator import Estimator
from llmcore.context.learning import LEAST_SAMPLES
from llmcore.context.tokens import Share, apportioned
from llmcore.messages import Message, Part, ToolCall, ToolSpec
from llmcore.prompts.assembly import Augmentation, assemble
from llmcore.providers.scripted import Scenario, Turn
from llmcore.runs.state import replay
from llmcore.trace import RunTrace, StepKind
from tests.llmcore.conftest import LoopBench, call
from tests.llmcore.test_assembly import configuration, skill, snippet
from tests.llmcore.test_fallback import BUSY, route, say
from tests.llmcore.test_fallback import run as run_routes

MODEL = LanguageModel(name="m", context_window=8_000)
TOOLS = (ToolSpec(name="look_up", description="Look an order up.", parameters={"type": "object"}),)
LIMITED = Parameters(max_tokens=500)
WORDS = "The order left the house on Monday. "

TEXTS = st.text(max_size=60)
CALLS = st.builds(
    ToolCall, id=TEXTS, name=TEXTS, arguments=st.none() | st.dictionaries(TEXTS, st.integers(), max_size=3)
)
PARTS = st.builds(Part, kind=st.sampled_from(["text", "thinking", "image", "provider"]), text=TEXTS)
MESSAGES = st.builds(
    Message,
    role=st.sampled_from(["system", "user", "assistant", "tool"]),
    parts=st.lists(PARTS, max_size=3).map(tuple),
    tool_calls=st.lists(CALLS, max_size=2).map(tuple),
)


def account(model: LanguageModel = MODEL, **options: Any) -> Account:
    return Account(model, margin_percent=10.0, **options)


def assert_adds_up(use: WindowUse) -> None:
    assert use.used == sum(use.shares.values())
    if use.window is None:
        assert (use.reserve, use.margin, use.free, use.budget) == (None, None, None, None)
    else:
        assert use.used + (use.reserve or 0) + (use.margin or 0) + (use.free or 0) == use.window
    assert all(tokens >= 0 for tokens in use.shares.values()) and 0 <= use.counted <= max(use.used, 0)
    assert WindowUse.from_json(json.loads(json.dumps(use.to_json()))) == use


@settings(max_examples=200)
@given(
    rounds=st.lists(st.tuples(st.lists(MESSAGES, max_size=4), st.none() | st.integers(0, 50_000)), max_size=5),
    window=st.none() | st.integers(1, 30_000),
    ratio=st.floats(0.3, 3.0),
    asked=st.none() | st.integers(1, 40_000),
    cap=st.none() | st.integers(1, 40_000),
)
def test_the_parts_always_add_up_to_the_window(  # C1
    rounds: list[tuple[list[Message], int | None]],
    window: int | None,
    ratio: float,
    asked: int | None,
    cap: int | None,
) -> None:
    model = LanguageModel(name="m", context_window=window, max_output_tokens=cap, token_ratio=ratio)
    kept = account(model)
    messages: list[Message] = []
    for number, (fresh, counted) in enumerate(rounds):
        messages += fresh
        kept.take(messages, TOOLS if number % 2 else ())
        assert_adds_up(kept.use(Parameters(max_tokens=asked)))
        kept.report(counted)
        assert_adds_up(kept.use(Parameters(max_tokens=asked)))


@given(shares=st.dictionaries(st.sampled_from(Share), st.integers(0, 10_000)), total=st.integers(0, 100_000))
def test_shares_are_divided_without_a_remainder(shares: dict[Share, int], total: int) -> None:
    parts = apportioned(shares, total)
    assert sum(parts.values()) == (total if sum(shares.values()) else 0) and all(part >= 0 for part in parts.values())


def test_what_a_request_is_made_of_is_told_apart() -> None:
    assembly = assemble(
        configuration=configuration(snippets=(snippet("tone"),), skills=(skill("refunds"),)),
        conversation=[Message.of("user", WORDS)],
        augmentation=Augmentation(),
    )
    asked = ToolCall(id="1", name="look_up", arguments={"number": "DJ-48213"})
    answer = Message(
        role="assistant", parts=(Part(kind="thinking", text="Hm, let me see."), Part(text="Wait.")), tool_calls=(asked,)
    )
    result = Message(role="tool", parts=(Part(text=WORDS),), tool_call_id="1", name="look_up")
    kept = account(segments=assembly.segments)
    kept.take([*assembly.messages, answer, result], TOOLS)
    use = kept.use(LIMITED)
    assert set(use.shares) == {
        *(Share.TOOLDEF, Share.CONFIG, Share.SNIPPET, Share.SKILL, Share.USER),
        *(Share.ASSISTANT, Share.THINKING, Share.ARGUMENTS, Share.TOOL, Share.FRAME),
    }
    assert use.used == kept.estimate and use.shares[Share.USER] == Estimator().text(WORDS)


def test_the_reserve_is_what_was_asked_for_or_can_be_given() -> None:
    kept = account(LanguageModel(name="m", context_window=8_000, max_output_tokens=1_000))
    assert kept.use(LIMITED).reserve == 500
    assert kept.use(Parameters()).reserve == 1_000
    # A model that can fill its window leaves the prompt its part.
    assert (
        account(LanguageModel(name="m", context_window=8_000, max_output_tokens=8_000)).use(Parameters()).reserve
        == account().use(Parameters()).reserve
        == 2_000
    )
    assert account(LanguageModel(name="m", max_output_tokens=900)).use(LIMITED).reserve is None


def test_the_longest_answer_fills_what_the_prompt_leaves() -> None:
    use = WindowUse(shares={Share.USER: 6_000}, window=8_000, reserve=2_000, margin=600)
    assert longest_answer(use, model=MODEL, parameters=LIMITED) == 500
    assert longest_answer(use, model=MODEL, parameters=Parameters()) == 2_000
    assert longest_answer(WindowUse(shares={}), model=LanguageModel(name="m"), parameters=Parameters()) is None


def test_the_margin_is_for_what_nobody_has_counted() -> None:
    first, more = Message.of("user", WORDS * 200), Message.of("user", WORDS * 50)
    kept = account()
    kept.take([first], ())
    before = kept.use(LIMITED)
    assert before.counted == 0 and before.margin == -(-before.used // 10)

    kept.report(before.used + 300)
    assert (kept.use(LIMITED).counted, kept.use(LIMITED).margin) == (before.used + 300, 0)

    kept.take([first, more], ())
    after, added = kept.use(LIMITED), Estimator().message(more)
    ratio = (before.used + 300) / before.used
    assert after.used == before.used + 300 + round(added * ratio)
    assert after.margin == -(-round(added * ratio) // 20), "counts have corrected the estimate"


@pytest.mark.parametrize("changes", [{"token_samples": LEAST_SAMPLES}, {"tokenizer": "o200k_base"}])
def test_an_estimate_that_is_better_founded_needs_half_the_margin(changes: dict[str, Any]) -> None:
    kept = account(LanguageModel(name="m", context_window=8_000, **changes))
    kept.take([Message.of("user", WORDS * 100)], ())
    use = kept.use(LIMITED)
    assert use.margin == -(-use.used // 20)


def test_counts_that_have_another_cause_correct_nothing() -> None:
    kept = account()
    kept.take([Message.of("user", WORDS * 300)], ())
    kept.report(kept.estimate // 5)
    assert kept.use(LIMITED).used == kept.estimate and kept.use(LIMITED).counted == 0


def test_a_small_prompt_teaches_what_stands_around_it_and_no_ratio() -> None:
    first, more = Message.of("user", "Hello?"), Message.of("user", WORDS * 100)
    kept = account()
    kept.take([first], ())
    kept.report(400)
    kept.take([first, more], ())
    assert kept.use(LIMITED).used == 400 + Estimator().message(more)


class Looked(list[Message]):
    """Messages that know which of them were looked at."""

    seen: list[int]

    def __getitem__(self, index: Any) -> Any:
        self.seen.append(index)
        return super().__getitem__(index)


def test_each_message_is_estimated_once() -> None:
    seen: list[int] = []
    kept = account()
    for length in range(1, 101):
        messages = Looked(Message.of("user", f"{number}") for number in range(length))
        messages.seen = seen
        kept.take(messages, TOOLS)
    assert seen == list(range(100))


# In the loop


def contexts(trace: RunTrace) -> list[WindowUse]:
    return [WindowUse.from_json(step.data) for step in trace.steps if step.kind is StepKind.CONTEXT]


@pytest.fixture
def looking(bench: LoopBench) -> LoopBench:
    bench.language_model = LanguageModel(name="scripted", context_window=4_000, max_output_tokens=1_000)

    @bench.tools.tool()
    async def look_up(number: int) -> str:
        """Look up an order."""
        return WORDS * 20

    return bench


def counted(tokens: int, **turn: Any) -> Turn:
    return Turn(usage={"input_tokens": tokens, "output_tokens": 5}, **turn)


async def test_each_round_says_where_the_window_went(looking: LoopBench) -> None:  # C1
    looking.script(
        counted(90, tool_calls=(call("look_up", {"number": 1}),)),
        counted(300, tool_calls=(call("look_up", {"number": 2}),)),
        Turn(text="On its way."),
    )
    await looking.run()
    uses = contexts(looking.trace)
    assert [step.round for step in looking.steps(StepKind.CONTEXT)] == [1, 2, 3]
    for use in uses:
        assert_adds_up(use)
    assert [use.counted for use in uses] == [0, 90, 300]
    assert uses[1].shares[Share.TOOL] > 0 and uses[1].shares[Share.ARGUMENTS] > 0
    assert uses[2].shares[Share.TOOL] > 1.5 * uses[1].shares[Share.TOOL]
    for request, use in zip(looking.data(StepKind.REQUEST), uses, strict=True):
        assert request["input_tokens_estimate"] > 0 and (use.reserve, use.window) == (1_000, 4_000)


async def test_a_provider_that_names_no_window_has_its_prompts_counted(looking: LoopBench) -> None:
    looking.language_model = LanguageModel(name="scripted")
    looking.script(Turn(text="Hello."))
    await looking.run()
    [use] = contexts(looking.trace)
    assert_adds_up(use)
    assert use.window is None and use.used == looking.data(StepKind.REQUEST)[0]["input_tokens_estimate"]


async def test_tools_that_are_asked_for_as_json_take_their_share(looking: LoopBench) -> None:
    looking.language_model = LanguageModel(name="scripted", context_window=4_000, tools_as_json=True)
    looking.script(
        Turn(text=json.dumps({"tool": "look_up", "arguments": {"number": 7}})), Turn(text='{"answer": "Yes."}')
    )
    await looking.run()
    first, second = contexts(looking.trace)
    assert first.shares[Share.TOOLDEF] > 0 and second.shares[Share.ARGUMENTS] > 0
    assert_adds_up(second)


async def test_a_dry_run_says_it_too(looking: LoopBench) -> None:
    looking.loop().dry_run(looking.state())
    assert [step.kind for step in looking.trace.steps] == [StepKind.ASSEMBLED, StepKind.CONTEXT]
    assert contexts(looking.trace)[0].used == looking.data(StepKind.ASSEMBLED)[0]["input_tokens_estimate"]


async def test_a_fallback_has_its_own_window_and_counts(looking: LoopBench) -> None:
    asking = call("look_up", {"number": 1})
    say(looking, "first", counted(70, tool_calls=(asking,)), BUSY, times=1)
    say(looking, "second", Turn(), counted(80, tool_calls=(asking,)), Turn(text="Here I am."))
    await run_routes(
        looking, route(looking, "first", context_window=4_000), route(looking, "second", context_window=1_000)
    )
    uses = contexts(looking.trace)
    assert [(use.window, use.counted) for use in uses] == [(4_000, 0), (4_000, 70), (1_000, 0), (1_000, 80)]


async def test_a_run_that_goes_on_takes_over_what_was_counted(looking: LoopBench) -> None:
    looking.script(counted(90, tool_calls=(call("look_up", {"number": 1}),)), Turn(text="On its way."))
    initial = looking.state()
    await looking.run(initial)
    whole = contexts(looking.trace)
    for length in range(3, 7):
        trace = RunTrace(steps=looking.trace.steps[:length], contents=looking.trace.contents)
        looking.model.scenarios["scripted"] = Scenario(name="scripted", turns=(Turn(text="On its way."),))
        await looking.run(replay(initial, trace.steps, trace.contents), trace=trace)
        assert contexts(trace)[-1] == whole[-1], length
