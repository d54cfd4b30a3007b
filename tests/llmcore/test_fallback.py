"""The fallback chain: another model answers where one can't be reached or has no room, before its first token."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from llmcore.configuration import LanguageModel, Parameters, Provider, Route
from llmcore.errors import ErrorKind
from llmcore.messages import Message
from llmcore.metering.client import ModelClient
from llmcore.providers.scripted import Scenario, Turn
from llmcore.runs.loop import LoopEnd, ToolLoop
from llmcore.runs.outcome import EndReason
from llmcore.runs.state import RunState, replay
from llmcore.trace import RunTrace, StepKind
from llmcore.usage import Prices
from tests.llmcore.conftest import LoopBench, call

BUSY = Turn(status=429, error="Slow down.")
# A port that nobody listens on.
NOWHERE = "http://127.0.0.1:9"


class Ledger:
    """A meter that keeps what it is told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, str | None, Decimal | None]] = []

    def record(self, call: Any, response: Any, cost: Decimal | None) -> None:
        kind = response.error.kind.value if response.error else None
        self.calls.append((call.provider.slug, call.model.name, kind, cost))


def route(bench: LoopBench, name: str, adapter: str = "openai_compat", *, url: str = "", **model: Any) -> Route:
    provider = Provider(
        slug=f"at-{name}",
        name=name,
        adapter=adapter,
        base_url=url or bench.url,
        allow_private_hosts=True,
        max_attempts=model.pop("max_attempts", 1),
    )
    return Route(provider=provider, model=LanguageModel(name=name, **model))


def say(bench: LoopBench, name: str, *turns: Turn, times: int | None = None) -> None:
    bench.model.scenarios[name] = Scenario(name=name, turns=turns, times=times)


def loop_of(bench: LoopBench, first: Route, *others: Route, **options: Any) -> ToolLoop:
    settings = {"client": bench.client, "tools": bench.tools.all_tools(), "trace": bench.trace, **options}
    return ToolLoop(provider=first.provider, model=first.model, fallbacks=others, **settings)


async def run(bench: LoopBench, *routes: Route, state: RunState | None = None, **options: Any) -> LoopEnd:
    return await loop_of(bench, *routes, **options).run(bench.state() if state is None else state)


def asked(trace: RunTrace) -> list[tuple[int, str]]:
    """The rounds and models of all requests of a trace."""
    return [(step.round, step.data["model"]) for step in trace.steps if step.kind is StepKind.REQUEST]


@pytest.mark.parametrize(
    ("turn", "kind"),
    [
        (BUSY, ErrorKind.RATE_LIMIT),
        (Turn(status=500, error="Oops."), ErrorKind.SERVER),
        (Turn(status=503, error="Full."), ErrorKind.OVERLOADED),
        (Turn(error={"message": "Gone.", "type": "server_error"}), ErrorKind.SERVER),
        (Turn(text="x", cut_after_chars=0), ErrorKind.STREAM_INCOMPLETE),
    ],
)
async def test_another_model_answers_where_one_fails_before_its_first_token(
    bench: LoopBench, turn: Turn, kind: ErrorKind
) -> None:
    say(bench, "first", turn)
    say(bench, "second", Turn(text="Here I am."))

    end = await run(bench, route(bench, "first"), route(bench, "second"))

    assert (end.outcome.reason, end.outcome.answer) == (EndReason.COMPLETED, "Here I am.")
    assert asked(bench.trace) == [(1, "first"), (1, "second")]
    failed, answered = bench.data(StepKind.RESPONSE)
    assert (failed["error"]["kind"], failed["falls_back_to"]) == (kind, "at-second/second")
    assert answered["error"] is None and "falls_back_to" not in answered
    assert (end.state.rounds_used, end.state.route) == (1, "at-second/second")


async def test_a_server_that_is_not_there_is_passed_over(bench: LoopBench) -> None:
    say(bench, "second", Turn(text="Here I am."))

    end = await run(bench, route(bench, "first", url=NOWHERE), route(bench, "second"))

    assert end.outcome.answer == "Here I am."


@pytest.mark.parametrize(
    "turn",
    [
        Turn(status=400, error="Bad."),
        Turn(status=401, error="No key."),
        Turn(status=403, error="Not yours."),
        Turn(status=404, error="No such model."),
        Turn(status=400, error={"message": "Filtered", "code": "content_filter"}),
        Turn(status=500, error={"message": "x", "type": "exceed_context_size_error"}),
        Turn(text="A word, and then", error="Gone."),
        Turn(text="A word, and then", cut_after_chars=6),
        Turn(thinking="Hm, let me think", cut_after_chars=3),
        Turn(raw='{"choices": []}'),
    ],
)
async def test_what_another_model_could_not_heal_ends_the_run(bench: LoopBench, turn: Turn) -> None:
    say(bench, "first", turn)
    say(bench, "second", Turn(text="Here I am."))

    end = await run(bench, route(bench, "first"), route(bench, "second"))

    assert end.outcome.error is not None or end.outcome.reason is not EndReason.COMPLETED
    assert asked(bench.trace) == [(1, "first")]


async def test_an_address_that_is_refused_is_no_matter_of_the_service(bench: LoopBench) -> None:
    say(bench, "second", Turn(text="Here I am."))

    end = await run(bench, route(bench, "first", url="http://169.254.169.254/v1"), route(bench, "second"))

    assert end.outcome.reason is EndReason.PROVIDER_FAILED
    assert "never called" in end.outcome.detail


async def test_the_last_failure_is_the_end_of_a_chain(bench: LoopBench) -> None:
    say(bench, "first", BUSY)
    say(bench, "second", Turn(status=500, error="Oops."))
    say(bench, "third", Turn(status=503, error="Full."))

    end = await run(bench, *(route(bench, name) for name in ("first", "second", "third")))

    assert asked(bench.trace) == [(1, "first"), (1, "second"), (1, "third")]
    assert end.outcome.error is not None and end.outcome.error.message == "Full."
    assert end.state.rounds_used == 1


async def test_each_model_has_its_own_attempts_first(bench: LoopBench) -> None:
    async def at_once(seconds: float) -> None:
        """Waits cost a test its time."""

    say(bench, "first", BUSY, times=9)
    say(bench, "second", BUSY, Turn(text="Here I am."), times=1)
    bench.client._sleep = at_once

    end = await run(
        bench, route(bench, "first", max_attempts=3), route(bench, "second", max_attempts=2), state=bench.state()
    )

    assert end.outcome.answer == "Here I am."
    assert [body["model"] for body in bench.bodies] == ["first"] * 3 + ["second"] * 2
    assert [step.data["attempt"] for step in bench.steps(StepKind.RETRY)] == [1, 2, 1]


async def test_a_run_stays_with_the_model_that_it_fell_back_to(bench: LoopBench) -> None:
    @bench.tools.tool()
    async def look_up(number: str) -> str:
        """Look up an order."""
        return f"order {number}"

    say(bench, "first", Turn(text="One moment.", tool_calls=(call("look_up", {"number": "1"}),)), BUSY)
    say(
        bench,
        "second",
        Turn(text="never said"),
        Turn(tool_calls=(call("look_up", {"number": "2"}),)),
        Turn(text="Both are there."),
    )

    end = await run(bench, route(bench, "first"), route(bench, "second"), state=bench.state(max_rounds=5))

    assert asked(bench.trace) == [(1, "first"), (2, "first"), (2, "second"), (3, "second")]
    assert end.outcome.answer == "Both are there."
    assert end.state.rounds_used == 3


async def test_the_limit_of_rounds_counts_answers_and_not_models(bench: LoopBench) -> None:
    @bench.tools.tool()
    async def look() -> str:
        """Look."""
        return "seen"

    say(bench, "first", BUSY)
    say(bench, "second", Turn(tool_calls=(call("look"),)))

    end = await run(bench, route(bench, "first"), route(bench, "second"), state=bench.state(max_rounds=1))

    assert end.outcome.reason is EndReason.MAX_ROUNDS
    assert asked(bench.trace) == [(1, "first"), (1, "second"), (2, "second")]
    assert bench.data(StepKind.REQUEST)[-1]["last"] is True


@pytest.mark.parametrize("second", ["anthropic", "gemini", "openai_responses", "openrouter", "openai_compat"])
@pytest.mark.parametrize("first", ["anthropic", "gemini", "openai_responses", "openrouter", "openai_compat"])
async def test_nothing_that_one_model_signed_goes_to_another(bench: LoopBench, first: str, second: str) -> None:
    @bench.tools.tool()
    async def look() -> str:
        """Look."""
        return "seen"

    thinks = {"supports_thinking": True}
    say(bench, "first", Turn(thinking="A secret plan.", text="I look.", tool_calls=(call("look"),)), BUSY)
    say(bench, "second", Turn(text="never said"), Turn(text="Seen by another."))

    end = await run(
        bench,
        route(bench, "first", first, **thinks),
        route(bench, "second", second, **thinks),
        state=bench.state(parameters=Parameters(thinking="low")),
    )

    assert end.outcome.answer == "Seen by another."
    sent = bench.requests[-1].body.decode()
    assert "seen" in sent and "I look." in sent
    for foreign in ("A secret plan.", "encrypted_content", '"signature"', "reasoning_details", "reasoning_content"):
        assert foreign not in sent.replace("reasoning.encrypted_content", "")


async def test_what_is_sent_to_a_fallback_is_in_the_trace_as_it_was_sent(bench: LoopBench) -> None:
    say(bench, "first", BUSY)
    say(bench, "second", Turn(text="Here I am."))

    await run(bench, route(bench, "first"), route(bench, "second", "anthropic"), capture_raw=True)

    first, second = bench.data(StepKind.REQUEST)
    assert (first["provider"], first["adapter"]) == ("at-first", "openai_compat")
    assert (second["provider"], second["adapter"]) == ("at-second", "anthropic")
    assert second["url"].endswith("/messages")
    assert (second["kept"], second["added"], second["messages"]) == (first["messages"], [], first["messages"])
    assert second["input_tokens_estimate"] == first["input_tokens_estimate"]


async def test_each_call_is_metered_and_priced_as_its_own_model(bench: LoopBench) -> None:
    ledger = Ledger()
    bench.client = ModelClient(http=bench.client._http, meter=ledger)
    say(bench, "first", BUSY)
    say(bench, "second", Turn(text="Hi.", usage={"prompt_tokens": 1_000, "completion_tokens": 10}))
    dear, cheap = Prices(input=Decimal(100), output=Decimal(100)), Prices(input=Decimal(1), output=Decimal(2))

    await run(bench, route(bench, "first", prices=dear), route(bench, "second", prices=cheap))

    assert ledger.calls == [
        ("at-first", "first", "rate_limit", None),
        ("at-second", "second", None, Decimal("0.00102")),
    ]  # M1
    assert bench.data(StepKind.RESPONSE)[1]["cost"] == "0.00102"


async def test_a_model_without_tools_is_offered_none(bench: LoopBench) -> None:
    @bench.tools.tool()
    async def look() -> str:
        """Look."""
        return "seen"

    say(bench, "first", BUSY)
    say(bench, "second", Turn(text="Here I am."))

    await run(bench, route(bench, "first"), route(bench, "second", supports_tools=False))

    assert ["tools" in body for body in bench.bodies] == [True, False]


async def test_a_fallback_is_asked_for_no_more_than_it_can_write(bench: LoopBench) -> None:
    for name in ("first", "second"):
        say(bench, name, BUSY)
    say(bench, "third", Turn(text="Here I am."))
    routes = (
        route(bench, "first", max_output_tokens=900),
        route(bench, "second", max_output_tokens=50),
        route(bench, "third", max_output_tokens=200),
    )

    await run(bench, *routes, state=bench.state(parameters=Parameters(max_tokens=400)))

    assert [body["max_tokens"] for body in bench.bodies] == [400, 50, 200]


async def test_a_cancelled_run_asks_nobody_else(bench: LoopBench) -> None:
    cancel = asyncio.Event()
    say(bench, "first", Turn(status=503, error="Full.", delay_s=30))
    say(bench, "second", Turn(text="Here I am."))
    running = asyncio.create_task(run(bench, route(bench, "first"), route(bench, "second"), cancel=cancel))
    while not bench.requests:
        await asyncio.sleep(0.005)
    cancel.set()

    end = await running

    assert end.outcome.reason is EndReason.CANCELLED
    assert asked(bench.trace) == [(1, "first")]


async def test_a_dry_run_shows_the_request_to_the_first_model(bench: LoopBench) -> None:
    end = loop_of(bench, route(bench, "first"), route(bench, "second")).dry_run(bench.state())

    assert end.outcome.reason is EndReason.DRY_RUN
    assert bench.data(StepKind.ASSEMBLED)[0]["model"] == "first"
    assert bench.requests == []


async def test_from_every_prefix_of_its_steps_a_run_goes_on_with_the_model_it_was_at(bench: LoopBench) -> None:
    @bench.tools.tool()
    async def look(n: int) -> str:
        """Look."""
        return f"seen {n}"

    say(bench, "first", Turn(text="I look.", tool_calls=(call("look", {"n": 1}),)), BUSY)
    say(bench, "second", Turn(text="never said"), Turn(tool_calls=(call("look", {"n": 2}),)), Turn(text="Done."))
    routes = (route(bench, "first"), route(bench, "second", "anthropic"))
    initial = bench.state()
    whole = await run(bench, *routes, state=initial)
    steps, contents = list(bench.trace.steps), bench.trace.contents
    assert replay(initial, steps, contents) == whole.state

    for length in range(len(steps) + 1):
        state = RunState.from_json(json.loads(json.dumps(replay(initial, steps[:length], contents).to_json())))
        trace = RunTrace(steps=steps[:length], contents=contents)
        end = await run(bench, *routes, state=state, trace=trace)

        assert (end.outcome.reason, end.outcome.answer) == (EndReason.COMPLETED, "Done."), length
        assert end.state.rounds_used == 3
        assert end.state.route == "at-second/second"
        assert replay(initial, trace.steps, trace.contents) == end.state


async def test_a_model_that_is_no_longer_in_the_chain_is_named(bench: LoopBench) -> None:
    state = replace(bench.state(Message.of("user", "Hi")), route="at-third/third")

    end = await run(bench, route(bench, "first"), route(bench, "second"), state=state)

    assert end.outcome.reason is EndReason.INTERNAL_ERROR
    assert "at-third/third" in end.outcome.detail
