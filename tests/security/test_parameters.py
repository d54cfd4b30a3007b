"""Whatever an address or a form says, the answer is a page: this site's, or one that says what is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, reverse

from llmcore.providers.scripted.scenario import Turn
from playground import urls
from playground.models import Run
from tests.factories import UserFactory
from tests.playground.driven import script

pytestmark = pytest.mark.django_db(transaction=True)

# What the pages read from an address or a form, and a name that none of them knows.
NAMES = [
    *("after", "at", "before", "configuration", "cost", "error", "example", "find", "from", "kind", "left"),
    *("max_rounds", "model", "note", "outcome", "page", "prompt", "q", "revision", "right", "round", "skill", "skills"),
    *("snippet", "snippets", "status", "tab", "tag", "tags", "title", "to", "tool", "tools", "user", "versions"),
    *("view", "until", "unknown"),
]
# PostgreSQL takes no NUL, and neither database a number that long.
TEXTS = ["\0", "9" * 40, "-1"]
# It streams, which takes another server than this one.
STREAMS = {"run_events"}


def patterns(found: Iterable[URLPattern | URLResolver]) -> Iterator[URLPattern]:
    for pattern in found:
        if isinstance(pattern, URLResolver):
            yield from patterns(pattern.url_patterns)
        elif pattern.name not in STREAMS:
            yield pattern


def addresses(run: Run) -> list[str]:
    """Of each page, with `run` where it wants one."""
    found = []
    for pattern in patterns(urls.urlpatterns):
        values = {
            name: run.pk if name == "pk" else 1 if type(converter).__name__ == "IntConverter" else "a"
            for name, converter in pattern.pattern.converters.items()
        }
        found.append(reverse(f"playground:{pattern.name}", kwargs=values))
    return found


@pytest.fixture
def admin(client: Client) -> Client:
    client.force_login(UserFactory(is_superuser=True))
    client.raise_request_exception = False
    return client


def failures(admin: Client, address: str, parameters: dict[str, str]) -> list[str]:
    answers = {"GET": admin.get(address, parameters), "POST": admin.post(address, parameters)}
    return [
        f"{how} {address} {parameters}: {answer.status_code}"
        for how, answer in answers.items()
        if answer.status_code >= 500
    ]


def test_no_parameter_breaks_a_page(admin: Client) -> None:
    with script(Turn(text="Done.")) as model:
        run = model.run()
        wrong = [
            failure
            for address in addresses(run)
            for text in TEXTS
            for failure in failures(admin, address, dict.fromkeys(NAMES, text))
        ]
        # With all of them at once, what is wrong with the first may hide the next.
        for page in ("runs", "new_run", "structured", "compare"):
            address = reverse(f"playground:{page}")
            wrong += [failure for name in NAMES for failure in failures(admin, address, {name: TEXTS[0]})]
    assert not wrong
