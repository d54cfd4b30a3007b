"""The tool calls of two runs, paired: the same call, the same tool with other arguments, or only in one of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from llmcore.messages import Message
from llmcore.tools.results import FailureKind
from llmcore.trace import StepKind
from playground.reading.compare.sequences import changes_between
from playground.reading.compare.sides import Side
from playground.reading.step_rows import StepRow
from playground.rows import load_contents

# So many pairs of calls are shown at once; a model may ask for any number in a round.
MOST_PAIRS = 100
# Results that are longer are not read to be compared.
MOST_BYTES = 100_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Called:
    """A tool call: what was called with which arguments, and what came of it. `arguments` and `message` are digests of
    contents, `size` the bytes of the result; `None` where there was none."""

    sequence: int
    round: int
    name: str
    arguments: str
    preview: str
    failed: bool
    message: str | None
    said: str
    size: int | None
    duration_ms: float | None
    denied: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class CallPair:
    """A tool call of either run, or of both. `same_result` is `None` where that can't be told."""

    a: Called | None = None
    b: Called | None = None
    same_result: bool | None = None

    @property
    def note(self) -> str:
        if self.a is None or self.b is None:
            return "only in A" if self.b is None else "only in B"
        if self.a.arguments != self.b.arguments:
            return "other arguments"
        for word, in_a, in_b in (
            ("failed", self.a.failed, self.b.failed),
            ("denied", self.a.denied, self.b.denied),
        ):
            if in_a != in_b:
                return f"{word} only in {'A' if in_a else 'B'}"
        return {True: "same result", False: "another result", None: "same call"}[self.same_result]

    @property
    def alike(self) -> bool:
        return self.note in ("same result", "same call")


def calls_of(rows: Iterable[StepRow]) -> dict[int, list[Called]]:
    """The calls among `rows` by their rounds, in their order."""
    rows = list(rows)
    results = {row.data.get("call_id"): row for row in rows if row.kind == StepKind.TOOL_RESULT}
    found: dict[int, list[Called]] = {}
    for row in rows:
        if row.kind == StepKind.TOOL_CALL:
            found.setdefault(row.round, []).append(_called(row, results.get(row.data.get("call_id"))))
    return found


def paired_calls(sides: Sequence[Side], a: Sequence[Called], b: Sequence[Called]) -> Iterator[CallPair]:
    """The first `MOST_PAIRS` of the calls of both, in their order. What has no counterpart with the same arguments is
    paired with the next call of the same tool between the same neighbors."""
    pairs = list(islice(_aligned(a, b), MOST_PAIRS))
    texts = _result_texts(sides, pairs)
    for one, other in pairs:
        same = None
        if one and other and one.message and other.message:
            same = _same_result(one, other, texts)
        yield CallPair(a=one, b=other, same_result=same)


def _aligned(a: Sequence[Called], b: Sequence[Called]) -> Iterator[tuple[Called | None, Called | None]]:
    keys_a, keys_b = ([(call.name, call.arguments) for call in calls] for calls in (a, b))
    for change in changes_between(keys_a, keys_b):
        ours, theirs = a[change.a_start : change.a_end], list(b[change.b_start : change.b_end])
        if change.same:
            yield from zip(ours, theirs, strict=True)
            continue
        for one in ours:
            place = next((index for index, call in enumerate(theirs) if call.name == one.name), None)
            if place is None:
                yield one, None
                continue
            yield from ((None, call) for call in theirs[:place])
            yield one, theirs[place]
            del theirs[: place + 1]
        yield from ((None, call) for call in theirs)


def _same_result(one: Called, other: Called, texts: Sequence[Mapping[str, str]]) -> bool | None:
    if one.size != other.size or one.said != other.said:
        return False
    first, second = texts[0].get(one.message or ""), texts[1].get(other.message or "")
    return None if first is None or second is None else first == second


def _result_texts(sides: Sequence[Side], pairs: Sequence[tuple[Called | None, Called | None]]) -> list[dict[str, str]]:
    """What the tools gave, where size and beginning don't tell the results apart; by digest, for each run."""
    alike = [
        (a, b) for a, b in pairs if a and b and a.size == b.size and a.said == b.said and (a.size or 0) <= MOST_BYTES
    ]
    wanted = [{call.message for call in calls if call.message} for calls in zip(*alike, strict=True)]
    return [_texts(side, digests) for side, digests in zip(sides, wanted or [set(), set()], strict=True)]


def _texts(side: Side, digests: Iterable[str]) -> dict[str, str]:
    return {
        digest: Message.from_json(value).text for digest, value in load_contents(side.run.pk, digests).items() if value
    }


def _called(row: StepRow, result: StepRow | None) -> Called:
    got: Mapping[str, Any] = result.data if result else {}
    denied = got.get("error_kind") == FailureKind.DENIED
    return Called(
        sequence=row.sequence,
        round=row.round,
        name=row.data.get("name") or "(no name)",
        arguments=row.data.get("arguments") or "",
        preview=row.data.get("preview") or "",
        failed=bool(got.get("is_error")) and not denied,
        denied=denied,
        message=got.get("message"),
        said=got.get("preview") or "",
        size=got.get("bytes"),
        duration_ms=result.duration_ms if result else None,
    )
