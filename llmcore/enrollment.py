"""Enters what detection finds: providers, models and a configuration for each, ready for runs.

Running it again is harmless. What was entered once is remembered: people's changes stay, and what they deleted stays
deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.db import IntegrityError, models, transaction
from django.utils.text import Truncator, slugify

from llmcore.conf import settings
from llmcore.configuration import LanguageModel as ModelValue
from llmcore.detection.found import FoundModel, FoundProvider
from llmcore.detection.servers import Elsewhere, Look, find_servers, ollama_place, usual_places
from llmcore.detection.services import find_services
from llmcore.keys import use_environment_key
from llmcore.models import Configuration, DetectedItem, LanguageModel, Provider
from llmcore.providers.local_servers import LocalServer, is_loopback
from llmcore.providers.registry import adapters
from llmcore.tools.registry import all_tools

# Skills may fill about a third of a window: three bytes are not yet a token.
SKILL_BYTES_PER_TOKEN = 1.2
SKILL_BUDGET_BYTES = 24_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Enrolled:
    """What became of a found provider: `name` is that of its row, `new_models` are the labels of what was entered.

    `problems` are sentences on what could not be used, and on what was left alone.
    """

    found: FoundProvider
    name: str
    new_models: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Detection:
    """The result of a look around. `looks` are all the places where a server could have been."""

    looks: tuple[Look, ...]
    enrolled: tuple[Enrolled, ...]
    problems: tuple[str, ...] = ()


def detect(*, timeout_s: float, places: Sequence[LocalServer] | None = None) -> Detection:
    """Look at the usual places (or `places`) on this machine and for keys in the environment, and enter what is new."""
    problems: list[str] = []
    if places is None:
        places = usual_places(ollama_or_problem(problems))
    looks = asyncio.run(find_servers(places, timeout_s=timeout_s))
    servers = [look.provider for look in looks if look.provider is not None]
    services = find_services(settings.LLM_ENVIRONMENT_SECRET, adapters())
    enrolled = [enroll_once(found) for found in chain(servers, services)]
    return Detection(looks=tuple(looks), enrolled=tuple(enrolled), problems=tuple(problems))


def ollama_or_problem(problems: list[str]) -> LocalServer | None:
    try:
        return ollama_place(settings.LLM_OLLAMA_HOST)
    except Elsewhere as error:
        problems.append(str(error))
        return None


def enroll_once(found: FoundProvider) -> Enrolled:
    """`enroll`, also beside another process that is doing the same."""
    try:
        return enroll(found)
    except IntegrityError:
        # The other one was faster; what it entered is there now.
        return enroll(found)


@transaction.atomic
def enroll(found: FoundProvider) -> Enrolled:
    """Enter a provider and its models, as far as they are new."""
    result = Enrolled(found=found, name=found.name, problems=found.problems)
    if not found.base_url:
        return result
    item = DetectedItem.objects.filter(key=provider_key(found)).select_related("provider").first()
    if item is None:
        if (twin := provider_at(found.base_url)) is not None:
            return with_problem(result, f"The provider “{twin}” has this address already; it is left as it is.")
        try:
            item = DetectedItem.objects.create(key=provider_key(found), provider=new_provider(found))
        except ValidationError as error:
            return with_problem(result, f"It can't be entered: {' '.join(error.messages)}")
    provider = item.provider
    if provider is None:
        return with_problem(result, "It was deleted in the admin and is not entered again.")
    result = replace(result, name=provider.name)
    if (provider.base_url, provider.adapter) != (found.base_url, found.adapter):
        return with_problem(result, "Its address was changed in the admin, so nothing is added to it.")
    return enroll_models(result, provider)


def enroll_models(result: Enrolled, provider: Provider) -> Enrolled:
    found = result.found
    keys = {model_key(found, model): model for model in found.models}
    known = set(DetectedItem.objects.filter(key__in=keys).values_list("key", flat=True))
    entered = []
    for key, model in keys.items():
        if key in known:
            continue
        try:
            row = new_model(provider, model.model)
        except ValidationError as error:
            # Somebody has entered it by hand, or its name is none.
            result = with_problem(result, f"{model.model.label} was not entered: {' '.join(error.messages)}")
            continue
        DetectedItem.objects.create(key=key)
        new_configuration(row, found, model)
        entered.append(str(row))
    return replace(result, new_models=tuple(entered))


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
        supports_images=model.supports_images,
        input_price=model.prices.input,
        cache_read_price=model.prices.cache_read,
        cache_creation_price=model.prices.cache_creation,
        output_price=model.prices.output,
    )
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


def provider_key(found: FoundProvider) -> str:
    return f"provider {found.adapter} {found.base_url}"


def model_key(found: FoundProvider, model: FoundModel) -> str:
    return f"model {found.adapter} {found.base_url} {model.model.name}"


def with_problem(result: Enrolled, problem: str) -> Enrolled:
    return replace(result, problems=(*result.problems, problem))


def free_slug(rows: type[models.Model], wanted: str) -> str:
    """`wanted` as a slug that no row of the kind has yet."""
    slug = slugify(wanted.replace(".", "-").replace(":", "-").replace("/", "-"))[:45].strip("-") or "model"
    taken = set(rows.objects.filter(slug__startswith=slug).values_list("slug", flat=True))  # type: ignore[attr-defined]
    return next(free for free in numbered(slug) if free not in taken)


def numbered(slug: str) -> Iterator[str]:
    yield slug
    yield from (f"{slug}-{number}" for number in count(2))
