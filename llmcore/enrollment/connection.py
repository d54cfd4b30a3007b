"""Asks a provider for its models: the test of its address and key, and where its models are entered from."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from llmcore import store
from llmcore.configuration import LanguageModel as ModelValue
from llmcore.configuration import Provider as ProviderValue
from llmcore.detection.listings import NO_CHAT, compatible_model
from llmcore.enrollment.rows import new_model
from llmcore.errors import ConfigurationError, SecretUnavailable
from llmcore.metering.client import ModelClient, open_http
from llmcore.models import LanguageModel, Provider
from llmcore.providers.listing import Listing, name_in


@dataclass(frozen=True, kw_only=True, slots=True)
class Connection:
    """How a provider answered: the models that it lists, or a problem in words that say what to do."""

    models: tuple[ModelValue, ...] = ()
    problem: str = ""

    def named(self, name: str) -> ModelValue | None:
        return next((model for model in self.models if model.name == name), None)


def connect(provider: Provider) -> Connection:
    """Ask now, within a few seconds. Nothing is stored, and no model is called."""
    try:
        listing = asyncio.run(_listing(store.provider_value(provider)))
    except (SecretUnavailable, ConfigurationError) as error:
        return Connection(problem=str(error))
    if listing.error is not None:
        return Connection(problem=f"{listing.error}. {listing.error.advice}".replace("..", "."))
    found = {name: entry for entry in listing.entries if (name := name_in(entry)) and not NO_CHAT.search(name)}
    return Connection(models=tuple(compatible_model(name, entry) for name, entry in sorted(found.items())))


async def _listing(provider: ProviderValue) -> Listing:
    async with open_http() as http:
        return await ModelClient(http=http).listing(provider)


def add_models(provider: Provider, models: tuple[ModelValue, ...]) -> list[LanguageModel]:
    """Enter those that aren't there yet, with what the provider tells of them."""
    known = set(provider.models.values_list("name", flat=True))
    return [new_model(provider, model) for model in models if model.name not in known]
