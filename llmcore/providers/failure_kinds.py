"""What kind of failure the words, the message and the HTTP status of an error stand for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from llmcore.errors import RETRYABLE_STATUSES, ErrorKind

# The words providers use in `code`, `type` and `status`, in lower case. A word that says too little
# ("invalid_request_error") is left to the message and the HTTP status.
KINDS: Mapping[str, ErrorKind] = {
    "invalid_api_key": ErrorKind.AUTHENTICATION,
    "api_key_invalid": ErrorKind.AUTHENTICATION,
    "authentication_error": ErrorKind.AUTHENTICATION,
    "unauthenticated": ErrorKind.AUTHENTICATION,
    "unauthorized": ErrorKind.AUTHENTICATION,
    "permission_error": ErrorKind.PERMISSION,
    "permission_denied": ErrorKind.PERMISSION,
    "not_found_error": ErrorKind.NOT_FOUND,
    "not_found": ErrorKind.NOT_FOUND,
    "model_not_found": ErrorKind.NOT_FOUND,
    "deploymentnotfound": ErrorKind.NOT_FOUND,
    "rate_limit_exceeded": ErrorKind.RATE_LIMIT,
    "rate_limit_error": ErrorKind.RATE_LIMIT,
    "rate_limited": ErrorKind.RATE_LIMIT,
    "too_many_requests": ErrorKind.RATE_LIMIT,
    "resource_exhausted": ErrorKind.RATE_LIMIT,
    "insufficient_quota": ErrorKind.QUOTA,
    "insufficient_balance": ErrorKind.QUOTA,
    "insufficient_credits": ErrorKind.QUOTA,
    "billing_error": ErrorKind.QUOTA,
    "billing_hard_limit_reached": ErrorKind.QUOTA,
    "context_length_exceeded": ErrorKind.CONTEXT_LENGTH,
    "exceed_context_size_error": ErrorKind.CONTEXT_LENGTH,
    "request_too_large": ErrorKind.CONTEXT_LENGTH,
    "content_filter": ErrorKind.CONTENT_FILTER,
    "content_policy_violation": ErrorKind.CONTENT_FILTER,
    "responsibleaipolicyviolation": ErrorKind.CONTENT_FILTER,
    "overloaded_error": ErrorKind.OVERLOADED,
    "overloaded": ErrorKind.OVERLOADED,
    "unavailable": ErrorKind.OVERLOADED,
    "timeout_error": ErrorKind.TIMEOUT,
    "deadline_exceeded": ErrorKind.TIMEOUT,
    "api_error": ErrorKind.SERVER,
    "server_error": ErrorKind.SERVER,
    "internal_error": ErrorKind.SERVER,
    "internal": ErrorKind.SERVER,
    "internalservererror": ErrorKind.SERVER,
    "provider_unavailable": ErrorKind.SERVER,
    "tool_use_failed": ErrorKind.TOOL_USE_FAILED,
}
KIND_OF_STATUS: Mapping[int, ErrorKind] = {
    401: ErrorKind.AUTHENTICATION,
    402: ErrorKind.QUOTA,
    403: ErrorKind.PERMISSION,
    404: ErrorKind.NOT_FOUND,
    405: ErrorKind.NOT_FOUND,
    408: ErrorKind.TIMEOUT,
    409: ErrorKind.SERVER,
    413: ErrorKind.CONTEXT_LENGTH,
    429: ErrorKind.RATE_LIMIT,
    498: ErrorKind.OVERLOADED,
    503: ErrorKind.OVERLOADED,
    504: ErrorKind.TIMEOUT,
    529: ErrorKind.OVERLOADED,
}
# The status that an error within HTTP 200 stands for, where it names none itself.
STATUS_OF_WORD: Mapping[str, int] = {
    "overloaded_error": 529,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "billing_error": 402,
    "invalid_request_error": 400,
    "timeout_error": 504,
    "api_error": 500,
    "server_error": 500,
}
RETRYABLE_KINDS = frozenset(
    {
        ErrorKind.RATE_LIMIT,
        ErrorKind.OVERLOADED,
        ErrorKind.SERVER,
        ErrorKind.TIMEOUT,
        ErrorKind.CONNECTION,
        ErrorKind.STREAM_INCOMPLETE,
        ErrorKind.EMPTY_RESPONSE,
        ErrorKind.MALFORMED_RESPONSE,
        ErrorKind.MALFORMED_TOOL_CALL,
        ErrorKind.TOOL_USE_FAILED,
    }
)
# Sources: the messages of OpenAI, vLLM, llama.cpp, LM Studio, Ollama, Anthropic, Groq and Mistral for a long prompt.
CONTEXT_LENGTH = re.compile(
    r"context[ _-]?(length|size|window|limit)|maximum context|larger than the context|"
    r"(prompt|input|request) (is|was)? ?too (long|large)|too many (input )?tokens|"
    r"exceeds? (the )?(model'?s? )?(max\w*|token|input)[^.]{0,40}tokens?|tokens? [^.]{0,40}exceeds?",
    re.IGNORECASE,
)
# LM Studio answers a wrong address with 200 and this.
NOT_THERE = re.compile(
    r"model\b.{0,120}\b(not found|does(n't| not) exist|not exist)|^unexpected endpoint", re.IGNORECASE | re.DOTALL
)
# What Google and Anthropic say with HTTP 400 and no word of its own.
BAD_KEY = re.compile(r"\bAPI key (is )?(not valid|invalid|expired)|\b(invalid|incorrect) API key", re.IGNORECASE)
NO_CREDIT = re.compile(r"\bcredit balance\b|\binsufficient (balance|credits?|funds)\b", re.IGNORECASE)
# OpenRouter says so of a model that it has, where no service of it takes what was asked for.
NOT_ABLE = re.compile(r"no endpoints? found that (can )?(support|handle)", re.IGNORECASE)


def kind_of(words: Sequence[str], message: str, status: int) -> ErrorKind:
    """The kind of an error with these words (in lower case), this message and this effective status."""
    kind = next((KINDS[word] for word in words if word in KINDS), None)
    if kind == ErrorKind.RATE_LIMIT and status == 413:
        # Groq: a single request that is larger than all that may be sent in a minute.
        return ErrorKind.CONTEXT_LENGTH
    if kind not in (None, ErrorKind.SERVER):
        return kind
    # A general word says less than a telling message ("server_error: the prompt exceeds the context window") or status.
    if (kind or status in (200, 400, 413, 422, 500)) and CONTEXT_LENGTH.search(message):
        return ErrorKind.CONTEXT_LENGTH
    if status in (200, 400) and BAD_KEY.search(message):
        return ErrorKind.AUTHENTICATION
    if status in (200, 400, 403) and NO_CREDIT.search(message):
        return ErrorKind.QUOTA
    if status in (200, 404) and NOT_ABLE.search(message):
        return ErrorKind.INVALID_REQUEST
    if status in (200, 400) and NOT_THERE.search(message):
        return ErrorKind.NOT_FOUND
    if status in KIND_OF_STATUS:
        return KIND_OF_STATUS[status]
    if kind is not None:
        return kind
    if 300 <= status < 400:
        return ErrorKind.NOT_FOUND
    return ErrorKind.INVALID_REQUEST if 400 <= status < 500 else ErrorKind.SERVER


def is_retryable(kind: ErrorKind, status: int) -> bool:
    return kind in RETRYABLE_KINDS and (
        status in RETRYABLE_STATUSES or status < 400 or kind == ErrorKind.TOOL_USE_FAILED
    )
