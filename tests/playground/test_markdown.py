"""Markdown from models: rendered, and harmless whatever it says."""

from __future__ import annotations

import re

import pytest

from playground.markdown import MAX_CHARS, code_spans, figures, render


def test_what_answers_are_made_of_is_rendered() -> None:
    html = render("# Title\n\n**bold** and `code`\n\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n~~gone~~")

    for expected in ("<h1>Title</h1>", "<strong>bold</strong>", "<code>code</code>", "<li>one</li>", "<td>1</td>"):
        assert expected in html
    assert "<s>gone</s>" in html


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        '<a href="https://example.com" onclick="alert(1)">x</a>',
        "<svg/onload=alert(1)>",
        "<style>body{display:none}</style>",
        "<iframe src=https://example.com></iframe>",
        "<form action=/admin/logout/><button>x</button></form>",
        "`<script>alert(1)</script>`",
        "```\n<script>alert(1)</script>\n```",
        "| <script>alert(1)</script> |\n|---|\n| <b onmouseover=alert(1)>x</b> |",
        '[x](https://example.com "><script>alert(1)</script>")',
        '<https://example.com/"><script>alert(1)</script>>',
    ],
)
def test_markup_in_the_text_stays_text(text: str) -> None:
    html = render(text)

    tags = set(re.findall(r"<\s*/?\s*([a-zA-Z0-9]+)", html))
    assert tags <= {"p", "code", "pre", "a", "table", "thead", "tbody", "tr", "th", "td"}
    assert not re.search(r"<[^>]*\son\w+=", html)


@pytest.mark.parametrize(
    "target",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "java&#115;cript:alert(1)",
        "java\tscript:alert(1)",
        "vbscript:x",
        "data:text/html,<script>alert(1)</script>",
        "file:///etc/passwd",
        "/admin/logout/",
        "//example.com/x",
        "../x",
        "ftp://example.com/x",
    ],
)
def test_only_web_and_mail_links_lead_anywhere(target: str) -> None:
    for text in (f"[x]({target})", f"[x](<{target}>)", f"[x][y]\n\n[y]: <{target}>", f"<{target}>"):
        assert "href" not in render(text), text


@pytest.mark.parametrize("target", ["https://example.com/a?b=c", "http://example.com", "mailto:a@example.com"])
def test_links_tell_the_other_side_nothing(target: str) -> None:
    html = render(f"[x]({target})")

    assert f'href="{target}"' in html
    assert 'rel="noopener nofollow noreferrer"' in html


def test_an_image_is_only_described() -> None:
    html = render("![a <b>chart</b>](https://example.com/track.png)\n\n![ref]\n\n[ref]: https://example.com/x.png")

    assert "<img" not in html
    assert "example.com" not in html
    assert "[image: " in html


def test_style_attributes_never_arrive() -> None:
    assert "style" not in render("| a |\n|--:|\n| 1 |")


def test_nesting_without_end_is_rendered_in_time() -> None:
    assert render(">" * 5_000 + " deep")
    assert render("- " * 2_000 + "deep")
    assert render("[" * 5_000)


def test_a_text_too_long_to_render_is_shown_as_it_is() -> None:
    html = render("**x** <b>" + "y" * MAX_CHARS)

    assert html.startswith('<pre class="pg-text">**x** &lt;b&gt;')


def test_backtick_spans_become_code_and_the_rest_stays_text() -> None:
    assert code_spans("`a<b>` & `c`") == "<code>a&lt;b&gt;</code> &amp; <code>c</code>"
    assert code_spans("one ` only <i>") == "one ` only &lt;i&gt;"
    assert figures("`1` in") == "<b>1</b> in"
