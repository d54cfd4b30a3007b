"""Whatever models, tools, providers and people say is text on every page, and no page lets in what is not its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest
from django.test import Client

from llmcore.models import Provider
from playground.models import Run, RunTag, RunTool
from tests.factories import (
    ConfigurationFactory,
    LanguageModelFactory,
    ProviderFactory,
    SkillFactory,
    SnippetFactory,
    UserFactory,
)
from tests.playground import test_run_panels as panels

pytestmark = pytest.mark.django_db

# Ends texts, attributes, elements, templates and Markdown, and brings markup, handlers and htmx's attributes.
EVIL = (
    "needle</pre></textarea></title>\"'` onfocus=alert(1) x=`<img src=x onerror=alert(1)><script>alert(1)</script>"
    "<a href='javascript:alert(1)' hx-get=/evil>k</a>{{ 7|add:7 }}{% now 'Y' %} [m](javascript:alert(1)) ![i](//evil/x)"
    " [n](data:text/html,x) `<b hx-on:click=alert(1)>` %22%3E&lt;script&gt;"
)
OWN_SCRIPTS = ("/static/",)


class Reader(HTMLParser):
    """Collects the elements of a page with their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))


def problems_of(html: str) -> Iterator[str]:
    reader = Reader()
    reader.feed(html)
    for tag, attributes in reader.elements:
        # The admin's own lists have one in their search.
        if tag == "img" and attributes.get("src", "").startswith("/static/admin/"):
            continue
        if tag in ("img", "iframe", "object", "embed", "base", "style") and attributes:
            yield f"{tag} {attributes}"
        if tag == "script" and not attributes.get("src", "").startswith(OWN_SCRIPTS):
            yield f"script {attributes}"
        for name, value in attributes.items():
            if name.startswith(("on", "hx-on")) or name in ("style", "x"):
                if (tag, name) in (("rect", "x"), ("text", "x"), ("svg", "x")):
                    continue
                yield f"{tag} {name}={value[:40]}"
            if name.startswith("hx-") and "evil" in value and "needle" not in value:
                yield f"{tag} {name}={value[:40]}"
            if name in ("href", "src", "action") and value.split(":")[0].strip().lower() in ("javascript", "data"):
                yield f"{tag} {name}={value[:40]}"


@pytest.fixture
def hostile(monkeypatch: pytest.MonkeyPatch) -> tuple[Client, Run]:
    """A reader who may see all, and a run in which everything that can be said is evil."""
    monkeypatch.setattr(panels, "HOSTILE", EVIL)
    user = UserFactory(is_superuser=True, username=EVIL[:150])
    provider: Provider = ProviderFactory(name=EVIL[:100])
    model = LanguageModelFactory(provider=provider, name=EVIL[:200], label=EVIL[:200])
    configuration = ConfigurationFactory(
        model=model,
        name=EVIL[:100],
        description=EVIL,
        system_prompt=EVIL,
        skills=[SkillFactory(name=EVIL[:100], body=EVIL)],
        snippets=[SnippetFactory(name=EVIL[:100], body=EVIL, tags=[EVIL])],
    )
    run = panels.hostile_run(user)
    finding = {"id": "x", "title": EVIL, "detail": EVIL, "impact": EVIL, "where": EVIL, "tab": EVIL, "severity": EVIL}
    request = {"configuration": configuration.slug, "prompt": EVIL, "system_override": EVIL, "skills": [EVIL]}
    Run.objects.filter(pk=run.pk).update(
        title=EVIL[:200], note=EVIL, answer=EVIL, detail=EVIL, model_name=EVIL[:200], configuration_name=EVIL[:100],
        findings=[{**finding, "sequence": 1}, {**finding, "sequence": None}], request=request,
        error={"message": EVIL, "kind": EVIL, "status": 500}, configuration=configuration,
    )  # fmt: skip
    RunTag.objects.create(run=run, name=EVIL[:40])
    RunTool.objects.create(run=run, name=EVIL[:200])
    run.refresh_from_db()
    client = Client()
    client.force_login(user)
    return client, run


def beginnings(run: Run) -> list[str]:
    base = "/admin/playground/"
    found = [base, f"{base}?q=needle", f"{base}?q=%22%3E%3Cscript%3E&tag=%22%3E%3Cimg&model=%22%3E%3Cimg&who=%22%3E"]
    found += [f"{base}live/?ids={run.pk}&tokens=1&ms=1&chips=1&q=needle", f"{base}new/?from={run.pk}"]
    found += [f"{base}runs/{run.pk}/steps/{sequence}/" for sequence in range(run.last_sequence + 1)]
    return [*found, f"{base}runs/{run.pk}/steps/1/?tab=%22%3E%3Cscript%3E&box=m0-0-0&message=%22%3E&pointer="]


def linked(html: str, address: str) -> Iterator[str]:
    """What the page, or a script on it, would ask for."""
    reader = Reader()
    reader.feed(html)
    for _, attributes in reader.elements:
        for name in ("href", "hx-get", "data-copy-url"):
            link = attributes.get(name, "")
            if link.startswith("/admin/playground/") and "/events/" not in link and "/export/" not in link:
                yield link
        if attributes.get("role") == "tab":
            yield f"{address.partition('?')[0]}?tab={attributes['data-tab']}"


def test_nothing_that_is_said_becomes_markup_on_any_page(hostile: tuple[Client, Run]) -> None:
    client, run = hostile
    waiting = beginnings(run)
    seen = set(waiting)
    for address in waiting:
        response = client.get(address, headers={"HX-Request": "true"} if "/steps/" in address else {})
        # The admin's own address of the list leads to it.
        assert response.status_code in (200, 302, 404), address
        # A file may load nothing at all.
        loads = (
            "default-src 'none'; sandbox"
            if "attachment" in response.get("Content-Disposition", "")
            else "img-src 'self'"
        )
        assert loads in response.headers["Content-Security-Policy"], address
        assert "unsafe" not in response.headers["Content-Security-Policy"]
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        if response.headers["Content-Type"].startswith("text/html"):
            html = response.content.decode()
            assert list(problems_of(html)) == [], address
            new = [link for link in dict.fromkeys(linked(html, address)) if link not in seen]
            waiting += new
            seen.update(new)
    assert len(seen) > 100


def test_nothing_that_is_typed_becomes_markup_in_an_answer_to_it(hostile: tuple[Client, Run]) -> None:
    client, run = hostile
    form = {
        "configuration": run.configuration.slug, "prompt": EVIL, "override": "replace", "system_override": EVIL,
        "skills": [EVIL], "max_rounds": EVIL, "title": "", "tags": EVIL, "note": EVIL, "seen": EVIL,
        "run": [run.pk], "tag": EVIL[:30],
    }  # fmt: skip
    for view in ("source", "plain", "json", "exact", EVIL):
        for address in (
            "new/",
            "new/choices/",
            "new/preview/",
            "tag/",
            f"runs/{run.pk}/about/",
            f"runs/{run.pk}/note/",
        ):
            # A script that sends the form of a new run gets no answer to show.
            headers = {} if address == "new/" else {"HX-Request": "true"}
            response = client.post(f"/admin/playground/{address}", {**form, "view": view}, headers=headers)
            assert response.status_code in (200, 422), address
            assert list(problems_of(response.content.decode())) == [], address


def test_news_of_a_live_run_are_text(hostile: tuple[Client, Run]) -> None:
    client, run = hostile
    Run.objects.filter(pk=run.pk).update(status="running", reason="", ended_at=None)

    news = json.loads(client.get(f"/admin/playground/runs/{run.pk}/updates/").content)

    pieces = [value for event in news["events"] for name, value in event["data"].items() if "html" in name]
    assert len(pieces) > 10
    assert [problem for piece in pieces for problem in problems_of(piece)] == []
