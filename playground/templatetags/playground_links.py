"""Links to the admin's forms of what a prompt is made of, for those who may use them."""

from __future__ import annotations

from typing import Any

from django import template
from django.template.context import Context
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()

# What a source is called, which is also the name of its model.
EDITABLE = {"config": "configuration", "snippet": "snippet", "skill": "skill"}


@register.simple_tag(takes_context=True)
def edit_link(context: Context, source: str, object_id: int | None, words: str = "") -> SafeString | str:
    """Opens the form of the source in a new tab, so that the page with its unsent form stays; empty without the right
    to change it."""
    name: Any = EDITABLE.get(source)
    if name is None or not object_id or not context["request"].user.has_perm(f"llmcore.change_{name}"):
        return ""
    return format_html(
        '<a href="{}" target="_blank" class="nowrap">{}</a>',
        reverse(f"admin:llmcore_{name}_change", args=[object_id]),
        words or f"Edit {name}",
    )


@register.simple_tag(takes_context=True)
def version_link(context: Context, source: str, object_id: int | None, version: int | None) -> SafeString | str:
    """ "version 3", linked to what that version says for those who may see it."""
    if not version:
        return ""
    name: Any = EDITABLE.get(source)
    user = context["request"].user
    if name is None or object_id is None or not may_see(user, name):
        return format_html("<span>version {}</span>", version)
    url = reverse(f"admin:llmcore_{name}_version", args=[object_id, version])
    return format_html('<a href="{}" target="_blank" class="nowrap">version {}</a>', url, version)


def may_see(user: Any, model: str) -> bool:
    return bool(user.has_perm(f"llmcore.view_{model}") or user.has_perm(f"llmcore.change_{model}"))
