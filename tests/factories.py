"""Rows for tests, each valid and usable as it comes."""

from __future__ import annotations

from functools import cache
from typing import Any

import factory
from django.contrib.auth import get_user_model
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Permission
from factory.django import DjangoModelFactory

from llmcore.keys import save_key
from llmcore.models import Budget, Configuration, LanguageModel, MCPServer, Provider, Skill, Snippet

PASSWORD = "correct horse"


@cache
def hashed(password: str) -> str:
    """Hashing is slow on purpose: once is enough."""
    return make_password(password)


class UserFactory(DjangoModelFactory):
    """A staff user with the password PASSWORD and without rights; `permissions=["app.codename", …]` gives some,
    `is_superuser=True` all."""

    class Meta:
        model = get_user_model()
        skip_postgeneration_save = True

    username = factory.Sequence("user{}".format)
    email = factory.LazyAttribute("{0.username}@example.com".format)
    is_staff = True
    password = factory.LazyFunction(lambda: hashed(PASSWORD))

    @factory.post_generation
    def permissions(self: Any, create: bool, names: list[str] | None, **kwargs: Any) -> None:
        for name in names or ():
            app, codename = name.split(".")
            self.user_permissions.add(Permission.objects.get(content_type__app_label=app, codename=codename))


class KeyedFactory(DjangoModelFactory):
    """A service without a key; `key="…"` stores one."""

    class Meta:
        abstract = True
        skip_postgeneration_save = True

    @factory.post_generation
    def key(self: Any, create: bool, key: str | None, **kwargs: Any) -> None:
        if key:
            save_key(self, key)
            if create:
                self.save()


class ProviderFactory(KeyedFactory):
    class Meta:
        model = Provider

    slug = factory.Sequence("provider-{}".format)
    name = factory.Sequence("Provider {}".format)
    adapter = "openai_compat"
    base_url = "https://llm.example.com/v1"


class LanguageModelFactory(DjangoModelFactory):
    class Meta:
        model = LanguageModel

    provider = factory.SubFactory(ProviderFactory)
    name = factory.Sequence("model-{}".format)


class SkillFactory(DjangoModelFactory):
    """A sealed skill; `sha256="…"` makes its body a changed one."""

    class Meta:
        model = Skill

    slug = factory.Sequence("skill-{}".format)
    name = factory.Sequence("Skill {}".format)
    body = factory.Sequence("Do the thing number {}.".format)

    @classmethod
    def _create(cls, model_class: type[Skill], *args: Any, **kwargs: Any) -> Skill:
        skill = model_class(*args, **kwargs)
        if not skill.sha256:
            skill.seal()
        skill.save()
        return skill


class SnippetFactory(DjangoModelFactory):
    class Meta:
        model = Snippet

    slug = factory.Sequence("snippet-{}".format)
    name = factory.Sequence("Snippet {}".format)
    body = factory.Sequence("Remember the fact number {}.".format)


class BudgetFactory(DjangoModelFactory):
    """A budget of the whole site for each day, which limits nothing unless a limit is given."""

    class Meta:
        model = Budget

    name = factory.Sequence("Budget {}".format)
    period = "day"


class ConfigurationFactory(DjangoModelFactory):
    """A configuration without tools; `skills=[…]`, `snippets=[…]` and `fallbacks=[…]` are attached in the given
    order."""

    class Meta:
        model = Configuration
        skip_postgeneration_save = True

    slug = factory.Sequence("configuration-{}".format)
    name = factory.Sequence("Configuration {}".format)
    model = factory.SubFactory(LanguageModelFactory)
    system_prompt = "You help the customers of a shop."

    @factory.post_generation
    def skills(self: Any, create: bool, skills: list[Skill] | None, **kwargs: Any) -> None:
        for position, skill in enumerate(skills or (), start=1):
            self.skills.add(skill, through_defaults={"position": position})

    @factory.post_generation
    def snippets(self: Any, create: bool, snippets: list[Snippet] | None, **kwargs: Any) -> None:
        for position, snippet in enumerate(snippets or (), start=1):
            self.snippets.add(snippet, through_defaults={"position": position})

    @factory.post_generation
    def fallbacks(self: Any, create: bool, fallbacks: list[LanguageModel] | None, **kwargs: Any) -> None:
        for position, model in enumerate(fallbacks or (), start=1):
            self.fallbacks.add(model, through_defaults={"position": position})


class MCPServerFactory(KeyedFactory):
    """A server that was never asked for its tools."""

    class Meta:
        model = MCPServer

    slug = factory.Sequence("mcp{}".format)
    name = factory.Sequence("MCP server {}".format)
    base_url = "https://mcp.example.com/mcp"
