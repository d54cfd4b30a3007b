"""Configurations in the admin."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db import transaction
from django.db.models import Count, ForeignKey, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy, ngettext

from llmcore.admin.versions import VersionedAdmin
from llmcore.forms.configurations import ConfigurationForm, FallbackFormSet, ModelChoiceField, PlaceForm
from llmcore.models import (
    Configuration,
    ConfigurationFallback,
    ConfigurationSkill,
    ConfigurationSnippet,
    LanguageModel,
)


class PlaceInline(admin.TabularInline):
    """Skills or snippets of a configuration, in their order."""

    form = PlaceForm
    extra = 0

    def formfield_for_foreignkey(self, db_field: ForeignKey, request: HttpRequest, **kwargs: Any) -> Any:
        field = super().formfield_for_foreignkey(db_field, request, **kwargs)
        # Read once: each row of the inline would query its own choices.
        if isinstance(field, forms.ModelChoiceField):
            field.choices = list(field.choices)  # type: ignore[arg-type]
        return field


class FallbackInline(PlaceInline):
    model = ConfigurationFallback
    formset = FallbackFormSet
    fields = ["position", "model"]
    verbose_name_plural = gettext_lazy("fallback models (asked in this order where the model can't answer)")

    def formfield_for_foreignkey(self, db_field: ForeignKey, request: HttpRequest, **kwargs: Any) -> Any:
        return super().formfield_for_foreignkey(db_field, request, **(kwargs | model_field()))


class SkillInline(PlaceInline):
    model = ConfigurationSkill
    fields = ["position", "skill"]
    verbose_name_plural = gettext_lazy("skills (in the first user message)")


class SnippetInline(PlaceInline):
    model = ConfigurationSnippet
    fields = ["position", "snippet"]
    verbose_name_plural = gettext_lazy("prompt snippets (each a system message of its own)")


@admin.register(Configuration)
class ConfigurationAdmin(VersionedAdmin):
    """What runs are started from."""

    class Media:
        css = {"all": ["llmcore/admin.css"]}

    form = ConfigurationForm
    inlines = [FallbackInline, SkillInline, SnippetInline]
    actions = ["duplicate"]
    list_display = ["name", "model", "provider", "skills_count", "snippets_count", "groups", "enabled", "updated_at"]
    list_filter = ["enabled", "model__provider", "model"]
    list_select_related = ["model__provider"]
    search_fields = ["name", "slug", "description", "system_prompt", "model__name", "model__label"]
    prepopulated_fields = {"slug": ["name"]}
    readonly_fields = ["version", "updated_at", "versions"]
    fieldsets = [
        (None, {"fields": ["name", "slug", "description", "model", "enabled", ("version", "updated_at")]}),
        (
            gettext_lazy("System prompt"),
            {
                "fields": ["system_prompt", "snippet_tags"],
                "description": gettext_lazy("The first message of each run. Snippets follow it, skills come later."),
            },
        ),
        (
            gettext_lazy("Parameters"),
            {
                "fields": [("temperature", "top_p"), ("max_tokens", "seed"), "thinking", "stream"],
                "description": gettext_lazy("Sent with every call of a run. Blank leaves it to the provider."),
            },
        ),
        (
            gettext_lazy("Tools"),
            {
                "fields": ["tool_groups", "tools", "tool_preset", "tool_choice", "workspace", "requires_other_decider"],
                "description": gettext_lazy(
                    "A run is offered a tool only if this site, this configuration, its skills and the user's "
                    "permissions all allow it."
                ),
            },
        ),
        (
            gettext_lazy("Limits"),
            {
                "fields": [
                    "max_rounds",
                    ("max_run_tokens", "max_run_cost"),
                    "max_tool_result_bytes",
                    "skill_budget_bytes",
                    "min_skill_trust",
                ]
            },
        ),
        (
            gettext_lazy("When the window fills up"),
            {
                "fields": [("compact_at", "keep_turns"), "summarizer"],
                "description": gettext_lazy(
                    "Long runs go on although the model's window is limited: old turns give way to a summary of them. "
                    "System messages and the task always stay."
                ),
            },
        ),
        (gettext_lazy("Versions"), {"fields": ["versions"], "classes": ["collapse"]}),
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Configuration]:
        rows: QuerySet[Configuration] = super().get_queryset(request)
        return rows.annotate(
            skills_count=Count("configurationskill", distinct=True),
            snippets_count=Count("configurationsnippet", distinct=True),
        )

    def formfield_for_foreignkey(self, db_field: ForeignKey, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name == "model":
            kwargs |= model_field()
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def save_model(self, request: HttpRequest, obj: Configuration, form: Any, change: bool) -> None:
        # In the list no skills and snippets follow; in the form they do, and belong to the same version.
        obj.saved_by = request.user.get_username()
        obj.save(keep_version=not isinstance(form, ConfigurationForm))

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        row = form.instance
        number_places(row.configurationfallback_set.all())
        number_places(row.configurationskill_set.all())
        number_places(row.configurationsnippet_set.all())
        row.keep_version(by=row.saved_by)

    @admin.action(description=gettext_lazy("Duplicate selected configurations"), permissions=["add"])
    def duplicate(self, request: HttpRequest, queryset: QuerySet[Configuration]) -> None:
        with transaction.atomic():
            for configuration in queryset:
                copy = configuration.duplicate()
                self.log_addition(request, copy, [{"added": {}}])
        count = len(queryset)
        text = ngettext("%d configuration was duplicated.", "%d configurations were duplicated.", count) % count
        self.message_user(request, text, messages.SUCCESS)

    @admin.display(description=gettext_lazy("provider"), ordering="model__provider__name")
    def provider(self, obj: Configuration) -> str:
        return str(obj.model.provider)

    @admin.display(description=gettext_lazy("skills"), ordering="skills_count")
    def skills_count(self, obj: Any) -> int:
        count: int = obj.skills_count
        return count

    @admin.display(description=gettext_lazy("snippets"), ordering="snippets_count")
    def snippets_count(self, obj: Any) -> int:
        count: int = obj.snippets_count
        return count

    @admin.display(description=gettext_lazy("tool groups"), empty_value="–")
    def groups(self, obj: Configuration) -> str:
        return ", ".join(map(str, obj.tool_groups))


def model_field() -> dict[str, Any]:
    """How a model is chosen: with its provider's name."""
    return {"form_class": ModelChoiceField, "queryset": LanguageModel.objects.select_related("provider")}


def number_places(entries: QuerySet[Any]) -> None:
    """Number the entries from 1 on, in the order that they have."""
    moved = []
    for position, entry in enumerate(entries.order_by("position", "pk"), start=1):
        if entry.position != position:
            entry.position = position
            moved.append(entry)
    entries.model.objects.bulk_update(moved, ["position"])
