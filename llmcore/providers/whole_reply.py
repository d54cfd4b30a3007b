"""Reads a whole HTTP response up to the point where the wire formats differ."""

from __future__ import annotations

from collections.abc import Callable

from llmcore.errors import ErrorKind
from llmcore.messages import JSON, ModelResponse
from llmcore.providers.base import WireReply
from llmcore.providers.failures import broken, describe_body, http_failure
from llmcore.providers.json_text import decode_json

ReadBody = Callable[[JSON, int], ModelResponse]


def read_reply(
    reply: WireReply, read_body: ReadBody, read_other: Callable[[WireReply], ModelResponse | None] = lambda reply: None
) -> ModelResponse:
    """The response in `reply`: `read_body` gets the decoded body of a success and its status, all else is an error.

    `read_other` gets a success whose body is no single JSON value: it may be a stream that says that it is none.
    """
    content_type = reply.headers.get("content-type", "")
    if reply.status >= 300:
        return ModelResponse(error=http_failure(reply.status, reply.body, content_type))
    if not reply.body.strip():
        message = "The server answered with an empty body."
        return ModelResponse(error=broken(ErrorKind.EMPTY_RESPONSE, message, reply.status))
    try:
        body = decode_json(reply.body)
    except ValueError:
        if (response := read_other(reply)) is not None:
            return response
        message = describe_body(reply.body, content_type, reply.status)
        return ModelResponse(error=broken(ErrorKind.MALFORMED_RESPONSE, message, reply.status))
    return read_body(body, reply.status)
