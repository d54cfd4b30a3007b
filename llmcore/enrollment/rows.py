"""The rows that are made of what was found: a provider, its models, and a configuration for each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from urllib.parse import urlsplit

from django.db import models
from django.utils.text import Truncator, slugify

from llmcore.configuration import LanguageModel as ModelValue
from llmcore.detection.found import FoundModel, FoundProvider
from llmcore.keys import use_environment_key
from llmcore.models import Configuration, LanguageModel, Provider
from llmcore.providers.local_servers import is_loopback
from llmcore.providers.price_list import shipped_prices
from llmcore.tools.registry import all_tools
from llmcore.usage import Prices

# Skills may fill about a third of a window: three bytes are not yet a token.
SKILL_BYTES_PER_TOKEN = 1.2
SKILL_BUDGET_BYTES = 24_000


def new_provider(found: FoundProvider) -> Provider:
    provider = Provider(
        slug=free_slug(Provider, found.name),
        name=found.name,
        adapter=found.adapter,
        base_url=found.base_url,
        allow_private_hosts=is_loopback(urlsplit(found.base_url).hostname or ""),
    )
    if found.key_variable:
        use_environment_key(provider, found.key_variable)
    provider.full_clean()
    provider.save()
    return provider


def new_model(provider: Provider, model: ModelValue) -> LanguageModel:
    """A model as its provider describes it; where that tells no price, with the one that is shipped."""
    prices = model.prices
    if prices == Prices() and (shipped := shipped_prices(provider.adapter, provider.base_url, model.name)):
        prices = shipped.prices
    row = LanguageModel(
        provider=provider,
        name=model.name,
        label=model.label,
        context_window=model.context_window,
        max_output_tokens=model.max_output_tokens,
        supports_tools=model.supports_tools,
        supports_tool_choice=model.supports_tool_choice,
        supports_temperature=model.supports_temperature,
        supports_thinking=model.supports_thinking,
        thinking_control=model.thinking_control,
        supports_images=model.supports_images,
        supports_structured_output=model.supports_structured_output,
    )
    row.prices = prices
    row.full_clean()
    row.save()
    return row


def new_configuration(row: LanguageModel, found: FoundProvider, model: FoundModel) -> Configuration:
    """The plainest one that a run can be started with: all tools can be ticked, and none is offered unasked."""
    configuration = Configuration(
        slug=free_slug(Configuration, f"{row.provider.slug}-{row}"),
        name=Truncator(f"{row} ({row.provider})").chars(100),
        description=" ".join(filter(None, (f"Found by itself, {found.about}.", model.note))),
        model=row,
        thinking=model.thinking or "",
        tool_groups=sorted({tool.group for tool in all_tools().values()}) if row.supports_tools else [],
        tools=[],
        skill_budget_bytes=skill_budget(row.context_window),
    )
    configuration.full_clean()
    configuration.save()
    return configuration


def skill_budget(window: int | None) -> int:
    return SKILL_BUDGET_BYTES if window is None else min(SKILL_BUDGET_BYTES, int(window * SKILL_BYTES_PER_TOKEN))


def provider_at(base_url: str) -> Provider | None:
    """The provider with the address of `base_url`, whatever comes after host and port, and however this machine is
    called in it."""
    wanted = place_of(base_url)
    return next((row for row in Provider.objects.order_by("pk") if place_of(row.base_url) == wanted), None)


def place_of(base_url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(base_url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    except ValueError:
        return base_url, 0
    host = parts.hostname or ""
    return ("localhost" if is_loopback(host) else host), port


def free_slug(rows: type[models.Model], wanted: str) -> str:
    """`wanted` as a slug that no row of the kind has yet."""
    slug = slugify(wanted.replace(".", "-").replace(":", "-").replace("/", "-"))[:45].strip("-") or "model"
    taken = set(rows.objects.filter(slug__startswith=slug).values_list("slug", flat=True))  # type: ignore[attr-defined]
    return next(free for free in numbered(slug) if free not in taken)


def numbered(slug: str) -> Iterator[str]:
    yield slug
    yield from (f"{slug}-{number}" for number in count(2))
