"""Variables of a run: asked for in the form, kept with the run, filled again when it is run again."""

from __future__ import annotations

import html
import re

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from llmcore.errors import ConfigurationError
from llmcore.prompts.variables import MOST_VARIABLES
from llmcore.providers.scripted.scenario import Turn
from playground.models import Run
from playground.services.fork_run import retry_round
from playground.services.prepare_run import refuse_unresolved
from playground.services.start_run import RunRequest, start_run, write_run
from tests.factories import ConfigurationFactory, SnippetFactory, UserFactory
from tests.playground.database import found_in_database
from tests.playground.driven import script
from tests.playground.new_run_form import client_with, form_data, preview_of

pytestmark = pytest.mark.django_db

FIELD = re.compile(r'name="variable-(\w+)"[^>]*>\n(.*?)</textarea>', re.DOTALL)


@pytest.fixture
def client() -> Client:
    return client_with("playground.add_run", "playground.view_run")


def fields(page: str) -> dict[str, str]:
    return {name: html.unescape(value) for name, value in FIELD.findall(page)}


def test_the_form_asks_for_each_variable_and_says_where_it_stands(client: Client) -> None:
    snippet = SnippetFactory(name="Tone", body="In {{language}}, for {{shop}}.")
    configuration = ConfigurationFactory(system_prompt="You help {{shop}}.", snippets=[snippet])
    page = client.get(reverse("playground:new_run")).content.decode()
    assert fields(page) == {"shop": "", "language": ""}
    assert "in Configuration prompt, Tone" in page
    shown = preview_of(client, form_data(configuration, prompt="{{order}}", **{"variable-shop": "Beans & <b>"}))
    assert fields(shown) == {"shop": "Beans & <b>", "language": "", "order": ""}
    assert "You help <mark" in shown and "{{language}}" in shown


def test_a_run_without_a_value_is_refused_and_nothing_typed_is_lost(client: Client) -> None:
    configuration = ConfigurationFactory(system_prompt="You help {{shop}}.")
    data = form_data(configuration, prompt="Where is {{order}}?", **{"variable-order": "DJ-1", "variable-shop": " "})
    page = client.post(reverse("playground:new_run"), data).content.decode()
    assert not Run.objects.exists()
    assert fields(page) == {"shop": "", "order": "DJ-1"}
    assert page.count("Enter a value.") == 1


def test_a_value_that_nothing_asks_for_stays_and_is_said(client: Client) -> None:
    shown = preview_of(client, form_data(ConfigurationFactory(), **{"variable-old": "x"}))
    assert fields(shown) == {"old": "x"}
    assert "used nowhere" in shown


def test_a_value_that_is_too_long_is_refused(client: Client) -> None:
    data = form_data(ConfigurationFactory(), prompt="{{a}}", **{"variable-a": "x" * 1_000_001})
    assert "a: This is longer than 1 MB." in preview_of(client, data)
    assert "This is longer than 1 MB." in client.post(reverse("playground:new_run"), data).content.decode()
    assert not Run.objects.exists()


def test_more_variables_than_a_form_can_ask_for_are_refused(client: Client) -> None:
    most = " ".join(f"{{{{v{number}}}}}" for number in range(MOST_VARIABLES))
    configuration = ConfigurationFactory(system_prompt="You help {{shop}}.")
    assert len(fields(preview_of(client, form_data(ConfigurationFactory(), prompt=most)))) == MOST_VARIABLES
    data = form_data(configuration, prompt=most)
    pages = [preview_of(client, data), client.post(reverse("playground:new_run"), data).content.decode()]
    assert not Run.objects.exists()
    for page in pages:
        assert f"more than {MOST_VARIABLES} variables" in html.unescape(page) and not fields(page)


@pytest.mark.django_db(transaction=True)
def test_values_go_out_and_are_kept_with_the_run(client: Client) -> None:
    with script(Turn(text="Tomorrow."), system_prompt="You help {{shop}}.") as scripted:
        values = {"variable-shop": "Beanstalk", "variable-order": "DJ-1\r\nand DJ-2", "variable-old": "x"}
        client.post(reverse("playground:new_run"), form_data(scripted.configuration, prompt="{{order}}?", **values))
        run = scripted.drive(Run.objects.get())
        [sent] = [request for request in scripted.model.requests if request.method == "POST"]
        assert [message["content"] for message in sent.json["messages"]] == [
            "You help Beanstalk.",
            "DJ-1\nand DJ-2?",
        ]
        assert (run.title, run.prompt) == ("DJ-1", "DJ-1\nand DJ-2?")
        again = client.get(f"{reverse('playground:new_run')}?from={run.pk}").content.decode()
        assert fields(again) == {"shop": "Beanstalk", "order": "DJ-1\nand DJ-2", "old": "x"}
        assert "{{order}}?</textarea>" in again
        started = client.get(reverse("playground:run_step", args=[run.pk, 0]) + "?tab=start").content.decode()
        assert "DJ-1" in started and "order" in started


@pytest.mark.django_db(transaction=True)
def test_a_fork_is_not_filled_again() -> None:
    user = UserFactory(is_superuser=True)
    with script(Turn(text="{{shop}}"), Turn(text="Again.")) as scripted:
        run = scripted.run(prompt=r"Write \{{shop}} for {{shop}}", variables={"shop": "{{shop}}"})
        child = scripted.drive(retry_round(run=run, by=user))
        first, second = [request for request in scripted.model.requests if request.method == "POST"]
    assert first.body == second.body
    assert (child.prompt, child.title, child.request["variables"]) == (run.prompt, run.title, {})


@pytest.mark.django_db(transaction=True)
def test_a_run_whose_variables_came_later_ends_with_their_names() -> None:
    """What is stored may change between the form and the worker."""
    with script(Turn(text="Hello.")) as scripted:
        run = write_run(request=scripted.request(), by=None)
        scripted.configuration.system_prompt = "You help {{shop}}."
        scripted.configuration.save()
        run = scripted.drive(run)
    assert (run.status, run.error["kind"]) == ("failed", "configuration")
    assert "The variable “shop” has no value; it stands in: Configuration prompt." in run.detail


@pytest.mark.django_db(transaction=True)
def test_without_contents_neither_names_nor_values_are_left(settings: Settings) -> None:
    settings.LLM_PRIVACY_LEVEL = "metadata"
    with script(Turn(text="Hello.")) as scripted:
        run = scripted.run(prompt="Is {{xqsecretzx}} there?", variables={"xqsecretzx": "xqvaluezx"})
    assert "variables" not in run.request
    assert not found_in_database("xqsecretzx", "xqvaluezx")


def test_an_unknown_value_doesnt_stop_a_run() -> None:
    request = RunRequest(configuration=ConfigurationFactory().slug, prompt="Hello", variables={"old": "x"})
    assert start_run(request=request, by=UserFactory()).request["variables"] == {"old": "x"}


def test_requests_of_older_runs_have_no_variables() -> None:
    data = RunRequest(configuration="a", prompt="{{b}}").to_json()
    del data["variables"]
    assert RunRequest.from_json(data).variables == {}


def test_what_lacks_a_value_is_refused_before_a_run_is_written() -> None:
    configuration = ConfigurationFactory(system_prompt="You help {{shop}}.")
    with pytest.raises(ConfigurationError, match="“shop” has no value; it stands in: Configuration prompt"):
        refuse_unresolved(RunRequest(configuration=configuration.slug, prompt="Hello"))
