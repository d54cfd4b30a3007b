"""Running a tool: every failure is a result, and nothing unclean or endless leaves it."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest

from llmcore.errors import ToolError
from llmcore.tools.base import Artifact, Effect, Tool, ToolContext, ToolOutput
from llmcore.tools.execute import ToolRunner
from llmcore.tools.results import FailureKind, ToolResult, clean, cut, text_of


def tool(run: Callable[..., Any], **more: Any) -> Tool:
    return Tool(name="probe", description="x", parameters={"type": "object"}, run=run, **more)


async def result_of(run: Callable[..., Any], runner: ToolRunner | None = None, **more: Any) -> ToolResult:
    return await (runner or ToolRunner()).run(tool(run, **more), {})


async def test_a_sync_tool_runs_in_a_thread_and_an_async_one_on_the_loop() -> None:
    async def asynchronous() -> str:
        return threading.current_thread().name

    here = threading.current_thread().name
    assert (await result_of(lambda: threading.current_thread().name)).text != here
    assert (await result_of(asynchronous)).text == here


async def test_an_instance_with_an_async_call_is_async() -> None:
    class Probe:
        async def __call__(self) -> str:
            return "ok"

    assert (await result_of(Probe())).text == "ok"  # K1


async def test_context_variables_are_seen_in_the_tools_thread() -> None:
    language = contextvars.ContextVar("language", default="en")
    language.set("fr")

    assert (await result_of(language.get)).text == "fr"


async def test_a_tool_gets_the_context_it_asks_for() -> None:
    runner = ToolRunner(context=ToolContext(user="ada", run_id=7))

    result = await result_of(lambda who: f"{who.user} {who.run_id}", runner, context_parameter="who")

    assert result.text == "ada 7"


async def test_a_tool_error_tells_the_model_its_text() -> None:
    def refuse() -> None:
        raise ToolError("There is no order 7; orders have five digits.")

    result = await result_of(refuse)

    assert (result.failure, result.text) == (
        FailureKind.TOOL_ERROR,
        "There is no order 7; orders have five digits.",
    )  # L7


@pytest.mark.parametrize("error", [KeyError("key-123"), SystemExit(3), StopIteration("x"), RecursionError()])
async def test_any_other_exception_is_generic_to_the_model(error: BaseException, caplog: Any) -> None:
    def fail() -> None:
        raise error

    runner = ToolRunner(redact=lambda text: text.replace("key-123", "•••"))
    with caplog.at_level(logging.ERROR, "llmcore.tools.execute"):
        result = await result_of(fail, runner)

    assert result.failure is FailureKind.EXCEPTION and "key-123" not in result.text  # L7
    assert type(error).__name__ not in result.text
    assert result.traceback and "in fail" in result.traceback and "key-123" not in result.traceback
    assert "in fail" in caplog.text and "key-123" not in caplog.text


async def test_an_async_tools_exceptions_are_results_too() -> None:
    async def fail() -> None:
        raise ValueError("x")

    async def cancel_itself() -> None:
        raise asyncio.CancelledError

    async def leave() -> None:
        sys.exit(3)

    for probe in (fail, cancel_itself, leave):
        assert (await result_of(probe)).failure is FailureKind.EXCEPTION  # L7


async def test_a_sync_tool_that_returns_a_coroutine_is_told_to_be_async() -> None:
    async def coroutine() -> None: ...

    result = await result_of(lambda: coroutine())

    assert result.failure is FailureKind.EXCEPTION and "declare it async" in (result.traceback or "")


@pytest.fixture
def hanging() -> Iterator[tuple[Callable[[], str], threading.Event, threading.Event]]:
    begun, go_on = threading.Event(), threading.Event()

    def hang() -> str:
        begun.set()
        go_on.wait(30)
        return "late"

    yield hang, begun, go_on
    go_on.set()


async def test_a_sync_tool_past_its_deadline_is_given_up_with_its_effect_unknown(hanging: Any) -> None:
    hang, begun, _ = hanging

    result = await result_of(hang, timeout_s=0.5)

    # On a busy machine its thread may come after the deadline.
    assert begun.wait(20)
    assert (result.failure, result.effect_unknown) == (FailureKind.TIMEOUT, True)  # L7
    assert result.text == "The tool did not finish within 0.5 seconds. Whether it had an effect is unknown."


async def test_a_tool_that_hangs_keeps_nothing_from_ending(hanging: Any) -> None:
    hang, begun, _ = hanging
    before = set(threading.enumerate())
    await result_of(hang, timeout_s=0.5)

    (thread,) = set(threading.enumerate()) - before
    assert begun.wait(20) and thread.is_alive() and thread.daemon


async def test_an_async_tool_past_its_deadline_is_cancelled() -> None:
    cleaned_up = asyncio.Event()

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned_up.set()

    result = await result_of(hang, timeout_s=0.01)

    assert (result.failure, result.effect_unknown) == (FailureKind.TIMEOUT, False)
    assert cleaned_up.is_set()


async def test_a_write_that_is_cancelled_may_have_happened() -> None:
    async def hang() -> None:
        await asyncio.Event().wait()

    result = await result_of(hang, timeout_s=0.01, effect=Effect.NON_IDEMPOTENT_WRITE)

    assert result.effect_unknown


async def test_a_cancelled_run_waits_for_no_tool(hanging: Any) -> None:
    hang, begun, _ = hanging
    cancelled = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(result_of(hang, ToolRunner(cancelled=cancelled)))
    await asyncio.to_thread(begun.wait)

    cancelled.set_result(None)

    result = await running
    assert (result.failure, result.effect_unknown) == (FailureKind.CANCELLED, True)  # D2


@pytest.mark.parametrize("fails", [False, True])
async def test_what_a_thread_holds_is_released_in_that_thread(fails: bool) -> None:
    used: list[str] = []

    def probe() -> None:
        used.append(threading.current_thread().name)
        if fails:
            raise ToolError("no")

    await result_of(probe, ToolRunner(after_tool=lambda: used.append(threading.current_thread().name)))

    assert len(used) == 2 and len(set(used)) == 1


async def test_a_release_that_fails_does_not_spoil_the_result(caplog: Any) -> None:
    def broken() -> None:
        raise RuntimeError("no connection")

    result = await result_of(lambda: "ok", ToolRunner(after_tool=broken))

    assert result.text == "ok" and "no connection" in caplog.text


class Color(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    when: date


class Rows:
    """Iterable and sized but no list, like a query."""

    def __len__(self) -> int:
        return 2

    def __iter__(self) -> Iterator[int]:
        return iter((1, 2))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("text", "text"),
        (None, "null"),
        ({"a": 1}, '{"a": 1}'),
        ([Decimal("1.10")], '["1.10"]'),
        (datetime(2024, 1, 2, 3, 4, 5), '"2024-01-02T03:04:05"'),
        (timedelta(hours=1), '"1:00:00"'),
        (Point(1, date(2024, 1, 2)), '{"x": 1, "when": "2024-01-02"}'),
        (Color.RED, '"red"'),
        ({"b", "a"}, '["a", "b"]'),
        (Rows(), "[1, 2]"),
        (MappingProxyType({"a": 1}), '{"a": 1}'),
        ({date(2024, 1, 2): 1, 7: 2, Color.RED: 3}, '{"2024-01-02": 1, "7": 2, "red": 3}'),
        (UUID(int=0), '"00000000-0000-0000-0000-000000000000"'),
        ({"ä": "ß"}, '{"ä": "ß"}'),
        ([Point(math.nan, date(2024, 1, 2)), {7: -math.inf}], '[{"x": null, "when": "2024-01-02"}, {"7": null}]'),  # type: ignore[arg-type]
        (("a\0b", "\ud800"), '["a\\u0000b", "�"]'),
    ],
)
def test_results_become_json_text(value: Any, text: str) -> None:
    assert text_of(value) == text  # L10


@pytest.mark.parametrize("value", [b"bytes", object(), (n for n in range(3)), {"a": {object(): 1}, "b": object()}])
def test_what_has_no_json_is_an_error_for_the_developer(value: Any) -> None:
    with pytest.raises(TypeError):
        text_of(value)


@pytest.mark.parametrize(
    ("dirty", "text"), [("a\0b", "ab"), ("\ud83d\ude00", "😀"), ("x\udfff", "x\ufffd"), ("äöü", "äöü")]
)
def test_texts_are_valid_utf8_without_nul(dirty: str, text: str) -> None:
    assert clean(dirty) == text  # L10


@pytest.mark.parametrize("extra", range(4))
def test_a_long_result_is_cut_between_characters_with_a_marker(extra: int) -> None:
    data = ("x" * extra + "ü€😀" * 1000).encode()

    text = cut(data, 1_000)

    assert len(text.encode()) <= 1_000  # L10
    assert "�" not in text
    shown, _, marker = text.partition("\n[The result was truncated here")
    assert data.decode().startswith(shown) and len(shown) > 100
    assert f"{len(data)} bytes" in marker and "narrower arguments" in marker


@pytest.mark.parametrize("limit", [0, 1, 5, 100])
def test_even_the_smallest_limit_is_kept(limit: int) -> None:
    assert len(cut("ü€😀".encode() * 100, limit).encode()) <= limit


def test_the_model_gets_less_than_the_trace() -> None:
    bounded = ToolResult(text="x" * 1_000).bounded(max_bytes=300, max_traced_bytes=900, note="Again?")

    assert len(bounded.text) <= 300 and bounded.text.endswith("\n\nAgain?")  # L10
    assert bounded.full is not None and len(bounded.full) <= 900
    assert bounded.size == 1_000


def test_what_gives_way_to_a_note_stays_in_the_trace() -> None:
    bounded = ToolResult(text="x" * 299).bounded(max_bytes=300, max_traced_bytes=900, note="Again?")

    assert "x" * 299 not in bounded.text
    assert bounded.full == "x" * 299  # L10


async def test_artifacts_stay_out_of_the_text() -> None:
    artifact = Artifact(type="note", payload={"price": Decimal("1.10"), "mean": math.nan})

    result = await result_of(lambda: ToolOutput(content="done", artifacts=(artifact,)))

    assert result.text == "done"  # L10
    # No database takes a number that JSON doesn't have.
    assert result.artifacts == (Artifact(type="note", payload={"price": "1.10", "mean": None}),)
