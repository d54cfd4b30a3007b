"""The contract of a wire format: pure functions from values to bytes and back, around one shared transport.

An adapter encodes each unit of the transcript once, frames the encoded units into a request, and parses a whole
response or a stream. It opens no connection, reads no clock and keeps no state; adding one is one file and one line
in the registry.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol
from urllib.parse import urlsplit

from llmcore.configuration import LanguageModel, Parameters, Provider, Secret
from llmcore.messages import JSON, Delta, Message, ModelResponse, ToolSpec
from llmcore.providers import derived_schemas
from llmcore.providers.derived_schemas import SchemaRules
from llmcore.providers.prompt_cache import UNKNOWN, CacheRules
from llmcore.providers.usage_fields import OPENAI_USAGE, UsageFields

MASK = "•••"
# What the transport puts to the headers of every request. Compressed, a few bytes could be gigabytes.
TRANSPORT_HEADERS = {"accept-encoding": "identity", "user-agent": "llmcore"}


class CallPurpose(StrEnum):
    """What a provider call is for."""

    ROUND = ""
    SUMMARY = "summary"


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelCall:
    """Everything about one provider call but its messages.

    `tool_choice` is "auto", "none", "required" or a tool's name; it means nothing without tools. `response_schema` is
    what the wire is told of the schema that the answer has to fit (`Adapter.derived_schema`). `purpose` is for whoever
    keeps account of calls.
    """

    provider: Provider
    model: LanguageModel
    parameters: Parameters = field(default_factory=Parameters)
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: str = "auto"
    response_schema: JSON = None
    purpose: CallPurpose = CallPurpose.ROUND

    @property
    def stream(self) -> bool:
        return self.parameters.stream and self.model.supports_streaming

    def schema_of(self, name: str) -> dict[str, JSON] | None:
        return next((tool.parameters for tool in self.tools if tool.name == name), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class WireRequest:
    """An HTTP request, ready to send. Secrets stand apart in `secret_headers` (value = prefix + secret)."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes
    secret_headers: Mapping[str, tuple[str, Secret]] = field(default_factory=dict)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.body).hexdigest()

    @property
    def masked_headers(self) -> dict[str, str]:
        masked = {name: prefix + MASK for name, (prefix, _) in self.secret_headers.items()}
        return {**self.headers, **masked}

    def headers_to_send(self) -> dict[str, str]:
        """With the secrets in clear: for the transport only."""
        return {**self.headers, **{n: prefix + secret.reveal() for n, (prefix, secret) in self.secret_headers.items()}}


@dataclass(frozen=True, kw_only=True, slots=True)
class WireReply:
    """A whole HTTP response. Header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class StreamDecoder(Protocol):
    """Assembles one streamed response.

    `done` turns true at the provider's own sign of the end, or where the rest can't matter.
    """

    done: bool

    def feed(self, chunk: bytes) -> Iterable[Delta]:
        """Take the bytes as they were read, however they are cut, and return what became readable."""

    def finish(self, *, cancelled: bool = False) -> ModelResponse:
        """The response as far as it came. A stream that ended without a sign of its end is `stream_incomplete`."""


class Adapter(ABC):
    """A wire format."""

    name: str
    label: str
    default_base_url: str = ""
    needs_key: bool = True
    # Whether the wire can say "these tools exist, call none of them".
    supports_tool_choice_none: bool = False
    stream_media_type: str = "text/event-stream"
    # Parameters that the wire has no field for.
    unknown_parameters: frozenset[str] = frozenset()
    # Whether answers can be held to a schema; else the wire can at most be told that they are to be JSON.
    holds_schemas: bool = True
    # What it takes of one.
    schema_rules: SchemaRules = derived_schemas.ANY
    # What our counts are made of.
    usage_fields: UsageFields = OPENAI_USAGE

    def base_url(self, provider: Provider) -> str:
        return (provider.base_url or self.default_base_url).rstrip("/")

    def versioned_base_url(self, provider: Provider, version: str) -> str:
        """The base URL with the version of the API in its path, which is often left out where a host is entered."""
        base_url = self.base_url(provider)
        return base_url if urlsplit(base_url).path else f"{base_url}/{version}"

    def left_out(self, call: ModelCall) -> dict[str, str]:
        """The parameters that are set and don't go out, each with the reason in a sentence.

        Known before the run, so that no provider has to refuse them.
        """
        parameters, model = call.parameters, call.model
        reasons = {}
        for name in self.unknown_parameters:
            if getattr(parameters, name) not in (None, ()):
                reasons[name] = f"{self.label} has no such parameter."
        if not model.supports_temperature:
            for name in ("temperature", "top_p"):
                if getattr(parameters, name) is not None:
                    reasons[name] = f"It is not supported by the model {model.name}."
        if parameters.thinking is not None and not model.supports_thinking:
            reasons["thinking"] = f"It is not supported by the model {model.name}."
        if parameters.tool_choice is not None and not model.supports_tool_choice:
            reasons["tool_choice"] = f"It is not supported by the model {model.name}."
        return reasons

    def derived_schema(self, schema: JSON) -> JSON:
        """`schema` as this wire takes it, for `ModelCall.response_schema`; `None` where answers can't be held to it."""
        return derived_schemas.derived(schema, self.schema_rules) if self.holds_schemas else None

    def cache_rules(self, model: str) -> CacheRules:
        """What is known of the service's prompt cache for this model."""
        return UNKNOWN

    def wire_id(self, call_id: str) -> str:
        """The id under which a call goes out: the same one, unless the wire has rules that it breaks.

        A pure function of the id, so that a call and its result keep matching.
        """
        return call_id

    def starts_unit(self, previous: Message | None, message: Message) -> bool:
        """Whether `message` begins a new unit, or is merged on the wire with those before it."""
        return True

    # Where the list of models is, below the base URL.
    listing_path: str = "/models"

    def key_header(self, key: Secret) -> dict[str, tuple[str, Secret]]:
        """The header in which the key goes."""
        return {"authorization": ("Bearer ", key)}

    def listing(self, provider: Provider) -> WireRequest:
        """The request for the list of models: it tells whether address and key are right, and costs nothing."""
        return WireRequest(
            method="GET",
            url=self.listing_base_url(provider) + self.listing_path,
            headers={"accept": "application/json"},
            body=b"",
            secret_headers=self.key_header(provider.api_key) if provider.api_key else {},
        )

    def listing_base_url(self, provider: Provider) -> str:
        return self.base_url(provider)

    @abstractmethod
    def encode(self, unit: Sequence[Message], call: ModelCall) -> bytes:
        """The wire bytes of one unit of the transcript."""

    @abstractmethod
    def frame(self, call: ModelCall, units: Sequence[bytes]) -> WireRequest:
        """Join encoded units into the request. With no tools the request has no trace of tools."""

    @abstractmethod
    def decode(self, reply: WireReply, call: ModelCall) -> ModelResponse:
        """Read an unstreamed response or an HTTP error; never raises for what the server sent."""

    @abstractmethod
    def stream_decoder(self, call: ModelCall) -> StreamDecoder:
        """A fresh decoder for one stream of HTTP 200. Error statuses go through `decode` even when streaming."""


class Transcript:
    """The messages of a run together with their wire bytes, each unit encoded once."""

    def __init__(self, adapter: Adapter, call: ModelCall, messages: Iterable[Message] = ()) -> None:
        """`call` is passed to the encoder for the model's and provider's properties; its tools may differ later."""
        self.messages: list[Message] = []
        self.call_ids: set[str] = set()
        self._adapter = adapter
        self._call = call
        self._units: list[list[Message]] = []
        self._encoded: list[bytes | None] = []
        self.extend(messages)

    def extend(self, messages: Iterable[Message]) -> None:
        for message in messages:
            previous = self.messages[-1] if self.messages else None
            if not self._units or self._adapter.starts_unit(previous, message):
                self._units.append([message])
                self._encoded.append(None)
            else:
                self._units[-1].append(message)
                self._encoded[-1] = None
            self.messages.append(message)
            self.call_ids.update(call.id for call in message.tool_calls)

    @property
    def units(self) -> Sequence[Sequence[Message]]:
        """The messages of each unit."""
        return self._units

    def encoded(self) -> Sequence[bytes]:
        """The wire bytes of all units; only those that are new or grew are encoded."""
        for index in range(len(self._encoded) - 1, -1, -1):
            if self._encoded[index] is not None:
                break
            self._encoded[index] = self._adapter.encode(self._units[index], self._call)
        return self._encoded  # type: ignore[return-value]
