"""Skills and snippets in the admin."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from llmcore.admin.versions import VersionedAdmin
from llmcore.configuration import sha256_of_text
from llmcore.forms.prompts import SkillForm, SnippetForm
from llmcore.models import Skill, Snippet

VERSIONS: Any = (gettext_lazy("Versions"), {"fields": ["versions"], "classes": ["collapse"]})


class PromptPieceAdmin(VersionedAdmin):
    """What the pages of skills and snippets share: how often a piece is used, and its versions."""

    list_filter = ["enabled"]
    search_fields = ["name", "slug", "body"]
    prepopulated_fields = {"slug": ["name"]}

    class Media:
        css = {"all": ["llmcore/admin.css"]}

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request)
        counted: QuerySet[Any] = rows.annotate(used_by_count=Count("configuration"))
        return counted

    @admin.display(description=gettext_lazy("used by"), ordering="used_by_count")
    def used_by(self, obj: Any) -> int:
        count: int = obj.used_by_count
        return count


@admin.register(Skill)
class SkillAdmin(PromptPieceAdmin):
    """Skills; saving a body here is what makes it the true one."""

    form = SkillForm
    list_display = ["name", "slug", "trust", "sealed", "used_by", "version", "enabled", "updated_at"]
    list_filter = ["enabled", "trust"]
    search_fields = ["name", "slug", "description", "body"]
    readonly_fields = ["seal", "version", "updated_at", "versions"]

    def get_fieldsets(self, request: HttpRequest, obj: Skill | None = None) -> Any:
        body = ["body"]
        if obj is not None:
            body += (
                ["seal"] if obj.is_sealed or not self.has_change_permission(request, obj) else ["seal", "accept_body"]
            )
        return [
            (None, {"fields": ["name", "slug", "description", "trust", "enabled", ("version", "updated_at")]}),
            (gettext_lazy("Body"), {"fields": body}),
            (gettext_lazy("Tools"), {"fields": ["allowed_tools"]}),
            *([VERSIONS] if obj else []),
        ]

    def save_model(self, request: HttpRequest, obj: Skill, form: Any, change: bool) -> None:
        if form.seals:
            obj.seal()
        super().save_model(request, obj, form, change)

    @admin.display(description=gettext_lazy("unchanged since saved"), boolean=True)
    def sealed(self, obj: Skill) -> bool:
        return obj.is_sealed

    @admin.display(description=gettext_lazy("SHA-256 of the body"))
    def seal(self, obj: Skill) -> str:
        if obj.is_sealed:
            return obj.sha256
        return _(
            "Mismatch: the body was changed past this form, so runs leave this skill out. Saved was %(saved)s, the "
            "body now has %(present)s. Read the body; if it is right, tick the box below and save."
        ) % {"saved": obj.sha256 or _("nothing"), "present": sha256_of_text(obj.body)}


@admin.register(Snippet)
class SnippetAdmin(PromptPieceAdmin):
    """Prompt snippets."""

    form = SnippetForm
    list_display = ["name", "slug", "tag_list", "listed_by", "version", "enabled", "updated_at"]
    search_fields = ["name", "slug", "body", "tags"]
    readonly_fields = ["version", "updated_at", "versions"]
    fieldsets = [
        (None, {"fields": ["name", "slug", "tags", "enabled", ("version", "updated_at")]}),
        (gettext_lazy("Body"), {"fields": ["body"]}),
        VERSIONS,
    ]

    @admin.display(description=gettext_lazy("listed by"), ordering="used_by_count")
    def listed_by(self, obj: Any) -> int:
        """Configurations that take it by its tags are not among them."""
        return self.used_by(obj)

    @admin.display(description=gettext_lazy("tags"), empty_value="–")
    def tag_list(self, obj: Snippet) -> str:
        return ", ".join(map(str, obj.tags))
