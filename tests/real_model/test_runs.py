"""Runs of the local model through the driver, with real answers, real usage, real errors."""

from __future__ import annotations

import hashlib
import json
import time

import pytest
from django.utils import timezone

from llmcore.models import LanguageModel, Skill, Snippet, UsageRecord
from llmcore.providers.base import WireReply
from llmcore.providers.openai_chat import OPENAI_COMPAT, OpenAIChat
from llmcore.trace import StepKind
from playground.models import RunPartial
from playground.services.cancel_run import cancel_run
from playground.services.drive_run import drive_run
from tests.factories import SkillFactory, SnippetFactory
from tests.playground.driven import in_background, wait_for
from tests.real_model.served import Recorded, Site, recorded

PROMPT = "What is the capital of France?"
USAGE = ("input_tokens", "output_tokens", "total_tokens")


@pytest.fixture
def skill(site: Site) -> Skill:
    return SkillFactory(slug="geography", name="Geography", body="Answer questions on countries with a city's name.")


@pytest.fixture
def snippet(site: Site) -> Snippet:
    return SnippetFactory(slug="tone", name="Tone", body="Be polite.")


def forced(site: Site, **changes: object) -> Recorded:
    return site.run(PROMPT, skills=("geography",), snippets=("tone",), **changes)


def test_a_run_answers_with_what_the_model_wrote(site: Site, skill: Skill, snippet: Snippet) -> None:
    result = forced(site, capture_raw=True)

    run = result.run
    sent = json.loads(bytes(result.exchange.request_body))
    assert (run.status, run.reason, run.rounds) == ("completed", "completed", 1)
    assert [step.kind for step in result.steps] == [StepKind.REQUEST, StepKind.CONTEXT, StepKind.RESPONSE]
    assert [message["role"] for message in sent["messages"]] == ["system", "system", "user"]
    assert snippet.body in sent["messages"][1]["content"] and skill.body in json.dumps(sent["messages"][2])
    assert sent["stream"] is True and "tools" not in sent
    deltas = [choice["delta"].get("content") or "" for event in result.events for choice in event["choices"]]
    assert len(deltas) > 3 and run.answer == "".join(deltas).strip() != ""
    assert result.response["served_model"] == result.data(StepKind.REQUEST)["model"]
    # On a busy machine it is slow to begin, and that is found out, too.
    assert {finding["id"] for finding in run.findings} - {"slow_first_token"} == {"unpriced_model"}


def test_its_usage_is_what_the_model_read_and_wrote(site: Site, skill: Skill, snippet: Snippet) -> None:  # M1
    result = forced(site, capture_raw=True)

    run, usage = result.run, result.response["usage"]
    sent = json.loads(bytes(result.exchange.request_body))
    (reported,) = [event["usage"] for event in result.events if event.get("usage")]
    assert run.input_tokens == site.model.tokens_of(sent["messages"])
    assert (run.input_tokens, run.output_tokens) == (reported["prompt_tokens"], reported["completion_tokens"])
    assert run.input_tokens + run.output_tokens == usage["total_tokens"] == reported["total_tokens"]
    assert 0 < run.output_tokens <= 300
    assert run.cost is None and result.response["cost"] is None
    record = UsageRecord.objects.get(run_id=run.pk)
    assert (record.input_tokens, record.output_tokens, record.cost) == (run.input_tokens, run.output_tokens, None)
    # The estimate is made before anything is known of the model's tokenizer.
    assert result.data(StepKind.REQUEST)["input_tokens_estimate"] == pytest.approx(run.input_tokens, rel=0.35)


def test_its_times_add_up_and_the_first_token_lies_within(site: Site) -> None:  # T2
    result = site.run(PROMPT, capture_raw=True)

    run = result.run
    response = result.steps[-1]
    arrivals = [at for at, size in result.exchange.chunk_times]
    assert 0 < result.response["first_token_ms"] < response.duration_ms <= run.wall_ms
    assert arrivals == sorted(arrivals) and len(arrivals) > 3
    assert arrivals[0] <= result.response["first_token_ms"] + 50
    assert arrivals[-1] <= response.duration_ms
    parts = (run.queue_ms, run.model_ms, run.tool_ms, run.overhead_ms)
    assert sum(part or 0 for part in parts) == pytest.approx(run.wall_ms)


def test_what_was_captured_reads_as_what_was_recorded(site: Site) -> None:  # T5
    result = site.run(PROMPT, capture_raw=True)

    decoder = OpenAIChat(OPENAI_COMPAT).stream_decoder(site.call())
    decoder.feed(bytes(result.exchange.response_body))
    response = decoder.finish()
    assert decoder.done and response.error is None and response.usage is not None
    assert result.contents[result.response["message"]] == response.message.json
    assert result.response["usage"] == response.usage.to_json()
    assert sum(size for _, size in result.exchange.chunk_times) == len(bytes(result.exchange.response_body))
    assert result.exchange.status == 200
    body = bytes(result.exchange.request_body)
    assert result.data(StepKind.REQUEST)["body_sha256"] == hashlib.sha256(body).hexdigest()


def test_the_request_is_the_one_of_the_dry_run(site: Site, skill: Skill, snippet: Snippet) -> None:  # A5
    dry = forced(site, dry_run=True)
    real = forced(site, capture_raw=True)

    assert dry.run.reason == "dry_run" and not dry.exchanges
    assert dry.contents[dry.data(StepKind.ASSEMBLED)["body"]].encode() == bytes(real.exchange.request_body)


def test_streamed_unstreamed_and_uncaptured_answers_are_the_same(site: Site) -> None:  # W3, T5
    # The first one fills the server's cache; from then on it computes the same thing each time.
    site.run(PROMPT)

    captured = site.run(PROMPT, capture_raw=True)
    uncaptured = site.run(PROMPT)
    site.configure(stream=False)
    whole = site.run(PROMPT, capture_raw=True)

    body = json.loads(bytes(whole.exchange.response_body))
    assert body["object"] == "chat.completion" and whole.response["first_token_ms"] is None
    assert not uncaptured.exchanges
    for other in (uncaptured, whole):
        assert other.run.answer == captured.run.answer
        assert other.response["finish_reason"] == captured.response["finish_reason"]
        assert [other.response["usage"][name] for name in USAGE] == [captured.response["usage"][name] for name in USAGE]
        assert other.contents[other.response["message"]] == captured.contents[captured.response["message"]]
    reply = WireReply(status=200, headers={}, body=bytes(whole.exchange.response_body))
    decoded = OpenAIChat(OPENAI_COMPAT).decode(reply, site.call())
    assert decoded.message.json == whole.contents[whole.response["message"]]


def test_a_shared_beginning_is_reported_as_cached(site: Site) -> None:
    site.run(PROMPT)
    again = site.run(PROMPT).run
    other = site.run("Name a color.").run

    assert again.cache_read_input_tokens == again.input_tokens - 1
    assert 0 < other.cache_read_input_tokens < other.input_tokens


def test_a_prompt_beyond_the_window_says_how_long_it_was(site: Site) -> None:  # W5
    # Where the window is known, the run might end before it makes a call.
    LanguageModel.objects.update(context_window=None)

    result = site.run("word " * 6000, capture_raw=True)

    run = result.run
    error = result.response["error"]
    said = json.loads(bytes(result.exchange.response_body))["error"]
    assert (run.status, run.reason) == ("incomplete", "context_exhausted")
    assert (error["kind"], error["status"], result.response["attempts"]) == ("context_length", 400, 1)
    assert said["n_prompt_tokens"] > 6000 and said["n_ctx"] == 4096
    assert f"{said['n_prompt_tokens']} tokens" in run.detail and "4096" in run.detail
    assert run.input_tokens is None and run.output_tokens is None and run.answer == ""
    assert UsageRecord.objects.get(run_id=run.pk).error_kind == "context_length"


def test_a_cancelled_run_stops_the_model_itself(site: Site) -> None:  # D2
    site.configure(max_tokens=3000)
    run = site.write("Write a very long story about a ship, with many chapters.", system_override="")

    with in_background(lambda: drive_run(run_id=run.pk, worker="test")):
        wait_for(lambda: len(getattr(RunPartial.objects.filter(pk=run.pk).first(), "text", "")) > 40, "text", 60)
        assert site.model.is_busy
        asked = time.monotonic()
        cancel_run(run=run, by=None, now=timezone.now())
        wait_for(lambda: not site.model.is_busy, "the model to stop", 5)
        stopped_s = time.monotonic() - asked

    result = recorded(run)
    assert (result.run.status, result.run.reason) == ("cancelled", "cancelled")
    assert len(result.run.answer) > 40 and result.response["cancelled"] is True
    # What an aborted stream used is unknown, not zero.
    assert result.run.output_tokens is None
    assert stopped_s < 2.0
    assert site.run(PROMPT).run.reason == "completed"


def test_the_model_is_offered_no_tools_and_the_run_says_so(site: Site) -> None:  # L2, L3
    site.configure(tool_groups=["orders"])

    result = site.run("Where is the order DJ-48213?", capture_raw=True, max_tokens=20)

    left_out = result.run.plan["gate"]["left_out"]
    assert "search_orders" in {entry["name"] for entry in left_out}
    assert "tools" not in json.loads(bytes(result.exchange.request_body))
