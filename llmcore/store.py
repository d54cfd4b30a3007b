"""Rows to values: the only module that knows both shapes of what is configured."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from django.db.models import QuerySet
from django.db.models import Value as Constant

from llmcore import configuration as values
from llmcore.actions.policy import Actor, Policy, Rule, Ruling
from llmcore.conf import MIN_SECRET_LENGTH, settings
from llmcore.context.learning import correction
from llmcore.context.tokenizers import vocabulary_of
from llmcore.database_access import FixedQuery
from llmcore.errors import ConfigurationError
from llmcore.keys import has_key, read_key, readable_keys
from llmcore.mcp_commands import mcp_commands
from llmcore.models import (
    ActionRule,
    Configuration,
    LanguageModel,
    Provider,
    Skill,
    Snippet,
    ToolGroupSwitch,
    ToolSwitch,
)
from llmcore.redaction import Redactor, storable

# Stands for a key that isn't needed; it makes a request look as the real one, masked.
PLACEHOLDER = "key-not-read"
# No site allows more rounds than this, whatever its setting says.
HIGHEST_MAX_ROUNDS = 1_000


Value = TypeVar("Value", values.Skill, values.Snippet)


def load_configuration(slug_or_row: str | Configuration, *, read_keys: bool = True) -> values.Configuration:
    """The configuration with its provider, model, fallbacks, skills and snippets, in four queries for a slug, and one
    more where it takes snippets by tag.

    ConfigurationError says what to change where it can't be used: unknown, or it, its model or its provider disabled.
    With `read_keys` off, for previews and dry runs, the key may be unreadable: a placeholder stands for it.
    """
    row = _configuration_row(slug_or_row) if isinstance(slug_or_row, str) else slug_or_row
    _refuse_disabled(row)
    return configuration_value(
        row,
        [entry.skill for entry in row.configurationskill_set.all()],
        [entry.snippet for entry in row.configurationsnippet_set.all()],
        row.tagged_snippets(),
        usable_fallbacks(row),
        read_keys=read_keys,
    )


def usable_fallbacks(row: Configuration) -> list[LanguageModel]:
    """Its fallback models in their order. One that is disabled, or whose provider is, is left out: somebody switched it
    off on purpose."""
    return [entry.model for entry in row.configurationfallback_set.all() if entry.model.usable]


def configuration_value(
    row: Configuration,
    skills: Iterable[Skill],
    snippets: Iterable[Snippet],
    tagged: Iterable[Snippet],
    fallbacks: Iterable[LanguageModel] = (),
    *,
    read_keys: bool,
) -> values.Configuration:
    return values.Configuration(
        slug=row.slug,
        name=row.name,
        provider=provider_value(row.model.provider, read_keys=read_keys),
        model=model_value(row.model),
        fallbacks=tuple(route_value(model, read_keys=read_keys) for model in fallbacks),
        system_prompt=row.system_prompt,
        parameters=_parameters(row),
        limits=_limits(row),
        skills=tuple(map(skill_value, skills)),
        snippets=tuple(map(snippet_value, snippets)),
        snippet_tags=tuple(row.snippet_tags),
        tagged_snippets=tuple(map(snippet_value, tagged)),
        tool_groups=tuple(row.tool_groups),
        tools=_tools(row),
        tool_preset=row.tool_preset.slug if row.tool_preset else "",
        workspace=row.workspace,
        min_skill_trust=row.min_skill_trust,
        summarizer=summarizer_value(row.summarizer, read_keys=read_keys),
        requires_other_decider=row.requires_other_decider,
        ceiling=row.ceiling,
        id=row.pk,
        version=row.version,
    )


def summarizer_value(row: Configuration | None, *, read_keys: bool) -> values.Summarizer | None:
    """Who summarizes; `None` where nobody is named, or somebody switched it off on purpose."""
    if row is None or not (row.enabled and row.model.usable):
        return None
    return values.Summarizer(
        name=row.name,
        route=route_value(row.model, read_keys=read_keys),
        parameters=_parameters(row),
        instructions=row.system_prompt,
    )


def load_skills(slugs: Iterable[str], found: Mapping[str, values.Skill] | None = None) -> tuple[values.Skill, ...]:
    """The skills in the given order, disabled ones too; ConfigurationError names those that don't exist. `found` are
    those of them that were just read."""
    wanted = tuple(slugs)
    return _in_order("skill", wanted, find_skills(wanted) if found is None else found)


def load_snippets(
    slugs: Iterable[str], found: Mapping[str, values.Snippet] | None = None
) -> tuple[values.Snippet, ...]:
    """As `load_skills`."""
    wanted = tuple(slugs)
    return _in_order("prompt snippet", wanted, find_snippets(wanted) if found is None else found)


def find_skills(slugs: Sequence[str]) -> dict[str, values.Skill]:
    """Those of the skills that still exist, by slug. Any text may be asked for."""
    rows = Skill.objects.filter(slug__in=storable(list(slugs))) if slugs else ()
    return {row.slug: skill_value(row) for row in rows}


def find_snippets(slugs: Sequence[str]) -> dict[str, values.Snippet]:
    rows = Snippet.objects.filter(slug__in=storable(list(slugs))) if slugs else ()
    return {row.slug: snippet_value(row) for row in rows}


@dataclass(frozen=True, kw_only=True, slots=True)
class Switches:
    """Names of the tools and of the tool groups that this site has switched off."""

    disabled_tools: set[str]
    disabled_groups: set[str]


def _switched_off() -> QuerySet[Any, tuple[Any, ...]]:
    tools, groups = (
        model.objects.filter(enabled=False).order_by().values_list(Constant(kind), "name")
        for kind, model in (("tool", ToolSwitch), ("group", ToolGroupSwitch))
    )
    return tools.union(groups, all=True)


_SWITCHED_OFF = FixedQuery(_switched_off)
_RULE_COLUMNS = ("name", "ruling", "tool", "argument", "pattern", "user_id", "group_id", "id")
_RULES = FixedQuery(lambda: ActionRule.objects.filter(enabled=True).values_list(*_RULE_COLUMNS))


def load_switches() -> Switches:
    off = _SWITCHED_OFF.rows()
    return Switches(
        disabled_tools={name for kind, name in off if kind == "tool"},
        disabled_groups={name for kind, name in off if kind == "group"},
    )


def load_policy(user: Any) -> Policy:
    """The rules of this site for the calls that act for `user`; for nobody, if that is None."""
    columns = (dict(zip(_RULE_COLUMNS, row, strict=True)) for row in _RULES.rows())
    # Keys of users that aren't numbers come as the database keeps them.
    key = ActionRule._meta.get_field("user").target_field.to_python
    rules = tuple(
        Rule(**{**rule, "ruling": Ruling(rule["ruling"]), "user_id": key(rule["user_id"])}) for rule in columns
    )
    return Policy(rules=rules, actor=actor_of(user, {rule.group_id for rule in rules} - {None}))


def actor_of(user: Any, named: Collection[int | None]) -> Actor:
    """The user as rules see it: with those of its groups that are `named` in one."""
    if getattr(user, "pk", None) is None:
        return Actor()
    groups = user.groups.filter(pk__in=named).values_list("pk", flat=True) if named else ()
    return Actor(user_id=user.pk, group_ids=frozenset(groups))


def site_redactor() -> Redactor:
    """One that knows all secrets of this site, as they are now."""
    return Redactor(secret_values())


def secret_values() -> list[str]:
    """Every secret that must not appear in anything written, the longest first: API keys, the site's own keys,
    passwords of its database and queue, and what looks like a secret in the environment."""
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS, *settings.LLM_ENCRYPTION_KEYS)
    keys = (*keys, *settings.LLM_SERVICE_TOKENS)
    site = {*keys, *settings.LLM_SECRET_VALUES()}
    site.update(str(database.get("PASSWORD") or "") for database in settings.DATABASES.values())
    redis = (settings.CELERY_BROKER_URL, settings.LLM_WAKEUPS_URL, settings.LLM_PERMITS_URL)
    site.update(unquote(urlsplit(url).password or "") for url in redis)
    site.update(secret for command in mcp_commands().values() for secret in command.secrets)
    secrets = {value for value in site if len(value) >= MIN_SECRET_LENGTH} | set(readable_keys())
    return sorted(secrets, key=lambda value: (-len(value), value))


def provider_value(row: Provider, *, read_keys: bool = True) -> values.Provider:
    key = read_key(row) if read_keys else values.Secret(PLACEHOLDER if has_key(row) else "")
    return values.Provider(
        slug=row.slug,
        name=row.name,
        adapter=row.adapter,
        base_url=row.base_url,
        api_version=row.api_version,
        api_key=key,
        connect_timeout_s=row.connect_timeout_s,
        read_timeout_s=row.read_timeout_s,
        total_timeout_s=row.total_timeout_s,
        max_attempts=row.max_attempts,
        max_calls_in_flight=row.max_calls_in_flight,
        allow_private_hosts=row.allow_private_hosts,
    )


def route_value(row: LanguageModel, *, read_keys: bool = True) -> values.Route:
    return values.Route(provider=provider_value(row.provider, read_keys=read_keys), model=model_value(row))


def model_value(row: LanguageModel) -> values.LanguageModel:
    tokenizer = vocabulary_of(row.name)
    ratios = row.token_ratios if row.token_basis == tokenizer else []
    return values.LanguageModel(
        name=row.name,
        label=row.label or row.name,
        context_window=row.context_window,
        max_output_tokens=row.max_output_tokens,
        supports_tools=row.supports_tools,
        supports_tool_choice=row.supports_tool_choice,
        tools_as_json=row.tools_as_json,
        supports_temperature=row.supports_temperature,
        supports_thinking=row.supports_thinking,
        supports_streaming=row.supports_streaming,
        thinking_control=row.thinking_control,  # type: ignore[arg-type]
        supports_images=row.supports_images,
        supports_structured_output=row.supports_structured_output,
        inline_think=row.inline_think or None,  # type: ignore[arg-type]
        tokenizer=tokenizer,
        token_ratio=correction(ratios),
        token_samples=len(ratios),
        prices=row.prices,
    )


def skill_value(row: Skill) -> values.Skill:
    return values.Skill(
        slug=row.slug,
        name=row.name,
        body=row.body,
        sha256=row.sha256,
        enabled=row.enabled,
        allowed_tools=None if row.allowed_tools is None else tuple(row.allowed_tools),
        trust=row.trust,
        id=row.pk,
        version=row.version,
    )


def snippet_value(row: Snippet) -> values.Snippet:
    return values.Snippet(
        slug=row.slug,
        name=row.name,
        body=row.body,
        enabled=row.enabled,
        tags=tuple(row.tags),
        id=row.pk,
        version=row.version,
    )


def _configuration_row(slug: str) -> Configuration:
    try:
        return Configuration.objects.select_related(
            "model__provider", "tool_preset", "summarizer__model__provider"
        ).get(slug=storable(slug))
    except Configuration.DoesNotExist:
        raise ConfigurationError(
            f"There is no configuration “{slug}” (any more). Choose another one, or create it in the admin."
        ) from None


def _refuse_disabled(row: Configuration) -> None:
    for kind, part in (("configuration", row), ("model", row.model), ("provider", row.model.provider)):
        if not part.enabled:
            raise ConfigurationError(f"The {kind} “{part}” is disabled. Enable it in the admin, or choose another one.")


def _parameters(row: Configuration) -> values.Parameters:
    return values.Parameters(
        temperature=row.temperature,
        top_p=row.top_p,
        max_tokens=row.max_tokens,
        thinking=row.thinking or None,  # type: ignore[arg-type]
        seed=row.seed,
        stream=row.stream,
        tool_choice=row.tool_choice or None,  # type: ignore[arg-type]
    )


def _tools(row: Configuration) -> tuple[str, ...] | None:
    """What a run is offered where it names no tools itself."""
    named = row.tools if row.tool_preset is None else row.tool_preset.tools
    return None if named is None else tuple(named)


def _limits(row: Configuration) -> values.Limits:
    return values.Limits(
        max_rounds=min(row.max_rounds, settings.LLM_MAX_ROUNDS, HIGHEST_MAX_ROUNDS),
        max_tool_result_bytes=row.max_tool_result_bytes,
        skill_budget_bytes=row.skill_budget_bytes,
        compact_at_percent=row.compact_at,
        keep_turns=row.keep_turns,
        margin_percent=settings.LLM_CONTEXT_MARGIN_PERCENT,
    )


def _in_order(kind: str, wanted: Sequence[str], found: Mapping[str, Value]) -> tuple[Value, ...]:
    unknown = [slug for slug in wanted if slug not in found]
    if unknown:
        names = ", ".join(f"“{slug}”" for slug in unknown)
        raise ConfigurationError(f"There is no {kind} {names} (any more). Remove it from the run, or create it.")
    return tuple(found[slug] for slug in wanted)
