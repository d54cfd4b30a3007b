"""What a reader sees of a page or a piece of one."""

from __future__ import annotations

import html as html_module
import re


def text_of(html: str) -> str:
    """The words of a page, on one line."""
    return html_module.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html)))
