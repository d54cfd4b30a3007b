"""Checks, before anything runs, the configurations that are named: whether each could answer what it is named for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from llmcore import models, store
from llmcore.configuration import Configuration
from llmcore.enrollment.connection import connect
from llmcore.errors import ConfigurationError
from llmcore.messages import Message
from llmcore.providers.base import Transcript
from llmcore.providers.registry import adapter_of
from llmcore.runs.fallback import call_to
from llmcore.structured.expected import Expected, asked_of
from llmcore.structured.packs import Prompt, site_prompts

# A request that is made and not sent: it needs all that a real one needs.
CHECK = (Message.of("user", "Answer with an empty JSON object."),)


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckedConfiguration:
    """What a check found of the configuration `slug`. `problem` is empty where it could answer; `told` are the prompts
    whose schema at least one of its models is told in the prompt, since its provider can't be held to it."""

    slug: str
    prompts: tuple[str, ...] = ()
    name: str = ""
    model: str = ""
    problem: str = ""
    told: tuple[str, ...] = ()

    @property
    def held(self) -> tuple[str, ...]:
        return tuple(prompt for prompt in self.prompts if prompt not in self.told)


def check_configurations(*, slugs: Iterable[str] = (), ask: bool = False) -> list[CheckedConfiguration]:
    """The configurations that prompts name, and `slugs`, each once. Nothing is sent, unless to `ask` each provider for
    its models, which costs nothing and calls none."""
    prompts = [prompt for prompt in site_prompts.prompts().values() if prompt.configuration]
    named = dict.fromkeys([*slugs, *(prompt.configuration for prompt in prompts)])
    return [check(slug, [p for p in prompts if p.configuration == slug], ask=ask) for slug in named]


def check(slug: str, prompts: Iterable[Prompt], *, ask: bool) -> CheckedConfiguration:
    names = tuple(prompt.id for prompt in prompts)
    try:
        configuration = store.load_configuration(slug)
        frame_check(configuration, prompts)
    except ConfigurationError as error:
        return CheckedConfiguration(slug=slug, prompts=names, problem=str(error))
    return CheckedConfiguration(
        slug=slug,
        prompts=names,
        name=configuration.name,
        model=configuration.model.label or configuration.model.name,
        problem=asked_problem(configuration) if ask else "",
        told=tuple(prompt.id for prompt in prompts if not is_held(configuration, prompt)),
    )


def frame_check(configuration: Configuration, prompts: Iterable[Prompt]) -> None:
    """Make a small request to each model of the configuration, for each schema; ConfigurationError where that fails."""
    expected = [Expected(schema=prompt.schema) for prompt in prompts if prompt.schema]
    for route in configuration.routes:
        adapter = adapter_of(route.provider, route.model)
        if not adapter.base_url(route.provider):
            raise ConfigurationError(f"The provider “{route.provider.name}” has no base URL.")
        for each in (None, *expected):
            call = call_to(route, configuration.parameters, (), each)
            adapter.frame(call, Transcript(adapter, call, CHECK).encoded())


def is_held(configuration: Configuration, prompt: Prompt) -> bool:
    return prompt.schema is None or all(asked_of(route, prompt.schema).native for route in configuration.routes)


def asked_problem(configuration: Configuration) -> str:
    """What is wrong with the connection to its model's provider; empty where the model is there."""
    found = connect(models.Provider.objects.get(slug=configuration.provider.slug))
    if found.problem:
        return found.problem
    if found.models and not found.named(configuration.model.name):
        return f"The provider doesn't list the model “{configuration.model.name}”."
    return ""
