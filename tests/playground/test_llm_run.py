"""`manage.py llm_run`, as a process of its own on this test's database."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from llmcore.providers.scripted.scenario import Turn
from playground.models import Run, RunPartial
from playground.services.export_run import export_run, import_run
from tests.factories import ConfigurationFactory, SkillFactory, SnippetFactory, UserFactory
from tests.playground.beside import ROOT, environment_beside
from tests.playground.driven import call, script, wait_for

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return environment_beside(tmp_path)


def llm_run(environment: dict[str, str], *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "manage.py", "llm_run", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, input=stdin, capture_output=True, text=True, timeout=90)


def test_it_prints_rounds_and_ends_with_0(environment: dict[str, str]) -> None:
    turns = Turn(text="Let me look.", tool_calls=(call("list_policies"),)), Turn(text="There are \x1b[31msome\x1b[0m.")
    with script(*turns, tool_groups=["policies"]) as model:
        done = llm_run(environment, model.configuration.slug, "--prompt", "Which policies are there?")

    assert done.returncode == 0, done.stderr
    assert "Round 1" in done.stdout and "Round 2" in done.stdout and "Let me look." in done.stdout
    assert "→ list_policies {}" in done.stdout and "✓ list_policies" in done.stdout
    assert "There are \ufffd[31msome\ufffd[0m." in done.stdout, "what a model says must not steer a terminal"
    assert "\x1b" not in done.stdout, "no colors where it isn't a terminal"
    run = Run.objects.get()
    assert (run.status, run.user, run.prompt) == ("completed", None, "Which policies are there?")
    assert f"Run {run.pk}" in done.stdout


def test_as_json_it_prints_the_whole_run_and_nothing_else(environment: dict[str, str]) -> None:  # T6
    UserFactory(username="ada")
    skill, snippet = SkillFactory(), SnippetFactory()
    with script(Turn(text="Good day."), tool_groups=["policies"]) as model:
        done = llm_run(
            environment, model.configuration.slug, "--prompt", "-", "--json", "--raw", "--user", "ada",
            "--skill", skill.slug, "--snippet", snippet.slug, "--tools", "none", "--system", "", "--max-rounds", "2",
            stdin="From\nstandard input",
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    exported = json.loads(done.stdout)
    assert done.stdout == json.dumps(exported, ensure_ascii=False, indent=1) + "\n"
    run = Run.objects.get()
    assert exported == json.loads(json.dumps(export_run(run=run, raw=True)))
    assert run.request == {
        **run.request,
        "prompt": "From\nstandard input",
        "skills": [skill.slug],
        "snippets": [snippet.slug],
        "tools": [],
        "system_override": "",
        "max_rounds": 2,
    }
    assert run.user is not None and run.user.get_username() == "ada" and run.exchanges.count() == 1
    again = import_run(data=exported, by=None)
    assert export_run(run=again, raw=True) == exported


@pytest.mark.parametrize(
    ("turn", "code", "says"),
    [
        (Turn(tool_calls=(call("list_policies"),)), 10, "max_rounds"),
        (Turn(text="Well", finish_reason="length"), 11, "truncated"),
        (Turn(status=401), 16, "has no API key"),
    ],
)
def test_its_exit_status_tells_how_the_run_ended(environment: dict[str, str], turn: Turn, code: int, says: str) -> None:
    with script(turn, tool_groups=["policies"], max_rounds=1) as model:
        done = llm_run(environment, model.configuration.slug, "--prompt", "Hello?")
    assert (done.returncode, done.stderr.count("Traceback")) == (code, 0)
    assert says in done.stdout


def test_a_dry_run_shows_the_request_and_sends_nothing(environment: dict[str, str]) -> None:  # A5
    with script(Turn(text="Good day.")) as model:
        done = llm_run(environment, model.configuration.slug, "--prompt", "Hello?", "--dry-run")
        assert not model.model.requests
    assert done.returncode == 0
    assert '"content":"Hello?"' in done.stdout.replace(": ", ":") and "SHA-256" in done.stdout


def test_what_can_not_be_run_is_said_without_a_traceback(environment: dict[str, str]) -> None:
    done = llm_run(environment, "no-such-thing", "--prompt", "Hello?")
    assert done.returncode == 1 and "no configuration “no-such-thing”" in done.stderr
    assert "Traceback" not in done.stderr
    with script(Turn(text="Good day.")) as model:
        done = llm_run(environment, model.configuration.slug, "--prompt", "Hello?", "--user", "nobody")
        assert done.returncode == 1 and "no active user" in done.stderr
        done = llm_run(environment, model.configuration.slug, "--prompt", "Hello?", "--skill", "gone")
        assert done.returncode == 21 and "gone" in done.stdout


def test_an_interrupt_from_the_keyboard_cancels_the_run(environment: dict[str, str]) -> None:  # D2
    with script(Turn(text="word " * 400, chunk_chars=5, chunk_delay_s=0.05)) as model:
        command = [sys.executable, "manage.py", "llm_run", model.configuration.slug, "--prompt", "Hello?"]
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        wait_for(lambda: RunPartial.objects.exists(), "the answer to be streamed", 60)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
        wait_for(lambda: model.model.requests[0].disconnected, "the stream to be closed")
    assert process.returncode == 17, errors
    assert "Cancelled" in output and "Traceback" not in errors
    assert Run.objects.get().status == "cancelled"


def test_a_reader_that_has_seen_enough_does_not_end_the_run(environment: dict[str, str]) -> None:
    with script(Turn(text="Let me look.", tool_calls=(call("list_policies"),)), Turn(text="Good day.")) as model:
        command = f"{sys.executable} manage.py llm_run {model.configuration.slug} --prompt Hello | head -n 1"
        done = subprocess.run(
            command, shell=True, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=90
        )
    assert done.stdout.startswith("Run ") and "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr
    assert Run.objects.get().status == "completed"


def test_what_a_site_doesnt_store_is_printed_all_the_same(environment: dict[str, str]) -> None:  # R2
    turns = Turn(text="Let me look.", tool_calls=(call("list_policies"),)), Turn(text="There are some.")
    with script(*turns, tool_groups=["policies"]) as model:
        arguments = (model.configuration.slug, "--prompt", "Which policies are there?")
        done = llm_run({**environment, "LLM_PRIVACY_LEVEL": "metadata"}, *arguments)
        refused = llm_run({**environment, "LLM_PRIVACY_LEVEL": "metadata"}, *arguments, "--raw")

    assert done.returncode == 0, done.stderr
    assert "Let me look." in done.stdout and done.stdout.count("There are some.") == 1
    run = Run.objects.get()
    assert (run.prompt, run.answer, run.privacy_level) == ("", "", "metadata")
    assert refused.returncode == 1 and "excludes raw captures" in refused.stderr


def test_it_goes_on_from_a_run_with_results_that_were_recorded_or_are_in_a_file(
    environment: dict[str, str], tmp_path: Path
) -> None:
    turns = (
        Turn(tool_calls=(call("list_policies"),)),
        Turn(tool_calls=(call("list_policies"), {"name": "read_policy", "arguments": {"name": "refunds"}})),
        Turn(text="Read."),
    )
    (tmp_path / "policy.txt").write_text("No refunds on Mondays.")
    with script(*turns, tool_groups=["policies"]) as model:
        slug = model.configuration.slug
        parent = model.run()
        done = llm_run(
            environment, slug, "--fork", str(parent.pk), "--at-round", "2", "--recorded-from", str(parent.pk),
            "--tool-result", f"read_policy={tmp_path / 'policy.txt'}", "--json",
        )  # fmt: skip
        wrong = llm_run(environment, slug, "--prompt", "Hi", "--ask", "no_such_tool")

    assert done.returncode == 0, done.stderr
    child = Run.objects.exclude(pk=parent.pk).get()
    assert (child.parent_id, child.forked_at_round, child.answer) == (parent.pk, 2, "Read.")
    origins = [step.data["origin"]["run"] for step in child.steps.filter(kind="tool_result")]
    assert origins == [parent.pk, None]
    assert json.loads(done.stdout)["run"]["request"]["replacements"][0]["text"] == "No refunds on Mondays."
    assert wrong.returncode == 1 and "no tool no_such_tool" in wrong.stderr


def test_variables_are_filled_and_what_is_wrong_with_them_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    slug = ConfigurationFactory(system_prompt="You help {{shop}}.").slug
    for arguments, problem in (
        (["--var", "order"], "--var takes NAME=VALUE with a name like order_id, not “order”."),
        (["--var", "a b=1"], "--var takes NAME=VALUE with a name like order_id, not “a b=1”."),
        ([], "The variable “shop” has no value; it stands in: Configuration prompt."),
    ):
        with pytest.raises(CommandError) as refused:
            call_command("llm_run", slug, "--prompt", "Hello", *arguments)
        assert str(refused.value) == problem
    assert not Run.objects.exists()

    with pytest.raises(SystemExit, match="0"):
        call_command("llm_run", slug, "--prompt", "Hello", "--dry-run", "--var", "shop=a=b", "--var", "old=")
    assert Run.objects.get().request["variables"] == {"shop": "a=b", "old": ""}
    assert "The value of “old” is used nowhere." in capsys.readouterr().err
