"""Which model is asked instead where one can't be reached, has no room, or failed before it said anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from llmcore.configuration import Parameters, Route
from llmcore.errors import ConfigurationError, ErrorKind
from llmcore.messages import ToolSpec
from llmcore.metering.client import Completion
from llmcore.providers.base import ModelCall
from llmcore.structured.expected import Expected, asked_of

# What is wrong with the request, the key or the prompt would be hidden, not healed, by asking elsewhere.
PASSING = frozenset(
    {
        ErrorKind.CONNECTION,
        ErrorKind.TIMEOUT,
        ErrorKind.RATE_LIMIT,
        ErrorKind.OVERLOADED,
        ErrorKind.SERVER,
        ErrorKind.STREAM_INCOMPLETE,
    }
)


class Chain:
    """The models that a run may be answered by, in the order in which they are asked, and the one that it is at.

    A run that fell back stays where it is: going back and forth would throw away caches and thinking each time.
    """

    def __init__(self, routes: Sequence[Route], at: str = "") -> None:
        """`at` is the name of the route that the run had fallen back to, empty for the first one."""
        self._routes = routes
        self._place = place_of(at, routes)

    @property
    def route(self) -> Route:
        return self._routes[self._place]

    def following(self, completion: Completion) -> Route | None:
        """The route to ask next; `None` where the completion is the answer, or the last word on why there is none."""
        if not goes_elsewhere(completion) or self._place + 1 == len(self._routes):
            return None
        self._place += 1
        return self.route


def fitted(parameters: Parameters, route: Route) -> Parameters:
    """The parameters as a fallback is asked with them: no more output than it can give, which it would refuse."""
    cap, wanted = route.model.max_output_tokens, parameters.max_tokens
    return replace(parameters, max_tokens=cap) if cap and wanted and wanted > cap else parameters


def call_to(
    route: Route, parameters: Parameters, specs: tuple[ToolSpec, ...], expected: Expected | None = None
) -> ModelCall:
    """A call of the model of `route`, which is held to what is `expected` of its answer, where it can be."""
    return ModelCall(
        provider=route.provider,
        model=route.model,
        parameters=parameters,
        tools=specs if route.model.supports_tools else (),
        response_schema=asked_of(route, expected.schema).wire_schema if expected else None,
    )


def place_of(at: str, routes: Sequence[Route]) -> int:
    """The place of the route that a run had fallen back to, 0 where it didn't; ConfigurationError where it is gone."""
    names = [route.name for route in routes]
    if at and at not in names:
        raise ConfigurationError(
            f"The run had fallen back to the model “{at}”, which its configuration no longer offers. Add it to the "
            "fallback models again, or start the run anew."
        )
    return names.index(at) if at else 0


def goes_elsewhere(completion: Completion) -> bool:
    """Whether another service may answer what this one failed at; never after a piece of an answer had come."""
    response, error = completion.response, completion.response.error
    if error is None or response.cancelled or completion.first_token_ms is not None:
        return False
    if response.message.parts or response.tool_calls:
        return False
    # An address that this site refuses to call, or a request that can't be sent, is no matter of the service.
    failed = error.retryable or (error.status or 0) >= 500
    return error.status == 429 or (error.kind in PASSING and failed)
