"""Compares a response with what a case expects of it."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from llmcore.errors import ProviderError
from llmcore.management.wire_check.checks import same, shown
from llmcore.messages import JSON, ModelResponse, ToolCall
from llmcore.usage import Prices, Usage

# The case's names for the counts, and ours.
COUNTS = {
    "prompt": "input_tokens",
    "completion": "output_tokens",
    "total": "total_tokens",
    "cached": "cache_read_input_tokens",
    "cache_write": "cache_creation_input_tokens",
    "reasoning": "reasoning_output_tokens",
}
PRICES = {"input": "input", "output": "output", "cache_read": "cache_read", "cache_write": "cache_creation"}
TOLERANCE_S = 0.01


def differences(expected: Mapping[str, JSON], response: ModelResponse) -> Iterator[str]:
    """One line for each expectation that the response does not meet."""
    for name, wanted in expected.items():
        compare = EXPECTATIONS.get(name)
        if compare is None:
            yield f"there is no expectation {name!r}"
        else:
            yield from compare(wanted, response)


def differs(name: str, wanted: JSON, found: JSON) -> Iterator[str]:
    if not same(found, wanted):
        yield f"{name}: expected {shown(wanted)}, got {shown(found)}"


def _text(wanted: JSON, response: ModelResponse) -> Iterator[str]:
    return differs("content", wanted, response.text)


def _thinking(wanted: JSON, response: ModelResponse) -> Iterator[str]:
    return differs("thinking", wanted, response.thinking or None)


def _finish(wanted: JSON, response: ModelResponse) -> Iterator[str]:
    return differs("finish_reason", wanted, response.finish_reason.value if response.finish_reason else None)


def _finish_raw(wanted: JSON, response: ModelResponse) -> Iterator[str]:
    return differs("finish_reason_raw", wanted, response.finish_reason_raw)


def _refusal(wanted: JSON, response: ModelResponse) -> Iterator[str]:
    return differs("refusal", wanted, response.refusal)


def _cost(wanted: JSON, response: ModelResponse) -> Iterator[str]:
    found = response.provider_cost
    if (None if wanted is None else Decimal(str(wanted))) != found:
        yield f"cost: expected {shown(wanted)}, got {shown(found)}"


def _ids_unique(wanted: JSON, response: ModelResponse) -> Iterator[str]:
    ids = [call.id for call in response.tool_calls]
    return differs("tool_call_ids_unique", wanted, len(set(ids)) == len(ids) and all(ids))


def _tool_calls(wanted: JSON, response: ModelResponse) -> Iterator[str]:
    calls = response.tool_calls
    if len(calls) != len(wanted):
        yield f"tool_calls: expected {len(wanted)}, got {len(calls)} ({', '.join(call.name for call in calls)})"
    for index, (expected, call) in enumerate(zip(wanted, calls, strict=False)):
        for name, value in expected.items():
            place = f"tool_calls.{index}.{name}"
            if name in CALL_FIELDS:
                yield from differs(place, value, CALL_FIELDS[name](call))
            else:
                yield f"there is no expectation {place!r}"


CALL_FIELDS: Mapping[str, Callable[[ToolCall], JSON]] = {
    "id": lambda call: call.id,
    "name": lambda call: call.name,
    "arguments": lambda call: call.arguments,
    "arguments_raw": lambda call: call.arguments_raw,
    "executable": lambda call: call.executable,
    "id_generated": lambda call: bool(call.id) and call.id != call.provider_id,
    "problem": lambda call: call.problem.value if call.problem else None,
}


def _usage(wanted: JSON, response: ModelResponse) -> Iterator[str]:
    usage = response.usage
    if wanted is None:
        if usage is not None and usage.known:
            yield f"usage: expected none, got {shown(usage.to_json())}"
        return
    usage = usage or Usage()
    for name, value in wanted.items():
        if name in COUNTS:
            yield from differs(f"usage.{name}", value, getattr(usage, COUNTS[name]))
        else:
            yield f"there is no expectation 'usage.{name}'"


def _error(wanted: JSON, response: ModelResponse) -> Iterator[str]:
    error = response.error
    if wanted is None or error is None:
        yield from differs("error", wanted, error.to_json() if error else None)
        return
    for name, value in wanted.items():
        if name == "must_not_contain":
            yield from leaks(value, error)
        elif name == "retry_after":
            waits = error.retry_after_s
            if waits is None or value is None or abs(waits - value) > TOLERANCE_S:
                yield from differs("error.retry_after", value, waits)
        elif name in ERROR_FIELDS:
            yield from differs(f"error.{name}", value, ERROR_FIELDS[name](error))
        else:
            yield f"there is no expectation 'error.{name}'"


ERROR_FIELDS: Mapping[str, Callable[[ProviderError], JSON]] = {
    "kind": lambda error: error.kind.value,
    "status": lambda error: error.status,
    "retryable": lambda error: error.retryable,
    "message": lambda error: error.message,
    "code": lambda error: error.code,
    "param": lambda error: error.param,
    "failed_generation": lambda error: error.failed_generation,
}


def leaks(forbidden: Iterable[str], error: ProviderError) -> Iterator[str]:
    """Texts that must not be in any rendering of the error, its causes included."""
    for text in forbidden:
        for name, rendering in renderings(error).items():
            if text.lower() in rendering.lower():
                yield f"error: its {name} contains {shown(text)}"


def renderings(error: BaseException) -> dict[str, str]:
    """All the ways in which an error may become text."""
    chain: list[BaseException] = [error]
    while (inner := chain[-1].__cause__ or chain[-1].__context__) is not None and inner not in chain:
        chain.append(inner)
    try:
        raise error
    except type(error) as raised:
        formatted = "".join(traceback.TracebackException.from_exception(raised, capture_locals=True).format())
    texts = {
        "text": " ".join(str(link) for link in chain),
        "repr": " ".join(repr(link) for link in chain),
        "arguments": " ".join(repr(link.args) for link in chain),
        "attributes": " ".join(repr(vars(link)) for link in chain),
        "traceback": formatted,
    }
    if isinstance(error, ProviderError):
        texts["JSON"] = str(error.to_json())
        texts["advice"] = error.advice
    return texts


def price_differences(check: Mapping[str, Any], response: ModelResponse) -> Iterator[str]:
    """What the cost of the response is, at the case's prices per million tokens."""
    told = {PRICES[name]: Decimal(str(price)) for name, price in check["per_mtok"].items() if price is not None}
    prices = Prices.from_json(told)
    cost = prices.cost(response.usage)
    wanted = None if check["cost"] is None else Decimal(str(check["cost"]))
    if cost != wanted:
        yield f"price: expected {wanted}, got {cost}"


EXPECTATIONS: Mapping[str, Callable[[JSON, ModelResponse], Iterator[str]]] = {
    "content": _text,
    "thinking": _thinking,
    "tool_calls": _tool_calls,
    "finish_reason": _finish,
    "finish_reason_raw": _finish_raw,
    "usage": _usage,
    "error": _error,
    "refusal": _refusal,
    "cost": _cost,
    "tool_call_ids_unique": _ids_unique,
}
