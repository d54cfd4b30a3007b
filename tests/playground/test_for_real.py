"""A run that is started from a dry run says that it sent the same, or where it did not."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from llmcore.errors import ConfigurationError
from llmcore.providers.scripted.scenario import Turn
from playground.erasure import delete_contents
from playground.models import Run
from playground.services.run_for_real import run_for_real
from playground.services.start_run import write_run
from tests.factories import SnippetFactory, UserFactory
from tests.playground.driven import Script, script
from tests.playground.recorded import finished_run
from tests.playground.shown import text_of

pytestmark = pytest.mark.django_db(transaction=True)


def dry_run(site: Script, user: User, **changes: object) -> Run:
    return site.drive(write_run(request=site.request(dry_run=True, **changes), by=user))


def page(client: Client, run: Run) -> str:
    response = client.get(reverse("playground:run", args=[run.pk]))
    assert response.status_code == 200
    return text_of(response.content.decode())


def request_tab(client: Client, run: Run) -> str:
    step = run.steps.get(kind="request", round=1)
    url = reverse("playground:run_step", args=[run.pk, step.sequence])
    return text_of(client.get(url, {"tab": "request"}, headers={"HX-Request": "true"}).content.decode())


def test_a_dry_run_becomes_a_real_one_that_sends_the_same(client: Client, user: User) -> None:
    with script(Turn(text="Hello!")) as site:
        dry = dry_run(site, user, title="Before it costs anything")
        assert "Run it for real" in page(client, dry)

        response = client.post(reverse("playground:run_for_real", args=[dry.pk]))
        real = site.drive(Run.objects.get(parent=dry))

    assert response["Location"] == reverse("playground:run", args=[real.pk])
    assert (real.dry_run, real.title, real.user, real.status) == (False, dry.title, user, "completed")
    assert f"matches dry run {dry.pk}, byte for byte" in page(client, real)
    assert "Matches the dry run, byte for byte." in request_tab(client, real)


def test_a_source_that_changed_since_is_named_with_both_texts(client: Client, user: User) -> None:
    snippet = SnippetFactory(slug="tone", name="Tone", body="Be kind.")
    with script(Turn(text="Hello!"), snippets=[snippet]) as site:
        dry = dry_run(site, user)
        snippet.body = "Be brief."
        snippet.save()
        real = site.drive(run_for_real(run=dry, by=user))

    assert f"differs from dry run {dry.pk}" in page(client, real)
    shown = request_tab(client, real)
    assert re.search(r"Differs from the dry run\. Run \d+ The first difference is at byte [\d,]+\.", shown)
    assert re.search(r"Dry run P Tone .*Be kind\.", shown) and re.search(r"Sent P Tone .*Be brief\.", shown)
    assert "Compare the prompts" in shown


def test_a_parameter_that_changed_is_no_source(client: Client, user: User) -> None:
    with script(Turn(text="Hello!")) as site:
        dry = dry_run(site, user)
        site.configuration.temperature = 0.5
        site.configuration.save()
        real = site.drive(run_for_real(run=dry, by=user))

    assert "Sent the parameters" in request_tab(client, real)


def test_hashes_tell_it_where_the_body_is_gone(client: Client, user: User) -> None:
    with script(Turn(text="Hello!"), Turn(text="Hello!")) as site:
        dry = dry_run(site, user)
        same = site.drive(run_for_real(run=dry, by=user))
        site.configuration.system_prompt = "Help nobody."
        site.configuration.save()
        other = site.drive(run_for_real(run=dry, by=user))
        delete_contents(dry, kept_days=None, now=timezone.now())

    assert "Matches the dry run, byte for byte." in request_tab(client, same)
    shown = request_tab(client, other)
    assert "Differs from the dry run." in shown and "Where they differ can't be shown" in shown
    assert "Run it for real" not in page(client, dry)
    dry.refresh_from_db()
    with pytest.raises(ConfigurationError):
        run_for_real(run=dry, by=user)


def test_a_dry_run_that_the_reader_may_not_see_is_not_quoted(user: User) -> None:
    with script(Turn(text="Hello!")) as site:
        dry = dry_run(site, user, prompt="The secret of the other one")
        reader = UserFactory(permissions=["playground.view_run"])
        request = site.request(prompt="My own question")
        real = site.drive(write_run(request=request, by=reader, parent=dry))
    client = Client()
    client.force_login(reader)

    shown = request_tab(client, real)

    assert "Differs from the dry run." in shown
    assert "The secret" not in shown and "Compare the prompts" not in shown


def test_only_dry_runs_and_only_with_the_right_to_start_one(client: Client, user: User) -> None:
    done = finished_run(user)
    reader = UserFactory(permissions=["playground.view_run", "playground.view_all_runs"])
    stranger = Client()
    stranger.force_login(reader)

    assert "Run it for real" not in page(client, done)
    client.post(reverse("playground:run_for_real", args=[done.pk]))
    assert not Run.objects.filter(parent=done).exists()
    assert stranger.post(reverse("playground:run_for_real", args=[done.pk])).status_code == 403
    assert client.get(reverse("playground:run_for_real", args=[done.pk])).status_code == 405
