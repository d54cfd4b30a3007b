"""Every exception the runtime raises, and the closed set of ways a provider can fail.

LLMError
├── ConfigurationError      a stored record can't be used as it stands; the text says what to change
│   ├── SecretUnavailable       an API key can't be read (lost encryption key, unset environment variable)
│   ├── InvalidRoot             a prompt pack's prefix or folder can't be used, or a path leads out of it
│   ├── MissingContent          a file that a prompt pack names isn't there, or says nothing
│   ├── ConflictingPath         two registrations claim the same prefix, path or name
│   ├── InvalidManifest         what a prompt declares doesn't fit together
│   ├── SchemaError             a response schema can't be used; the text never quotes it
│   │   ├── MissingSchema           it isn't there
│   │   ├── InvalidSchemaJSON       its file is no JSON
│   │   └── InvalidSchemaMetadata   it is JSON, but no schema that answers can be held to
│   ├── UnknownPrompt           no prompt of this name is registered
│   ├── InvalidTarget           nothing, or nothing usable, says what an answer has to be
│   └── InvalidInput            an input or a variable of a prompt is missing, unknown or unreadable
├── ToolError               raised by a tool: its text goes to the model, which may correct itself
└── ProviderError           a provider call failed; carried by a `ModelResponse`, not raised by the client
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class LLMError(Exception):
    """Base of all exceptions of the runtime."""


class ConfigurationError(LLMError):
    """A stored record can't be used as it stands; the text says what to change."""


class SecretUnavailable(ConfigurationError):
    """An API key can't be read: its encryption key is lost or its environment variable is not set."""


class InvalidRoot(ConfigurationError):
    """A prompt pack's prefix or folder can't be used, or a path leads out of it."""


class MissingContent(ConfigurationError):
    """A file that a prompt pack names isn't there, or says nothing."""


class ConflictingPath(ConfigurationError):
    """Two registrations of prompt packs claim the same prefix, path or name."""


class InvalidManifest(ConfigurationError):
    """What a prompt declares doesn't fit together: the order of its tiers, its inputs, its variables."""


class SchemaError(ConfigurationError):
    """A response schema can't be used. The text never quotes the schema."""


class MissingSchema(SchemaError):
    """There is no such schema, or its file isn't there."""


class InvalidSchemaJSON(SchemaError):
    """The file of a schema is no JSON."""


class InvalidSchemaMetadata(SchemaError):
    """It is JSON, but no schema that answers can be held to."""


class UnknownPrompt(ConfigurationError):
    """No prompt of this name is registered."""


class InvalidTarget(ConfigurationError):
    """Nothing, or nothing usable, says what an answer has to be."""


class InvalidInput(ConfigurationError):
    """An input or a variable of a prompt, which `name` is, is missing, unknown or unreadable."""

    def __init__(self, message: str, *, name: str) -> None:
        self.name = name
        super().__init__(message)


class ToolError(LLMError):
    """Raised by a tool to tell the model what went wrong, in words the model can act on."""


class ErrorKind(StrEnum):
    """The kinds of provider failure, and why a call was not made; each has advice for an admin (see `ADVICE`)."""

    AUTHENTICATION = "authentication"
    PERMISSION = "permission"
    NOT_FOUND = "not_found"
    RATE_LIMIT = "rate_limit"
    QUOTA = "quota"
    CONTEXT_LENGTH = "context_length"
    CONTENT_FILTER = "content_filter"
    INVALID_REQUEST = "invalid_request"
    OVERLOADED = "overloaded"
    SERVER = "server"
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    MALFORMED_RESPONSE = "malformed_response"
    STREAM_INCOMPLETE = "stream_incomplete"
    EMPTY_RESPONSE = "empty_response"
    MALFORMED_TOOL_CALL = "malformed_tool_call"
    TOOL_USE_FAILED = "tool_use_failed"
    BUDGET = "budget"
    BUDGETS_AWAY = "budgets_away"


# With these this site itself kept a call from going out: nobody was asked.
UNSENT = frozenset({ErrorKind.BUDGET, ErrorKind.BUDGETS_AWAY})


ADVICE: dict[ErrorKind, str] = {
    ErrorKind.AUTHENTICATION: "The provider refused the API key. Open the provider and enter a valid key.",
    ErrorKind.PERMISSION: "The key is valid but may not use this model or endpoint. Check the account's access.",
    ErrorKind.NOT_FOUND: "The provider doesn't know this model or address. Check the model's name and the base URL.",
    ErrorKind.RATE_LIMIT: "The provider limits the rate of requests. Wait, or lower the number of parallel runs.",
    ErrorKind.QUOTA: "The account's credit or quota is used up. Top it up at the provider.",
    ErrorKind.CONTEXT_LENGTH: "The prompt doesn't fit the model's window. Shorten it or choose a larger model.",
    ErrorKind.CONTENT_FILTER: "The provider's content filter blocked the prompt or the answer. Reword the prompt.",
    ErrorKind.INVALID_REQUEST: "The provider refused the request as invalid. Its message names the parameter.",
    ErrorKind.OVERLOADED: "The provider is overloaded. Try again in a minute, or use another model.",
    ErrorKind.SERVER: "The provider failed on its side. Try again; if it persists, check its status page.",
    ErrorKind.TIMEOUT: "The provider didn't answer in time. Try again, or raise the provider's timeouts.",
    ErrorKind.CONNECTION: "The server can't be reached. Check the base URL and that the server runs.",
    ErrorKind.MALFORMED_RESPONSE: "The server's answer is not what this wire format promises. Check the provider's "
    "type and base URL; the raw response shows what came.",
    ErrorKind.STREAM_INCOMPLETE: "The stream broke off before the answer was finished. Run it again.",
    ErrorKind.EMPTY_RESPONSE: "The model answered with nothing: no text, no call. Run it again or change the prompt.",
    ErrorKind.MALFORMED_TOOL_CALL: "The model's tool call can't be read. Simplify the tool or change the model.",
    ErrorKind.TOOL_USE_FAILED: "The provider could not parse the model's tool call. Run it again or offer fewer tools.",
    ErrorKind.BUDGET: "A budget of this site has too little left. Raise it, or wait until it begins anew.",
    ErrorKind.BUDGETS_AWAY: "Without its budgets this site makes no call. Continue the run when the database is back.",
}


def advice_of(error: Mapping[str, object]) -> str:
    """What to do about a recorded error, in the form of `ProviderError.to_json`."""
    usual = next((text for kind, text in ADVICE.items() if kind.value == error.get("kind")), "")
    return str(error.get("hint") or error.get("advice") or usual)


# Source: the retry lists of the providers' own SDKs; 529 is Anthropic's "overloaded".
RETRYABLE_STATUSES = frozenset({408, 409, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})


@dataclass(eq=False)
class ProviderError(LLMError):
    """How a provider call failed.

    `message` is the provider's own text, bounded and free of secrets. `status` is the effective HTTP status (a
    stream's error frame may carry another than the response's), `retry_after_s` the wait the provider asked for.
    """

    kind: ErrorKind
    message: str
    status: int | None = None
    retryable: bool = False
    retry_after_s: float | None = None
    code: str | None = None
    param: str | None = None
    # What the model wrote in place of a call that the provider could read.
    failed_generation: str | None = None
    # What to do about this very failure, where more can be said than about its kind.
    hint: str = ""

    def __str__(self) -> str:
        status = f" (HTTP {self.status})" if self.status else ""
        return f"{self.kind.value.replace('_', ' ')}{status}: {self.message}"

    @property
    def advice(self) -> str:
        return self.hint or ADVICE[self.kind]

    def to_json(self) -> dict[str, object]:
        return {
            "kind": self.kind.value,
            "message": self.message,
            "status": self.status,
            "retryable": self.retryable,
            "retry_after_s": self.retry_after_s,
            "code": self.code,
            "param": self.param,
            "failed_generation": self.failed_generation,
            "hint": self.hint,
        }

    @classmethod
    def from_json(cls, data: dict[str, object]) -> ProviderError:
        return cls(**{**data, "kind": ErrorKind(str(data["kind"]))})  # type: ignore[arg-type]
