"""Configurations: what a run is started from."""

from __future__ import annotations

import itertools
from decimal import Decimal
from typing import Any, ClassVar

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from llmcore.budgets.base import Allowance
from llmcore.conf import settings
from llmcore.models.names import check_names
from llmcore.models.prompts import Skill, Snippet
from llmcore.models.providers import LanguageModel
from llmcore.models.tools import ToolPreset
from llmcore.models.versions import Versioned


class Configuration(Versioned):
    """Named: model + parameters + system prompt + skills + snippets + tool groups + limits."""

    version_kind = "configuration"
    version_relations = ("model__provider", "tool_preset", "summarizer")

    class Thinking(models.TextChoices):
        DEFAULT = "", _("the model's default")
        OFF = "off", _("off")
        LOW = "low", _("low")
        MEDIUM = "medium", _("medium")
        HIGH = "high", _("high")

    class ToolChoice(models.TextChoices):
        DEFAULT = "", _("the model decides")
        REQUIRED = "required", _("a call is required in the first round")

    slug = models.SlugField(_("slug"), unique=True)
    name = models.CharField(_("name"), max_length=100)
    description = models.TextField(_("description"), blank=True)
    model = models.ForeignKey(LanguageModel, models.PROTECT, related_name="configurations", verbose_name=_("model"))
    system_prompt = models.TextField(_("system prompt"), blank=True)
    temperature = models.FloatField(
        _("temperature"), null=True, blank=True, validators=[MinValueValidator(0), MaxValueValidator(2)]
    )
    top_p = models.FloatField(
        _("top p"), null=True, blank=True, validators=[MinValueValidator(0), MaxValueValidator(1)]
    )
    max_tokens = models.PositiveIntegerField(
        _("max tokens"),
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text=_("Most tokens of one answer."),
    )
    thinking = models.CharField(_("thinking"), max_length=10, blank=True, default="", choices=Thinking.choices)
    seed = models.BigIntegerField(_("seed"), null=True, blank=True)
    stream = models.BooleanField(_("stream"), default=True)
    max_rounds = models.PositiveSmallIntegerField(
        _("max rounds"),
        default=5,
        validators=[MinValueValidator(1)],
        help_text=_("One model call each; bounded by the site's own limit."),
    )
    max_tool_result_bytes = models.PositiveIntegerField(
        _("longest tool result (bytes)"), default=50_000, validators=[MinValueValidator(200)]
    )
    skill_budget_bytes = models.PositiveIntegerField(
        _("skill budget (bytes)"),
        default=24_000,
        help_text=_("Skills over it are left out whole, from the last one on."),
    )
    max_run_tokens = models.PositiveIntegerField(
        _("token limit of a run"),
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text=_("Prompts and answers of all its calls. Blank: only the site's own limit."),
    )
    max_run_cost = models.DecimalField(
        _("cost limit of a run (USD)"),
        max_digits=12,
        decimal_places=4,
        null=True,
        blank=True,
        validators=[MinValueValidator(Decimal("0.0001"))],
        help_text=_("A run ends before the call that might cost more. Its models need prices for that."),
    )
    min_skill_trust = models.SmallIntegerField(
        _("least trust of skills"), choices=Skill.Trust.choices, default=Skill.Trust.UNTRUSTED
    )
    compact_at = models.PositiveSmallIntegerField(
        _("summarize at (%)"),
        default=80,
        validators=[MaxValueValidator(100)],
        help_text=_(
            "Of the room that the model's window has for a prompt. Where a prompt takes more, the oldest turns are "
            "summarized. 0: never; a full window ends the run."
        ),
    )
    keep_turns = models.PositiveSmallIntegerField(
        _("turns that stay"),
        default=3,
        validators=[MinValueValidator(1), MaxValueValidator(100)],
        help_text=_("The newest ones, which are not summarized while there is room for them."),
    )
    summarizer = models.ForeignKey(
        "self",
        models.PROTECT,
        null=True,
        blank=True,
        related_name="summarizer_of",
        verbose_name=_("summarized by"),
        help_text=_(
            "A configuration whose model, parameters and system prompt write the summaries, such as one of a cheap "
            "model. Blank: the model of the run itself."
        ),
    )
    fallbacks = models.ManyToManyField(
        LanguageModel, through="ConfigurationFallback", blank=True, related_name="fallback_of"
    )
    skills = models.ManyToManyField(Skill, through="ConfigurationSkill", blank=True)
    snippets = models.ManyToManyField(Snippet, through="ConfigurationSnippet", blank=True)
    snippet_tags = models.JSONField(
        _("snippets by tag"),
        default=list,
        blank=True,
        help_text=_("Tags, with commas. All snippets with one of them follow the listed ones, by slug."),
    )
    tool_groups = models.JSONField(
        _("tool groups"), default=list, blank=True, help_text=_("Names of the groups whose tools a run may use.")
    )
    # None: all tools of the groups.
    tools = models.JSONField(
        _("tools"),
        null=True,
        blank=True,
        default=None,
        help_text=_("Names of the tools offered by default; leave empty for all of the groups."),
    )
    # Its tools instead of `tools`.
    tool_preset = models.ForeignKey(
        ToolPreset,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="configurations",
        verbose_name=_("tool preset"),
        help_text=_("A named set of tools, offered by default in place of the ones above."),
    )
    tool_choice = models.CharField(_("tool choice"), max_length=10, blank=True, default="", choices=ToolChoice.choices)
    workspace = models.CharField(
        _("workspace"),
        max_length=64,
        blank=True,
        default="",
        help_text=_("The folder that its file tools work in; the site's settings say which there are."),
    )
    requires_other_decider = models.BooleanField(
        _("somebody else decides"),
        default=False,
        help_text=_("Whoever started a run can't approve or deny what it proposes."),
    )
    enabled = models.BooleanField(_("enabled"), default=True)
    version = models.PositiveIntegerField(_("version"), default=1, editable=False)
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    class Meta:
        ordering = ["name"]
        verbose_name = _("configuration")
        verbose_name_plural = _("configurations")

    def __str__(self) -> str:
        return self.name

    @property
    def ceiling(self) -> Allowance:
        """What one run may use: the lower ones of its own limits and the site's."""
        site_cost = settings.LLM_MAX_RUN_COST
        # A version of the row has its numbers as texts.
        costs = (None if cost is None else Decimal(cost) for cost in (self.max_run_cost, site_cost))
        tokens = (self.max_run_tokens, settings.LLM_MAX_RUN_TOKENS)
        return Allowance(
            tokens=min((limit for limit in tokens if limit is not None), default=None),
            cost=min((limit for limit in costs if limit is not None), default=None),
        )

    def clean(self) -> None:
        check_names("tool_groups", self.tool_groups)
        check_names("snippet_tags", self.snippet_tags)
        if self.tools is not None:
            check_names("tools", self.tools)
        errors: dict[str, Any] = {}
        if self.tool_preset_id is not None and self.tools is not None:
            errors["tool_preset"] = _("Choose a preset or tick tools, not both.")
        if self.summarizer_id is not None and self.summarizer_id == self.pk:
            errors["summarizer"] = _("Leave it blank to have its own model write the summaries.")
        if self.max_rounds and self.max_rounds > settings.LLM_MAX_ROUNDS:
            errors["max_rounds"] = _("This site allows at most %d rounds: lower it.") % settings.LLM_MAX_ROUNDS
        if self.model_id is not None:
            errors.update(self.asked_too_much_of(self.model))
        if errors:
            raise ValidationError(errors)

    def duplicate(self) -> Configuration:
        """A saved copy, skills and snippets included, under the next free slug; it begins at version 1."""
        copy = Configuration.objects.get(pk=self.pk)
        copy.pk = None
        copy.slug = free_slug_like(self.slug)
        copy.name = with_suffix(self.name, " (copy)", 100)
        copy.version = 1
        copy.save(force_insert=True, keep_version=False)
        for fallback in self.configurationfallback_set.all():
            ConfigurationFallback.objects.create(
                configuration=copy, model_id=fallback.model_id, position=fallback.position
            )
        for entry in self.configurationskill_set.all():
            ConfigurationSkill.objects.create(configuration=copy, skill_id=entry.skill_id, position=entry.position)
        for place in self.configurationsnippet_set.all():
            ConfigurationSnippet.objects.create(
                configuration=copy, snippet_id=place.snippet_id, position=place.position
            )
        copy.keep_version()
        return copy

    def version_fields(self) -> dict[str, Any]:
        """Other rows by the names that people know, skills and snippets in their order."""
        return {
            **super().version_fields(),
            "model": self.model.path,
            "fallbacks": [entry.model.path for entry in self.configurationfallback_set.all()],
            "tool_preset": self.tool_preset.slug if self.tool_preset else "",
            "summarizer": self.summarizer.slug if self.summarizer else None,
            "skills": [place.skill.slug for place in self.configurationskill_set.all()],
            "snippets": [place.snippet.slug for place in self.configurationsnippet_set.all()],
        }

    def tagged_snippets(self) -> list[Snippet]:
        """The snippets that its tags bring, by slug, also those that it lists; without tags no query is made."""
        tags = set(self.snippet_tags)
        # Tags are JSON, in which not every database can search.
        return [row for row in Snippet.objects.order_by("slug") if tags.intersection(row.tags)] if tags else []

    def asked_too_much_of(self, model: LanguageModel, *, of_fallback: bool = False) -> dict[str, str]:
        """What this configuration wants that `model` can't do, by field, each with what to change.

        A fallback may do without a temperature or an effort: what it takes none of is left out of its requests.
        """
        errors = {}
        cap = model.max_output_tokens
        if self.max_tokens and cap and self.max_tokens > cap:
            errors["max_tokens"] = _("%(model)s writes at most %(cap)d tokens: lower it.") % {
                "model": model,
                "cap": cap,
            }
        if self.tool_groups and not model.supports_tools:
            errors["tool_groups"] = _("%s can't call tools: untick all groups or choose another model.") % model
        if of_fallback:
            return errors
        if self.temperature is not None and not model.supports_temperature:
            errors["temperature"] = _("%s takes no temperature: leave it blank.") % model
        if self.thinking and not model.supports_thinking:
            errors["thinking"] = _("%s takes no thinking effort: choose the model's default.") % model
        if self.tool_choice and not (model.supports_tool_choice or model.tools_as_json):
            errors["tool_choice"] = _("%s can't be told to call a tool: let it decide.") % model
        return errors


class PlacedManager(models.Manager[Any]):
    """Rows with what stands in the place, in one query, also where they are prefetched."""

    def get_queryset(self) -> models.QuerySet[Any]:
        return super().get_queryset().select_related(self.model.what)


class Placed(models.Model):
    """Something of a configuration, in its place among others of its kind."""

    # The relation to what stands there, as `select_related` takes it.
    what: ClassVar[str]
    configuration = models.ForeignKey(Configuration, models.CASCADE, verbose_name=_("configuration"))
    position = models.PositiveSmallIntegerField(_("position"), default=0)

    objects = PlacedManager()

    class Meta:
        abstract = True
        ordering = ["position", "pk"]


class ConfigurationFallback(Placed):
    """A model that is asked instead where those before it can't answer, in its place."""

    what = "model__provider"
    model = models.ForeignKey(LanguageModel, models.PROTECT, related_name="+", verbose_name=_("model"))

    class Meta(Placed.Meta):
        verbose_name = _("fallback model")
        verbose_name_plural = _("fallback models")
        constraints = [
            models.UniqueConstraint(fields=["configuration", "model"], name="llmcore_configuration_fallback_unique")
        ]

    def __str__(self) -> str:
        return str(self.model)


class ConfigurationSkill(Placed):
    """A skill of a configuration, in its place."""

    what = "skill"
    skill = models.ForeignKey(Skill, models.CASCADE, verbose_name=_("skill"))

    class Meta(Placed.Meta):
        verbose_name = _("skill")
        verbose_name_plural = _("skills")
        constraints = [
            models.UniqueConstraint(fields=["configuration", "skill"], name="llmcore_configuration_skill_unique")
        ]

    def __str__(self) -> str:
        return str(self.skill)


class ConfigurationSnippet(Placed):
    """A snippet of a configuration, in its place."""

    what = "snippet"
    snippet = models.ForeignKey(Snippet, models.CASCADE, verbose_name=_("prompt snippet"))

    class Meta(Placed.Meta):
        verbose_name = _("prompt snippet")
        verbose_name_plural = _("prompt snippets")
        constraints = [
            models.UniqueConstraint(fields=["configuration", "snippet"], name="llmcore_configuration_snippet_unique")
        ]

    def __str__(self) -> str:
        return str(self.snippet)


def with_suffix(text: str, suffix: str, max_length: int) -> str:
    return text[: max_length - len(suffix)] + suffix


def free_slug_like(slug: str) -> str:
    taken = set(Configuration.objects.values_list("slug", flat=True))
    suffixes = itertools.chain(["-copy"], (f"-copy-{number}" for number in itertools.count(2)))
    return next(free for suffix in suffixes if (free := with_suffix(slug, suffix, 50)) not in taken)
