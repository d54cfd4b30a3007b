"""Makes one turn: a model's whole answer, with the fallbacks, limits and records of every call."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from llmcore.configuration import Configuration, Route
from llmcore.context.account import Account
from llmcore.messages import JSON, Message
from llmcore.metering.client import Completion, ModelClient
from llmcore.runs.editing import portable
from llmcore.runs.fallback import Chain, call_to, fitted
from llmcore.runs.transcript import mend
from llmcore.turns.request import TurnRequest


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """A model's whole answer to a transcript, or how it failed; `repairs` say what of the transcript had to be mended
    so that it could be sent."""

    configuration: str
    route: Route
    completion: Completion
    repairs: tuple[str, ...] = ()

    def to_json(self) -> dict[str, JSON]:
        completion, response = self.completion, self.completion.response
        return {
            "configuration": self.configuration,
            "provider": self.route.provider.slug,
            "model": self.route.model.name,
            "served_model": response.served_model,
            # In the form that goes back unchanged with the next turn: signed thinking is in it.
            "message": response.message.json,
            "content": response.text,
            "finish_reason": response.finish_reason.value if response.finish_reason else None,
            "refusal": response.refusal,
            "usage": response.usage.to_json() if response.usage else None,
            "cost": None if completion.cost is None else str(completion.cost),
            "attempts": completion.attempts,
            "repairs": list(self.repairs),
            "error": response.error and {**response.error.to_json(), "advice": response.error.advice},
        }


async def take_turn(
    request: TurnRequest, *, configuration: Configuration, client: ModelClient, cancel: asyncio.Event | None = None
) -> Turn:
    """Ask the configuration's model, and where it fails before its first token, the next one. Raises nothing that a
    provider does: that is in the turn."""
    asked = {"temperature": request.temperature, "max_tokens": request.max_tokens}
    parameters = replace(
        configuration.parameters,
        **{name: value for name, value in asked.items() if value is not None},  # type: ignore[arg-type]
    )
    messages, repairs = mend(request.messages)
    chain = Chain(configuration.routes)
    following: Route | None = chain.route
    sent: Sequence[Message] = messages
    while following is not None:
        route = following
        call = call_to(route, fitted(parameters, route), request.tools)
        if call.tools and request.tool_choice != "auto":
            call = replace(call, tool_choice=request.tool_choice)
        transcript = client.transcript(call, sent)
        wire = client.prepare(call, transcript)
        account = Account(route.model, margin_percent=configuration.limits.margin_percent)
        account.take(transcript.messages, call.tools)
        completion = await client.send(
            call,
            wire,
            taken_ids=transcript.call_ids,
            cancel=cancel,
            input_tokens=account.use(call.parameters).most_used,
        )
        following = chain.following(completion)
        sent = portable(messages)
    return Turn(configuration=configuration.slug, route=route, completion=completion, repairs=tuple(repairs))
