"""Services that are known by the variable of the environment in which people keep their key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from llmcore.detection.catalog import models_of
from llmcore.detection.found import FoundProvider
from llmcore.providers.base import Adapter


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyedService:
    """A service on the internet, reached over the adapter of this name.

    `variables` may hold its key, the first one that is set counts. Where one of `elsewhere` is set, the key is meant
    for another address than the usual one.
    """

    name: str
    adapter: str
    variables: tuple[str, ...]
    elsewhere: tuple[str, ...] = ()


# Sources: the documentation of the services' own clients.
SERVICES = (
    KeyedService(
        name="OpenAI",
        adapter="openai_chat",
        variables=("OPENAI_API_KEY",),
        elsewhere=("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    ),
    KeyedService(
        name="Anthropic",
        adapter="anthropic",
        variables=("ANTHROPIC_API_KEY",),
        elsewhere=("ANTHROPIC_BASE_URL",),
    ),
    KeyedService(name="Google Gemini", adapter="gemini", variables=("GEMINI_API_KEY", "GOOGLE_API_KEY")),
    KeyedService(name="OpenRouter", adapter="openrouter", variables=("OPENROUTER_API_KEY",)),
    KeyedService(name="Mistral", adapter="mistral", variables=("MISTRAL_API_KEY",)),
    KeyedService(name="Groq", adapter="groq", variables=("GROQ_API_KEY",)),
    KeyedService(name="DeepSeek", adapter="deepseek", variables=("DEEPSEEK_API_KEY",)),
)


def find_services(read: Callable[[str], str | None], adapters: Mapping[str, Adapter]) -> Iterator[FoundProvider]:
    """The services whose key is in a variable and whose wire format is among `adapters`.

    `read` gives the value of a variable. Keys are not kept, and nothing is sent anywhere.
    """
    for service in SERVICES:
        adapter = adapters.get(service.adapter)
        variable = next((name for name in service.variables if (read(name) or "").strip()), "")
        if adapter is not None and variable:
            yield service_found(service, adapter, variable, read)


def service_found(
    service: KeyedService, adapter: Adapter, variable: str, read: Callable[[str], str | None]
) -> FoundProvider:
    other = next((name for name in service.elsewhere if (read(name) or "").strip()), "")
    models = () if other else models_of(service.adapter)
    problems = []
    if other:
        problems.append(
            f"{other} is set, so the key is meant for another address than the usual one. Enter that provider in the "
            "admin, under LLM."
        )
    elif not models:
        problems.append("This version knows none of its models: enter them in the admin, under LLM.")
    return FoundProvider(
        name=service.name,
        adapter=adapter.name,
        base_url="" if other else adapter.default_base_url,
        about=f"with the key in {variable}",
        models=models,
        key_variable=variable,
        problems=tuple(problems),
    )
