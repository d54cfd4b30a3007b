"""Earlier versions of what prompts are made of: kept at each save and use, shown, and run again."""

from __future__ import annotations

import re
from dataclasses import astuple, replace
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from llmcore.errors import ConfigurationError
from llmcore.models import Configuration, PromptVersion, Skill, Snippet
from llmcore.providers.scripted.scenario import Turn
from llmcore.versions import Then, VersionRef, keep_versions
from playground.models import Run
from playground.reading.since import read_since
from playground.services.prepare_run import prepare_run
from playground.services.start_run import RunRequest
from tests.factories import ConfigurationFactory, SkillFactory, SnippetFactory, UserFactory
from tests.playground.driven import script

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(client: Client) -> Client:
    client.force_login(UserFactory(username="maren", is_superuser=True))
    return client


def numbers_of(row: Any) -> list[int]:
    return list(
        PromptVersion.objects.filter(kind=row.version_kind, object_id=row.pk)
        .order_by("number")
        .values_list("number", flat=True)
    )


def texts_of(prepared: Any) -> str:
    return "\n".join(message.text for message in prepared.assembly.messages)


def test_each_save_keeps_what_it_made_and_no_save_without_a_change_does() -> None:
    snippet = SnippetFactory(body="first")
    snippet.body = "second"
    snippet.save()
    snippet.save()
    snippet.refresh_from_db()

    assert snippet.version == 2 and numbers_of(snippet) == [1, 2]
    first = PromptVersion.objects.get(kind="snippet", object_id=snippet.pk, number=1)
    assert first.fields["body"] == "first" and len(first.sha256) == 64 and first.saved_by == ""


def test_what_a_query_changed_is_kept_before_a_save_writes_over_it() -> None:
    snippet = SnippetFactory(body="first")
    Snippet.objects.update(body="by a query")
    stale = Snippet.objects.get(pk=snippet.pk)
    stale.body = "by a save"
    stale.save()

    bodies = (
        PromptVersion.objects.filter(object_id=snippet.pk).order_by("number").values_list("fields__body", flat=True)
    )
    assert list(bodies) == ["first", "by a query", "by a save"]


def test_a_version_is_never_changed_or_deleted() -> None:
    SnippetFactory()
    version = PromptVersion.objects.get()
    for change in (version.save, version.delete, PromptVersion.objects.all().delete):
        with pytest.raises(TypeError):
            change()
    with pytest.raises(TypeError):
        PromptVersion.objects.update(name="other")


def test_a_field_that_came_with_a_release_makes_no_new_version() -> None:
    snippet = SnippetFactory()
    fields = PromptVersion.objects.get().fields
    assert snippet._same({name: value for name, value in fields.items() if name != "enabled"}, fields)


def test_a_use_keeps_what_no_save_did() -> None:
    skill = SkillFactory()
    configuration = ConfigurationFactory()
    configuration.skills.add(skill)
    Skill.objects.update(body="changed by a query")

    keep_versions(configuration=configuration.slug)

    assert numbers_of(skill) == [1, 2] and numbers_of(configuration)[-1] == 2
    configuration.refresh_from_db()
    assert configuration.version == 2
    assert PromptVersion.objects.get(kind="configuration", number=2).fields["skills"] == [skill.slug]


def test_a_run_looks_once_for_what_is_kept_already(django_assert_num_queries: Any) -> None:
    def attached(count: int) -> Configuration:
        row = ConfigurationFactory()
        row.skills.add(*(SkillFactory() for _ in range(count)))
        row.snippets.add(*(SnippetFactory() for _ in range(count)))
        keep_versions(configuration=row.slug)
        return row

    forced = SkillFactory()
    for row in (attached(1), attached(4)):
        # The configuration, its skills, snippets and fallbacks, the forced skill, and all their versions.
        with django_assert_num_queries(6):
            found = keep_versions(configuration=row.slug, skills=[forced.slug])
        assert found and found.configuration == row and found.configuration.version == 2
        assert found.skills == (forced,)
    assert keep_versions(configuration="gone") is None


@pytest.mark.django_db(transaction=True)
def test_a_run_says_what_changed_since_and_can_be_made_again_with_either(admin: Client) -> None:
    snippet = SnippetFactory(body="Say it in the old way.", slug="tone")
    with script(Turn(text="Done."), system_prompt="Old system text.") as scripted:
        scripted.configuration.snippets.add(snippet)
        run = scripted.run()
        assert ["snippet", snippet.pk, 1] in run.plan["versions"]
        admin_user = UserFactory(is_superuser=True)
        assert read_since(run, user=admin_user).count == 0

        Configuration.objects.update(system_prompt="New system text.", max_rounds=7)
        snippet.body = "Say it in the new way."
        snippet.save()
        Run.objects.filter(pk=run.pk).update(user=admin_user)

        since = read_since(run, user=admin_user)
        assert since.title == "3 fields changed since this run" and since.complete
        page = admin.get(reverse("playground:run", args=[run.pk])).content.decode()
        assert "3 fields changed since this run" in page
        page = admin.get(reverse("playground:run_since", args=[run.pk])).content.decode()
        assert "Old system text." in page and "New system text." in page and "as=then" in page

        form = admin.get(reverse("playground:new_run") + f"?from={run.pk}&as=then").content.decode()
        assert "Say it in the old way." in form and "new way" not in form and 'name="versions"' in form
        form = admin.get(reverse("playground:new_run") + f"?from={run.pk}").content.decode()
        assert "Say it in the new way." in form and 'name="versions"' not in form

        versions = tuple(tuple(ref) for ref in run.plan["versions"])
        again = scripted.run(versions=versions)
        assert again.plan["body_sha256"] == run.plan["body_sha256"]
        assert again.plan["versions"] == run.plan["versions"] and again.plan["fingerprint"] == run.plan["fingerprint"]


@pytest.mark.django_db(transaction=True)
def test_a_run_says_which_snippets_tags_would_bring_now_and_which_no_longer(admin: Client) -> None:
    stays, leaves = (SnippetFactory(slug=slug, tags=["house"]) for slug in ("stays", "leaves"))
    with script(Turn(text="Done."), snippet_tags=["house"]) as scripted:
        run = scripted.run()
        assert {("snippet", stays.pk, 1), ("snippet", leaves.pk, 1)} <= {tuple(ref) for ref in run.plan["versions"]}
    reader = UserFactory(is_superuser=True)
    assert read_since(run, user=reader).count == 0

    SnippetFactory(slug="new", tags=["other", "house"])
    SnippetFactory(slug="off", tags=["house"], enabled=False)
    SnippetFactory(slug="elsewhere", tags=["other"])
    leaves.tags = []
    leaves.save()

    since = read_since(run, user=reader)
    assert since.title == "1 field changed since this run, 1 snippet would join now, 1 snippet would leave now"
    assert since.what == (
        "tags of snippet leaves, snippet leaves (no longer joins by a tag), snippet new (joins by its tag)"
    )
    page = admin.get(reverse("playground:run_since", args=[run.pk])).content.decode()
    assert "joins by its tag since" in page and "no longer joins by a tag" in page and "so a new run would" in page
    # Of snippets that a reader may not see, neither is told.
    assert read_since(run, user=UserFactory(permissions=["llmcore.view_configuration"])).count == 0

    Configuration.objects.update(snippet_tags=["other"])
    now = {source.name: source.word for source in read_since(run, user=reader).sources}
    assert now["stays"] == "no longer joins by a tag" and now["elsewhere"] == now["new"] == "joins by its tag"


def test_versions_are_used_as_they_were_even_when_the_original_is_gone() -> None:
    skill = SkillFactory(body="The old rule.", slug="rule")
    configuration = ConfigurationFactory(system_prompt="Then.")
    configuration.skills.add(skill)
    keep_versions(configuration=configuration.slug)
    refs = (("configuration", configuration.pk, 2), ("skill", skill.pk, 1))
    skill.delete()

    request = RunRequest(configuration=configuration.slug, prompt="Hi", versions=refs, dry_run=True)
    assert "The old rule." in texts_of(prepare_run(request=request, user=None))
    with pytest.raises(ConfigurationError, match="was not kept"):
        Then([VersionRef("skill", skill.pk, 9)])


def test_the_page_of_a_version_shows_it_beside_its_neighbor_and_now(admin: Client) -> None:
    snippet = SnippetFactory(body="one\ntwo\nthree", slug="tone")
    form = {"slug": "tone", "name": snippet.name, "body": "one\n2\nthree", "tags": "", "enabled": "on"}
    assert admin.post(reverse("admin:llmcore_snippet_change", args=[snippet.pk]), form).status_code == 302
    Snippet.objects.update(body="one\n2\n3")

    page = admin.get(reverse("admin:llmcore_snippet_version", args=[snippet.pk, 2])).content.decode()
    assert (
        "by maren" in page and '<code class="is-del">-two</code>' in page and '<code class="is-add">+3</code>' in page
    )
    change = admin.get(reverse("admin:llmcore_snippet_change", args=[snippet.pk])).content.decode()
    assert f"/snippet/{snippet.pk}/versions/2/" in change
    first = reverse("admin:llmcore_snippet_version", args=[snippet.pk, 1])
    snippet.delete()
    page = admin.get(first).content.decode()
    assert "It has been deleted since" in page and "one\ntwo\nthree" in page


def test_a_version_is_shown_to_those_who_may_see_its_original_only(client: Client) -> None:
    snippet = SnippetFactory()
    client.force_login(UserFactory(permissions=["llmcore.view_skill"]))
    assert client.get(reverse("admin:llmcore_snippet_version", args=[snippet.pk, 1])).status_code == 403
    client.force_login(UserFactory(permissions=["llmcore.view_snippet"]))
    assert client.get(reverse("admin:llmcore_snippet_version", args=[snippet.pk, 1])).status_code == 200
    assert client.get(reverse("admin:llmcore_snippet_version", args=[snippet.pk, 5])).status_code == 404


def test_snippets_by_tag_are_those_of_then() -> None:
    SnippetFactory(slug="a", body="The old tone.", tags=["tone"])
    configuration = ConfigurationFactory(snippet_tags=["tone"])
    request = RunRequest(configuration=configuration.slug, prompt="Hi", dry_run=True)
    keep_versions(configuration=configuration.slug)
    refs = prepare_run(request=request, user=None).versions
    Snippet.objects.get(slug="a").delete()
    SnippetFactory(slug="b", body="The new tone.", tags=["tone"])

    then = prepare_run(request=replace(request, versions=tuple(map(astuple, refs))), user=None)
    assert "The old tone." in texts_of(then) and "The new tone." not in texts_of(then)
    assert "The new tone." in texts_of(prepare_run(request=request, user=None))


@pytest.mark.django_db(transaction=True)
def test_the_runs_that_used_an_old_text_are_found_from_its_version(admin: Client) -> None:
    snippet = SnippetFactory(name="Tone", body="Say it in the old way.")
    with script(Turn(text="Done."), Turn(text="Done."), Turn(text="Done.")) as scripted:
        without = scripted.run(prompt="Write.")
        old = scripted.run(prompt="Write.", snippets=(snippet.slug,))
        snippet.body = "Say it in the new way."
        snippet.save()
        new = scripted.run(prompt="Write.", snippets=(snippet.slug,))
    form = admin.get(reverse("admin:llmcore_snippet_change", args=[snippet.pk])).content.decode()
    version = admin.get(reverse("admin:llmcore_snippet_version", args=[snippet.pk, 1])).content.decode()

    with_any = admin.get(link_in(form, "Runs with it"))
    with_old = admin.get(link_in(version, "Runs with this version"))
    narrower = admin.get(link_in(version, "Runs with this version") + "&q=nothing")
    # What names nothing narrows nothing.
    unknown = admin.get(reverse("playground:runs"), {"made_with": "user-1"})

    assert listed(with_any) == [new, old] and listed(with_old) == [old] and listed(narrower) == []
    assert listed(unknown) == [new, old, without]
    assert [one["filter"].value for one in with_any.context["applied"]] == ["Tone"]
    assert [one["filter"].value for one in with_old.context["applied"]] == ["Tone, version 1"]
    # The next filter that is chosen comes to it.
    assert f'name="made_with" value="snippet-{snippet.pk}-1"' in with_old.content.decode()


def link_in(page: str, words: str) -> str:
    found = re.search(rf'<a href="([^"]+)">{words}</a>', page)
    assert found, words
    return unescape(found[1])


def listed(response: Any) -> list[Run]:
    return [row.run for row in response.context["rows"]]
