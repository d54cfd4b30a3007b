"""The small parts that every page is made of: icons, pills, source letters, bars."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from llmcore.prompts.assembly import Source
from playground.models import Run
from playground.reading.ends import look_of
from playground.reading.keys import KEYS

register = template.Library()

LETTERS = {
    Source.CONFIG: "C",
    Source.OVERRIDE: "O",
    Source.SNIPPET: "P",
    Source.SKILL: "S",
    Source.USER: "U",
    Source.ASSISTANT: "A",
    Source.TOOL: "T",
    Source.TOOLDEF: "D",
}


@register.simple_tag
def icon(name: str, css: str = "") -> SafeString:
    """An icon of the sprite; it says nothing to a screen reader, so a word stands beside it."""
    return format_html(
        '<svg class="pg-i{}" aria-hidden="true"><use href="#i-{}"/></svg>', mark_safe(" " + css) if css else "", name
    )


@register.simple_tag
def pill(run: Run) -> SafeString:
    """The status of a run, or its end: icon, word and color, different for each."""
    look = look_of(run)
    mark = icon(look.icon) if look.icon else mark_safe('<i class="pg-pulse"></i>')
    return format_html('<span class="pg-pill pg-pill--{}">{}{}</span>', look.css, mark, look.word)


@register.simple_tag
def source(kind: str, label: str = "") -> SafeString:
    """Where a piece of the prompt came from: letter, name and color."""
    kind = Source(kind)
    return format_html(
        '<span class="pg-src p-{}"><span class="pg-src__k" aria-hidden="true">{}</span>'
        '<span class="pg-src__n">{}</span></span>',
        kind.value,
        LETTERS[kind],
        label or kind.value,
    )


@register.simple_tag
def bar(segments: Iterable[Any], label: str = "", css: str = "") -> SafeString:
    """A bar of `segments`, each with `value` and `css` (as attributes or keys): rectangles in percent, no inline style.

    With a `label` it is an image of that name; without one it is hidden from screen readers, for the figures then
    stand beside it.
    """
    parts = [(float(_of(segment, "value") or 0), _of(segment, "css")) for segment in segments]
    whole = sum(value for value, _ in parts)
    rects = []
    x = 0.0
    for value, name in parts:
        if whole <= 0 or value <= 0:
            continue
        width = 100 * value / whole
        if x:
            rects.append((f"{x:.2f}", mark_safe('width="1"'), "sep"))
        rects.append((f"{x:.2f}", format_html('width="{}%"', f"{width:.2f}"), name))
        x += width
    named = format_html('role="img" aria-label="{}"', label) if label else mark_safe('aria-hidden="true"')
    return format_html(
        '<svg class="pg-bar{}" {}>{}</svg>',
        mark_safe(" " + css) if css else "",
        named,
        format_html_join("", '<rect x="{}%" {} height="100%" class="f-{}"/>', rects),
    )


@register.simple_tag
def swatch(name: str) -> SafeString:
    """The color of a bar's segment, for its legend."""
    return format_html('<svg class="pg-sw" aria-hidden="true"><rect width="10" height="10" class="f-{}"/></svg>', name)


@register.inclusion_tag("playground/_keys.html")
def keys_dialog(page: str) -> dict[str, Any]:
    """The dialog that lists the keys of `page`; `?` opens it."""
    return {"keys": KEYS[page]}


def _of(segment: Any, name: str) -> Any:
    return segment[name] if isinstance(segment, dict) else getattr(segment, name)
