"""The state of a run as one value that the loop can start from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from llmcore.configuration import Limits, Parameters
from llmcore.messages import Message


@dataclass(frozen=True, kw_only=True, slots=True)
class RunState:
    """Everything that the loop needs to go on, whether it has not begun or was suspended, interrupted or forked.

    `messages` is the transcript so far; calls of its last assistant message without a result are pending.
    `offered` is the gate: the names of the tools this run may call, computed once. `call_counts` maps each call made
    (tool and canonical arguments) to how often it was made. `rounds_used` counts provider calls.
    """

    messages: tuple[Message, ...]
    parameters: Parameters = field(default_factory=Parameters)
    limits: Limits = field(default_factory=Limits)
    offered: tuple[str, ...] = ()
    rounds_used: int = 0
    call_counts: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "messages": [message.json for message in self.messages],
            "parameters": self.parameters.to_json(),
            "limits": self.limits.to_json(),
            "offered": list(self.offered),
            "rounds_used": self.rounds_used,
            "call_counts": dict(self.call_counts),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(
            messages=tuple(Message.from_json(message) for message in data["messages"]),
            parameters=Parameters.from_json(data["parameters"]),
            limits=Limits.from_json(data["limits"]),
            offered=tuple(data["offered"]),
            rounds_used=data["rounds_used"],
            call_counts=dict(data["call_counts"]),
        )
