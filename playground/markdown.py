"""Markdown from models as HTML that can do no harm: no markup of its own, no images, no scripts, no odd links."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import nh3
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererProtocol
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

TAGS = {
    *("p", "br", "hr", "blockquote", "pre", "code", "em", "strong", "s", "a", "ul", "ol", "li"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td"),
}
ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}}
SCHEMES = {"http", "https", "mailto"}
# Rendering takes time in proportion to the text, and deep nesting more than that.
MAX_CHARS = 200_000


@lru_cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": 20}).enable(["table", "strikethrough"])
    parser.add_render_rule("image", _image)
    return parser


def _image(renderer: RendererProtocol, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
    """An image would fetch from wherever the model says: only its description is shown."""
    return f"<em>[image: {escape(tokens[index].content)}]</em>"


def render(text: str) -> SafeString:
    """HTML of `text`. What is longer than `MAX_CHARS` is shown as it is, unrendered."""
    if len(text) > MAX_CHARS:
        return mark_safe(f'<pre class="pg-text">{escape(text)}</pre>')
    html = _parser().render(text)
    # The parser refuses dangerous links by a list of schemes; this keeps only known good ones, whatever it let pass.
    return mark_safe(
        nh3.clean(
            html,
            tags=TAGS,
            attributes=ATTRIBUTES,
            url_schemes=SCHEMES,
            url_relative="deny",
            link_rel="noopener nofollow noreferrer",
            strip_comments=True,
        )
    )


def code_spans(text: str) -> SafeString:
    """`text` escaped, with its `backtick` spans as code."""
    return _spans(text, "code")


def figures(text: str) -> SafeString:
    """`text` escaped, with its `backtick` spans set off as figures."""
    return _spans(text, "b")


def _spans(text: str, tag: str) -> SafeString:
    return mark_safe(re.sub(r"`([^`\n]+)`", rf"<{tag}>\1</{tag}>", escape(text)))
