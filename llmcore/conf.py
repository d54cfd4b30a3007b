"""The settings of a site that adopts the apps, each with its default: Django's settings are read through here."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from django.conf import settings as site
from django.core.exceptions import ImproperlyConfigured
from django.utils.crypto import salted_hmac

# What the pages need and no more: nothing inline, nothing from elsewhere.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

# A shorter value is too likely a word of the text that secrets are removed from.
MIN_SECRET_LENGTH = 8
# A service's token is made by a program; what is shorter was made up by a person.
MIN_TOKEN_LENGTH = 32
SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$")


def derived_encryption_keys() -> list[str]:
    """Fernet keys made of Django's own secrets, the present one first."""
    secrets = (site.SECRET_KEY, *site.SECRET_KEY_FALLBACKS)
    digests = (salted_hmac("llmcore.keys", "", secret=secret, algorithm="sha256").digest() for secret in secrets)
    return [base64.urlsafe_b64encode(digest).decode() for digest in digests]


def secrets_in_settings() -> list[str]:
    """The values of settings that are secrets by their name, such as `STRIPE_API_KEY`."""
    values = (getattr(site, name) for name in dir(site) if SECRET_NAME.search(name))
    return [value for value in values if isinstance(value, str) and len(value) >= MIN_SECRET_LENGTH]


def no_environment(name: str) -> str | None:
    """A site that doesn't say how to read its environment has no variables."""
    return None


# Each is described in docs/adopting.md.
DEFAULTS: dict[str, Callable[[], Any]] = {
    "LLM_MAX_ROUNDS": lambda: 50,
    "LLM_MAX_REQUEST_BYTES": lambda: 4_000_000,
    # What an estimate of tokens may be wrong by, which is kept free in a model's window.
    "LLM_CONTEXT_MARGIN_PERCENT": lambda: 10.0,
    "LLM_LEASE_S": lambda: 15.0,
    # Most provider calls in flight, over all providers and processes; None: no limit. And the Redis that counts them.
    "LLM_MAX_CALLS_IN_FLIGHT": lambda: None,
    "LLM_PERMITS_URL": str,
    # The most tokens, and US dollars, that one run may use, whatever its configuration allows; None: no limit.
    "LLM_MAX_RUN_TOKENS": lambda: None,
    "LLM_MAX_RUN_COST": lambda: None,
    # Who may ask for single turns: the bearer tokens of other engines; without one the endpoint isn't there.
    "LLM_SERVICE_TOKENS": tuple,
    # How long a proposed action waits for a decision.
    "LLM_APPROVAL_EXPIRY_S": lambda: 86_400.0,
    "LLM_PRIVACY_LEVEL": lambda: "full",
    # Whether raw requests and responses may be captured; None: at the privacy level "full" only.
    "LLM_RAW_CAPTURE": lambda: None,
    # How many days after its end a run keeps them; None: as long as the next one, and metadata for good.
    "LLM_RAW_RETENTION_DAYS": lambda: 7,
    "LLM_CONTENT_RETENTION_DAYS": lambda: 90,
    "LLM_METADATA_RETENTION_DAYS": lambda: None,
    "LLM_ENCRYPTION_KEYS": derived_encryption_keys,
    "LLM_KEY_VARIABLES": tuple,
    "LLM_ENVIRONMENT_SECRET": lambda: no_environment,
    "LLM_SECRET_VALUES": lambda: secrets_in_settings,
    # The folders that tools may work in, by name.
    "LLM_WORKSPACES": dict,
    # The programs that may be MCP servers, by name.
    "LLM_MCP_COMMANDS": dict,
    # What judges the calls of tools: dotted paths of functions, in their order, by when they are asked.
    "LLM_TOOL_HOOKS": dict,
    # Models and those of their fields that the tool `query_rows` may show.
    "LLM_QUERY_FIELDS": dict,
    # How many log records a process remembers for the tool `recent_logs`, and the files of other processes' logs.
    "LLM_RECENT_LOGS": lambda: 500,
    "LLM_LOG_FILES": dict,
    "LLM_OLLAMA_HOST": str,
    "LLM_WAKEUPS_URL": str,
    "LLM_WORKER_ALIVE_FILE": str,
    "LLM_CONTENT_SECURITY_POLICY": lambda: CONTENT_SECURITY_POLICY,
    # A site may name its broker elsewhere.
    "CELERY_BROKER_URL": str,
}


class Settings:
    """Django's settings, with a default for each of ours that the site doesn't set."""

    LLM_MAX_ROUNDS: int
    LLM_MAX_REQUEST_BYTES: int
    LLM_CONTEXT_MARGIN_PERCENT: float
    LLM_LEASE_S: float
    LLM_MAX_CALLS_IN_FLIGHT: int | None
    LLM_PERMITS_URL: str
    LLM_MAX_RUN_TOKENS: int | None
    LLM_MAX_RUN_COST: str | Decimal | None
    LLM_SERVICE_TOKENS: Sequence[str]
    LLM_APPROVAL_EXPIRY_S: float
    LLM_PRIVACY_LEVEL: str
    LLM_RAW_CAPTURE: bool | None
    LLM_RAW_RETENTION_DAYS: int | None
    LLM_CONTENT_RETENTION_DAYS: int | None
    LLM_METADATA_RETENTION_DAYS: int | None
    LLM_ENCRYPTION_KEYS: Sequence[str]
    LLM_KEY_VARIABLES: Sequence[str]
    LLM_ENVIRONMENT_SECRET: Callable[[str], str | None]
    LLM_SECRET_VALUES: Callable[[], Iterable[str]]
    LLM_WORKSPACES: Mapping[str, Mapping[str, Any]]
    LLM_MCP_COMMANDS: Mapping[str, Mapping[str, Any]]
    LLM_TOOL_HOOKS: Mapping[str, Sequence[str]]
    LLM_QUERY_FIELDS: Mapping[str, Sequence[str]]
    LLM_RECENT_LOGS: int
    LLM_LOG_FILES: Mapping[str, str]
    LLM_OLLAMA_HOST: str
    LLM_WAKEUPS_URL: str
    LLM_WORKER_ALIVE_FILE: str
    LLM_CONTENT_SECURITY_POLICY: str
    CELERY_BROKER_URL: str
    USE_TZ: bool
    SECRET_KEY: str
    SECRET_KEY_FALLBACKS: Sequence[str]
    DATABASES: dict[str, dict[str, Any]]

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(site, name)
        except AttributeError:
            if name not in DEFAULTS:
                raise
            return DEFAULTS[name]()


settings = Settings()


def most_calls_in_flight() -> int | None:
    """Of all providers together; `None` for no limit. ImproperlyConfigured where it would let none through."""
    limit = settings.LLM_MAX_CALLS_IN_FLIGHT
    if limit is not None and limit < 1:
        raise ImproperlyConfigured(
            f"LLM_MAX_CALLS_IN_FLIGHT is {limit}, which would let no call through. Set it to 1 or more, or to None."
        )
    return limit


def service_tokens() -> tuple[str, ...]:
    """The tokens of other engines. ImproperlyConfigured where one is too short to be a secret."""
    tokens = tuple(settings.LLM_SERVICE_TOKENS)
    if isinstance(settings.LLM_SERVICE_TOKENS, str) or any(len(token) < MIN_TOKEN_LENGTH for token in tokens):
        raise ImproperlyConfigured(
            f"LLM_SERVICE_TOKENS is a list of tokens with at least {MIN_TOKEN_LENGTH} characters each. "
            "`python -c 'import secrets; print(secrets.token_urlsafe(48))'` makes one."
        )
    return tokens
