"""Loading the demo, once and again."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.db.models import Model

from demo.management.commands.demo_model import SCENARIOS
from demo.models import LoadedItem, Order, OrderNote
from demo.runs import DEMO_RUNS
from demo.services import load_demo
from llmcore.models import Configuration, LanguageModel, Provider, Skill, Snippet
from llmcore.providers.scripted import load_scenarios
from llmcore.store import load_configuration, load_skills, load_snippets
from llmcore.tools.registry import all_tools
from llmcore.versions import keep_versions

pytestmark = pytest.mark.django_db

URL = "http://127.0.0.1:8766/v1"


def test_loading_again_changes_and_creates_nothing() -> None:
    first = load_demo(demo_model_url=URL)
    counts = [model.objects.count() for model in (Order, Provider, LanguageModel, Configuration, Skill, Snippet)]

    assert len(first) > 25
    assert load_demo(demo_model_url=URL) == []
    assert counts == [
        model.objects.count() for model in (Order, Provider, LanguageModel, Configuration, Skill, Snippet)
    ]


def test_what_people_changed_or_deleted_stays_so() -> None:
    load_demo(demo_model_url=URL)
    Configuration.objects.filter(slug="support-triage").update(system_prompt="Be brief.", max_rounds=3)
    Skill.objects.get(slug="gift-cards").delete()
    Order.objects.get(number="DJ-48000").delete()

    load_demo(demo_model_url=URL)

    assert Configuration.objects.get(slug="support-triage").system_prompt == "Be brief."
    assert not Skill.objects.filter(slug="gift-cards").exists()
    assert not Order.objects.filter(number="DJ-48000").exists()


def test_rows_that_were_there_before_are_kept() -> None:
    Snippet.objects.create(slug="house-tone", name="Ours", body="Shout.")
    provider = Provider.objects.create(slug="demo", name="Ours", adapter="ollama", base_url="http://localhost:11434")

    load_demo(demo_model_url=URL)

    assert Snippet.objects.get(slug="house-tone").body == "Shout."
    provider.refresh_from_db()
    assert provider.base_url == "http://localhost:11434"


def test_provider_follows_the_demo_model_to_another_port_unless_somebody_moved_it() -> None:
    load_demo(demo_model_url=URL)
    load_demo(demo_model_url="http://127.0.0.1:9999/v1")
    followed = Provider.objects.get(slug="demo").base_url
    Provider.objects.filter(slug="demo").update(base_url="http://127.0.0.1:11434/v1")
    load_demo(demo_model_url="http://127.0.0.1:9998/v1")

    assert followed == "http://127.0.0.1:9999/v1"
    assert Provider.objects.get(slug="demo").base_url == "http://127.0.0.1:11434/v1"


def test_missing_pieces_do_not_stop_the_rest() -> None:
    """A later version brings a configuration whose skill, snippet or model was deleted meanwhile."""
    load_demo(demo_model_url=URL)
    forgotten = ("support-triage", "slow-writer")
    Configuration.objects.filter(slug__in=forgotten).delete()
    Skill.objects.filter(slug="order-lookup").delete()
    LanguageModel.objects.filter(name="demo-slow").delete()
    LoadedItem.objects.filter(key__in=[f"configuration:{slug}" for slug in forgotten]).delete()

    load_demo(demo_model_url=URL)

    assert [skill.slug for skill in load_configuration("support-triage").skills] == ["refund-policy"]
    assert not Configuration.objects.filter(slug="slow-writer").exists()


def test_loaded_rows_are_what_the_admin_would_accept() -> None:
    load_demo(demo_model_url=URL)
    rows: list[Model] = [
        row for model in (Provider, LanguageModel, Configuration, Skill, Snippet) for row in model.objects.all()
    ]
    for row in rows:
        row.full_clean()

    groups = {tool.group for tool in all_tools().values()}
    for configuration in Configuration.objects.all():
        assert set(configuration.tool_groups) <= groups
        assert set(configuration.tools or ()) <= set(all_tools())
    for skill in Skill.objects.all():
        assert set(skill.allowed_tools or ()) <= set(all_tools())
        assert skill.is_sealed


def test_nothing_loaded_is_on_its_second_version_when_it_is_first_used() -> None:
    load_demo(demo_model_url=URL)
    for configuration in Configuration.objects.all():
        keep_versions(configuration=configuration.slug)

    assert {row.version for model in (Configuration, Skill, Snippet) for row in model.objects.all()} == {1}


def test_every_model_has_its_scenario_and_every_scenario_a_configuration() -> None:
    load_demo(demo_model_url=URL)
    names = set(load_scenarios(SCENARIOS))

    assert names == set(LanguageModel.objects.values_list("name", flat=True))
    assert names == set(Configuration.objects.values_list("model__name", flat=True))


def test_demo_runs_ask_for_what_is_loaded() -> None:
    load_demo(demo_model_url=URL)
    for request in DEMO_RUNS:
        load_configuration(request.configuration)
        assert len(load_skills(request.skills)) == len(request.skills)
        assert len(load_snippets(request.snippets)) == len(request.snippets)
        assert request.title


def test_command_loads_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("demo_load", model_url="http://127.0.0.1:7000/v1")
    call_command("demo_load", model_url="http://127.0.0.1:7000/v1")

    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("Loaded ") and said[1] == "The demo is loaded already."
    assert Provider.objects.get(slug="demo").base_url == "http://127.0.0.1:7000/v1"
    assert not OrderNote.objects.exists()
