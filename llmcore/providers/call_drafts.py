"""Turns the calls of an answer, as they came, into tool calls with unique ids and readable arguments."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from llmcore.messages import JSON, CallProblem, ToolCall
from llmcore.providers.arguments import read_arguments
from llmcore.providers.base import ModelCall
from llmcore.providers.json_text import mend_surrogates

# No answer asks for more in earnest, and each call becomes steps of the trace and a message.
MAX_CALLS = 1_000
# Longer than the name of any tool.
MAX_NAME = 200
# Some gateways put a signature of several thousand characters into an id.
MAX_ID = 20_000


@dataclass(kw_only=True, slots=True)
class CallDraft:
    """A call as the provider sent it: `arguments` is a text or a decoded value."""

    name: str = ""
    arguments: JSON = None
    id: str | None = None
    extra: JSON = None


def read_id(value: JSON) -> str | None:
    """The provider's id; the text "null", which an SDK puts in its place, is none, nor is a text without end."""
    usable = isinstance(value, str) and 0 < len(value) <= MAX_ID and value != "null"
    return mend_surrogates(value) if usable else None


def build_calls(drafts: Iterable[CallDraft], call: ModelCall, *, cut_off: bool) -> tuple[ToolCall, ...]:
    """The calls of one answer. `cut_off`: it ended early, so none of them may be executed."""
    schemas = {} if call.tool_choice == "none" else {tool.name: tool.parameters for tool in call.tools}
    calls = []
    for draft in drafts:
        name = mend_surrogates(draft.name[:MAX_NAME])
        arguments, raw = read_arguments(draft.arguments, schemas.get(name))
        problem = None
        if cut_off:
            problem = CallProblem.CUT_OFF
        elif name not in schemas:
            problem = CallProblem.NOT_OFFERED
        elif arguments is None:
            problem = CallProblem.UNDECODABLE
        calls.append(
            ToolCall(
                id=draft.id or "",
                name=name,
                arguments=arguments,
                arguments_raw=None if raw is None else mend_surrogates(raw),
                provider_id=draft.id,
                problem=problem,
                extra=draft.extra,
            )
        )
    return with_unique_ids(calls, ())


def with_unique_ids(calls: Sequence[ToolCall], taken: Collection[str]) -> tuple[ToolCall, ...]:
    """The calls with ids that differ from each other and from `taken`; a missing or doubled one is minted."""
    used = set(taken)
    number = len(used)
    kept = []
    for call in calls:
        identity = call.id
        while not identity or identity in used:
            number += 1
            identity = f"call_{number}"
        used.add(identity)
        kept.append(call if identity == call.id else replace(call, id=identity))
    return tuple(kept)
