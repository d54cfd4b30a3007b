"""From the admin's form of a configuration, skill or snippet to a new run with it."""

from __future__ import annotations

import html
import re

import pytest
from django.test import Client
from django.urls import reverse

from llmcore.models import Configuration, Skill, Snippet
from playground.models import Run
from tests.factories import ConfigurationFactory, SkillFactory, SnippetFactory, UserFactory
from tests.playground.new_run_form import client_with

pytestmark = pytest.mark.django_db

ADMIN = ("llmcore.change_configuration", "llmcore.change_skill", "llmcore.change_snippet")


def form_of(client: Client, row: Configuration | Skill | Snippet) -> str:
    page = client.get(reverse(f"admin:llmcore_{row._meta.model_name}_change", args=[row.pk]))
    return page.content.decode()


def link_in(page: str, words: str) -> str:
    found = re.search(rf'<a href="([^"]+)">{words}</a>', page)
    assert found, words
    return html.unescape(found[1])


def test_each_form_leads_to_a_new_run_with_what_it_is_of() -> None:
    client = client_with(*ADMIN, "playground.add_run")
    ConfigurationFactory(name="A, that comes first")
    configuration, skill, snippet = ConfigurationFactory(name="Z"), SkillFactory(), SnippetFactory()

    run_it = client.get(link_in(form_of(client, configuration), "Run this configuration")).content.decode()
    with_skill = client.get(link_in(form_of(client, skill), "Try in a run")).content.decode()
    with_snippet = client.get(link_in(form_of(client, snippet), "Try in a run")).content.decode()

    assert f'<option value="{configuration.slug}" selected>' in run_it
    assert re.search(rf'name="skills" value="{skill.slug}"[^>]* checked', with_skill)
    assert re.search(rf'name="snippets" value="{snippet.slug}"[^>]* checked', with_snippet)
    assert not Run.objects.exists() and "Can't be chosen" not in html.unescape(run_it + with_skill + with_snippet)


def test_no_form_leads_where_its_reader_may_not_go_or_nothing_can_run() -> None:
    reader, starter = client_with(*ADMIN), client_with(*ADMIN, "playground.add_run")
    configuration = ConfigurationFactory(enabled=False)

    assert "Run this configuration" not in form_of(reader, ConfigurationFactory())
    assert "Try in a run" not in form_of(reader, SkillFactory())
    assert "Run this configuration" not in form_of(starter, configuration)


def test_what_an_address_names_and_cant_be_chosen_is_told() -> None:
    client = Client()
    client.force_login(UserFactory(is_superuser=True))
    ConfigurationFactory()

    query = {"configuration": "gone", "skill": ["<b>none</b>", "<b>none</b>"], "snippet": "old"}
    page = client.get(reverse("playground:new_run"), query).content.decode()

    said = "configuration gone, skill <b>none</b>, snippet old."
    assert html.escape(said) in page and html.unescape(page).count("skill <b>none</b>") == 1


@pytest.mark.parametrize("model", [Configuration, Skill, Snippet])
def test_a_form_of_what_is_not_stored_yet_leads_nowhere(model: type) -> None:
    client = Client()
    client.force_login(UserFactory(is_superuser=True))

    page = client.get(reverse(f"admin:llmcore_{model.__name__.lower()}_add")).content.decode()

    assert "new/?" not in page
