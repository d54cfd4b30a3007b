"""What single wire formats want in a request, beyond the contract that holds for all of them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from llmcore.configuration import LanguageModel, Parameters, Provider, Secret
from llmcore.errors import ConfigurationError
from llmcore.messages import JSON, Message, Part, ToolCall, ToolSpec
from llmcore.providers.base import ModelCall, Transcript, WireRequest
from llmcore.providers.cache_marks import ENCODED_MARK, at_most
from llmcore.providers.open_api import is_open_api
from llmcore.providers.registry import adapter_for
from llmcore.runs.transcript import tool_message

NESTED = {
    "type": "object",
    "properties": {
        "filter": {"type": "object", "properties": {"tags": {"type": "array", "items": {"type": "string"}}}},
        "limit": {"type": "integer"},
    },
    "required": ["filter"],
}
SEARCH = ToolSpec(name="search", description="Search", parameters=NESTED)
PING = ToolSpec(name="ping", description="Ping", parameters={"type": "object", "properties": {}})
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
USER = Message.of("user", "Go")


def framed(adapter: str, *messages: Message, base_url: str = "", **more: Any) -> WireRequest:
    provider = Provider(
        slug="p",
        name="P",
        adapter=adapter,
        base_url=base_url,
        api_key=Secret("k-1"),
        api_version=more.pop("api_version", ""),
    )
    model = LanguageModel(name=more.pop("name", "m-1"), **more.pop("model", {}))
    call_options = {name: more.pop(name) for name in ("tools", "tool_choice", "response_schema") if name in more}
    call = ModelCall(provider=provider, model=model, parameters=Parameters(**more), **call_options)
    wire = adapter_for(adapter)
    return wire.frame(call, Transcript(wire, call, messages or (USER,)).encoded())


def body(adapter: str, *messages: Message, **more: Any) -> Any:
    return json.loads(framed(adapter, *messages, **more).body)


def marked(text: str) -> Part:
    return Part(text=text, cache_boundary=True)


# Cache boundaries (A6)


def test_anthropic_marks_the_ends_of_reusable_prefixes() -> None:
    system = [Message.of("system", "a"), Message(role="system", parts=(marked("b"),))]
    user = Message(role="user", parts=(marked("skill"), Part(text="ask")))
    sent = body("anthropic", *system, user)

    assert [block.get("cache_control") for block in sent["system"]] == [None, {"type": "ephemeral"}]
    assert [block.get("cache_control") for block in sent["messages"][0]["content"]] == [{"type": "ephemeral"}, None]
    assert "cache_control" not in sent


@pytest.mark.parametrize(("tools", "inner"), [((), 4), ((PING,), 3)])
def test_anthropic_gets_four_boundaries_at_most_and_the_smallest_span_goes_first(tools: Any, inner: int) -> None:
    sizes = [500, 10, 400, 20, 300, 600]
    system = [Message(role="system", parts=(marked(f"{index}" * size),)) for index, size in enumerate(sizes)]
    sent = body("anthropic", *system, USER, tools=tools)

    kept = [index for index, block in enumerate(sent["system"]) if "cache_control" in block]
    assert kept == ([0, 2, 4, 5] if inner == 4 else [0, 2, 5])
    assert ("cache_control" in sent) is bool(tools)
    assert [len(block["text"]) for block in sent["system"]] == sizes


def test_a_mark_that_a_user_wrote_is_no_mark() -> None:
    text = ENCODED_MARK.decode()
    units = [json.dumps({"text": text}).encode()] * 6

    assert at_most(4, units) == units


@pytest.mark.parametrize(
    ("name", "marks"), [("anthropic/claude-sonnet-5", 4), ("google/gemini-3-flash", 4), ("openai/gpt-5", 0)]
)
def test_openrouter_marks_boundaries_for_the_services_that_cache_only_what_is_marked(name: str, marks: int) -> None:
    messages = [Message(role="system", parts=(marked("x" * 50),)) for _ in range(6)]

    assert framed("openrouter", *messages, USER, name=name).body.count(b"cache_control") == marks


# Tools


def test_schemas_go_out_whole_in_the_field_of_each_wire() -> None:
    assert body("anthropic", tools=(SEARCH,))["tools"][0]["input_schema"] == NESTED
    assert body("openai_responses", tools=(SEARCH,))["tools"][0] == {
        "type": "function",
        "name": "search",
        "description": "Search",
        "parameters": NESTED,
        "strict": False,
    }
    for adapter in ("openai_chat", "mistral", "groq", "deepseek", "openrouter", "azure_openai", "ollama"):
        assert body(adapter, tools=(SEARCH,))["tools"][0]["function"]["parameters"] == NESTED
    (declared,) = body("gemini", tools=(SEARCH,))["tools"][0]["functionDeclarations"]
    assert declared["parameters"] == NESTED


def test_gemini_gets_a_schema_beyond_its_own_in_another_field_and_none_for_no_parameters() -> None:
    references = {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "string"}}}
    wild = ToolSpec(name="wild", description="", parameters=references)
    first, second = body("gemini", tools=(PING, wild))["tools"][0]["functionDeclarations"]

    assert first == {"name": "ping", "description": "Ping"}
    assert second["parametersJsonSchema"] == references and "parameters" not in second


@pytest.mark.parametrize(
    "schema",
    [
        {"type": ["string", "null"]},
        {"anyOf": [{"type": "string"}]},
        {"type": "object", "additionalProperties": False},
        {"type": "integer", "enum": [1, 2]},
        {"type": "array", "items": {"type": "object", "properties": {"a": {"const": 1}}}},
        True,
        None,
    ],
)
def test_what_is_more_than_an_open_api_schema_is_known(schema: JSON) -> None:
    assert not is_open_api(schema)


@pytest.mark.parametrize(
    ("adapter", "choice", "place", "wanted"),
    [
        ("openai_responses", "required", "tool_choice", "required"),
        ("openai_responses", "ping", "tool_choice", {"type": "function", "name": "ping"}),
        ("anthropic", "required", "tool_choice", {"type": "any"}),
        ("anthropic", "ping", "tool_choice", {"type": "tool", "name": "ping"}),
        ("anthropic", "auto", "tool_choice", None),
        ("gemini", "required", "toolConfig", {"functionCallingConfig": {"mode": "ANY"}}),
        (
            "gemini",
            "ping",
            "toolConfig",
            {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["ping"]}},
        ),
        ("mistral", "required", "tool_choice", "required"),
    ],
)
def test_a_choice_of_tools_is_spelled_as_each_wire_has_it(adapter: str, choice: str, place: str, wanted: JSON) -> None:
    assert body(adapter, tools=(PING,), tool_choice=choice).get(place) == wanted


def test_anthropic_is_told_to_call_one_tool_at_a_time() -> None:
    sent = body("anthropic", tools=(PING,), parallel_tool_calls=False)

    assert sent["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}


# Ids (L8)


def test_ids_that_a_wire_refuses_are_replaced_alike_in_call_and_result() -> None:
    asked = ToolCall(id="call|" + "é" * 300, name="ping", arguments={})
    history = (USER, Message(role="assistant", tool_calls=(asked,)), tool_message(asked, "pong"))
    for adapter, allowed in (
        ("mistral", r"[A-Za-z0-9]{9}"),
        ("anthropic", r"[A-Za-z0-9_-]{1,64}"),
        ("openai_chat", r".{1,40}"),
        ("openai_responses", r".{1,64}"),
    ):
        text = framed(adapter, *history).body.decode()
        ids = re.findall(r'"(?:id|call_id|tool_call_id|tool_use_id)":"([^"]*)"', text)
        assert len(ids) == 2 and len(set(ids)) == 1 and re.fullmatch(allowed, ids[0]), adapter


# Thinking


@pytest.mark.parametrize(
    ("adapter", "control", "thinking", "wanted"),
    [
        ("anthropic", "effort", "high", {"type": "adaptive", "display": "summarized"}),
        ("anthropic", "budget", "low", {"type": "enabled", "budget_tokens": 2_048}),
        ("anthropic", "budget", "high", {"type": "enabled", "budget_tokens": 4_000}),
        ("anthropic", "effort", "off", {"type": "disabled"}),
        ("gemini", "effort", "medium", {"includeThoughts": True, "thinkingLevel": "MEDIUM"}),
        ("gemini", "budget", "off", {"includeThoughts": False, "thinkingBudget": 0}),
        ("openai_responses", "effort", "low", {"effort": "low", "summary": "auto"}),
        ("openai_responses", "effort", "off", {"effort": "none"}),
        ("openrouter", "effort", "high", {"effort": "high"}),
        ("deepseek", "effort", "off", {"type": "disabled"}),
    ],
)
def test_thinking_is_asked_for_in_the_words_of_each_wire(
    adapter: str, control: str, thinking: str, wanted: JSON
) -> None:
    model = {"supports_thinking": True, "thinking_control": control}
    sent = body(adapter, thinking=thinking, max_tokens=8_000, model=model)

    place = {"gemini": "thinkingConfig", "openai_responses": "reasoning", "openrouter": "reasoning"}
    around = sent["generationConfig"] if adapter == "gemini" else sent
    assert around[place.get(adapter, "thinking")] == wanted


def test_a_budget_that_leaves_no_room_for_an_answer_is_refused_before_the_run() -> None:
    model = {"supports_thinking": True, "thinking_control": "budget"}
    with pytest.raises(ConfigurationError, match="no room for it"):
        framed("anthropic", thinking="low", max_tokens=500, model=model)


def test_thinking_of_another_service_does_not_go_to_one_that_wants_its_own_signature() -> None:
    foreign = Message(role="assistant", parts=(Part(kind="thinking", text="secret thoughts"), Part(text="Hello.")))
    for adapter in ("anthropic", "gemini", "openai_responses"):
        assert b"secret thoughts" not in framed(adapter, USER, foreign, USER).body


def test_deepseek_gets_its_thinking_back_with_calls_only() -> None:
    thought = Part(kind="thinking", text="Hm", extra={"field": "reasoning_content"})
    asked = ToolCall(id="c1", name="ping", arguments={})
    calling = Message(role="assistant", parts=(thought,), tool_calls=(asked,))
    saying = Message(role="assistant", parts=(thought, Part(text="Done.")))
    sent = body("deepseek", USER, calling, tool_message(asked, "pong"), saying, USER)["messages"]

    assert sent[1]["reasoning_content"] == "Hm"
    assert "reasoning_content" not in sent[3]


def test_mistral_gets_its_signed_thinking_back_among_the_content() -> None:
    thought = Part(kind="thinking", text="Hm", extra={"chunk": {"signature": "c2ln", "closed": True}})
    sent = body("mistral", USER, Message(role="assistant", parts=(thought, Part(text="Yes."))), USER)["messages"][1]

    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}], "signature": "c2ln", "closed": True}
    assert sent["content"] == [thinking, {"type": "text", "text": "Yes."}]


# Structured output


@pytest.mark.parametrize(
    ("adapter", "place", "wanted"),
    [
        ("openai_chat", "response_format.json_schema.schema", SCHEMA),
        ("openai_responses", "text.format.schema", SCHEMA),
        ("anthropic", "output_config.format", {"type": "json_schema", "schema": SCHEMA}),
        ("gemini", "generationConfig.responseJsonSchema", SCHEMA),
        ("ollama", "format", SCHEMA),
        ("deepseek", "response_format", {"type": "json_object"}),
        ("mistral", "response_format.json_schema.schema", SCHEMA),
    ],
)
def test_a_schema_for_the_answer_goes_where_each_wire_has_it(adapter: str, place: str, wanted: JSON) -> None:
    found = body(adapter, response_schema=SCHEMA)
    for name in place.split("."):
        found = found[name]

    assert found == wanted


# Addresses


@pytest.mark.parametrize(
    ("adapter", "base_url", "version", "url"),
    [
        ("azure_openai", "https://r.openai.azure.com", "", "/openai/v1/chat/completions"),
        ("azure_openai", "https://r.openai.azure.com/openai/v1", "", "/openai/v1/chat/completions"),
        (
            "azure_openai",
            "https://r.openai.azure.com",
            "2024-10-21",
            "/openai/deployments/m-1/chat/completions?api-version=2024-10-21",
        ),
        ("anthropic", "https://api.anthropic.com", "", "/v1/messages"),
        ("anthropic", "https://proxy.example.com/claude/v1", "", "/claude/v1/messages"),
        ("gemini", "", "", "/v1beta/models/m-1:streamGenerateContent?alt=sse"),
        ("openai_responses", "https://api.openai.com", "", "/v1/responses"),
    ],
)
def test_an_address_is_made_of_what_people_enter(adapter: str, base_url: str, version: str, url: str) -> None:
    request = framed(adapter, base_url=base_url, api_version=version)

    assert request.url.endswith(url) and request.url.count(url) == 1
    assert "k-1" not in request.url


@pytest.mark.parametrize(
    ("name", "path"),
    [("models/x", "models/x"), ("tunedModels/y", "tunedModels/y"), ("../a?b#c", "models/..%2Fa%3Fb%23c")],
)
def test_a_models_name_stays_within_its_place_in_the_address(name: str, path: str) -> None:
    assert f"/v1beta/{path}:generateContent" in framed("gemini", name=name, stream=False).url


# What a wire has no room for


def test_blank_texts_and_empty_turns_are_not_sent_where_they_are_refused() -> None:
    empty = Message(role="assistant")
    blank = Message(role="user", parts=(Part(text=" "), Part(text="Go")))

    assert body("anthropic", Message.of("system", ""), blank, empty, USER)["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Go"}]},
        {"role": "user", "content": [{"type": "text", "text": "Go"}]},
    ]
    assert len(body("gemini", USER, empty, USER)["contents"]) == 2
    assert len(body("openai_responses", USER, empty, USER)["input"]) == 2


def test_what_is_left_out_is_told_with_its_reason() -> None:
    parameters = Parameters(temperature=0.5, seed=7, thinking="low", stop=("END",))
    provider = Provider(slug="p", name="P", adapter="anthropic", base_url="")
    plain = ModelCall(
        provider=provider, model=LanguageModel(name="m-1", supports_temperature=False), parameters=parameters
    )
    thinking = ModelCall(
        provider=provider, model=LanguageModel(name="m-1", supports_thinking=True), parameters=parameters
    )

    assert adapter_for("anthropic").left_out(plain) == {
        "seed": "Anthropic has no such parameter.",
        "temperature": "It is not supported by the model m-1.",
        "thinking": "It is not supported by the model m-1.",
    }
    assert adapter_for("anthropic").left_out(thinking) == {
        "seed": "Anthropic has no such parameter.",
        "temperature": "Anthropic takes none together with thinking.",
    }


@pytest.mark.parametrize(
    ("adapter", "model", "thinking", "reason"),
    [
        ("ollama", {}, None, "Ollama has no such parameter."),
        ("openai_chat", {"supports_tool_choice": False}, None, "It is not supported by the model m-1."),
        ("anthropic", {"supports_thinking": True, "thinking_control": "budget"}, "low", "Anthropic requires no call"),
        ("anthropic", {"supports_thinking": True}, "low", None),
        ("deepseek", {"supports_thinking": True}, None, "DeepSeek requires no call together with thinking."),
        ("deepseek", {"supports_thinking": True}, "off", None),
        ("deepseek", {}, None, None),
    ],
)
def test_a_required_call_is_asked_for_only_where_it_is_not_refused(
    adapter: str, model: dict[str, Any], thinking: Any, reason: str | None
) -> None:
    parameters = Parameters(tool_choice="required", thinking=thinking, max_tokens=4_000)
    provider = Provider(slug="p", name="P", adapter=adapter, base_url="")
    call = ModelCall(
        provider=provider,
        model=LanguageModel(name="m-1", **model),
        parameters=parameters,
        tools=(PING,),
        tool_choice="required",
    )
    wire = adapter_for(adapter)

    told = wire.left_out(call).get("tool_choice")
    sent = json.loads(wire.frame(call, Transcript(wire, call, [USER]).encoded()).body)

    assert (told or "").startswith(reason or "") and bool(told) is bool(reason)
    assert ("tool_choice" in sent) is (reason is None)


@pytest.mark.parametrize(
    ("came_over", "extra"),
    [
        ("openrouter", {"details": [{"type": "reasoning.text", "text": "Hm", "signature": "c2ln"}]}),
        ("mistral", {"chunk": {"signature": "c2ln"}}),
        ("deepseek", {"field": "reasoning_content"}),
        ("openai_compat", {"field": "reasoning"}),
    ],
)
@pytest.mark.parametrize("adapter", ["openai_compat", "openrouter", "mistral", "deepseek"])
def test_a_dialect_gets_back_its_own_thinking_only(adapter: str, came_over: str, extra: dict[str, Any]) -> None:
    thought = Part(kind="thinking", text="Hm", extra={"wire": came_over, **extra})
    called = ToolCall(id="abcDEF123", name="ping", arguments={})
    said = Message(role="assistant", parts=(thought, Part(text="Hi")), tool_calls=(called,))

    (sent,) = [m for m in body(adapter, USER, said)["messages"] if m["role"] == "assistant"]

    assert ("Hm" in json.dumps(sent)) is (adapter == came_over)
