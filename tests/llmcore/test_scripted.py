"""The scripted model over a real socket, seen with plain httpx."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from llmcore.errors import ConfigurationError
from llmcore.providers.scripted import Scenario, ScriptedModel, Turn, load_scenarios, serve

TOOLS = [{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}}}]
CALL = {"name": "look_up", "arguments": {"number": "DJ-1", "city": "Köln"}}
TWO_ROUNDS = Scenario(
    name="two-rounds",
    turns=(
        Turn(thinking="Which order is it? I look.", tool_calls=(CALL, {"name": "look_up", "arguments": "{}"})),
        Turn(text="The order was sent on Monday. 👍"),
    ),
    without_tools="I can't look.",
)
SCENARIOS = (
    TWO_ROUNDS,
    Scenario(name="raw-arguments", turns=(Turn(tool_calls=({"name": "look_up", "arguments": '{"a": ', "id": None},)),)),
    Scenario(
        name="limited-once",
        turns=(Turn(status=429, error="Slow down.", headers={"Retry-After": "1"}), Turn(text="Here.")),
        times=1,
    ),
    Scenario(name="locked", turns=(Turn(status=401, error={"message": "Bad key.", "code": "invalid_api_key"}),)),
    Scenario(name="cut", turns=(Turn(text="This will never be finished.", cut_after_chars=9),)),
    Scenario(name="frame", turns=(Turn(text="Half", error={"message": "Upstream died.", "code": 502}),)),
    Scenario(name="html", turns=(Turn(raw="<html>Bad gateway</html>", headers={"Content-Type": "text/html"}),)),
    Scenario(name="endless", turns=(Turn(text="tick " * 1000, chunk_chars=5, chunk_delay_s=0.01),)),
    Scenario(name="silent", turns=(Turn(text="x", usage={}),)),
    Scenario(name="shop", turns=(Turn(text="Sent."),), about=("DJ-1",), otherwise="I only know order DJ-1."),
    Scenario(name="careful", turns=(Turn(tool_calls=({"name": "pay"},)),), only_offered=True, without_tools="No."),
)


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel(SCENARIOS)


@pytest.fixture
def base_url(model: ScriptedModel) -> Iterator[str]:
    with serve(model) as url:
        yield url


@pytest.fixture
def http(base_url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=base_url, timeout=10) as client:
        yield client


def body(model: str, *messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": "Where is DJ-1?"}, *messages], **more}


def answered_round(response: httpx.Response) -> list[dict[str, Any]]:
    """The assistant message of an unstreamed response, and a result for each of its calls."""
    message = response.json()["choices"][0]["message"]
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "{}"} for call in message["tool_calls"]]
    return [message, *results]


def events_of(text: str) -> list[Any]:
    data = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    return [entry if entry == "[DONE]" else json.loads(entry) for entry in data]


def assembled(events: list[Any]) -> dict[str, Any]:
    """The message that a stream amounts to, as a client puts it together."""
    message: dict[str, Any] = {"content": "", "reasoning_content": "", "tool_calls": []}
    for event in events:
        for choice in event["choices"] if event != "[DONE]" else ():
            delta = choice["delta"]
            for name in ("content", "reasoning_content"):
                message[name] += delta.get(name) or ""
            for fragment in delta.get("tool_calls", ()):
                if fragment["index"] == len(message["tool_calls"]):
                    message["tool_calls"].append({**fragment, "function": {**fragment["function"]}})
                else:
                    message["tool_calls"][-1]["function"]["arguments"] += fragment["function"]["arguments"]
    return message


def received_before_the_break(response: httpx.Response) -> str:
    text = ""
    try:
        for piece in response.iter_text():
            text += piece
    except httpx.RemoteProtocolError:
        return text
    pytest.fail("The stream ended as if it were whole.")


def test_models_lists_the_scenarios(http: httpx.Client) -> None:
    listed = http.get("models").json()

    assert listed["object"] == "list"
    assert [entry["id"] for entry in listed["data"]] == sorted(scenario.name for scenario in SCENARIOS)


def test_turn_is_chosen_by_the_number_of_assistant_messages_and_the_last_repeats(http: httpx.Client) -> None:
    first = http.post("chat/completions", json=body("two-rounds", tools=TOOLS))
    round_one = answered_round(first)
    second = http.post("chat/completions", json=body("two-rounds", *round_one, tools=TOOLS))
    said = second.json()["choices"][0]["message"]
    more = [{"role": "assistant", "content": said["content"]}, {"role": "user", "content": "And now?"}]
    third = http.post("chat/completions", json=body("two-rounds", *round_one, *more, tools=TOOLS))

    assert first.json()["choices"][0]["finish_reason"] == "tool_calls"
    assert [json.loads(call["function"]["arguments"]) for call in round_one[0]["tool_calls"]] == [CALL["arguments"], {}]
    assert said["content"] == third.json()["choices"][0]["message"]["content"] == TWO_ROUNDS.turns[1].text
    assert second.json()["choices"][0]["finish_reason"] == "stop"


def test_stream_amounts_to_the_unstreamed_answer(http: httpx.Client) -> None:  # W3
    whole = http.post("chat/completions", json=body("two-rounds", tools=TOOLS)).json()
    response = http.post(
        "chat/completions",
        json=body("two-rounds", tools=TOOLS, stream=True, stream_options={"include_usage": True}),
    )
    events = events_of(response.text)
    streamed = assembled(events)

    assert response.headers["content-type"].startswith("text/event-stream")
    assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert streamed["reasoning_content"] == whole["choices"][0]["message"]["reasoning_content"]
    assert [call["function"] for call in streamed["tool_calls"]] == [
        call["function"] for call in whole["choices"][0]["message"]["tool_calls"]
    ]
    assert events[-3]["choices"][0]["finish_reason"] == "tool_calls"
    assert events[-2]["choices"] == [] and events[-2]["usage"]["total_tokens"] > 0
    assert events[-1] == "[DONE]"
    assert all(event["usage"] is None for event in events[:-2])


def test_stream_reports_usage_only_when_asked(http: httpx.Client) -> None:
    events = events_of(http.post("chat/completions", json=body("two-rounds", stream=True)).text)

    assert not any("usage" in event for event in events[:-1])


def test_answers_are_deterministic(http: httpx.Client) -> None:
    request = body("two-rounds", tools=TOOLS, stream=True)

    assert http.post("chat/completions", json=request).text == http.post("chat/completions", json=request).text


def test_tools_that_may_not_be_called_are_not_called(http: httpx.Client) -> None:  # L4
    without = http.post("chat/completions", json=body("two-rounds"))
    forbidden = http.post("chat/completions", json=body("two-rounds", tools=TOOLS, tool_choice="none"))
    not_offered = http.post("chat/completions", json=body("careful", tools=TOOLS))

    assert without.json()["choices"][0]["message"]["content"] == "I can't look."
    assert forbidden.json()["choices"][0]["message"]["content"] == "I can't look."
    assert not_offered.json()["choices"][0]["message"]["content"] == "No."


def test_raw_arguments_go_out_verbatim_and_an_id_can_be_left_out(http: httpx.Client) -> None:
    message = http.post("chat/completions", json=body("raw-arguments", tools=TOOLS)).json()["choices"][0]["message"]

    assert message["tool_calls"] == [{"type": "function", "function": {"name": "look_up", "arguments": '{"a": '}}]


def test_output_limit_cuts_the_answer(http: httpx.Client) -> None:
    answer = http.post("chat/completions", json=body("two-rounds", tools=TOOLS, max_tokens=12)).json()
    choice = answer["choices"][0]

    assert choice["finish_reason"] == "length"
    assert choice["message"]["reasoning_content"] == TWO_ROUNDS.turns[0].thinking
    assert choice["message"]["tool_calls"][0]["function"]["arguments"] == json.dumps(CALL["arguments"])[:15]
    assert answer["usage"]["completion_tokens"] == 12


def test_usage_counts_the_prompt_and_its_cached_prefix(http: httpx.Client) -> None:
    long = {"role": "system", "content": "Be kind. " * 600}
    first = http.post("chat/completions", json=body("two-rounds", long, tools=TOOLS))
    usage = first.json()["usage"]
    second = http.post("chat/completions", json=body("two-rounds", long, *answered_round(first), tools=TOOLS)).json()
    cached = second["usage"]["prompt_tokens_details"]["cached_tokens"]

    assert usage["prompt_tokens"] + usage["completion_tokens"] == usage["total_tokens"]
    assert 0 < usage["completion_tokens_details"]["reasoning_tokens"] < usage["completion_tokens"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == 0
    assert usage["prompt_tokens"] - 128 < cached <= usage["prompt_tokens"] and cached % 128 == 0


def test_a_picture_counts_by_what_it_shows_and_not_by_its_bytes(http: httpx.Client) -> None:
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{'iVBORw0K' * 10_000}"}}
    answer = http.post("chat/completions", json=body("two-rounds", {"role": "user", "content": [picture]}, tools=TOOLS))

    assert 1_000 < answer.json()["usage"]["prompt_tokens"] < 1_200


def test_short_prompts_are_not_cached_and_usage_can_be_withheld(http: httpx.Client) -> None:
    first = http.post("chat/completions", json=body("two-rounds", tools=TOOLS))
    second = http.post("chat/completions", json=body("two-rounds", *answered_round(first), tools=TOOLS)).json()

    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert "usage" not in http.post("chat/completions", json=body("silent")).json()


def test_failure_that_happens_once_is_met_by_each_conversation(http: httpx.Client) -> None:
    responses = [http.post("chat/completions", json=body("limited-once")) for _ in range(4)]

    assert [response.status_code for response in responses] == [429, 200, 429, 200]
    assert responses[0].headers["retry-after"] == "1"
    assert responses[0].json()["error"]["message"] == "Slow down."


def test_failure_without_a_limit_stays(http: httpx.Client) -> None:
    responses = [http.post("chat/completions", json=body("locked", stream=True)) for _ in range(2)]

    assert [response.status_code for response in responses] == [401, 401]
    assert responses[0].json() == {"error": {"message": "Bad key.", "code": "invalid_api_key"}}


def test_cut_stream_ends_in_a_connection_error_after_its_text(http: httpx.Client) -> None:
    with http.stream("POST", "chat/completions", json=body("cut", stream=True)) as response:
        received = received_before_the_break(response)

    assert assembled(events_of(received))["content"] == "This will"
    with pytest.raises(httpx.RemoteProtocolError):
        http.post("chat/completions", json=body("cut"))


def test_error_frame_comes_in_the_stream_after_the_text(http: httpx.Client) -> None:
    response = http.post("chat/completions", json=body("frame", stream=True))
    events = events_of(response.text)

    assert response.status_code == 200
    assert assembled(events[:-1])["content"] == "Half"
    assert events[-1] == {"error": {"message": "Upstream died.", "code": 502}}
    assert http.post("chat/completions", json=body("frame")).json() == events[-1]


def test_raw_body_is_sent_verbatim(http: httpx.Client) -> None:
    response = http.post("chat/completions", json=body("html", stream=True))

    assert (response.text, response.headers["content-type"]) == ("<html>Bad gateway</html>", "text/html")


def test_words_of_the_user_choose_between_script_and_excuse(http: httpx.Client) -> None:
    other = {"model": "shop", "messages": [{"role": "user", "content": "How is the weather?"}]}

    assert http.post("chat/completions", json=body("shop")).json()["choices"][0]["message"]["content"] == "Sent."
    assert (
        http.post("chat/completions", json=other).json()["choices"][0]["message"]["content"]
        == "I only know order DJ-1."
    )


@pytest.mark.parametrize(
    ("request_body", "status", "message"),
    [
        (b"{", 400, "could not parse"),
        (b"[]", 400, "JSON object"),
        (json.dumps({"model": "shop", "messages": []}).encode(), 400, "non-empty"),
        (json.dumps(body("shop", tools=[])).encode(), 400, "minimum length 1"),
        (json.dumps(body("shop", tool_choice="none")).encode(), 400, "only allowed when"),
        (json.dumps(body("shop", tools=[{"name": "flat"}])).encode(), 400, "tools[0].function.name"),
        (json.dumps(body("gpt-0")).encode(), 404, "two-rounds"),
        (json.dumps(body("shop", {"role": "robot"})).encode(), 400, "role"),
        (json.dumps(body("shop", {"role": "tool", "tool_call_id": "x", "content": ""})).encode(), 400, "preceding"),
        (
            json.dumps(body("shop", {"role": "assistant", "tool_calls": [{"id": "x"}]}, {"role": "user"})).encode(),
            400,
            "did not have response messages: x",
        ),
    ],
)
def test_bad_request_is_refused_in_openais_error_shape(
    http: httpx.Client, request_body: bytes, status: int, message: str
) -> None:
    response = http.post("chat/completions", content=request_body)

    assert response.status_code == status
    assert message in response.json()["error"]["message"]
    assert set(response.json()["error"]) == {"message", "type", "param", "code"}


def test_unknown_address_is_not_found(http: httpx.Client) -> None:
    assert http.get("chat/completions").status_code == 404
    assert http.post("embeddings", json={}).status_code == 404


def test_requests_are_recorded_exactly_and_only_the_last_ones(http: httpx.Client, model: ScriptedModel) -> None:
    content = b'{ "model":"shop",  "messages":[{"role":"user","content":"DJ-1"}] }'
    for _ in range(201):
        http.get("models")
    http.post("chat/completions", content=content, headers={"Authorization": "Bearer abc"})

    assert len(model.requests) == 200
    assert model.requests[-1].body == content
    assert model.requests[-1].path == "/v1/chat/completions"
    assert model.requests[-1].headers["authorization"] == "Bearer abc"
    assert model.requests[-1].answered


async def test_client_that_leaves_ends_the_stream(base_url: str, model: ScriptedModel) -> None:
    async with httpx.AsyncClient(base_url=base_url) as client:
        async with client.stream("POST", "chat/completions", json=body("endless", stream=True)) as response:
            async for _ in response.aiter_bytes():
                break
        async with asyncio.timeout(30):
            while not model.requests[-1].disconnected:
                await asyncio.sleep(0.005)

    assert not model.requests[-1].answered


def test_server_stops_in_the_middle_of_an_answer(model: ScriptedModel) -> None:
    with httpx.Client() as client:
        with serve(model) as url:
            request = client.build_request("POST", f"{url}/chat/completions", json=body("endless", stream=True))
            response = client.send(request, stream=True)
            next(response.iter_bytes())
        response.close()
        with pytest.raises(httpx.ConnectError):
            client.get(f"{url}/models")


def test_a_shortened_conversation_goes_on_after_the_call_that_was_made_last() -> None:
    turns = tuple(Turn(tool_calls=({"name": "look_up", "arguments": {"n": n}},)) for n in range(4))
    function = {"name": "look_up", "arguments": '{"n": 2}'}
    shortened = [
        {"role": "user", "content": "Go on."},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "c", "content": "order 2"},
    ]
    assert Scenario(name="a", turns=turns).answered(shortened) == 1
    assert Scenario(name="a", turns=turns, by_last_call=True).answered(shortened) == 3
    assert Scenario(name="a", turns=turns, by_last_call=True).answered(shortened[:1]) == 0


def test_scenarios_come_from_files_with_texts_as_lines(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"name": "a", "turns": [{"text": ["one", "two"]}]}))
    (tmp_path / "b.json").write_text(json.dumps([{"name": "b", "turns": [{"tool_calls": [CALL]}], "times": 2}]))

    scenarios = load_scenarios(tmp_path)

    assert scenarios["a"].turns[0].text == "one\ntwo"
    assert scenarios["b"].turns[0].tool_calls == (CALL,) and scenarios["b"].times == 2
    assert load_scenarios(tmp_path / "a.json") == {"a": scenarios["a"]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"name": "a", "turns": [{"txt": "x"}]}, "Unknown key 'txt' in a turn"),
        ({"name": "a", "turns": []}, "has no turns"),
        ([{"name": "a", "turns": [{}]}, {"name": "a", "turns": [{}]}], "two scenarios named 'a'"),
    ],
)
def test_scenario_file_with_a_mistake_is_refused(tmp_path: Path, content: Any, message: str) -> None:
    (tmp_path / "a.json").write_text(json.dumps(content))

    with pytest.raises(ConfigurationError, match=message):
        load_scenarios(tmp_path / "a.json")
