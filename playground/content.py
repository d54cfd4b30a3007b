"""What of a run is content, and how it looks without: pure functions over what the rows hold.

Everything is content that is not named here as something else, so what is added later is not kept by accident.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise

from llmcore.messages import JSON
from llmcore.redaction import Redactor
from llmcore.runs.fork import without_contents
from llmcore.runs.outcome import EndReason
from llmcore.trace import StepKind
from playground.structured_run import without_contents as structured_without_contents

# Fields of steps whose texts are names, digests and words of ours; numbers are figures and stay in any field.
_OF_REQUEST = frozenset(
    {"added", "tools", "tool_names", "tool_choice", "parameters", "response_schema", "provider", "adapter", "model"}
    | {"method", "url", "headers", "body_sha256", "body"}
)
STEP_METADATA: Mapping[str, frozenset[str]] = {
    StepKind.ASSEMBLED: _OF_REQUEST,
    StepKind.REQUEST: _OF_REQUEST,
    StepKind.CONTEXT: frozenset({"shares"}),
    StepKind.COMPACTION: frozenset(
        {"folded", "message", "record", "problem", "summarizer", "provider", "model"}
        | {"finish_reason", "usage", "cost", "prices", "budgets"}
    ),
    StepKind.RESPONSE: frozenset(
        {"message", "finish_reason", "finish_reason_raw", "usage", "cost", "prices"}
        | {"calls", "served_model", "response_id", "falls_back_to", "budgets"}
    ),
    StepKind.TOOL_CALL: frozenset(
        {"call_id", "name", "arguments", "effect", "group", "problem", "ruling", "rule", "replaced"}
    ),
    StepKind.TOOL_RESULT: frozenset(
        {"call_id", "name", "message", "error_kind", "full", "artifacts", "traceback", "origin"}
    ),
    StepKind.ACTION: frozenset(
        {"event", "call_id", "name", "digest", "key", "kind", "action", "rule", "decision", "by", "reason"}
    ),
    StepKind.RETRY: frozenset(),
    StepKind.PERMIT: frozenset({"provider"}),
    StepKind.VALIDATION: frozenset({"schema", "schema_sha256", "answer_sha256", "objections", "repair"}),
    StepKind.ERROR: frozenset({"advice", "kind", "traceback"}),
}
ERROR_METADATA = frozenset({"kind", "status", "retryable", "retry_after_s", "advice", "traceback"})
# Their messages are made of the names of records and say what to change.
OWN_ERRORS = frozenset({"configuration", "budget", "budgets_away"})
# Ends whose detail is in our own words; that of others quotes a provider, a model or a hook.
OWN_DETAILS = frozenset(
    {
        EndReason.APPROVAL_EXPIRED,
        EndReason.BUDGET_EXHAUSTED,
        EndReason.CANCELLED,
        EndReason.DRY_RUN,
        EndReason.EMPTY_ANSWER,
        EndReason.INTERRUPTED,
        EndReason.INVALID_ANSWER,
        EndReason.MAX_ROUNDS,
        EndReason.TRUNCATED,
    }
)
# The fields of a `RunRequest` that are choices, not content. A title is there only where a person gave one.
REQUEST_METADATA = frozenset(
    {"configuration", "skills", "snippets", "override_mode", "tools", "dry_run", "capture_raw", "versions"}
    | {"max_rounds", "max_tokens", "temperature", "thinking", "title"}
)
# A model may call a tool that doesn't exist, and then its name is the model's text.
UNKNOWN_NAME = "(no tool of this site)"

_CODE_SPAN = re.compile("`([^`]*)`")


def step_without_contents(kind: str, data: Mapping[str, JSON], names: Collection[str]) -> dict[str, JSON]:
    """The data of a step without what was said; `names` are the tools that the run's user could have called."""
    kept = {name: value for name, value in data.items() if _is_figure(value) or name in STEP_METADATA.get(kind, ())}
    if data.get("error"):
        kept["error"] = error_without_contents(data["error"])
    if kind == StepKind.ERROR and data.get("kind") in OWN_ERRORS and "message" in data:
        kept["message"] = data["message"]
    if "name" in kept:
        kept["name"] = _known(kept["name"], names)
    if "calls" in kept:
        kept["calls"] = [{**call, "name": _known(call.get("name"), names)} for call in kept["calls"] or ()]
    return kept


def _is_figure(value: JSON) -> bool:
    return value is None or isinstance(value, bool | int | float)


def _known(name: JSON, names: Collection[str]) -> str:
    return name if name in names else UNKNOWN_NAME


def error_without_contents(error: Mapping[str, JSON] | None) -> dict[str, JSON] | None:
    if error is None:
        return None
    kept = {name: value for name, value in error.items() if name in ERROR_METADATA}
    if error.get("kind") in OWN_ERRORS and "message" in error:
        kept["message"] = error["message"]
    return kept


def detail_without_contents(reason: str, detail: str, error: Mapping[str, JSON] | None) -> str:
    return detail if reason in OWN_DETAILS or (error or {}).get("kind") in OWN_ERRORS else ""


def request_without_contents(request: Mapping[str, JSON]) -> dict[str, JSON]:
    """The choices. That a system prompt was given stays, and what was replaced or forked; what it said does not, nor do
    variables with their values."""
    given = request.get("system_override") is not None
    kept = {name: value for name, value in request.items() if name in REQUEST_METADATA}
    if replacements := request.get("replacements"):
        kept["replacements"] = [{**item, "text": "", "results": []} for item in replacements]
    if structured := request.get("structured"):
        kept["structured"] = structured_without_contents(structured)
    if fork := request.get("fork"):
        kept["fork"] = without_contents(fork)
    return {**kept, "prompt": "", "system_override": "" if given else None}


def plan_without_contents(plan: Mapping[str, JSON]) -> dict[str, JSON]:
    """Sources and places stay; which variables were filled where does not, nor where inputs came from: a person may
    have named them."""
    bare = {**plan, "segments": [{**segment, "values": []} for segment in plan.get("segments") or ()]}
    if structured := plan.get("structured"):
        inputs = [{**given, "origin": ""} for given in structured["inputs"]]
        bare["structured"] = {**structured, "inputs": inputs, "session": ""}
    return bare


def findings_without_contents(
    stored: Iterable[Mapping[str, JSON]], again: Iterable[Mapping[str, JSON]], names: Collection[str]
) -> list[dict[str, JSON]]:
    """The `stored` findings in the words that they have without contents: as they were found `again`, from steps
    without any; else without their detail."""
    found = {(finding["id"], finding["sequence"]): finding for finding in again}
    return [
        dict(found.get((finding["id"], finding["sequence"])) or _without_quotes(finding, names)) for finding in stored
    ]


def _without_quotes(finding: Mapping[str, JSON], names: Collection[str]) -> dict[str, JSON]:
    title = _CODE_SPAN.sub(lambda span: span[0] if span[1] in names else "`…`", finding["title"])
    return {**finding, "title": title, "detail": "", "where": ""}


def redacted_step(kind: str, data: Mapping[str, JSON], redactor: Redactor) -> dict[str, JSON]:
    """The data of a step with the texts redacted that a person reads; what pairs steps and names contents stays."""
    metadata = STEP_METADATA.get(kind, frozenset()) - {"name", "calls"}
    return {name: value if name in metadata else redactor.deep(value, patterns=True) for name, value in data.items()}


def redacted_message(
    message: Mapping[str, JSON], segments: Sequence[Mapping[str, JSON]], redactor: Redactor
) -> tuple[dict[str, JSON], list[Mapping[str, JSON]]]:
    """A message redacted, with its segments where they are then."""
    parts, moved = [], []
    for number, part in enumerate(message["parts"]):
        own = [segment for segment in segments if segment["part"] == number]
        text, own = _redacted_text(part["text"], own, redactor)
        parts.append({**part, "text": text})
        moved += own
    return redactor.deep({**message, "parts": parts}, patterns=True), moved


def _redacted_text(
    text: str, segments: list[Mapping[str, JSON]], redactor: Redactor
) -> tuple[str, list[Mapping[str, JSON]]]:
    """The text, redacted between the ends of its segments, so that each can be found again."""
    cuts = sorted({0, len(text), *(s["start"] for s in segments), *(s["end"] for s in segments)})
    pieces = [redactor.patterns(text[start:end]) for start, end in pairwise(cuts)]
    place = dict(zip(cuts, _ends(pieces), strict=True))
    joined = "".join(pieces)
    if redactor.patterns(joined) != joined:
        # A secret that lies across them: nothing can be said of the places any more.
        return redactor.patterns(text), []
    return joined, [_moved(s, place, masked=joined != text) for s in segments]


def _moved(segment: Mapping[str, JSON], place: Mapping[int, int], *, masked: bool) -> Mapping[str, JSON]:
    """The segment where it is now. Where in it the values of variables are can't be said of a text with masks."""
    return {
        **segment,
        "start": place[segment["start"]],
        "end": place[segment["end"]],
        "values": [] if masked else segment.get("values", []),
    }


def _ends(pieces: Iterable[str]) -> list[int]:
    ends = [0]
    for piece in pieces:
        ends.append(ends[-1] + len(piece))
    return ends
