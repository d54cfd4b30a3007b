"""Looking for model servers on this machine, from real ones and from everything else that may have their port."""

from __future__ import annotations

import gzip
import json
import socket
import time
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from llmcore.configuration import LanguageModel
from llmcore.detection.asking import MAX_ANSWER_BYTES, NoAnswer, ask, open_local_http
from llmcore.detection.found import FoundProvider
from llmcore.detection.listings import MAX_MODELS, MAX_OLLAMA_WINDOW, compatible_models, ollama_model
from llmcore.detection.servers import Elsewhere, Look, find_servers, ollama_place, usual_places
from llmcore.detection.services import SERVICES, find_services
from llmcore.management.wire_check.server import Script, serve_script
from llmcore.providers.local_servers import LOCAL_SERVERS, OLLAMA, LocalServer, start_advice
from llmcore.providers.openai_chat import OPENAI
from llmcore.providers.registry import adapter_for, adapters
from llmcore.providers.scripted import Scenario, ScriptedModel, Turn, serve
from tests.llmcore.model_servers import EMBEDDER, LLAMA, QWEN, serve_ollama

LM_STUDIO, LLAMA_CPP = (server for server in LOCAL_SERVERS if server.name in ("LM Studio", "llama.cpp"))


def at(url: str, server: LocalServer) -> LocalServer:
    return replace(server, port=int(url.removesuffix("/v1").rpartition(":")[2]))


async def look(place: LocalServer, timeout_s: float = 5.0) -> Look:
    (seen,) = await find_servers([place], timeout_s=timeout_s)
    return seen


async def found(place: LocalServer, timeout_s: float = 5.0) -> FoundProvider:
    seen = await look(place, timeout_s)
    assert seen.provider is not None, seen.reason
    return seen.provider


def by_name(provider: FoundProvider) -> dict[str, LanguageModel]:
    return {found.model.name: found.model for found in provider.models}


def listing(*entries: Mapping[str, Any]) -> bytes:
    return json.dumps({"object": "list", "data": entries}).encode()


async def test_ollama_is_found_with_what_its_models_can_do():
    with serve_ollama({"llama3.2:latest": LLAMA, "qwen3:8b": QWEN, "nomic-embed-text:latest": EMBEDDER}) as ollama:
        provider = await found(at(ollama.base_url, OLLAMA))
    assert (provider.name, provider.adapter, provider.base_url) == ("Ollama", "ollama", ollama.base_url)
    models = by_name(provider)
    assert sorted(models) == ["llama3.2:latest", "qwen3:8b"]
    assert models["llama3.2:latest"] == LanguageModel(
        name="llama3.2:latest", label="llama3.2", context_window=MAX_OLLAMA_WINDOW, supports_tool_choice=False
    )
    assert models["qwen3:8b"] == LanguageModel(
        name="qwen3:8b",
        label="qwen3:8b",
        context_window=8192,
        supports_tool_choice=False,
        supports_thinking=True,
        supports_images=True,
    )


async def test_an_openai_compatible_server_is_found_with_its_models():
    with serve(ScriptedModel([Scenario(name=name, turns=(Turn(text="Hi"),)) for name in ("small", "large")])) as url:
        provider = await found(at(url, LM_STUDIO))
    assert (provider.name, provider.adapter, provider.base_url) == ("LM Studio", "openai_compat", url)
    assert sorted(by_name(provider)) == ["large", "small"]


async def test_a_server_at_the_port_of_another_goes_by_its_own_name():
    async with serve_script(Script(writes=[listing({"id": "phi", "owned_by": "vllm"})])) as server:
        assert (await found(at(server.origin, LLAMA_CPP))).name == "vLLM"


async def test_a_running_server_without_models_says_so():
    with serve_ollama({"nomic-embed-text": EMBEDDER}) as ollama:
        provider = await found(at(ollama.base_url, OLLAMA))
    assert provider.models == () and provider.problems == ("It has no model that answers.",)


@pytest.mark.parametrize(
    ("entry", "window"),
    [
        ({"max_model_len": 32_768}, 32_768),  # vLLM, SGLang
        ({"meta": {"n_ctx": 4096, "n_ctx_train": 8192}}, 4096),  # llama.cpp
        ({"context_length": 8192}, 8192),
        ({"meta": {"n_ctx_train": 8192}}, None),  # what it was trained for is not what is served
        ({"max_model_len": "32768"}, None),
        ({"max_model_len": -1}, None),
        ({"max_model_len": True}, None),
        ({"max_model_len": 10**30}, None),
        ({"meta": [4096]}, None),
        ({}, None),
    ],
)
def test_a_window_is_known_only_where_the_server_tells_it(entry: dict[str, Any], window: int | None):
    (model,) = compatible_models({"data": [{"id": "m", **entry}]})
    assert model.context_window == window


def test_models_that_do_not_chat_are_left_out():
    names = ["text-embedding-nomic-v1.5", "bge-reranker-v2", "whisper-large", "kokoro-tts", "qwen3", "watts-7b"]
    found = compatible_models({"data": [{"id": name} for name in names]})
    assert [model.name for model in found] == ["qwen3", "watts-7b"]


@pytest.mark.parametrize(
    "name",
    [None, 7, "", " ", "with\nline", "nul\0", "\ud800", "a" * 201, ["list"], {"name": "x"}, "\u202egpt", " padded"],
)
def test_a_name_that_can_be_none_is_left_out(name: Any):
    assert compatible_models({"data": [{"id": name}, {"id": "fine"}, "text", None]})[0].name == "fine"
    assert len(compatible_models({"data": [{"id": name}, {"id": "fine"}]})) == 1


@pytest.mark.parametrize("described", [None, [], "text", {}, {"capabilities": "tools"}, {"model_info": 7}])
def test_a_model_that_says_nothing_of_itself_is_trusted_with_text_only(described: Any):
    model = ollama_model("old", described)
    assert model is not None
    assert (model.context_window, model.supports_tools, model.supports_thinking) == (None, False, False)


async def test_nothing_is_found_where_nobody_listens():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert (await look(replace(OLLAMA, port=port))).reason == "nobody answers"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (Script(writes=[b"<!doctype html><title>Shop</title>"]), "the answer is no JSON"),
        (Script(writes=[b"SSH-2.0-OpenSSH_9.2"]), "the answer is no JSON"),
        (Script(writes=[b'{"data": NaN}']), "the answer is no JSON"),
        (Script(writes=[b"[" * 200_000]), "the answer is no JSON"),
        (
            Script(writes=[gzip.compress(b" " * 50_000_000)], headers={"content-encoding": "gzip"}),
            "the answer is no JSON",
        ),
        (Script(writes=[b'{"data": {"id": "m"}}']), "the answer is no list of models"),
        (Script(writes=[b"[]"]), "the answer is no list of models"),
        (Script(writes=[b""]), "the answer is no JSON"),
        (Script(status=404, writes=[listing({"id": "m"})]), "the answer is HTTP 404"),
        (Script(status=302, headers={"location": "http://127.0.0.1:1/v1/models"}), "the answer is HTTP 302"),
        (Script(writes=[b'{"data": ['], whole=False, ending="reset"), "the answer is no JSON"),
    ],
)
async def test_what_is_no_model_server_is_left_alone(script: Script, reason: str):
    async with serve_script(script) as server:
        seen = await look(at(server.origin, LM_STUDIO))
    assert (seen.provider, seen.reason) == (None, reason)
    assert len(server.received) == 1


async def test_an_endless_answer_is_read_to_its_bound_only():
    piece = b" " * 65_536
    async with serve_script(Script(writes=[piece] * 400, whole=False)) as server:
        seen = await look(at(server.origin, LM_STUDIO))
    assert seen.reason == f"the answer is longer than {MAX_ANSWER_BYTES // 1024:,} KiB"


@pytest.mark.parametrize("server", [LM_STUDIO, OLLAMA])
async def test_slow_servers_are_waited_for_once_for_all_of_them(server: LocalServer):
    async with serve_script(Script(writes=[b'{"data": ['], ending="hang")) as silent:
        started = time.monotonic()
        seen = await find_servers([at(silent.origin, server)] * 40, timeout_s=0.3)
        took = time.monotonic() - started
    assert {look.reason for look in seen} == {"no answer within 0.3 s"}
    assert took < 40 * 0.3 / 2


async def test_models_that_describe_themselves_in_time_are_not_lost_with_the_others():
    tags = json.dumps({"models": [{"name": "quick"}, {"name": "slow"}]}).encode()
    scripts = (Script(writes=[tags]), Script(writes=[json.dumps(LLAMA).encode()]), Script(ending="hang"))
    async with serve_script(*scripts) as server:
        provider = await found(at(server.origin, OLLAMA), timeout_s=2.0)
    assert len(provider.models) == 1
    assert provider.problems == ("1 of its models did not say what they are; they are asked again next time.",)


async def test_a_flood_of_models_is_cut():
    async with serve_script(Script(writes=[listing(*({"id": f"m{n:04}"} for n in range(3000)))])) as server:
        provider = await found(at(server.origin, LM_STUDIO))
    assert len(provider.models) == MAX_MODELS and "more than 100" in provider.problems[0]


@pytest.mark.parametrize(
    "url", ["http://192.0.2.1/v1/models", "http://example.com/", "http://127.0.0.1.example.com/", "http://[", "x"]
)
async def test_only_this_machine_is_asked(url: str):  # W6
    async with open_local_http() as http:
        with pytest.raises(NoAnswer):
            await ask(http, url)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://127.0.0.1:11434"),
        ("127.0.0.1", "http://127.0.0.1:11434"),
        ("127.0.0.1:9999", "http://127.0.0.1:9999"),
        ("localhost:9999", "http://127.0.0.1:9999"),
        (":9999", "http://127.0.0.1:9999"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:9999", "http://127.0.0.1:9999"),
        ("[::]:9999", "http://[::1]:9999"),
        ("http://127.0.0.2", "http://127.0.0.2:80"),
        ("http://localhost:9999/", "http://127.0.0.1:9999"),
    ],
)
def test_ollamas_own_variable_tells_where_it_is(host: str, url: str):
    assert ollama_place(host).base_url == url


@pytest.mark.parametrize(
    "host",
    [
        "192.168.1.7",
        "gpu-box:11434",
        "https://ollama.com",
        "http://127.0.0.1:11434/proxy",
        "http://me:word@127.0.0.1:11434",
        "127.0.0.1:port",
        "169.254.169.254",
        "http://[broken",
    ],
)
def test_an_ollama_elsewhere_is_left_to_the_admin(host: str):  # W6
    with pytest.raises(Elsewhere, match="OLLAMA_HOST is no"):
        ollama_place(host)


def test_all_usual_places_are_different_ones_of_this_machine():
    places = usual_places()
    assert len({place.address for place in places}) == len(places) == len(LOCAL_SERVERS)
    assert {place.host for place in places} == {"127.0.0.1"}
    assert {place.adapter for place in places} <= set(adapters())
    assert OLLAMA not in usual_places(None)


def test_a_key_in_the_environment_brings_its_service_and_models():
    variables = {"OPENAI_API_KEY": "sk-0123456789", "GROQ_API_KEY": "gsk-01"}
    (openai,) = find_services(variables.get, {"openai_chat": adapter_for("openai_chat")})
    assert (openai.name, openai.adapter, openai.key_variable) == ("OpenAI", "openai_chat", "OPENAI_API_KEY")
    assert openai.base_url == "https://api.openai.com/v1" and openai.problems == ()
    assert "sk-0123456789" not in repr(openai)
    for model in (found.model for found in openai.models):
        assert model.context_window and model.max_output_tokens and model.max_output_tokens < model.context_window
        assert model.prices.input and model.prices.output and model.prices.cache_read
        assert model.prices.cache_read < model.prices.input < model.prices.output
    prices = {found.model.name: found.model.prices for found in openai.models}
    assert prices["gpt-5-mini"].cache_read == Decimal("0.025")


def test_models_that_take_tools_only_without_thinking_are_asked_for_none():
    (openai,) = find_services({"OPENAI_API_KEY": "sk-0123456789"}.get, adapters())
    asked = {found.model.name: (found.thinking, found.model.supports_thinking) for found in openai.models}
    assert asked["gpt-5.6-luna"] == ("off", True) and asked["gpt-5"] == (None, True)


@pytest.mark.parametrize("value", ["", "  \n"])
def test_a_variable_without_a_value_is_no_key(value: str):
    assert list(find_services({"OPENAI_API_KEY": value}.get, adapters())) == []


def test_a_key_that_is_meant_for_another_address_is_not_used_for_the_usual_one():  # W6
    variables = {"OPENAI_API_KEY": "sk-0123456789", "OPENAI_BASE_URL": "https://llm.example.com/v1"}
    (openai,) = find_services(variables.get, adapters())
    assert openai.base_url == "" and openai.models == ()
    assert "OPENAI_BASE_URL is set" in openai.problems[0]


def test_a_service_counts_as_soon_as_its_wire_format_is_spoken():
    (groq,) = find_services({"GROQ_API_KEY": "gsk-0123456789"}.get, adapters())
    assert (groq.name, groq.base_url) == ("Groq", "https://api.groq.com/openai/v1")
    assert "enter them in the admin" in groq.problems[0]


def test_each_service_has_variables_that_may_hold_a_key():
    assert {variable.rpartition("_API_")[2] for service in SERVICES for variable in service.variables} == {"KEY"}
    assert OPENAI.name in {service.adapter for service in SERVICES}


@pytest.mark.parametrize(
    ("url", "adapter", "advice"),
    [
        ("http://127.0.0.1:11434", "ollama", "If it doesn't run, start Ollama with “ollama serve”."),
        ("http://localhost:5555", "ollama", "If it doesn't run, start Ollama with “ollama serve”."),
        ("http://[::1]:8000/v1", "openai_compat", "If it doesn't run, start vLLM with “vllm serve MODEL”."),
        ("http://127.0.0.1:8766/v1", "openai_compat", ""),
        ("http://gpu-box:11434", "ollama", ""),
        ("https://api.openai.com/v1", "openai_chat", ""),
    ],
)
def test_how_to_start_a_server_is_said_where_it_is_known(url: str, adapter: str, advice: str):
    assert start_advice(url, adapter) == advice
