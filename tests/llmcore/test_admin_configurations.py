"""The configuration pages: order is kept, rules across fields are told, copies are whole."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries, Settings

from llmcore.models import Configuration
from llmcore.store import load_configuration
from llmcore.tools.registry import all_tools
from tests.factories import (
    ConfigurationFactory,
    LanguageModelFactory,
    ProviderFactory,
    SkillFactory,
    SnippetFactory,
    UserFactory,
)

pytestmark = pytest.mark.django_db
LIST = "admin:llmcore_configuration_changelist"
ADD = "admin:llmcore_configuration_add"
TOOL = next(iter(all_tools().values()))
OTHER = next(tool for tool in all_tools().values() if tool.group != TOOL.group)


@pytest.fixture
def admin(client: Client) -> Client:
    client.force_login(UserFactory(is_superuser=True))
    return client


def places(prefix: str, kind: str, rows: list[dict[str, Any]], initial: int = 0) -> dict[str, Any]:
    """The data of an inline: `rows` name the piece (`of`) and its place."""
    data: dict[str, Any] = {
        f"{prefix}-TOTAL_FORMS": len(rows),
        f"{prefix}-INITIAL_FORMS": initial,
        f"{prefix}-MIN_NUM_FORMS": 0,
        f"{prefix}-MAX_NUM_FORMS": 1000,
    }
    for number, row in enumerate(rows):
        data[f"{prefix}-{number}-{kind}"] = row["of"].pk
        data[f"{prefix}-{number}-position"] = row.get("position", "")
        data[f"{prefix}-{number}-id"] = row.get("id", "")
        data[f"{prefix}-{number}-configuration"] = row.get("configuration", "")
        if row.get("remove"):
            data[f"{prefix}-{number}-DELETE"] = "on"
    return data


def form(
    *,
    skills: list[dict[str, Any]] | None = None,
    snippets: list[dict[str, Any]] | None = None,
    fallbacks: list[dict[str, Any]] | None = None,
    **changes: Any,
) -> dict[str, Any]:
    initial = sum(1 for row in skills or () if row.get("id"))
    data = {
        "slug": "triage",
        "name": "Triage",
        "system_prompt": "Be kind.",
        "stream": "on",
        "enabled": "on",
        "max_rounds": 5,
        "max_tool_result_bytes": 50_000,
        "skill_budget_bytes": 24_000,
        "compact_at": 80,
        "keep_turns": 3,
        "min_skill_trust": 0,
        "tools_0": "all",
        **places("configurationskill_set", "skill", skills or [], initial),
        **places("configurationsnippet_set", "snippet", snippets or []),
        **places("configurationfallback_set", "model", fallbacks or []),
    }
    return data | {"model": changes.pop("model", None) or LanguageModelFactory().pk} | changes


def change_url(row: Configuration) -> str:
    return reverse("admin:llmcore_configuration_change", args=[row.pk])


def errors_of(response: Any) -> dict[str, list[str]]:
    assert response.status_code == 200, "the form was accepted"
    errors: dict[str, list[str]] = response.context["adminform"].form.errors
    return errors


def test_a_configuration_is_added_with_skills_and_snippets_in_order(admin: Client) -> None:
    skills, snippets = [SkillFactory() for _ in range(3)], [SnippetFactory() for _ in range(2)]
    response = admin.post(
        reverse(ADD),
        form(
            skills=[{"of": skills[0]}, {"of": skills[1], "position": 2}, {"of": skills[2], "position": 1}],
            snippets=[{"of": snippets[1]}, {"of": snippets[0]}],
        ),
    )
    assert response.status_code == 302
    loaded = load_configuration("triage")
    assert [skill.id for skill in loaded.skills] == [skills[2].pk, skills[1].pk, skills[0].pk]
    assert [snippet.id for snippet in loaded.snippets] == [snippets[1].pk, snippets[0].pk]
    row = Configuration.objects.get()
    assert list(row.configurationskill_set.values_list("position", flat=True)) == [1, 2, 3]
    assert row.version == 1


def test_each_change_gives_a_new_version_and_none_gives_none(admin: Client) -> None:
    skill = SkillFactory()
    row = ConfigurationFactory(skills=[skill])
    row.keep_version()
    entry = row.configurationskill_set.get()
    kept = {"of": skill, "id": entry.pk, "configuration": row.pk, "position": 1}
    same = {"slug": row.slug, "name": row.name, "model": row.model_id, "system_prompt": row.system_prompt}

    admin.post(change_url(row), form(skills=[kept], **same))
    row.refresh_from_db()
    before = row.version

    admin.post(change_url(row), form(skills=[kept], **same))
    row.refresh_from_db()
    assert row.version == before

    admin.post(change_url(row), form(skills=[kept], **same | {"system_prompt": "Be brief."}))
    row.refresh_from_db()
    assert row.version == before + 1

    admin.post(change_url(row), form(skills=[kept | {"remove": True}], **same | {"system_prompt": "Be brief."}))
    row.refresh_from_db()
    assert row.version == before + 2 and not row.skills.exists()


def test_a_prompt_is_stored_as_typed_with_one_kind_of_line_end(admin: Client) -> None:
    admin.post(reverse(ADD), form(system_prompt="  one\r\ntwo\r\n\r\n"))
    row = Configuration.objects.get()
    assert row.system_prompt == "  one\ntwo\n\n"

    page = admin.get(change_url(row)).context["adminform"].form
    assert page["system_prompt"].value() == row.system_prompt
    data = form(model=row.model_id, system_prompt="  one\r\ntwo\r\n\r\n")
    admin.post(change_url(row), data)
    row.refresh_from_db()
    assert row.version == 1


@pytest.mark.parametrize(
    ("scope", "ticked", "stored"), [("all", [], None), ("ticked", [], []), ("ticked", [TOOL.name], [TOOL.name])]
)
def test_all_tools_no_tool_and_some_tools_are_told_apart(
    admin: Client, scope: str, ticked: list[str], stored: list[str] | None
) -> None:  # L3
    data = form(tool_groups=[TOOL.group], tools_0=scope, tools_1=ticked)
    assert admin.post(reverse(ADD), data).status_code == 302
    row = Configuration.objects.get()
    assert row.tools == stored and row.tool_groups == [TOOL.group]

    page = admin.get(change_url(row)).content.decode()
    boxes = re.findall(r'<input[^>]*name="tools_[01]"[^>]*value="(\w+)"([^>]*)>', page)
    assert {name for name, rest in boxes if "checked" in rest} == {scope, *ticked}
    admin.post(change_url(row), data | {"model": row.model_id})
    row.refresh_from_db()
    assert row.tools == stored and row.version == 1


def test_tools_are_offered_with_what_they_do(admin: Client) -> None:
    page = admin.get(reverse(ADD)).content.decode()
    for tool in all_tools().values():
        assert f'value="{tool.name}"' in page and f'value="{tool.group}"' in page


def test_names_that_the_site_does_not_know_stay_until_they_are_unticked(admin: Client) -> None:
    row = ConfigurationFactory(tool_groups=["gone"], tools=["lost"])
    page = admin.get(change_url(row)).content.decode()
    assert "gone (not known to this site)" in page and "lost (not known to this site)" in page

    same = form(slug=row.slug, name=row.name, model=row.model_id)
    admin.post(change_url(row), same | {"tool_groups": ["gone"], "tools_0": "ticked", "tools_1": ["lost"]})
    row.refresh_from_db()
    assert (row.tool_groups, row.tools) == (["gone"], ["lost"])
    admin.post(change_url(row), same | {"tool_groups": [], "tools_0": "all"})
    row.refresh_from_db()
    assert (row.tool_groups, row.tools) == ([], None)


@pytest.mark.parametrize(
    ("model", "changes", "field", "advice"),
    [
        ({"max_output_tokens": 100}, {"max_tokens": 101}, "max_tokens", "writes at most 100 tokens: lower it"),
        ({"supports_temperature": False}, {"temperature": "0.0"}, "temperature", "takes no temperature"),
        ({}, {"thinking": "high"}, "thinking", "takes no thinking effort"),
        ({"supports_tools": False}, {"tool_groups": [TOOL.group]}, "tool_groups", "can't call tools"),
        ({"supports_tool_choice": False}, {"tool_choice": "required"}, "tool_choice", "can't be told to call a tool"),
        ({}, {"temperature": "2.5"}, "temperature", "less than or equal to 2"),
        ({}, {"max_tokens": 0}, "max_tokens", "greater than or equal to 1"),
        ({}, {"max_rounds": 51}, "max_rounds", "at most 50 rounds"),
        ({}, {"tools_0": "ticked", "tools_1": [TOOL.name]}, "tools", "Tick the groups of these tools too"),
        ({}, {"tool_groups": [TOOL.group], "tools_1": [TOOL.name]}, "tools", "Choose “only the tools ticked below”"),
        ({}, {"tool_groups": ["nonsense"]}, "tool_groups", "not one of the available choices"),
    ],
)
def test_what_does_not_go_together_is_refused_with_advice(
    admin: Client, settings: Settings, model: dict[str, Any], changes: dict[str, Any], field: str, advice: str
) -> None:
    settings.LLM_MAX_ROUNDS = 50
    row = LanguageModelFactory(**model)
    errors = errors_of(admin.post(reverse(ADD), form(model=row.pk, **changes)))
    assert advice in errors[field][0]
    assert not Configuration.objects.exists()


def test_a_tool_outside_the_ticked_groups_is_named_with_its_group(admin: Client) -> None:
    data = form(tool_groups=[TOOL.group], tools_0="ticked", tools_1=[TOOL.name, OTHER.name])
    assert f"{OTHER.name} ({OTHER.group})" in errors_of(admin.post(reverse(ADD), data))["tools"][0]


def test_the_same_skill_twice_is_refused(admin: Client) -> None:
    skill = SkillFactory()
    page = admin.post(reverse(ADD), form(skills=[{"of": skill}, {"of": skill}]))
    assert page.status_code == 200 and "duplicate" in page.content.decode()


def test_models_are_told_apart_by_their_provider(admin: Client) -> None:
    LanguageModelFactory(name="gpt", provider=ProviderFactory(name="OpenAI"))
    LanguageModelFactory(name="gpt", provider=ProviderFactory(name="Gateway", enabled=False))
    page = admin.get(reverse(ADD)).content.decode()
    assert "gpt (OpenAI)" in page and "gpt (Gateway), disabled" in page


def test_a_copy_has_everything_but_the_name(admin: Client) -> None:
    skills, snippets = [SkillFactory(), SkillFactory()], [SnippetFactory()]
    row = ConfigurationFactory(
        slug="a" * 50, name="Triage", skills=skills, snippets=snippets, tools=[], temperature=0.3, version=9
    )
    for _number in range(2):
        data = {"action": "duplicate", "_selected_action": [row.pk]}
        page = admin.post(reverse(LIST), data, follow=True)
        assert "1 configuration was duplicated" in page.content.decode()

    first, second = Configuration.objects.exclude(pk=row.pk).order_by("pk")
    assert (first.slug, second.slug) == ("a" * 45 + "-copy", "a" * 43 + "-copy-2")
    assert first.name == "Triage (copy)" and first.version == 1
    original, copy = load_configuration(row.slug), load_configuration(first.slug)
    assert (copy.skills, copy.snippets, copy.tools) == (original.skills, original.snippets, ())
    assert copy.parameters == original.parameters and copy.system_prompt == original.system_prompt
    assert LogEntry.objects.filter(object_id=str(first.pk)).exists()


def test_only_who_may_add_may_copy(client: Client) -> None:
    row = ConfigurationFactory()
    client.force_login(UserFactory(permissions=["llmcore.view_configuration", "llmcore.change_configuration"]))
    client.post(reverse(LIST), {"action": "duplicate", "_selected_action": [row.pk]})
    assert Configuration.objects.count() == 1


def test_the_list_takes_the_same_queries_for_any_number(
    admin: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for _number in range(10):
        ConfigurationFactory(skills=[SkillFactory(), SkillFactory()], snippets=[SnippetFactory()], tool_groups=["shop"])
    with django_assert_max_num_queries(8):
        page = admin.get(reverse(LIST))
    rows = page.context["cl"].result_list
    assert {(row.skills_count, row.snippets_count) for row in rows} == {(2, 1)}


def test_the_form_takes_the_same_queries_for_any_number_of_pieces(
    admin: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    row = ConfigurationFactory(
        skills=[SkillFactory() for _ in range(8)],
        snippets=[SnippetFactory() for _ in range(8)],
        fallbacks=[LanguageModelFactory() for _ in range(8)],
    )
    with django_assert_max_num_queries(19):
        admin.get(change_url(row))


def test_lists_that_are_none_are_refused_whoever_writes_them() -> None:
    for changes in ({"tool_groups": "shop"}, {"tool_groups": [1]}, {"tools": ["a", "a"]}, {"tools": [""]}):
        with pytest.raises(ValidationError):
            ConfigurationFactory(**changes).full_clean()


def test_snippets_by_tag_are_named_and_belong_to_the_version(admin: Client) -> None:
    admin.post(reverse(ADD), form(snippet_tags="tone, law,, tone"))
    row = Configuration.objects.get()
    assert row.snippet_tags == ["tone", "law"]
    assert row.keep_version().fields["snippet_tags"] == ["tone", "law"]


# Fallback models


def test_fallback_models_are_kept_in_their_order_and_belong_to_the_version(admin: Client) -> None:
    first, *others = (LanguageModelFactory() for _ in range(3))
    fallbacks = [{"of": others[0], "position": 2}, {"of": others[1], "position": 1}]

    response = admin.post(reverse(ADD), form(model=first.pk, fallbacks=fallbacks))

    assert response.status_code == 302
    row = Configuration.objects.get()
    assert [route.name for route in load_configuration("triage").fallbacks] == [others[1].path, others[0].path]
    assert row.version_fields()["fallbacks"] == [others[1].path, others[0].path]
    assert [entry.model for entry in row.duplicate().configurationfallback_set.all()] == others[::-1]


def fallback_errors(admin: Client, **given: Any) -> list[str]:
    response = admin.post(reverse(ADD), form(**given))
    assert response.status_code == 200, "the form was accepted"
    (formset,) = [item for item in response.context["inline_admin_formsets"] if item.opts.model.__name__ in FALLBACK]
    return [error for errors in formset.formset.errors for texts in errors.values() for error in texts]


FALLBACK = {"ConfigurationFallback"}


def test_a_chain_that_comes_back_to_a_model_is_refused(admin: Client) -> None:
    first, other = LanguageModelFactory(), LanguageModelFactory()

    (own,) = fallback_errors(admin, model=first.pk, fallbacks=[{"of": first}])
    (twice,) = fallback_errors(admin, model=first.pk, fallbacks=[{"of": other}, {"of": other}])

    assert own == f"{first} is the model that is asked first: choose another one as its fallback."
    assert twice == f"{other} is listed already, and would be asked again after it failed: remove it here."


def test_a_fallback_that_could_not_do_the_work_is_refused(admin: Client) -> None:
    mute = LanguageModelFactory(supports_tools=False, supports_temperature=False, max_output_tokens=100)

    problems = fallback_errors(
        admin, fallbacks=[{"of": mute}], tool_groups=[TOOL.group], max_tokens=500, temperature=0.5
    )

    assert sorted(problems) == [
        f"{mute} can't call tools: untick all groups or choose another model.",
        f"{mute} writes at most 100 tokens: lower it.",
    ]
