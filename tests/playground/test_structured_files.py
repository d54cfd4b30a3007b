"""Inputs of structured completions that come from files: what is taken, what is said of the rest, and what is kept."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from llmcore.errors import ConfigurationError
from llmcore.models import Configuration, LanguageModel
from llmcore.providers.scripted.scenario import Turn
from llmcore.structured.media import media_type_of
from playground.models import Run
from playground.privacy import PrivacyLevel
from playground.services.fork_run import read_fork_point
from playground.services.purge import purge
from playground.services.start_run import RunRequest
from playground.structured_run import GivenInput
from tests.factories import ConfigurationFactory, LanguageModelFactory, UserFactory
from tests.llmcore.prompt_packs import GIF, PDF, PNG, VALID, WITH_PHOTO
from tests.playground.driven import script
from tests.playground.shown import text_of
from tests.playground.structured import TEXT, site_prompt, structured

pytestmark = pytest.mark.django_db

URL = "/admin/playground/structured/"
AGAIN = "Choose “{}” again: a browser forgets a chosen file with the page."


@pytest.fixture(autouse=True)
def prompt(tmp_path: Path) -> Iterator[None]:
    """A prompt with a picture and a text."""
    with site_prompt(tmp_path, **WITH_PHOTO):
        yield


@pytest.fixture
def configuration(db: None) -> Configuration:
    return ConfigurationFactory(model=LanguageModelFactory(supports_images=True))


def file(name: str, data: bytes, media_type: str = "application/octet-stream") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, data, media_type)


def form_of(configuration: Configuration, **fields: object) -> dict[str, object]:
    sent = {"prompt": "test.names", "configuration": configuration.slug, "repairs": "1", "input-text": TEXT}
    return {**sent, "variable-language": "English", "file-photo": file("photo.png", PNG), **fields}


def given_of(run: Run) -> dict[str, GivenInput]:
    asked = RunRequest.from_json(run.request).structured
    assert asked is not None
    return {given.name: given for given in asked.inputs}


def test_a_text_and_a_picture_come_from_files(starter: Client, configuration: Configuration) -> None:
    # Whatever the browser says of it: what counts are the bytes.
    notes = file("notes.md", "\ufeffAda met\r\nGrace.".encode(), "video/mp2t")

    response = starter.post(URL, form_of(configuration, **{"input-text": " ", "file-text": notes}))

    run = Run.objects.get()
    assert response.url == reverse("playground:run", args=[run.pk])  # type: ignore[attr-defined]
    given = given_of(run)
    assert (given["text"].text, given["text"].origin, given["text"].data) == ("Ada met\nGrace.", "notes.md", "")
    photo = given["photo"]
    assert (photo.material.data, photo.media_type, photo.origin, photo.text) == (PNG, "image/png", "photo.png", "")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"file-photo": file("a.pdf", PDF)}, "“a.pdf” is application/pdf; this input takes image/png or image/jpeg"),
        ({"file-photo": file("a.png", b"words")}, "“a.png” is no picture; this input takes image/png"),
        ({"file-photo": file("a.png", PNG + b"x" * 3000)}, "“a.png” has 2.9 KB; at most 2.0 KB can be sent."),
        ({"file-photo": ""}, "Choose a picture."),
        ({"file-text": file("a.txt", b"Both.")}, "There is a text as well, so “a.txt” was not used."),
        ({"input-text": "", "file-text": file("a.txt", b" \n")}, "“a.txt” is empty."),
        ({"input-text": "", "file-text": file("a.gif", GIF + b"\xff")}, "“a.gif” is image/gif; this input takes text"),
        ({"input-text": "", "file-text": file("a.bin", b"\xff\xfe")}, "“a.bin” is no text in UTF-8"),
        ({"input-text": "", "file-text": file("a.txt", b"a\0b")}, "“a.txt” is no text in UTF-8"),
        ({"input-text": "", "file-text": file("a.txt", b"x" * 1_000_001)}, "“a.txt” has 976.6 KB; at most 976.6 KB"),
        ({"input-text": "x" * 4096}, "Together the inputs take 4.0 KB of a request; this site sends at most 4.0 KB."),
    ],
)
def test_a_file_that_is_not_taken_is_named_with_the_reason(
    starter: Client, configuration: Configuration, settings: Settings, fields: dict[str, object], said: str
) -> None:
    settings.LLM_MAX_REQUEST_BYTES = 4096

    response = starter.post(URL, form_of(configuration, title="Kept.", **fields))

    page = response.content.decode()
    assert response.status_code == 200 and said in text_of(page) and not Run.objects.exists()
    assert 'value="Kept."' in page and str(fields.get("input-text", TEXT)) in page


def test_what_came_from_a_file_is_not_lost_with_the_page(starter: Client, configuration: Configuration) -> None:
    notes = file("notes.txt", b"Mary met Jean.")
    wrong = {"input-text": "", "file-text": notes, "repairs": "9"}

    page = starter.post(URL, form_of(configuration, **wrong)).content.decode()

    # A text stands in the page now; of a picture it says that it has to be chosen again.
    assert "Mary met Jean.</textarea>" in page and "The text is from “notes.txt”." in page
    assert AGAIN.format("photo.png") in page and AGAIN.format("notes.txt") not in page
    mark = page.split('name="origin-text" value="')[1].split('"')[0]
    for text, origin in (("Mary met Jean.", "notes.txt"), ("Mary met nobody.", "")):
        starter.post(URL, form_of(configuration, **{"input-text": text, "origin-text": mark}))
        given = given_of(Run.objects.latest("pk"))["text"]
        assert (given.text, given.origin) == (text, origin)


def test_a_long_text_of_a_file_has_to_be_chosen_again(starter: Client, configuration: Configuration) -> None:
    long = file("long.txt", b"x" * 500_001)

    page = starter.post(URL, form_of(configuration, **{"input-text": "", "file-text": long, "repairs": "9"}))

    assert AGAIN.format("long.txt") in page.content.decode() and "xxxx" not in page.content.decode()


def test_a_model_that_takes_no_pictures_is_told_at_the_picture(starter: Client, configuration: Configuration) -> None:
    LanguageModel.objects.update(supports_images=False)

    page = text_of(starter.post(URL, form_of(configuration)).content.decode())

    assert "is a picture, and the model" in page and not Run.objects.exists()


def test_the_picture_of_an_earlier_run_can_be_used_again(starter: Client, configuration: Configuration) -> None:
    starter.post(URL, form_of(configuration))
    first = Run.objects.get()
    address = f"{URL}?from={first.pk}"

    page = starter.get(address).content.decode()
    starter.post(address, form_of(configuration, **{"file-photo": "", "kept-photo": "on"}))
    starter.post(address, form_of(configuration, **{"file-photo": file("b.gif", GIF), "kept-photo": "on"}))
    refused = starter.post(address, form_of(configuration, **{"file-photo": ""})).content.decode()

    assert f"“photo.png” of run {first.pk}, 12 bytes" in text_of(page)
    assert 'name="kept-photo" checked' in page and "Choose a picture." in refused
    again, other = Run.objects.order_by("pk")[1:]
    assert given_of(again) == given_of(first) and given_of(other)["photo"].material.data == GIF
    # Without the run there is nothing to keep.
    starter.post(URL, form_of(configuration, **{"file-photo": "", "kept-photo": "on"}))
    assert Run.objects.count() == 3


def run_with_picture(settings: Settings, level: PrivacyLevel, picture: bytes = PNG, **request: object) -> Run:
    settings.LLM_PRIVACY_LEVEL = level.value
    photo = {"data": picture, "media_type": media_type_of(picture), "origin": "photo.png"}
    inputs = (GivenInput.of_picture(name="photo", **photo), GivenInput(name="text", text=TEXT))
    with script(Turn(text=VALID)) as model:
        LanguageModel.objects.update(supports_images=True)
        return model.run(prompt="", structured=structured(inputs=inputs), **request)


def stored_of(run: Run) -> str:
    """All that is stored of what the run said."""
    return str([run.request, run.plan, *run.contents.values_list("value"), *run.steps.values_list("data")])


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("level", PrivacyLevel)
def test_a_picture_stays_where_all_that_is_said_stays(settings: Settings, level: PrivacyLevel, dry_run: bool) -> None:
    run = run_with_picture(settings, level, dry_run=dry_run)
    data = given_of(run)["photo"].data if level is PrivacyLevel.FULL else ""

    assert run.reason == ("dry_run" if dry_run else "completed")
    stored = stored_of(run)
    # Nothing can mask what a picture shows.
    assert ("iVBORw0KGgo" in stored) == (level is PrivacyLevel.FULL) == bool(data)
    assert ("photo.png" in stored) == (level is not PrivacyLevel.METADATA)
    assert run.plan is not None and run.plan["structured"]["inputs"][0]["bytes"] == len(PNG)


@pytest.mark.django_db(transaction=True)
def test_a_picture_goes_with_the_contents_of_its_run(settings: Settings) -> None:
    run = run_with_picture(settings, PrivacyLevel.FULL)

    assert "iVBORw0KGgo" in stored_of(run)
    assert run.ended_at is not None
    purge(now=run.ended_at + timedelta(days=91))
    run.refresh_from_db()

    assert "iVBORw0KGgo" not in stored_of(run) and "photo.png" not in stored_of(run)


@pytest.mark.django_db(transaction=True)
def test_a_fork_takes_the_picture_along_and_is_refused_without_it(settings: Settings) -> None:
    whole = read_fork_point(run=run_with_picture(settings, PrivacyLevel.FULL), at=1)
    without = run_with_picture(settings, PrivacyLevel.REDACTED)

    assert [part.kind for part in whole.fork.state.messages[1].parts] == ["text", "image", "text"]
    with pytest.raises(ConfigurationError, match="A picture that this run was given is no longer stored"):
        read_fork_point(run=without, at=1)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("level", "said"), [("full", "12 B"), ("redacted", "not kept")])
def test_the_pages_say_what_the_picture_was(client: Client, settings: Settings, level: str, said: str) -> None:
    run, other = (run_with_picture(settings, PrivacyLevel(level), picture=data) for data in (PNG, GIF))
    client.force_login(UserFactory(is_superuser=True))
    request = run.steps.get(kind="request").sequence

    start = client.get(reverse("playground:run_step", args=[run.pk, 0]), headers={"HX-Request": "true"})
    sent = client.get(
        reverse("playground:run_step", args=[run.pk, request]), {"tab": "messages"}, headers={"HX-Request": "true"}
    )

    assert f"PNG picture, {said}" in text_of(start.content.decode())
    assert "from photo.png" in text_of(start.content.decode())
    assert f"PNG picture, {said}" in text_of(sent.content.decode())
    compared = client.get(reverse("playground:compare"), {"a": run.pk, "b": other.pk})
    # It is one source with its block and its picture, and another one than that of the other run.
    shown = text_of(compared.content.decode())
    assert "Input photo" in shown and f"PNG picture, {said}" in shown and "GIF picture" in shown


@pytest.mark.django_db(transaction=True)
def test_a_picture_is_shown_wherever_it_is_told_of(client: Client, settings: Settings) -> None:
    # The other one has the same type and size.
    pictures = (PNG, PNG[:-1] + b"x")
    run, other = (run_with_picture(settings, PrivacyLevel.FULL, picture=data) for data in pictures)
    client.force_login(UserFactory(is_superuser=True))
    same = run_with_picture(settings, PrivacyLevel.FULL)
    urls = [sent_picture(client, each)[1] for each in (run, other, same)]

    start = client.get(reverse("playground:run_step", args=[run.pk, 0]), headers={"HX-Request": "true"})
    compared = client.get(reverse("playground:compare"), {"a": run.pk, "b": other.pk}).content.decode()
    again = client.get(reverse("playground:compare"), {"a": run.pk, "b": same.pk}).content.decode()
    fork = client.get(reverse("playground:fork_message", args=[run.pk, 1]), {"at": 1}).content.decode()

    assert pictures_of(start.content.decode()) == urls[:1]
    assert pictures_of(compared) == urls[:2]
    assert pictures_of(again) == urls[2:]
    assert pictures_of(fork) == urls[:1] and "Also in this message" in fork


def sent_picture(client: Client, run: Run) -> tuple[str, str]:
    """The messages of the run's first request as its page shows them, and the address of the picture in them."""
    request = run.steps.get(kind="request").sequence
    url = reverse("playground:run_step", args=[run.pk, request])
    html = client.get(url, {"tab": "messages"}, headers={"HX-Request": "true"}).content.decode()
    return html, next(iter(pictures_of(html)), "")


def pictures_of(html: str) -> list[str]:
    return re.findall(r'<img src="([^"]+)"', html)


@pytest.mark.django_db(transaction=True)
def test_a_picture_that_was_sent_is_shown_by_its_address(client: Client, settings: Settings) -> None:
    run, other = (run_with_picture(settings, PrivacyLevel.FULL, picture=data) for data in (PNG, GIF))
    client.force_login(UserFactory(is_superuser=True))

    html, url = sent_picture(client, run)
    response = client.get(url)

    assert "photo.png PNG picture, 12 B" in text_of(html) and f'<a href="{url}" target="_blank"' in html
    # The page stays light: the bytes come by the address alone.
    assert "iVBORw0KGgo" not in html and response.content == PNG
    assert response["Content-Type"] == "image/png" and response["Content-Disposition"] == "inline"
    assert response["X-Content-Type-Options"] == "nosniff" and "no-store" in response["Cache-Control"]
    assert response["Content-Security-Policy"] == "default-src 'none'; style-src 'unsafe-inline'; sandbox"
    assert client.post(url).status_code == 405
    # What isn't a picture of a type that the product takes, or of another run, isn't served.
    digest = url.split("/")[-3]
    at = {"run": other.pk, "digest": digest, "part": 1}
    for changed in (at, at | {"run": run.pk, "part": 0}, at | {"run": run.pk, "part": 9}):
        assert client.get(reverse("playground:run_picture", args=list(changed.values()))).status_code == 404


@pytest.mark.django_db(transaction=True)
def test_only_who_may_see_the_run_gets_its_picture(client: Client, settings: Settings) -> None:
    run = run_with_picture(settings, PrivacyLevel.FULL)
    client.force_login(UserFactory(is_superuser=True))
    _, url = sent_picture(client, run)

    statuses = []
    for rights in (["playground.view_all_runs"], ["playground.view_run"], []):
        client.force_login(UserFactory(is_staff=True, permissions=rights))
        statuses.append(client.get(url).status_code)
    client.logout()

    assert statuses == [200, 404, 403] and client.get(url).status_code == 302


@pytest.mark.django_db(transaction=True)
def test_a_deleted_picture_says_so(client: Client, settings: Settings) -> None:
    run = run_with_picture(settings, PrivacyLevel.FULL)
    client.force_login(UserFactory(is_superuser=True))
    _, url = sent_picture(client, run)
    assert run.ended_at is not None
    purge(now=run.ended_at + timedelta(days=91))

    response = client.get(url)

    assert (response.status_code, response.content) == (410, b"This picture is no longer stored.")
    assert sent_picture(client, run)[1] == ""


@pytest.mark.django_db(transaction=True)
def test_the_command_reads_a_picture_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "photo.png").write_bytes(PNG)
    (tmp_path / "text.txt").write_text(TEXT)
    with script(Turn(text=VALID)) as model:
        LanguageModel.objects.update(supports_images=True)
        inputs = [f"photo={tmp_path / 'photo.png'}", f"text={tmp_path / 'text.txt'}"]
        with pytest.raises(SystemExit) as ended:
            call_command("llm_structured", "test.names", configuration=model.configuration.slug, input=inputs)
        body = model.model.requests[0].body

    assert ended.value.code == 0 and b"data:image/png;base64,iVBORw0KGgo" in body
    assert given_of(Run.objects.get())["photo"].material.data == PNG
