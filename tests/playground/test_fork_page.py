"""The page on which a run is forked: what it shows, what it takes, and that nothing typed is lost."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from llmcore.models import Configuration
from llmcore.runs.outcome import EndReason
from llmcore.tools.results import FailureKind, ToolResult
from playground.models import Run
from tests.factories import ConfigurationFactory, UserFactory
from tests.playground.recorded import RecordedRun, finished_run, provider_error

pytestmark = pytest.mark.django_db

RESULT = 3


@pytest.fixture
def configuration() -> Configuration:
    return ConfigurationFactory(slug="support", name="Support")


@pytest.fixture
def client(configuration: Configuration) -> Client:
    client = Client()
    client.force_login(UserFactory(permissions=["playground.view_run", "playground.add_run"], username="ada"))
    return client


@pytest.fixture
def run(client: Client) -> Run:
    return whole(finished_run(user_of(client)))


def user_of(client: Client) -> Any:
    from django.contrib.auth import get_user

    request: Any = client
    return get_user(request)


def whole(run: Run) -> Run:
    """With a plan as a worker makes it."""
    plan = dict(run.plan or {})
    limits = {"max_rounds": 5}
    plan["state"] = {
        **plan["state"],
        "limits": limits,
        "offered": ["look_up"],
        "rounds_used": 0,
        "call_counts": {},
        "finish_reason": None,
    }
    Run.objects.filter(pk=run.pk).update(plan=plan)
    run.refresh_from_db()
    return run


def sequence(run: Run, kind: str, round: int) -> int:
    return run.steps.get(kind=kind, round=round).sequence


def data(**changes: Any) -> dict[str, Any]:
    empty = dict.fromkeys(("title", "max_rounds", "max_tokens", "temperature", "thinking"), "")
    return {"configuration": "support", "tools_of": "support", **empty, **changes}


def address(run: Run, at: int, name: str = "run_fork", **more: Any) -> str:
    return reverse(f"playground:{name}", args=[run.pk, *more.values()]) + f"?at={at}"


def test_the_page_has_the_messages_up_to_the_step_and_opens_the_chosen_result(client: Client, run: Run) -> None:
    page = client.get(address(run, sequence(run, "tool_call", 1))).content.decode()
    assert "Fork from round 2" in page
    assert page.count(" data-message ") == 4
    assert f'name="text-{RESULT}-0"' in page and "order 1" in page
    assert 'name="text-1-0"' not in page


def test_a_message_is_fetched_when_it_is_opened(client: Client, run: Run) -> None:
    at = sequence(run, "request", 2)
    url = reverse("playground:fork_message", args=[run.pk, 2])
    fragment = client.get(f"{url}?at={at}", headers={"HX-Request": "true"}).content.decode()
    assert 'name="call-2-0"' in fragment and "&quot;n&quot;: 1" in fragment
    assert client.get(reverse("playground:fork_message", args=[run.pk, 9]) + f"?at={at}").status_code == 404


def test_a_refused_form_says_what_was_edited(client: Client, run: Run) -> None:
    typed = {f"text-{RESULT}-0": "order 1", f"failed-{RESULT}": "1", "max_rounds": "1"}
    page = client.post(address(run, sequence(run, "request", 3)), data(**typed)).content.decode()
    assert f'<select name="failed-{RESULT}" data-edit data-edited>' in page
    assert '<span class="pg-badge pg-badge--chg" data-badge>' in page


def test_a_sent_form_starts_a_run_that_names_its_parent(client: Client, run: Run) -> None:
    at = sequence(run, "tool_call", 1)
    edited = {f"text-{RESULT}-0": "order 1\r\nlost", f"failed-{RESULT}": "1"}
    response = client.post(address(run, at), data(**edited, temperature="0.7"))
    child = Run.objects.exclude(pk=run.pk).get()
    assert response.url == reverse("playground:run", args=[child.pk])
    assert (child.parent_id, child.forked_at_round, child.request["temperature"]) == (run.pk, 2, 0.7)
    result = child.request["fork"]["state"]["messages"][RESULT]
    assert (result["parts"][0]["text"], result["is_error"]) == ("order 1\nlost", True)
    assert child.request["fork"]["edited"] == [RESULT]


def test_a_script_that_sends_the_form_is_told_the_address_or_that_nothing_was_started(client: Client, run: Run) -> None:
    at, script = address(run, sequence(run, "request", 3)), {"HX-Request": "true"}
    refused = client.post(at, data(max_rounds="1"), headers=script)
    assert (refused.status_code, refused.content, Run.objects.count()) == (204, b"", 1)
    started = client.post(at, data(), headers=script)
    child = Run.objects.exclude(pk=run.pk).get()
    assert (started.status_code, started.content) == (201, b"")
    assert started.headers["Location"] == reverse("playground:run", args=[child.pk])


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"text-1-0": "   "}, "no text any more"),
        ({"call-2-0": '{"n": '}, "no JSON"),
        ({"call-2-0": "[]"}, "JSON object"),
        ({"max_rounds": "1", "text-1-0": "Hello"}, "2 rounds are used"),
        ({"text-99-0": "Hello"}, "no message 100"),
    ],
)
def test_nothing_typed_is_lost_where_the_form_is_refused(
    client: Client, run: Run, typed: dict[str, str], said: str
) -> None:
    page = client.post(address(run, sequence(run, "request", 3)), data(**typed, title="Try it")).content.decode()
    assert "Nothing was started." in page and said in page
    assert 'value="Try it"' in page
    for name, value in typed.items():
        assert "99" in name or f'name="{name}"' in page
        assert value.strip() in page.replace("&quot;", '"')
    assert Run.objects.count() == 1


def test_a_run_of_somebody_else_is_not_there_to_be_forked(run: Run) -> None:
    other = Client()
    other.force_login(UserFactory(permissions=["playground.view_run", "playground.add_run"]))
    for name in ("run_fork", "fork_choices", "fork_preview", "run_retry"):
        assert other.post(address(run, 0, name)).status_code == 404
    assert other.get(address(run, 0, "fork_message", index=0)).status_code == 404


def test_who_may_not_start_runs_may_not_fork_them(client: Client, run: Run) -> None:
    reader = Client()
    reader.force_login(UserFactory(permissions=["playground.view_all_runs"]))
    for name in ("run_fork", "fork_choices", "fork_preview", "run_retry"):
        assert reader.post(address(run, 0, name)).status_code == 403
    assert "data-fork" not in reader.get(reverse("playground:run", args=[run.pk])).content.decode()
    assert Run.objects.count() == 1


def test_the_preview_is_of_the_edited_messages(client: Client, run: Run) -> None:
    at = sequence(run, "request", 2)
    edited = {f"text-{RESULT}-0": "order 1 is lost"}
    page = client.post(
        address(run, at, "fork_preview"), data(**edited), headers={"HX-Request": "true"}
    ).content.decode()
    assert "order 1 is lost" in page and "Tool result" in page
    assert "Tool call" in page and "pg-asm__none" not in page


def test_a_failed_round_is_made_again_with_one_click(client: Client) -> None:
    recorded = RecordedRun(user_of(client))
    recorded.round()
    recorded.request()
    recorded.response(error=provider_error(), finish_reason=None)
    error = {"kind": "rate_limit", "message": "slow down", "status": 429}
    run = whole(recorded.end(EndReason.PROVIDER_FAILED, error=error, rounds=2))
    page = client.get(reverse("playground:run", args=[run.pk])).content.decode()
    assert "Retry round 2" in page
    response = client.post(reverse("playground:run_retry", args=[run.pk]))
    child = Run.objects.exclude(pk=run.pk).get()
    assert response.url == reverse("playground:run", args=[child.pk])
    assert (child.forked_at_round, child.request["fork"]["edited"]) == (2, [])
    page = client.get(reverse("playground:run", args=[child.pk])).content.decode()
    assert "forked from" in page and "nothing changed" in page
    assert f"run {child.pk}, forked at round 2" in client.get(reverse("playground:run", args=[run.pk])).content.decode()


def test_a_child_says_what_differs_when_its_parent_is_gone(client: Client, run: Run) -> None:
    client.post(address(run, sequence(run, "request", 2)), data(**{"text-1-0": "Hi?"}))
    child = Run.objects.exclude(pk=run.pk).get()
    number = run.pk
    run.delete()
    page = client.get(reverse("playground:run", args=[child.pk])).content.decode()
    assert f"run {number} (deleted)" in page and "1 message edited" in page


def test_nothing_leads_to_a_parent_that_the_reader_may_not_see(client: Client, run: Run) -> None:  # R3
    client.post(address(run, sequence(run, "request", 2)), data(**{"text-1-0": "Hi?"}))
    child = Run.objects.exclude(pk=run.pk).get()
    Run.objects.filter(pk=run.pk).update(user=UserFactory())
    page = client.get(reverse("playground:run", args=[child.pk])).content.decode()
    assert f"run {run.pk} at round 2" in page and "1 message edited" in page
    assert reverse("playground:run", args=[run.pk]) not in page

    Run.objects.filter(pk=child.pk).update(forked_at_round=None)
    page = client.get(reverse("playground:run", args=[child.pk])).content.decode()
    assert reverse("playground:run", args=[run.pk]) not in page


def test_re_running_a_fork_leads_to_its_own_messages(client: Client, run: Run) -> None:
    client.post(address(run, sequence(run, "request", 2)), data())
    child = Run.objects.exclude(pk=run.pk).get()
    response = client.get(reverse("playground:new_run") + f"?from={child.pk}")
    assert response.url == reverse("playground:run_fork", args=[child.pk])


def test_what_models_and_tools_wrote_is_escaped(client: Client) -> None:
    recorded = RecordedRun(user_of(client))
    recorded.round(result=ToolResult.failed(FailureKind.TOOL_ERROR, "</textarea><script>alert(1)</script>"))
    recorded.answer("Sorry.")
    run = whole(recorded.end())
    page = client.get(address(run, sequence(run, "tool_call", 1))).content.decode()
    assert "<script>alert" not in page and "&lt;/textarea&gt;&lt;script&gt;" in page


def test_a_run_without_contents_says_why_it_can_not_be_forked(client: Client, run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(contents_deleted_at=run.created_at)
    response = client.get(address(run, 0), follow=True)
    assert "no longer stored" in response.content.decode()
    # A script leaves it to the browser to come to that page: to its own eyes, a redirect leads to the login.
    assert client.post(address(run, 0), data(), headers={"HX-Request": "true"}).status_code == 204
    assert "no longer stored" not in client.get(reverse("playground:run", args=[run.pk])).content.decode()


# --- tools that don't simply run ---


def new_run(client: Client, **changes: Any) -> Any:
    sent = {"prompt": "Where is it?", "override": "none", "system_override": "", "tools": ["read_policy"], **changes}
    return client.post(reverse("playground:new_run"), data(**sent))


@pytest.fixture
def with_tools(configuration: Configuration) -> None:
    Configuration.objects.filter(pk=configuration.pk).update(tool_groups=["policies"])


@pytest.mark.usefixtures("with_tools")
def test_a_result_is_typed_in_for_a_tool_and_asked_for_again_when_the_run_is(client: Client) -> None:
    new_run(client, mode_read_policy="typed", typed_read_policy="lost\r\n", typed_failed_read_policy="on")
    asked = Run.objects.get().request["replacements"]
    assert [(item["tool"], item["mode"], item["text"], item["is_error"]) for item in asked] == [
        ("read_policy", "typed", "lost\n", True)
    ]
    page = client.get(reverse("playground:new_run") + f"?from={Run.objects.get().pk}").content.decode()
    assert '<option value="typed" selected>' in page and "lost" in page


@pytest.mark.usefixtures("with_tools")
def test_nothing_is_chosen_for_a_tool_that_is_not_offered(client: Client) -> None:
    new_run(client, mode_list_policies="typed", mode_read_policy="ask")
    assert [item["tool"] for item in Run.objects.get().request["replacements"]] == ["read_policy"]


@pytest.mark.usefixtures("with_tools")
def test_recorded_results_are_copied_from_a_run_that_one_may_see(client: Client) -> None:
    recorded = RecordedRun(user_of(client))
    recorded.round(tool="read_policy", result="order 1")
    source = recorded.end()
    new_run(client, mode_read_policy="recorded", recorded_from=str(source.pk))
    child = Run.objects.exclude(pk=source.pk).get()
    (item,) = child.request["replacements"]
    assert (item["run"], [result["text"] for result in item["results"]]) == (source.pk, ["order 1"])


@pytest.mark.usefixtures("with_tools")
@pytest.mark.parametrize("number", ["", "999", "theirs"])
def test_a_run_that_has_no_results_for_one_is_named_beside_the_field(client: Client, number: str) -> None:
    recorded = RecordedRun(UserFactory())
    recorded.round(tool="read_policy", result="order 1")
    source = recorded.end()
    given = str(source.pk) if number == "theirs" else number
    page = new_run(client, mode_read_policy="recorded", recorded_from=given).content.decode()
    assert 'id="recorded_from_errors"' in page
    assert "Name the run" in page if not number else f"no run {given} that you may see" in page
    assert Run.objects.count() == 1


@pytest.mark.usefixtures("with_tools")
def test_the_preview_says_which_tools_do_not_run(client: Client) -> None:
    sent = data(prompt="Hi", override="none", system_override="", tools=["read_policy"], mode_read_policy="typed")
    page = client.post(reverse("playground:preview"), sent, headers={"HX-Request": "true"}).content.decode()
    assert "1 tool won&#x27;t run: read_policy" in page
