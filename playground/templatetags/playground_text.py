"""Texts that come from models and tools, made safe to show."""

from __future__ import annotations

from typing import Any

from django import template
from django.utils.safestring import SafeString

from llmcore.errors import advice_of
from llmcore.tools.unseen import visible
from playground import markdown
from playground.reading.boxes import Box
from playground.reading.detail import Detail
from playground.reading.json_tree import JsonTree, one_line
from playground.reading.visible import unseen_marked

register = template.Library()
register.filter("markdown", markdown.render)
register.filter("code_spans", markdown.code_spans)
register.filter("figures", markdown.figures)
register.filter("one_line", one_line)
register.filter("unseen_marked", unseen_marked)
register.filter("unseen", lambda text: unseen_marked(visible(text)))
register.filter("marked", lambda text, search: search.marked(str(text)))
register.filter("error_kind", lambda kind: str(kind).replace("_", " "))
register.filter("advice", advice_of)


@register.inclusion_tag("playground/run/box.html", takes_context=True)
def box(context: dict[str, Any], box: Box, css: str = "") -> dict[str, Any]:
    """A box of code: JSON as a tree, anything else as text."""
    url = _url(context, box)
    return {"box": box, "url": url, "tree": tree_of(box, url), "css": css}


@register.inclusion_tag("playground/run/prose.html", takes_context=True)
def prose(context: dict[str, Any], box: Box) -> dict[str, Any]:
    """The text of a message, without a frame of its own; JSON as a tree."""
    url = _url(context, box)
    return {"box": box, "url": url, "tree": tree_of(box, url)}


@register.simple_tag(takes_context=True)
def box_url(context: dict[str, Any], box: Box) -> str:
    """Where a box is fetched that is not shown."""
    return _url(context, box)


def tree_of(box: Box, url: str) -> SafeString | None:
    return JsonTree(url).value(box.value) if box.is_json else None


def _url(context: dict[str, Any], box: Box) -> str:
    """Where the rest of a box is fetched; a box inside a message belongs to that message."""
    detail: Detail = context["detail"]
    message = context.get("message")
    place = {"message": message.number - 1} if message is not None else {}
    return detail.record.url(tab=detail.tab.slug, **place, box=box.name)
