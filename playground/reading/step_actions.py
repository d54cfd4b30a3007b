"""The actions in the head of a run's page that concern the step which is open."""

from __future__ import annotations

from dataclasses import dataclass

from playground.reading.lines import Line
from playground.reading.panels import request
from playground.reading.step_record import StepRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class StepActions:
    """What can be done with the step `sequence` of round `round`.

    `fork` and `retry` are what the actions are called that fork from it and make its round again, `curl_url` is where
    the command is fetched that sends its request again. Each is empty where there is no such action.
    """

    sequence: int
    round: int
    fork: str
    retry: str
    curl_url: str


def read_actions(record: StepRecord) -> StepActions:
    line = record.line
    calls = [other.sequence for other in record.lines if other.css == "call" and other.sequence <= line.sequence]
    return StepActions(
        sequence=line.sequence,
        round=line.round,
        fork=_fork(line),
        retry=f"Retry round {line.round}" if line.css == "call" and line.failed else "",
        curl_url=request.curl_url(record, calls[-1]) if calls else "",
    )


def _fork(line: Line) -> str:
    if line.css == "start" or not line.round:
        return "Fork from the start"
    if line.is_tool:
        return f"Fork from this {'result' if line.duration_ms is not None else 'call'}"
    return f"Fork from round {line.round}"
