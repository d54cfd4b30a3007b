"""The stored configuration as plain values: what a run is made from, with no row and no framework behind it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Self

from llmcore.budgets.base import Allowance
from llmcore.usage import Prices

ThinkingEffort = Literal["off", "low", "medium", "high"]


class Secret:
    """A value that never shows itself: not in repr, str, pickles or JSON. Only the transport calls `reveal()`."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __repr__(self) -> str:
        return "Secret(•••)" if self._value else "Secret('')"

    __str__ = __repr__

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a Secret can't be pickled or copied out of the process")


@dataclass(frozen=True, kw_only=True, slots=True)
class Provider:
    """A service that answers requests.

    `adapter` names the wire format (a key of the provider registry). Timeouts are seconds: to connect, between two
    reads, and for one whole call. `max_attempts` counts the first attempt too. `max_calls_in_flight` is the most calls
    at the same time, `None` for no limit. `api_version` is for services whose addresses carry one (Azure).
    """

    slug: str
    name: str
    adapter: str
    base_url: str
    api_version: str = ""
    api_key: Secret = field(default_factory=lambda: Secret(""))
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 120.0
    total_timeout_s: float = 600.0
    max_attempts: int = 3
    max_calls_in_flight: int | None = None
    allow_private_hosts: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class LanguageModel:
    """One model of a provider: its window, its output cap, what it can do and what it costs.

    Token counts are `None` where unknown. `inline_think` says that the model writes its thinking into the answer
    ("tags": `<think>…</think>` at the start; "prefilled": the opening tag is missing). `thinking_control` says how the
    model is told how much to think: by an effort in words, or by a budget of tokens. `tools_as_json`: the model has no
    tool calls of its own, so what it wants to do is asked for as JSON. `supports_structured_output`: its answers can be
    held to a JSON Schema, if the wire has that. `tokenizer` names the vocabulary that can count its tokens here,
    `token_ratio` is the correction of such counts that `token_samples` runs have taught.
    """

    name: str
    label: str = ""
    context_window: int | None = None
    max_output_tokens: int | None = None
    supports_tools: bool = True
    supports_tool_choice: bool = True
    tools_as_json: bool = False
    supports_temperature: bool = True
    supports_thinking: bool = False
    supports_streaming: bool = True
    supports_images: bool = False
    supports_structured_output: bool = True
    thinking_control: Literal["effort", "budget"] = "effort"
    inline_think: Literal["tags", "prefilled"] | None = None
    tokenizer: str = ""
    token_ratio: float = 1.0
    token_samples: int = 0
    prices: Prices = field(default_factory=Prices)


@dataclass(frozen=True, kw_only=True, slots=True)
class Route:
    """Where a call can go: a model at the provider that serves it."""

    provider: Provider
    model: LanguageModel

    @property
    def name(self) -> str:
        """What tells it from all others of a site."""
        return f"{self.provider.slug}/{self.model.name}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameters:
    """What is asked of the model on every call of a run, the last one too. `None` leaves it to the provider.

    `tool_choice` is about the first round only: a call is required there. In every round, the run could never end.
    """

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    thinking: ThinkingEffort | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stream: bool = True
    parallel_tool_calls: bool | None = None
    tool_choice: Literal["required"] | None = None

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "stop": list(self.stop)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(**{**data, "stop": tuple(data.get("stop", ()))})


def sha256_of_text(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True)
class Skill:
    """An instruction package, injected into the first user message.

    `sha256` is the digest stored with the body; a body that no longer matches it is not used. `allowed_tools` is
    `None` where the skill declares none (no restriction). `trust` grows with trustworthiness; a configuration asks
    for a least level.
    """

    slug: str
    name: str
    body: str
    sha256: str
    enabled: bool = True
    allowed_tools: tuple[str, ...] | None = None
    trust: int = 1
    id: int | None = None
    version: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Snippet:
    """Reusable text, added as a system message of its own."""

    slug: str
    name: str
    body: str
    enabled: bool = True
    tags: tuple[str, ...] = ()
    id: int | None = None
    version: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Summarizer:
    """Who summarizes old turns of a run: the model of the configuration `name`, with its parameters and its system
    prompt as `instructions`."""

    name: str
    route: Route
    parameters: Parameters = field(default_factory=Parameters)
    instructions: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """The bounds of a run. Bytes are UTF-8 bytes. `margin_percent` is what an estimate of tokens may be wrong by, which
    is kept free in the model's window. Where the prompt takes more than `compact_at_percent` of what it may, the oldest
    turns but the last `keep_turns` are summarized; at 0 they never are."""

    max_rounds: int = 5
    max_tool_result_bytes: int = 50_000
    max_traced_result_bytes: int = 10_000_000
    max_parallel_tools: int = 4
    skill_budget_bytes: int = 24_000
    margin_percent: float = 10.0
    compact_at_percent: int = 0
    keep_turns: int = 3

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(**data)


@dataclass(frozen=True, kw_only=True, slots=True)
class Configuration:
    """Named: model + parameters + system prompt + skills + snippets + tool groups + limits.

    `fallbacks` are asked in their order where the model can't be reached or has no room. The `summarizer` shortens runs
    that fill the window; where it is `None` their own model does.
    `snippets` are listed one by one, `tagged_snippets` are all those with one of the `snippet_tags`, by slug.
    `tool_groups` are the groups whose tools a run may use; `tools` those offered when a run names none itself
    (`None`: all of the groups), from the preset `tool_preset` where that names one. `workspace` names the folder that
    its file tools work in. With `requires_other_decider` nobody decides about what
    their own runs propose. One run may use no more than the `ceiling`.
    """

    slug: str
    name: str
    provider: Provider
    model: LanguageModel
    fallbacks: tuple[Route, ...] = ()
    system_prompt: str = ""
    parameters: Parameters = field(default_factory=Parameters)
    limits: Limits = field(default_factory=Limits)
    skills: tuple[Skill, ...] = ()
    snippets: tuple[Snippet, ...] = ()
    snippet_tags: tuple[str, ...] = ()
    tagged_snippets: tuple[Snippet, ...] = ()
    tool_groups: tuple[str, ...] = ()
    tools: tuple[str, ...] | None = None
    tool_preset: str = ""
    workspace: str = ""
    min_skill_trust: int = 0
    summarizer: Summarizer | None = None
    requires_other_decider: bool = False
    ceiling: Allowance = field(default_factory=Allowance)
    id: int | None = None
    version: int = 1

    @property
    def routes(self) -> tuple[Route, ...]:
        """All models that a run may be answered by, the one that is asked first at first."""
        return (Route(provider=self.provider, model=self.model), *self.fallbacks)

    def with_parameters(self, **changes: Any) -> Configuration:
        return replace(self, parameters=replace(self.parameters, **changes))
