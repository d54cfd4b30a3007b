"""The recorded cases of provider behavior, each over a real socket, and the command that replays them."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from llmcore.management.wire_check.checks import failed_checks
from llmcore.management.wire_check.replay import load_cases, load_tools, run_cases
from llmcore.management.wire_check.server import Received
from llmcore.management.wire_check.storage import storage_differences
from llmcore.providers.registry import adapters

WIRE = Path(__file__).parent / "wire"
# What clients were reported to misread, and what else of these kinds the services' own documents make possible.
CASES = {case["id"]: case for name in ("cases.jsonl", "more_cases.jsonl") for case in load_cases(WIRE / name)}
TOOLS = load_tools(WIRE / "tools.json")
SPOKEN = [case_id for case_id, case in CASES.items() if case["adapter"] in adapters()]

pytestmark = pytest.mark.django_db


def verdict_on(case: Mapping[str, Any]) -> tuple[str, ...]:
    (verdict,) = run_cases([case], TOOLS, storage_differences)
    assert verdict.skipped is None
    return verdict.differences


def adapted(case_id: str, **changes: Any) -> dict[str, Any]:
    """A copy of a case, with some of its top-level fields replaced."""
    return {**copy.deepcopy(dict(CASES[case_id])), **changes}


@pytest.mark.parametrize("case_id", SPOKEN)
def test_the_adapters_read_what_providers_have_sent(case_id: str) -> None:
    assert verdict_on(CASES[case_id]) == ()  # W1


def test_many_cases_are_for_adapters_that_exist() -> None:
    assert len(SPOKEN) >= 371


# Gateways report the same things as the services behind them, so their cases hold for any OpenAI-compatible server.
FAMILY = [
    case_id
    for case_id, case in CASES.items()
    if case["adapter"] in ("groq", "openrouter", "deepseek", "mistral", "azure_openai")
]


@pytest.mark.parametrize("case_id", FAMILY)
def test_an_openai_compatible_server_may_be_a_gateway(case_id: str) -> None:
    # What a request must be is these services' own.
    case = adapted(case_id, adapter="openai_compat", request_must=None, next_request_must=None)

    assert verdict_on(case) == ()


SPOILED_EXPECTATIONS = [
    ("W24", {"content": "Two moments."}),
    ("W33", {"thinking": "Hmm."}),
    ("W33", {"thinking": None}),
    ("W24", {"finish_reason": "stop"}),
    ("W24", {"finish_reason_raw": "tool_calls"}),
    ("W24", {"tool_calls": []}),
    ("W24", {"tool_calls": [{"name": "get_time"}]}),
    ("W24", {"tool_calls": [{"id": "b"}]}),
    ("W24", {"tool_calls": [{"arguments": {"city": "Rome"}}]}),
    ("W24", {"tool_calls": [{"executable": False}]}),
    ("W24", {"tool_calls": [{"id_generated": True}]}),
    ("W24", {"tool_calls": [{"mood": "good"}]}),
    ("W09", {"tool_calls": [{"arguments_raw": "{"}]}),
    ("W24", {"tool_call_ids_unique": False}),
    ("W42", {"usage": {"prompt": 501}}),
    ("W42", {"usage": {"cached": 0}}),
    ("W42", {"usage": None}),
    ("W42", {"usage": {"dollars": 1}}),
    ("W35", {"usage": {"reasoning": None}}),
    ("W24", {"error": {"kind": "server"}}),
    ("W56", {"error": None}),
    ("W56", {"error": {"kind": "quota"}}),
    ("W56", {"error": {"status": 500}}),
    ("W56", {"error": {"retryable": False}}),
    ("W56", {"error": {"retry_after": 1.0}}),
    ("W56", {"error": {"failed_generation": "x"}}),
    ("W56", {"error": {"must_not_contain": ["SLOW DOWN"]}}),
    ("W56", {"must_not_contain": ["Slow down"]}),
    ("W56", {"error": {"color": "red"}}),
    ("W63", {"refusal": None}),
    ("W42", {"cost": 0.5}),
    ("W42", {"weather": "fine"}),
]


@pytest.mark.parametrize(("case_id", "wrong"), SPOILED_EXPECTATIONS)
def test_a_wrong_expectation_fails(case_id: str, wrong: dict[str, Any]) -> None:
    expected = {**CASES[case_id]["expected"], **wrong}

    assert verdict_on(adapted(case_id, expected=expected))


def test_a_wrong_price_fails() -> None:
    prices = {"input": 2.0, "output": 10.0, "cache_read": 0.5, "cache_write": None}
    # 6 fresh tokens, 4 cached ones, 5 of output.
    right = {"per_mtok": prices, "cost": 0.000064}

    assert verdict_on(adapted("W35", price_check=right)) == ()
    assert verdict_on(adapted("W35", price_check={**right, "cost": 0.000065}))


@pytest.mark.parametrize(
    "wrong",
    [
        {"insert_into_jsonb_succeeds": False},
        {"stored_content_one_of": ["a\0b"]},
        {"literal_backslash_u0000_text_survives": False},
        {"is_warm": True},
    ],
)
def test_a_wrong_demand_on_storage_fails(wrong: dict[str, Any]) -> None:
    assert verdict_on(adapted("W88", storage_must={**CASES["W88"]["storage_must"], **wrong}))


def test_a_key_that_comes_back_is_in_no_rendering_and_no_capture() -> None:
    error = {
        "message": "Incorrect API key provided: SECRET-KEY-123.",
        "type": "x",
        "param": None,
        "code": "SECRET-KEY-123",
    }
    case = adapted(
        "W56",
        request_context={**CASES["W56"]["request_context"], "api_key": "SECRET-KEY-123"},
        transport={"mode": "json", "status": 401, "headers": {"set-cookie": "k=SECRET-KEY-123"}},
        response={"error": error},
        expected={
            "finish_reason": None,
            "error": {"kind": "authentication", "status": 401, "must_not_contain": ["SECRET-KEY-123"]},
        },
        request_must=[{"header": "Authorization", "equals": "Bearer SECRET-KEY-123"}],
    )

    assert verdict_on(case) == ()  # W7


BODY = {
    "model": "m",
    "n": 1,
    "stream": True,
    "messages": [
        {"role": "user", "content": "Go"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "a"}, {"id": "b"}]},
        {"role": "tool", "tool_call_id": "a", "content": "3 C"},
        {"role": "tool", "tool_call_id": "b", "content": "20 C"},
    ],
}
REQUEST = Received(
    method="POST", url="http://h/v1/chat?x=1", headers={"authorization": "Bearer k"}, body=json.dumps(BODY).encode()
)

GOOD_CHECKS: list[dict[str, Any]] = [
    {"path": "model", "equals": "m"},
    {"path": "messages.-1.content", "equals": "20 C"},
    {"path": "messages.*.role", "equals": ["user", "assistant", "tool", "tool"]},
    {"path": "messages.1.content", "equals": None},
    {"path": "tools", "equals": None},
    {"path": "messages.0", "contains": {"role": "user"}},
    {"path": "messages.*.role", "contains": "tool"},
    {"path": "messages", "contains": {"tool_call_id": "b"}},
    {"path": "messages.-1", "contains_text": "20 C"},
    {"path": "messages.*.content", "contains_text": "3 C"},
    {"path": "messages.*.content", "not_contains": "secret"},
    {"path": "messages.1.tool_calls.*.id", "matches": "^[ab]$"},
    {"path": "messages.2.tool_call_id", "equals_path": "messages.1.tool_calls.0.id"},
    {"path": "messages.*.tool_call_id", "same_set_as": "messages.1.tool_calls.*.id"},
    {"path": "messages.1.tool_calls.*.id", "unique": True},
    {"path": "messages", "length": 4},
    {"path": "messages.*", "length": 4},
    {"path": "messages.-1.content", "max_length": 4},
    {"path": "messages.*.content", "none_equals": ""},
    {"header": "Authorization", "equals": "Bearer k"},
    {"url": True, "not_contains": "SECRET"},
    {"url": True, "contains": "/v1/chat"},
]
BAD_CHECKS: list[dict[str, Any]] = [
    {"path": "model", "equals": "other"},
    {"path": "n", "equals": True},
    {"path": "stream", "equals": 1},
    {"path": "messages.9.content", "equals": "Go"},
    {"path": "messages.*.role", "equals": "user"},
    {"path": "messages.0", "contains": {"role": "tool"}},
    {"path": "messages.*.role", "contains": "developer"},
    {"path": "messages.-1", "contains_text": "21 C"},
    {"path": "messages.7", "contains_text": ""},
    {"path": "messages.*.content", "not_contains": "20"},
    {"path": "messages.1.tool_calls.*.id", "matches": "^a$"},
    {"path": "missing", "matches": ".*"},
    {"path": "messages.3.tool_call_id", "equals_path": "messages.1.tool_calls.0.id"},
    {"path": "missing", "equals_path": "missing"},
    {"path": "messages.2.tool_call_id", "same_set_as": "messages.1.tool_calls.*.id"},
    {"path": "messages.*.role", "unique": True},
    {"path": "missing.*", "unique": True},
    {"path": "messages", "length": 3},
    {"path": "missing", "length": 0},
    {"path": "messages.-1.content", "max_length": 3},
    {"path": "missing", "max_length": 3},
    {"path": "messages.*.content", "none_equals": None},
    {"header": "authorization", "equals": "Bearer x"},
    {"header": "x-missing", "equals": "x"},
    {"url": True, "not_contains": "x=1"},
    {"path": "model", "resembles": "m"},
    {"path": "model"},
    {"equals": "m"},
]


@pytest.mark.parametrize("check", GOOD_CHECKS)
def test_a_check_that_holds_says_nothing(check: dict[str, Any]) -> None:
    assert list(failed_checks([check], REQUEST)) == []


@pytest.mark.parametrize("check", BAD_CHECKS)
def test_a_check_that_does_not_hold_says_so(check: dict[str, Any]) -> None:
    assert list(failed_checks([check], REQUEST))


def test_checks_look_at_the_request_and_at_the_one_after_the_results() -> None:
    first = {"path": "messages.-1.role", "equals": "user"}
    second = [
        {"path": "messages.1.tool_calls.0.function.name", "equals": "get_weather"},
        {"path": "messages.2", "contains": {"role": "tool", "content": "3 C"}},
    ]
    context = {**CASES["W24"]["request_context"], "tool_results": ["3 C"]}
    case = adapted("W24", request_context=context, request_must=[first], next_request_must=second)

    assert verdict_on(case) == ()
    assert verdict_on({**case, "request_must": [{**first, "equals": "tool"}]})
    assert verdict_on({**case, "next_request_must": [{"path": "messages", "length": 2}]})


def test_a_long_result_is_cut_to_the_limit_of_the_case() -> None:
    context = {**CASES["W24"]["request_context"], "tool_results": ["ä" * 9000], "max_tool_result_chars": 500}
    check = {"path": "messages.-1.content", "max_length": 500}
    case = adapted("W24", request_context=context, next_request_must=[check])

    assert verdict_on(case) == ()
    assert verdict_on({**case, "next_request_must": [{**check, "max_length": 100}]})


def test_a_history_with_an_open_call_is_mended_before_it_is_sent() -> None:
    history = CASES["W92"]["request_context"]["messages"]
    case = adapted(
        "W26",
        request_context={**CASES["W26"]["request_context"], "messages": history},
        request_must=[
            {"path": "messages.2", "contains": {"role": "tool", "tool_call_id": "toolu_1"}},
            {"path": "messages.3.content", "equals": "Still there?"},
        ],
    )

    assert verdict_on(case) == ()  # L13


def test_calls_of_a_history_without_ids_get_some() -> None:
    call = {"name": "get_weather", "arguments": "", "id": None}
    history = [
        {"role": "user", "content": "Go"},
        {"role": "assistant", "content": None, "tool_calls": [call, call, {**call, "id": "x"}]},
        *({"role": "tool", "tool_call_id": identity, "content": text} for identity, text in (("x", "3"), (None, "1"))),
    ]
    case = adapted(
        "W26",
        request_context={**CASES["W26"]["request_context"], "messages": history},
        request_must=[
            {"path": "messages.1.tool_calls.*.id", "unique": True},
            {"path": "messages.1.tool_calls.*.id", "none_equals": ""},
            {"path": "messages.1.tool_calls.*.function.arguments", "equals": "{}"},
            {"path": "messages.*.tool_call_id", "same_set_as": "messages.1.tool_calls.*.id"},
            {"path": "messages.*.content", "contains_text": "interrupted"},
            {"path": "messages.2.content", "equals": "1"},
            {"path": "messages.4.content", "equals": "3"},
        ],
    )

    assert verdict_on(case) == ()


def run_command(*cases: Mapping[str, Any], tmp_path: Path, **options: Any) -> tuple[list[str], int]:
    """The lines that the command writes, and its exit status."""
    file = tmp_path / "cases.jsonl"
    file.write_text("\n".join(json.dumps(case) for case in cases))
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS))
    out, status = StringIO(), 0
    try:
        call_command("llm_wire_check", cases=file, stdout=out, **options)
    except SystemExit as exit:
        status = int(exit.code or 0)
    return out.getvalue().splitlines(), status


def original(case_id: str, **expected: Any) -> dict[str, Any]:
    """A case as it stands in a file."""
    case = {name: value for name, value in CASES[case_id].items() if name != "adapter"}
    return {**case, "expected": {**case["expected"], **expected}}


def test_the_command_names_what_differs_and_fails(tmp_path: Path) -> None:
    lines, status = run_command(
        original("W24"), original("W26", content="Bye."), {**original("W01"), "provider": "smoke"}, tmp_path=tmp_path
    )

    assert lines[0] == "W24 pass"
    assert lines[1] == 'W26 content: expected "Bye.", got "Hello."'
    assert lines[2] == "W01 skipped: there is no adapter 'smoke'"
    assert lines[3] == "1 passed, 1 failed, 1 skipped"
    assert status == 1


def test_the_command_can_look_at_one_adapter(tmp_path: Path) -> None:
    lines, status = run_command(original("W24"), original("W44"), tmp_path=tmp_path, adapter="ollama")

    assert lines == ["W44 pass", "1 passed, 0 failed, 0 skipped"]
    assert status == 0


def test_a_broken_case_fails_and_does_not_stop_the_others(tmp_path: Path) -> None:
    broken = {**original("W24"), "transport": {"mode": "pigeon"}}

    lines, status = run_command(broken, original("W26"), tmp_path=tmp_path)

    assert "pigeon" in lines[0]
    assert lines[1:] == ["W26 pass", "1 passed, 1 failed, 0 skipped"]
    assert status == 1


@pytest.mark.parametrize("text", ["no JSON", '{"id": "X"}', "[1]"])
def test_a_file_that_holds_no_cases_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text(text)

    with pytest.raises(CommandError, match="line 1"):
        call_command("llm_wire_check", cases=file)


def test_an_adapter_without_a_case_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="smoke"):
        run_command(original("W24"), tmp_path=tmp_path, adapter="smoke")
