"""Enters one found provider with its models, as far as they are new.

What was entered once is remembered: people's changes stay, and what they deleted stays deleted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from llmcore.detection.found import FoundModel, FoundProvider
from llmcore.enrollment.rows import new_configuration, new_model, new_provider, provider_at
from llmcore.models import DetectedItem, Provider


@dataclass(frozen=True, kw_only=True, slots=True)
class Enrolled:
    """What became of a found provider: `name` is that of its row, `new_models` are the labels of what was entered.

    `problems` are sentences on what could not be used, and on what was left alone.
    """

    found: FoundProvider
    name: str
    new_models: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


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


def provider_key(found: FoundProvider) -> str:
    return f"provider {found.adapter} {found.base_url}"


def model_key(found: FoundProvider, model: FoundModel) -> str:
    return f"model {found.adapter} {found.base_url} {model.model.name}"


def with_problem(result: Enrolled, problem: str) -> Enrolled:
    return replace(result, problems=(*result.problems, problem))
