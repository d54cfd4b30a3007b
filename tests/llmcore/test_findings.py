"""What a run finds out about itself, from traces made by hand."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import pytest

from llmcore.configuration import Limits
from llmcore.context.estimator import Estimator
from llmcore.findings import Finding, RunView, Severity, find, registry
from llmcore.findings.provider import retries, same_model
from llmcore.prompts.assembly import Dropped, DropReason, Source
from llmcore.runs.outcome import EndReason
from llmcore.trace import RunTrace, StepKind

COUNTED = {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120}
PRICED = {"input": "0.25", "output": "2", "cache_read": None, "cache_creation": None}


@dataclass
class Story:
    """A run told step by step; each call takes a second, each tool half of one."""

    now: float = 0.0
    round: int = 0
    sent: int = 0
    ids: int = 0
    trace: RunTrace = field(init=False)

    def __post_init__(self) -> None:
        self.trace = RunTrace(clock=lambda: self.now)

    def call(
        self,
        *,
        asked: Mapping[str, Any] | None = None,
        retries: int = 0,
        waited_s: float = 0.0,
        place: Mapping[str, Any] | None = None,
        **got: Any,
    ) -> Story:
        """A model call: `asked` changes the request's data, `got` the response's. It `waited_s` for its permit, from
        this `place` in line."""
        self.round += 1
        request = {
            "kept": self.sent,
            "added": [],
            "messages": self.sent + 1,
            "model": "demo-1",
            "tools": None,
            "parameters": {"max_tokens": None},
            "input_tokens_estimate": 100,
            **(asked or {}),
        }
        self.sent = request["messages"]
        self.trace.record(StepKind.REQUEST, round=self.round, data=request)
        if waited_s:
            came = self.trace.now_ms()
            self.now += waited_s
            data = {"provider": "demo", "position": 1, "waiting": 1, **(place or {})}
            self.trace.record(StepKind.PERMIT, round=self.round, data=data, started_ms=came)
        started = self.trace.now_ms()
        for attempt in range(1, retries + 1):
            data = {"attempt": attempt, "error": {"kind": "overloaded", "message": "Come back later"}, "wait_s": 2.0}
            self.trace.record(StepKind.RETRY, round=self.round, data=data)
        self.now += 1
        response = {
            "finish_reason": "stop",
            "usage": COUNTED,
            "prices": PRICED,
            "text_chars": 80,
            "thinking_chars": 0,
            "calls": [],
            "error": None,
            "served_model": "demo-1",
            **got,
        }
        self.trace.record(StepKind.RESPONSE, round=self.round, data=response, started_ms=started)
        return self

    def tool(
        self,
        name: str,
        error: str | None = None,
        said: str = "",
        *,
        arguments: Any = None,
        repeat: int = 1,
        problem: str | None = None,
        seconds: float = 0.5,
        **got: Any,
    ) -> Story:
        self.ids += 1
        given = {} if arguments is None else arguments
        asked = {"call_id": str(self.ids), "name": name, "repeat": repeat, "problem": problem}
        asked |= {"arguments": self.trace.keep(given), "preview": json.dumps(given)}
        self.trace.record(StepKind.TOOL_CALL, round=self.round, data=asked)
        started = self.trace.now_ms()
        self.now += seconds
        result = {"call_id": str(self.ids), "name": name, "is_error": error is not None, "error_kind": error}
        result |= {"preview": said, "bytes": len(said), "wall_ms": seconds * 1000, **got}
        self.trace.record(StepKind.TOOL_RESULT, round=self.round, data=result, started_ms=started)
        return self

    def decision(self, name: str, *waited_s: float, decision: str = "approve") -> Story:
        """A turn whose actions were decided after so many seconds each."""
        started = self.trace.now_ms()
        for number, seconds in enumerate(waited_s):
            data = {"event": "decided", "name": name if number == 0 else "other", "digest": f"turn {self.round}"}
            ended = started + seconds * 1000
            data |= {"call_id": f"{self.round} {number}", "decision": decision}
            self.trace.record(StepKind.ACTION, round=self.round, data=data, started_ms=started, ended_ms=ended)
        self.now += max(waited_s)
        return self

    def view(self, reason: EndReason = EndReason.COMPLETED, **changes: Any) -> RunView:
        return RunView(steps=self.trace.steps, contents=self.trace.contents, reason=reason, **changes)

    def find(self, reason: EndReason = EndReason.COMPLETED, **changes: Any) -> list[Finding]:
        return find(self.view(reason, **changes))

    def only(self, reason: EndReason = EndReason.COMPLETED, **changes: Any) -> Finding:
        (finding,) = self.find(reason, **changes)
        return finding


def story() -> Story:
    return Story()


def test_a_run_without_problems_has_no_findings() -> None:
    assert story().call(finish_reason="tool_calls").tool("search").call().find() == []


def test_a_run_that_recorded_nothing_has_no_findings() -> None:
    assert find(RunView(steps=[], reason=EndReason.INTERNAL_ERROR)) == []


# The answer


def test_an_answer_cut_off_at_the_asked_limit_names_it() -> None:  # F: truncated by length
    cut = story().call(asked={"parameters": {"max_tokens": 20}}, finish_reason="length")
    finding = cut.only(EndReason.TRUNCATED)
    assert (finding.id, finding.severity) == ("truncated_by_length", Severity.ERROR)
    assert "20 tokens" in finding.detail and "`max_tokens`" in finding.detail
    assert finding.impact == "20 tokens"
    assert (finding.sequence, finding.tab, finding.where) == (1, "response", "Round 1, model call")


def test_an_answer_that_filled_the_window_is_told_apart() -> None:  # F: truncated by length
    cut = story().call(asked={"parameters": {"max_tokens": 500}}, finish_reason="length")
    finding = next(f for f in cut.find(context_window=120) if f.id == "truncated_by_length")
    assert "window of 120 tokens" in finding.detail


def test_an_answer_cut_off_without_any_known_limit_is_told_too() -> None:
    finding = story().call(finish_reason="length", usage=None).find()[0]
    assert finding.id == "truncated_by_length"
    assert finding.impact == ""


def test_thinking_that_ate_the_output_is_found() -> None:
    usage = {**COUNTED, "reasoning_output_tokens": 18}
    findings = story().call(finish_reason="length", usage=usage).find(EndReason.TRUNCATED)
    assert [f.id for f in findings] == ["truncated_by_length", "thinking_ate_the_output"]
    assert findings[1].impact == "90 % of the output"
    assert findings[1].tab == "thinking"


def test_an_empty_answer_is_found() -> None:
    finding = story().call(text_chars=0).only(EndReason.EMPTY_ANSWER)
    assert finding.id == "empty_answer"


def test_a_round_that_only_calls_tools_is_not_empty() -> None:
    told = story().call(text_chars=0, finish_reason="tool_calls", calls=[{"name": "search"}]).tool("search").call()
    assert told.find() == []


def test_an_answer_in_the_thinking_field_is_found() -> None:
    finding = story().call(text_chars=0, thinking_chars=700).only(EndReason.EMPTY_ANSWER)
    assert (finding.id, finding.tab) == ("answer_in_thinking", "thinking")


@pytest.mark.parametrize(
    "got",
    [
        {"finish_reason": "content_filter"},
        {"refusal": "I can't help with that"},
        {"finish_reason": None, "error": {"kind": "content_filter", "message": "The prompt was blocked"}},
    ],
)
def test_a_filtered_answer_is_found(got: dict[str, Any]) -> None:
    finding = story().call(**got).only(EndReason.CONTENT_FILTERED)
    assert (finding.id, finding.severity) == ("content_filter", Severity.ERROR)


def test_pauses_are_noted_once() -> None:
    finding = story().call(finish_reason="pause").call(finish_reason="pause").call().only()
    assert (finding.id, finding.impact) == ("paused", "+2 rounds")


# Tool calls


def test_arguments_whose_json_breaks_off_are_found() -> None:  # F: truncated JSON arguments
    told = story().call(finish_reason="tool_calls")
    told.tool("search", "parse", "The arguments can't be read", arguments='{"number": "DJ-4', problem="undecodable")
    finding = told.call().only()
    assert (finding.id, finding.severity, finding.tab) == ("truncated_arguments", Severity.ERROR, "arguments")
    assert finding.sequence == 3
    assert "`search`" in finding.title


@pytest.mark.parametrize("raw", ["[1, 2]", "{'number': 1}", "number=1", "7"])
def test_arguments_that_are_merely_wrong_are_told_apart(raw: str) -> None:
    told = story().call().tool("search", "parse", "they are not a JSON object", arguments=raw, problem="undecodable")
    assert told.only().id == "unreadable_arguments"


def test_a_call_of_an_answer_that_ended_early_is_found() -> None:  # F: truncated JSON arguments
    told = story().call(finish_reason="length").tool("search", "cut_off", "Not run", problem="cut_off")
    findings = told.find(EndReason.TRUNCATED)
    assert [f.id for f in findings] == ["truncated_by_length", "truncated_arguments"]


def test_a_tool_that_was_called_but_not_offered_is_found_with_the_reason() -> None:  # F: tool not offered but called
    told = story().call().tool("refund", "not_offered").call().tool("refund", "not_offered").call()
    left_out = [{"name": "refund", "reason": "disabled", "detail": "the tool is disabled on this site"}]
    finding = told.only(left_out=left_out)
    assert (finding.id, finding.sequence) == ("tool_not_offered", 3)
    assert "disabled on this site" in finding.detail
    assert finding.impact == "+2 rounds, 3.00 s"


def test_a_tool_that_does_not_exist_is_told_apart() -> None:  # F: tool not offered but called
    finding = story().call().tool("make_up", "unknown_tool").call().only()
    assert finding.id == "tool_not_offered"
    assert "no tool of that name" in finding.detail


def test_the_same_call_made_again_and_again_is_found_once() -> None:  # F: the same call repeated
    told = story()
    for number in range(1, 6):
        told.call().tool("search", arguments={"number": "7"}, repeat=number)
        told.tool("search", arguments={"number": str(number + 10)})
    finding = told.call().only()
    assert (finding.id, finding.tab) == ("repeated_call", "arguments")
    assert "5 times" in finding.title
    assert '`{"number": "7"}`' in finding.detail
    assert finding.impact == "4 extra calls"
    shown = told.trace.steps[(finding.sequence or 0) - 1]
    assert (shown.kind, shown.data["repeat"]) == (StepKind.TOOL_CALL, 5)


def test_a_call_made_twice_is_no_finding() -> None:
    assert story().call().tool("search", repeat=1).call().tool("search", repeat=2).call().find() == []


def test_a_tool_error_that_the_model_corrected_says_so() -> None:
    told = story().call().tool("read").call()
    told.tool("search", "tool_error", "Cannot resolve keyword 'payment_status' into field").call().tool("search").call()
    finding = told.only()
    assert (finding.id, finding.severity) == ("tool_error", Severity.ERROR)
    assert finding.title == "`search` failed"
    assert finding.detail == (
        "Cannot resolve keyword 'payment_status' into field. The model corrected the call in round 3."
    )
    assert finding.impact == "+1 round, 1.50 s"
    assert finding.where == "Round 2, search"


def test_a_failure_beside_a_success_costs_no_round() -> None:
    told = story().call().tool("search", "tool_error", "No such order").tool("read").call()
    assert told.only().impact == "1 call"


def test_a_tool_that_fails_again_and_again_is_found_once() -> None:  # F: tool error repeated
    told = story()
    for _ in range(4):
        told.call().tool("search", "tool_error", "The index is closed")
    finding = told.call().only()
    assert (finding.id, finding.title) == ("tool_error_repeated", "`search` failed 4 times")
    assert finding.detail == "Each time the same: The index is closed."
    assert finding.impact == "+4 rounds, 6.00 s"


def test_different_failures_of_a_tool_show_the_last() -> None:  # F: tool error repeated
    told = story().call().tool("search", "tool_error", "First").call().tool("search", "timeout", "Too slow").call()
    assert told.only().detail == "Last: Too slow."


def test_an_exception_opens_its_traceback() -> None:
    finding = story().call().tool("search", "exception", "Internal error", traceback="abc").call().only()
    assert finding.tab == "traceback"
    assert "exception" in finding.detail


@pytest.mark.parametrize("kind", ["denied", "halted", "cancelled", "round_limit", "interrupted", "needs_approval"])
def test_a_call_that_was_not_run_is_no_fault_of_the_tool(kind: str) -> None:
    assert story().call().tool("search", kind, "Not run").call().find() == []


def test_wrong_arguments_are_found_with_the_first_objection() -> None:
    said = "The arguments of this call don't fit the tool's schema: - /limit: is required - /x: is not a parameter"
    finding = story().call().tool("search", "schema", said).call().tool("search").call().only()
    assert (finding.id, finding.tab) == ("schema_violation", "arguments")
    assert finding.detail == "/limit: is required. The model corrected the call in round 2."


def test_one_objection_is_told_without_the_advice_for_the_model() -> None:
    said = "The arguments of this call don't fit the tool's schema: - /limit: is required Correct them and call the "
    finding = story().call().tool("search", "schema", f"{said}tool again.").call().only()
    assert finding.detail == "/limit: is required."


def test_an_unknown_effect_is_found() -> None:
    told = story().call().tool("refund", "interrupted", "The call was interrupted", effect_unknown=True)
    finding = told.only(EndReason.INTERRUPTED)
    assert (finding.id, finding.severity) == ("effect_unknown", Severity.ERROR)


def test_a_result_that_the_model_did_not_see_whole_is_noted() -> None:
    finding = story().call().tool("read", full="digest", bytes=812_000).call().only()
    assert (finding.id, finding.severity) == ("result_cut", Severity.NOTE)
    assert "812.0 kB" in finding.detail and "50.0 kB" in finding.detail


def test_a_slow_tool_is_found_with_its_share_of_the_time() -> None:
    finding = story().call().tool("search", seconds=8).call().only()
    assert (finding.id, finding.impact) == ("slow_tool", "8.00 s, 80 % of the run")


def test_a_long_tool_run_in_a_much_longer_run_is_no_finding() -> None:
    told = story().call().tool("search", seconds=8)
    told.now += 100
    assert told.call().find() == []


def test_a_slow_tool_is_found_in_a_run_that_waited_long_for_people() -> None:
    findings = story().call().decision("pay", 3_600).tool("search", seconds=8).call().find()
    assert [finding.id for finding in findings] == ["slow_tool", "approval_waited"]
    assert findings[0].impact == "8.00 s, 80 % of the run without its waits"


def test_a_long_wait_for_a_decision_is_noted_with_its_time() -> None:
    finding = story().call().decision("pay", 125).tool("pay").call().only()

    assert (finding.id, finding.severity, finding.tab) == ("approval_waited", Severity.NOTE, "approval")
    assert finding.title == "The run waited 2 min 5 s for a decision" and "about `pay`" in finding.detail
    assert finding.impact == "2 min 5 s, 98 % of the run" and finding.sequence == 3


def test_decisions_of_one_turn_are_waited_for_at_the_same_time() -> None:
    finding = story().call().decision("pay", 90, 30).tool("pay").call().decision("pay", 60).call().only()

    assert finding.title == "The run waited 2 min 30 s for a decision"
    assert finding.detail.startswith("There were 3; the longest, about `pay`, took 1 min 30 s.")


def test_a_decision_that_nobody_made_is_a_warning() -> None:
    finding = story().call().decision("pay", 90_000, decision="expire").only(EndReason.APPROVAL_EXPIRED)
    assert (finding.id, finding.severity) == ("approval_waited", Severity.WARNING)
    assert finding.title == "The run waited 1 d 1 h for a decision that nobody made"


def test_a_decision_within_a_minute_is_no_finding() -> None:
    assert story().call().decision("pay", 59).tool("pay").call().find() == []


@pytest.mark.parametrize(
    ("place", "detail"),
    [
        ({"position": 1, "waiting": 1}, "It was in round 1, first in line. Raise “calls at once” of `demo`"),
        ({"position": 2, "waiting": 4}, "It was in round 1, behind one other call. Raise"),
        ({"position": 9, "waiting": 9, "of_site": True}, "behind 8 other calls. Raise `LLM_MAX_CALLS_IN_FLIGHT`"),
        ({"position": 0, "waiting": 0, "away": True}, "could not be reached: see whether Redis and the database run."),
    ],
)
def test_a_long_wait_for_permits_is_told_with_what_to_do(place: dict[str, Any], detail: str) -> None:  # F
    finding = story().call(waited_s=30, place=place).only()

    assert (finding.id, finding.severity, finding.sequence) == ("long_permit_wait", Severity.WARNING, 2)
    assert finding.title == "The run waited 30.00 s for permits" and finding.impact == "30.00 s, 97 % of the run"
    assert detail in finding.detail


def test_many_waits_are_one_finding_at_the_longest() -> None:
    told = story().call(waited_s=6).call(waited_s=9, place={"position": 3, "waiting": 3}).call()
    finding = told.only()

    assert (finding.title, finding.where) == ("The run waited 15.00 s for permits", "Round 2, permit")
    assert finding.detail.startswith("There were 2 waits, the longest in round 2: 9.00 s, behind 2 other calls. ")


def test_waits_for_permits_of_less_than_ten_seconds_are_no_finding() -> None:
    assert story().call(waited_s=9).call().find() == []


def test_a_first_token_is_not_slow_for_a_permit_that_was_waited_for() -> None:
    assert story().call(first_token_ms=12_000.0, permit_ms=8_000.0).find() == []


def offered(told: Story, *names: str, description: str = "Look it up. " * 20) -> str:
    specs = [{"name": name, "description": description, "parameters": {"type": "object"}} for name in names]
    return told.trace.keep(specs)


def test_offered_tools_that_were_never_called_are_noted() -> None:
    told = story()
    tools = offered(told, "search", "read", "refund", "mail")
    told.call(asked={"tools": tools}).tool("search").call(asked={"tools": tools})
    finding = told.only()
    assert (finding.id, finding.tab) == ("unused_tools", "tools")
    assert finding.title == "3 of 4 offered tools were never called"
    assert finding.detail == "`read`, `refund`, `mail`."
    assert finding.impact.endswith("tokens per round")
    assert told.find(EndReason.PROVIDER_FAILED) == []


def test_a_prompt_that_is_mostly_tool_definitions_is_noted() -> None:
    told = story()
    tools = offered(told, *(f"tool_{n}" for n in range(10)), description="Look it up. " * 100)
    told.call(asked={"tools": tools, "input_tokens_estimate": 4_000}, usage={**COUNTED, "input_tokens": 3_900})
    found = {finding.id for finding in told.find(EndReason.PROVIDER_FAILED)}
    assert "mostly_tool_definitions" in found


def test_tool_definitions_are_counted_as_the_run_counts() -> None:
    told = story()
    tools = offered(told, "search", "read", "refund", "mail")
    told.call(asked={"tools": tools}).tool("search").call(asked={"tools": tools})

    plain, doubled = (told.only(estimator=Estimator(ratio=ratio)).impact for ratio in (1.0, 2.0))

    counts = [int(impact.split()[0].replace(",", "")) for impact in (plain, doubled)]
    assert counts[1] == 2 * counts[0]


def test_a_call_that_the_provider_could_not_read_is_found() -> None:
    error = {"kind": "tool_use_failed", "message": "Failed to call a function"}
    finding = story().call(finish_reason=None, error=error).only(EndReason.PROVIDER_FAILED)
    assert finding.id == "malformed_tool_call"


# The prompt


def dropped(source: Source, slug: str, reason: DropReason, detail: str = "It has no text.") -> Dropped:
    return Dropped(source=source, source_id=slug, label=slug.title(), reason=reason, detail=detail, tokens=1850)


# What is left out on purpose is no problem.
MEANT = (DropReason.DUPLICATE, DropReason.OVERRIDDEN, DropReason.OUTSIDE_PACK)


@pytest.mark.parametrize("source", [Source.SKILL, Source.SNIPPET])
@pytest.mark.parametrize("reason", [reason for reason in DropReason if reason not in MEANT])
def test_a_skill_or_snippet_left_out_is_found_with_the_reason(  # F: skill or snippet dropped
    source: Source, reason: DropReason
) -> None:
    left_out = dropped(source, "carriers", reason, "It needs 7.4 kB, but only 5.2 kB are left.")
    finding = story().call().only(dropped=[left_out])
    assert (finding.id, finding.severity) == (f"{source.value}_left_out", Severity.WARNING)
    assert finding.title == f"{source.value.capitalize()} `carriers` was left out"
    assert finding.detail == left_out.detail
    assert finding.impact == "1,850 tokens"
    assert (finding.sequence, finding.tab) == (1, "messages")


def test_a_source_chosen_twice_is_only_noted() -> None:
    finding = story().call().only(dropped=[dropped(Source.SKILL, "refunds", DropReason.DUPLICATE)])
    assert finding.severity is Severity.NOTE
    assert "chosen twice" in finding.title


def test_a_dry_run_finds_what_was_left_out() -> None:
    trace = RunTrace()
    trace.record(StepKind.ASSEMBLED, round=1, data={"kept": 0, "added": [], "messages": 1})
    left_out = [dropped(Source.SNIPPET, "tone", DropReason.EMPTY)]
    (finding,) = find(RunView(steps=trace.steps, reason=EndReason.DRY_RUN, dropped=left_out))
    assert (finding.id, finding.sequence) == ("snippet_left_out", 1)


def test_a_run_that_failed_before_its_first_request_still_tells_what_was_left_out() -> None:
    left_out = [dropped(Source.SNIPPET, "tone", DropReason.EMPTY)]
    (finding,) = find(RunView(steps=[], reason=EndReason.INTERNAL_ERROR, dropped=left_out))
    assert (finding.sequence, finding.tab) == (None, None)


def test_an_override_that_hides_the_system_prompt_is_noted() -> None:
    hidden = dropped(Source.CONFIG, "support", DropReason.OVERRIDDEN, "The override of this run replaces it.")
    assert story().call().only(dropped=[hidden]).id == "override_hides_system_prompt"


def test_a_mended_transcript_is_found() -> None:
    repairs = ["added an interrupted result for the call 'a' of 'search'", "moved results"]
    finding = story().call(asked={"repairs": repairs}).only()
    assert finding.id == "transcript_repaired"
    assert finding.detail.endswith("And 1 more.")


def test_a_message_that_changed_between_rounds_breaks_the_cached_prefix() -> None:
    told = story().call().call()
    usage = {**COUNTED, "cache_read_input_tokens": 30}
    finding = told.call(asked={"kept": 1, "messages": 4}, usage=usage).only()
    assert (finding.id, finding.where) == ("prefix_changed", "Round 3, model call")
    assert "Message 2" in finding.detail
    assert finding.impact == "70 tokens uncached"


def test_tools_that_are_gone_in_the_last_round_are_only_noted() -> None:
    told = story()
    tools = told.trace.keep([])
    told.call(asked={"tools": tools}).call(asked={"tools": None, "last": True})
    finding = told.only(EndReason.PROVIDER_FAILED)
    assert (finding.id, finding.severity) == ("prefix_changed", Severity.NOTE)


def test_a_prefix_that_was_not_read_from_the_cache_is_noted_once() -> None:  # F: cached tokens below planned
    usage = {"input_tokens": 5_000, "output_tokens": 20, "total_tokens": 5_020, "cache_read_input_tokens": 0}
    told = story().call(usage=usage)
    for kept in (1, 3):
        told.call(asked={"kept": kept, "messages": kept + 2}, usage=usage)

    finding = next(f for f in told.find() if f.id == "cached_below_planned")

    assert (finding.severity, finding.tab, finding.where) == (Severity.NOTE, "cache", "Round 2, model call")
    assert "in rounds 2 and 3" in finding.title and "began with the 5,000 tokens" in finding.detail
    assert finding.impact == "10,000 tokens uncached"


def test_a_prefix_that_waited_too_long_is_told_to_have_expired() -> None:
    usage = {"input_tokens": 5_000, "output_tokens": 20, "total_tokens": 5_020, "cache_read_input_tokens": 0}
    told = story().call(asked={"adapter": "openai_chat"}, usage=usage)
    told.now += 400
    told.call(asked={"adapter": "openai_chat"}, usage=usage)

    finding = next(f for f in told.find() if f.id == "cached_below_planned")

    assert "6 min 40 s had passed; such a prefix is kept for about 5 min 0 s." in finding.detail


def test_a_prompt_above_four_fifths_of_the_window_is_found_at_its_peak() -> None:
    told = story()
    for count in (700, 820, 930, 850):
        told.call(usage={"input_tokens": count, "output_tokens": 5, "total_tokens": count + 5})
    finding = told.only(context_window=1000)
    assert (finding.id, finding.where, finding.tab) == ("context_nearly_full", "Round 3, model call", "tokens")
    assert "93 %" in finding.title
    assert "rounds 2, 3 and 4" in finding.detail


def test_an_unknown_window_is_never_nearly_full() -> None:
    assert story().call().find(context_window=None) == []


# Usage


@pytest.mark.parametrize("usage", [None, {"input_tokens": 10, "output_tokens": None, "total_tokens": None}])
def test_missing_usage_is_found(usage: dict[str, Any] | None) -> None:  # F: usage missing
    finding = story().call().call(usage=usage).call(usage=usage).only()
    assert (finding.id, finding.severity, finding.tab) == ("usage_missing", Severity.WARNING, "tokens")
    assert "rounds 2 and 3" in finding.title
    assert finding.impact == "2 of 3 calls"


def test_usage_missing_everywhere_is_one_finding() -> None:  # F: usage missing
    assert "every round" in story().call(usage=None).call(usage=None).only().title


def test_nobody_expects_the_usage_of_an_aborted_call() -> None:
    assert story().call(usage=None, finish_reason=None, cancelled=True).find(EndReason.CANCELLED) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"total_tokens": 121},
        {"cache_read_input_tokens": 80, "cache_creation_input_tokens": 30},
        {"reasoning_output_tokens": 21},
    ],
)
def test_counts_that_contradict_each_other_are_found(changes: dict[str, int]) -> None:
    assert story().call(usage={**COUNTED, **changes}).only().id == "usage_inconsistent"


def test_counts_that_are_partly_unknown_are_no_contradiction() -> None:
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": None, "reasoning_output_tokens": None}
    assert story().call(usage=usage).find() == []


def test_a_prompt_counted_far_under_its_estimate_is_found_once() -> None:  # C5
    told = story()
    for _ in range(3):
        told.call(
            asked={"input_tokens_estimate": 9_000}, usage={**COUNTED, "input_tokens": 2_048, "total_tokens": 2_068}
        )
    finding = told.only()
    assert (finding.id, finding.impact) == ("silent_truncation", "−6,952 tokens")


def test_a_model_without_prices_is_noted_once() -> None:
    unpriced = {"input": None, "output": None}
    finding = story().call(prices=unpriced).call(prices=unpriced).only()
    assert (finding.id, finding.severity) == ("unpriced_model", Severity.NOTE)


def test_a_call_beyond_the_prices_of_its_model_is_noted_with_the_length() -> None:
    prices = {"input": "1", "output": "2", "tiers": [{"above": 1_000}]}
    long = {**COUNTED, "input_tokens": 1_001, "total_tokens": 1_021}
    (finding,) = [
        found
        for found in story().call(prices=prices).call(prices=prices, usage=long).find()
        if found.id == "unpriced_model"
    ]
    assert finding.title.endswith("has no price for prompts of more than 1,000 tokens")


def test_a_model_that_costs_nothing_is_priced() -> None:
    assert story().call(prices={"input": "0", "output": "0"}).find() == []


# The provider


def test_a_failed_call_is_told_with_advice() -> None:
    error = {"kind": "rate_limit", "message": "Limit: 200,000 tokens per minute", "status": 429}
    finding = story().call().call(finish_reason=None, usage=None, error=error).only(EndReason.PROVIDER_FAILED)
    assert (finding.id, finding.title) == ("provider_error", "The model call of round 2 failed (HTTP 429)")
    assert finding.detail.startswith("Limit: 200,000 tokens per minute. The provider limits")


def test_a_refused_parameter_is_named() -> None:
    error = {"kind": "invalid_request", "message": "Unsupported", "status": 400, "param": "temperature"}
    finding = story().call(finish_reason=None, error=error).only(EndReason.PROVIDER_FAILED)
    assert (finding.id, finding.tab) == ("parameter_refused", "request")
    assert "`temperature`" in finding.title


def test_a_required_call_that_was_not_made_is_found() -> None:
    asked = {"tool_choice": "required", "tools": "digest"}
    findings = story().call(asked=asked).call(asked={**asked, "tool_choice": "auto"}).find()
    (finding,) = [found for found in findings if found.id == "tool_choice_ignored"]
    assert "required in round 1" in finding.title and finding.tab == "request"
    called = story().call(asked=asked, finish_reason="tool_calls", calls=[{"id": "1", "name": "look_up"}]).find()
    assert "tool_choice_ignored" not in {found.id for found in called}


def test_retries_are_told_with_what_they_cost() -> None:
    finding = story().call(retries=3).only()
    assert (finding.id, finding.title) == ("retries", "The model call of round 1 was retried 3 times")
    assert (finding.detail, finding.impact) == ("Come back later.", "6.00 s of waiting")
    # It leads to the last attempt that failed: the response shows only the one that worked.
    assert (finding.tab, finding.where) == ("error", "Round 1, failed attempt")


def test_a_late_first_token_is_noted() -> None:
    finding = story().call(first_token_ms=1_000).call(first_token_ms=12_500).only()
    assert (finding.id, finding.impact) == ("slow_first_token", "12.50 s")


def test_another_model_than_asked_for_is_found() -> None:
    finding = story().call(served_model="demo-2").call(served_model="demo-2").only()
    assert finding.id == "other_model_served"
    assert finding.title == "`demo-2` answered instead of `demo-1`"


@pytest.mark.parametrize(
    "served", [None, "", "demo-1", "DEMO-1", "demo-1-2026-03-01", "vendor/demo-1", "demo-1:latest"]
)
def test_a_revision_of_the_model_is_the_model(served: str | None) -> None:
    assert story().call(served_model=served).find() == []


@pytest.mark.parametrize(
    ("asked", "served", "same"),
    [
        ("gpt-5-mini", "gpt-5-mini-2025-08-07", True),
        ("gpt-4", "gpt-4o", False),
        ("gpt-4", "gpt-4-turbo", False),
        ("gpt-4", "gpt-4-0613", True),
        ("openai/gpt-4o", "gpt-4o", True),
        ("models/gemini-2.5-flash", "gemini-2.5-flash", True),
        ("llama3.2", "llama3.2:latest", True),
        ("llama3.2", "llama3.2:1b", True),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5", True),
    ],
)
def test_names_of_one_model_are_recognized(asked: str, served: str, same: bool) -> None:
    assert same_model(asked, served) is same


# Limits


def test_a_run_out_of_rounds_tells_what_was_left_to_do() -> None:  # F: max_rounds with work left
    told = story().call().tool("search").call().tool("search").tool("read").call()
    finding = told.only(EndReason.MAX_ROUNDS, limits=Limits(max_rounds=2))
    assert (finding.id, finding.severity) == ("max_rounds_with_work_left", Severity.ERROR)
    assert finding.title == "The limit of 2 rounds was reached with work left"
    assert "`search`, `read`" in finding.detail
    assert finding.impact == "2 of 2 rounds"
    assert finding.where == "Round 3, model call"


def test_calls_of_the_last_answer_are_the_work_left() -> None:  # F: max_rounds with work left
    told = story().call().tool("search").call(calls=[{"name": "refund"}]).tool("refund", "round_limit", "Not run")
    finding = told.only(EndReason.MAX_ROUNDS, limits=Limits(max_rounds=1))
    assert finding.title.startswith("The limit of 1 round was")
    assert "still wanted to call `refund`" in finding.detail


# All of them


def test_the_gravest_come_first_and_those_of_a_kind_in_order() -> None:
    told = story().call(retries=1).tool("search", "tool_error", "No").call(usage=None).call(finish_reason="length")
    found = told.find(EndReason.TRUNCATED, dropped=[dropped(Source.SKILL, "a", DropReason.DUPLICATE)])
    assert [f.severity for f in found] == sorted(
        (f.severity for f in found), key=[Severity.ERROR, Severity.WARNING, Severity.NOTE].index
    )
    assert [f.id for f in found] == ["tool_error", "truncated_by_length", "retries", "usage_missing", "skill_left_out"]


def test_a_finding_survives_json_and_reads_as_a_line() -> None:
    finding = story().call(retries=1).only()
    assert Finding.from_json(json.loads(json.dumps(finding.to_json()))) == finding
    assert finding.text == "The model call of round 1 was retried once: Come back later. (2.00 s of waiting)"


def test_what_a_model_makes_up_can_not_break_out_of_the_text() -> None:
    hostile = "x` <script>\n" + "y" * 5_000
    finding = story().call().tool(hostile, "unknown_tool").call().only()
    assert finding.title.count("`") == 2
    assert len(finding.text) < 600 and "\n" not in finding.text
    failed = story().call().tool("search", "tool_error", "`" * 3 + "z" * 5_000).call().only()
    assert "`" not in failed.detail and len(failed.detail) < 300


def test_contents_that_are_gone_only_make_findings_vaguer() -> None:
    told = story().call(asked={"tools": "gone"})
    told.tool("search", "parse", "Can't be read", arguments='{"a', problem="undecodable")
    told.call(asked={"tools": "gone"})
    found = find(RunView(steps=told.trace.steps, contents={}, reason=EndReason.COMPLETED))
    assert [f.id for f in found] == ["unreadable_arguments"]


def test_a_finding_that_fails_does_not_take_the_others_along(caplog: pytest.LogCaptureFixture) -> None:
    def broken(view: RunView) -> list[Finding]:
        raise ZeroDivisionError

    (finding,) = find(story().call(retries=1).view(), [broken, retries])
    assert finding.id == "retries"
    assert "the finding broken failed" in caplog.text


def test_a_problem_of_every_round_does_not_flood_the_list() -> None:
    told = story()
    for _ in range(100):
        told.call(usage={**COUNTED, "total_tokens": 1})
    assert len(told.find()) == registry.MAX_PER_FINDER


def long_story(rounds: int) -> RunView:
    told = story()
    for number in range(rounds):
        told.call(usage=None if number % 3 else {**COUNTED, "total_tokens": 9}, retries=number % 2)
        told.tool("search", "tool_error" if number % 2 else None, "No", arguments={"n": number % 7}, repeat=number // 7)
        told.tool(f"tool_{number}", "schema", "wrong")
        told.tool(f"other_{number}", "parse", arguments="{")
    return told.view(EndReason.MAX_ROUNDS, context_window=101)


def test_the_findings_are_linear_in_the_steps() -> None:
    short, long = long_story(300), long_story(3_000)

    def calls(view: RunView) -> int:
        """How many calls of functions it takes: unlike seconds, always the same."""
        count = 0

        def counting(frame: FrameType, event: str, argument: object) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        sys.setprofile(counting)
        try:
            find(view)
        finally:
            sys.setprofile(None)
        return count

    assert calls(long) < 11 * calls(short)
