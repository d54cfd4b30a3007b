"""The versions of a skill, snippet or configuration in the admin: who saved each, and a page for every one."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, URLPattern, path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from llmcore.models import PromptVersion
from llmcore.prompts.changes import DERIVED, FieldChange, as_text, field_changes

LISTED = 30


class VersionedAdmin(admin.ModelAdmin):
    """An admin page whose saves say who saved, with the earlier versions to read."""

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        obj.saved_by = request.user.get_username()
        super().save_model(request, obj, form, change)

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.version_view)
        name = f"{self.opts.app_label}_{self.opts.model_name}_version"
        return [path("<int:object_id>/versions/<int:number>/", view, name=name), *super().get_urls()]

    def version_view(self, request: HttpRequest, object_id: int, number: int) -> HttpResponse:
        """One version, what it changed, and what has changed since; also of what has been deleted since."""
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        kept = PromptVersion.objects.filter(kind=self.model.version_kind, object_id=object_id)
        version = kept.filter(number=number).first()
        if version is None:
            raise Http404
        before = kept.filter(number__lt=number).first()
        after = kept.filter(number__gt=number).last()
        current = self.model._default_manager.filter(pk=object_id).first()
        context = {
            **self.admin_site.each_context(request),
            "title": _("%(name)s, version %(number)d") % {"name": version.name, "number": number},
            "opts": self.opts,
            "version": version,
            "fields": shown_fields(version),
            "before": before,
            "before_url": version_url(before),
            "after": after,
            "after_url": version_url(after),
            "changed": changes(before, version),
            "current": current,
            "since": field_changes(version.fields, current.version_fields()) if current else [],
        }
        return TemplateResponse(request, "admin/llmcore/version.html", context)

    @admin.display(description=gettext_lazy("earlier versions"))
    def versions(self, obj: Any) -> str:
        kept = list(PromptVersion.objects.filter(kind=obj.version_kind, object_id=obj.pk)[: LISTED + 1])
        if not kept:
            return _("Kept from the next save or run on.")
        links = [(version_url(version), version.number, _said(version)) for version in kept[:LISTED]]
        listed = format_html_join("", '<li><a href="{}">' + _("version") + " {}</a> {}</li>", links)
        more = format_html("<li>{}</li>", _("Older ones are linked from these.")) if len(kept) > LISTED else ""
        return format_html('<ul class="version-list">{}{}</ul>', listed, more)


def _said(version: PromptVersion) -> str:
    at = version.saved_at.strftime("%Y-%m-%d %H:%M UTC")
    return f"{at}, {version.saved_by}" if version.saved_by else at


def shown_fields(version: PromptVersion) -> list[FieldChange]:
    """The fields of a version as texts, the long ones last."""
    fields = [
        FieldChange(name=name, before="", after=as_text(value))
        for name, value in version.fields.items()
        if name not in DERIVED
    ]
    return sorted(fields, key=lambda field: field.is_text)


def changes(before: PromptVersion | None, version: PromptVersion) -> list[FieldChange]:
    return field_changes(before.fields, version.fields) if before else []


def version_url(version: PromptVersion | None) -> str:
    if version is None:
        return ""
    try:
        return reverse(f"admin:llmcore_{version.kind}_version", args=[version.object_id, version.number])
    except NoReverseMatch:
        return ""
