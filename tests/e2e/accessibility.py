"""What axe-core says about the page as it is now."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

WORST = ("serious", "critical")
# Colors fade from one theme to the other, and half-way they are neither's.
RUN = """async ([part, options]) => {
    document.body.getBoundingClientRect();
    const ends = animation => animation.effect.getComputedTiming().endTime !== Infinity;
    await Promise.allSettled(document.getAnimations().filter(ends).map(animation => animation.finished));
    return axe.run(part || document, options);
}"""
# Colors are the only thing that a theme changes.
EVERYTHING: dict[str, Any] = {
    "resultTypes": ["violations"],
    # The admin labels its search by an icon with a name, which this rule takes for no label where a hint follows.
    "rules": {"label-title-only": {"enabled": False}},
}
COLORS: dict[str, Any] = {
    "resultTypes": ["violations"],
    "runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]},
}


def barriers(page: Page, part: str | None = None) -> list[str]:
    """The serious and critical findings in the light theme and in the dark one, with the element of each. `part` is a
    selector of what to look at; without one it is the whole page.

    The script is evaluated by the browser's own debugger, which no content policy stops.
    """
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE_SCRIPT + "; 0")
    found = []
    for theme, options in (("light", EVERYTHING), ("dark", COLORS)):
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        found += [f"{theme}: {line}" for line in _lines(page.evaluate(RUN, [part, options]))]
    return found


def _lines(result: dict[str, Any]) -> list[str]:
    return [
        f"{violation['id']} ({violation['impact']}): {node['html'][:160]} | {' '.join(map(str, node['target']))}\n    "
        + "; ".join(check["message"] for check in (*node["any"], *node["all"], *node["none"]))
        for violation in result["violations"]
        if violation["impact"] in WORST
        for node in violation["nodes"]
    ]
