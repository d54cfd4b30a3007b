"""What a decider is shown is what would happen: nothing hidden, nothing cut off unsaid, and the rest of the turn beside
it."""

from __future__ import annotations

from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from llmcore.models import ActionRule, Configuration
from llmcore.providers.scripted.scenario import Turn
from llmcore.tools.base import Action, ActionKind, Tool
from llmcore.tools.unseen import visible
from llmcore.tools.workspace.differences import unified
from llmcore.tools.workspace.writing import Change
from playground.access import why_not_decide
from playground.models import ProposedAction, Run
from playground.reading.approvals import read_waiting
from playground.reading.described import MAX_TEXT_CHARS, Described, describe
from playground.reading.inbox import read_inbox
from playground.reading.visible import foreign, unseen_marked
from playground.services.start_run import write_run
from tests.factories import UserFactory
from tests.playground.driven import Script, call, script, site_tool

TEXT = {"type": "object", "properties": {"line": {"type": "string"}}, "required": ["line"]}


def command(line: str, *, shell: bool = True) -> Described:
    return described(Action(kind=ActionKind.COMMAND, title="Run", command=line, shell=shell, directory="/srv"))


def change(before: str | None, after: str) -> Described:
    diff = unified(before, after, "a.txt")
    return described(Action(kind=ActionKind.FILE_CHANGE, title="Change a.txt", path="a.txt", diff=diff))


def described(action: Action, **arguments: Any) -> Described:
    return describe({"action": action.to_json(), "why": "Why.", "repeatable": True, "arguments": arguments})


def lines(shown: Described) -> list[tuple[str, str]]:
    return [(line.sign, line.text + line.trailing) for line in shown.diff]


# Characters


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ls -la\n\tnext", "ls -la\n\tnext"),
        ("Grüße, 東京", "Grüße, 東京"),
        ("echo \u202egnp.exe", "echo ⟨U+202E⟩gnp.exe"),
        ("rm\u200b -rf", "rm⟨U+200B⟩ -rf"),
        ("a\x1b[2Kb\r", "a⟨U+001B⟩[2Kb⟨U+000D⟩"),
        ("a\u00a0b\u2028", "a⟨U+00A0⟩b⟨U+2028⟩"),
        ("x\u3164y\u2800z\ufe0f", "x⟨U+3164⟩y⟨U+2800⟩z⟨U+FE0F⟩"),
        ("a\U000e0041b\u034fc\ufeff", "a⟨U+E0041⟩b⟨U+034F⟩c⟨U+FEFF⟩"),
        ("e\u0301 e" + "\u0338" * 4, "e\u0301 e\u0338\u0338⟨U+0338⟩⟨U+0338⟩"),
        ("half \ud800", "half ⟨U+D800⟩"),
        # What imitates such a name is told from one.
        ("⟨U+202E⟩", "⟨U+27E8⟩U+202E⟩"),
    ],
)
def test_what_can_not_be_seen_is_named(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_names_of_characters_look_unlike_the_text_around_them() -> None:
    html = unseen_marked(visible("<b>\u202e⟨U+202E⟩"))
    assert html == '&lt;b&gt;<mark class="pg-unseen">U+202E</mark><mark class="pg-unseen">U+27E8</mark>U+202E⟩'


def test_letters_that_look_like_others_are_named() -> None:
    assert foreign(["ls", "с\u0430t"]) == "“с” is cyrillic small letter es, “а” is cyrillic small letter a"
    assert foreign(["абвгдежз"]).endswith("and 3 more") and foreign(["ls -la"]) == ""
    assert command("echo \ud800").command == "echo ⟨U+D800⟩"
    assert command("cаt x").foreign == "“а” is cyrillic small letter a"


# Commands


def test_empty_stretches_are_counted_so_that_nothing_waits_below_them() -> None:
    shown = command("ls" + "\n" * 500 + "rm -rf /")
    assert shown.command == "ls\n⟨499 empty lines⟩\nrm -rf /" and shown.measured == "501 lines"
    assert not shown.exact and command("ls -la\ncat x").exact, "only what is shown as it is can be copied"
    assert command("ls" + " " * 900 + "; rm -rf /").command == "ls⟨900 spaces⟩; rm -rf /"
    assert command("ls\n\n  \n\t\n \nrm x").command == "ls\n⟨4 empty lines⟩\nrm x"
    assert command("for x in *\ndo\n\n  echo 1\ndone").command == "for x in *\ndo\n\n  echo 1\ndone"


def test_what_is_not_shown_of_a_long_command_is_said() -> None:
    shown = command("echo " + "x" * 50_000 + "; rm -rf /")
    assert len(shown.command) == MAX_TEXT_CHARS and shown.left_out == "the last 30,015 characters"
    assert command("x" * MAX_TEXT_CHARS).left_out == ""


def test_what_is_not_shown_of_long_arguments_is_said() -> None:
    shown = described(Action(kind=ActionKind.CALL, title="T" * 5_000), text="x" * 50_000)
    assert shown.left_out.startswith("the end of the title and the last 30,") and len(shown.title) == 1_000


# Files


def test_only_what_stands_below_a_place_is_a_line_of_the_file() -> None:
    assert lines(change("a\nb\n", "a\nc\n")) == [("", "@@ -1,2 +1,2 @@"), (" ", "a"), ("-", "b"), ("+", "c")]
    assert lines(change(None, "-- a\n++ b\n@@ x\n"))[1:] == [("+", "-- a"), ("+", "++ b"), ("+", "@@ x")]
    assert change("a\nb\n", "a\nc\n").measured == "+1 −1 lines"
    assert lines(change("a", "a\n"))[-1] == ("+", "a") and ("", "No newline at end of file") in lines(
        change("a", "a\n")
    )


def test_a_line_can_not_pass_for_another_kind_of_line() -> None:
    """What a tool of a site writes above the first place is no line of a file, and loses no character to a sign."""
    note = Action(kind=ActionKind.FILE_CHANGE, title="Replace", path="x", diff="-Binary file\n+is replaced:\nrm -rf")
    assert lines(described(note)) == [("", "-Binary file"), ("", "+is replaced:"), ("", "rm -rf")]


def test_ends_of_lines_are_seen() -> None:
    shown = change("a\nb\n", "a \t\nb\r\n")
    assert ("+", "b⟨U+000D⟩") in lines(shown)
    assert [line.trailing for line in shown.diff if line.sign == "+"] == [" \t", ""]


def test_what_is_not_shown_of_a_difference_is_said_and_all_of_it_counted() -> None:
    shown = change(None, "x\n" * 5_000 + "evil\n")
    assert shown.measured == "+5,001 −0 lines" and len(shown.diff) < 2_000
    assert shown.left_out == "3,004 lines"
    wide = change(None, "x" * 5_000 + "evil\n")
    assert wide.left_out == "the ends of 1 long line" and wide.diff[1].text.endswith("⟨3,004 characters more⟩")
    assert change(None, "a" + " " * 100 + "b\n").diff[1].text == "a⟨100 spaces⟩b"


def test_a_binary_file_that_is_replaced_shows_what_comes() -> None:
    diff = Change(parts=("image.png",), before=b"\x89\0", after=b"-rm\n+x\n").diff
    action = Action(kind=ActionKind.FILE_CHANGE, title="Change", path="image.png", diff=diff, before_sha256="0" * 64)
    assert not described(action).is_new and change(None, "x").is_new
    assert lines(described(action)) == [
        ("", "Binary file of 2 bytes, replaced by this text:"),
        ("", "@@ -0,0 +1,2 @@"),
        ("+", "-rm"),
        ("+", "+x"),
    ]


# On the page


@pytest.fixture
def user() -> User:
    user: User = UserFactory(is_superuser=True)
    return user


@pytest.fixture
def shop(settings: Any, tmp_path: Path) -> Path:
    """A workspace with a file that a model may only propose to change."""
    (tmp_path / "vat.toml").write_text("DE = 0.19\nAT = 0.02\n")
    entry = {"root": str(tmp_path), "write": True, "write_freely": ["notes/**"], "terminal": True}
    settings.LLM_WORKSPACES = {"shop": entry}
    return tmp_path


def repairing(*turns: Turn) -> Any:
    first = Turn(
        tool_calls=(
            call("write_file", path="notes/<b>.md", content="<i>free</i>"),
            call("write_file", path="vat.toml", content="DE = 0.19\nAT = 0.20 # <script>\n"),
            call("terminal", command="cat <b>.txt | wc", timeout_s=7),
            call("gone"),
        )
    )
    return script(*(turns or (first, Turn(text="Done."))), tool_groups=["workspace"], workspace="shop")


def waiting(model: Script, user: User) -> Run:
    run = model.drive(write_run(request=model.request(), by=user))
    assert run.status == "awaiting_approval"
    return run


def page(run: Run, user: User) -> str:
    client = Client()
    client.force_login(user)
    return client.get(reverse("playground:run", args=[run.pk])).content.decode()


@pytest.mark.django_db(transaction=True)
def test_a_turn_is_shown_with_all_of_its_calls_in_their_order(shop: Path, user: User) -> None:  # P2
    ActionRule.objects.create(name="Files of the shop", ruling="require", tool="terminal")
    with repairing() as model:
        run = waiting(model, user)
        turn = read_waiting(run, user=user, now=timezone.now())
        html = page(run, user)

        assert [(c.name, bool(c.card), c.ran) for c in turn.calls] == [
            ("write_file", False, False),
            ("write_file", True, False),
            ("terminal", True, False),
            ("gone", False, False),
        ]
        assert turn.calls[0].summary.startswith('{"path": "notes/<b>.md"')
        assert turn.calls[1].summary == "Change vat.toml" and turn.calls[2].summary == "cat <b>.txt | wc"
        assert "Round 1 asks for 4 calls" in html and html.count(">nobody is asked<") == 2
        assert f'href="#step-{turn.step}/response"' in html
        assert "AT = 0.20 # &lt;script&gt;</span>" in html and "<script>\n" not in html
        assert "cat &lt;b&gt;.txt | wc</pre>" in html and "at most 7 s" in html
        assert f"can decide: {user.username}" in html and "Files of the shop" in html
        assert str(shop) in html


@pytest.mark.django_db(transaction=True)
def test_a_turn_of_one_call_needs_no_list(shop: Path, user: User) -> None:
    with repairing(Turn(tool_calls=(call("terminal", command="ls"),)), Turn(text="Done.")) as model:
        html = page(waiting(model, user), user)
    assert "pg-turn" not in html and "ls</pre>" in html and "at most 60 s" in html


@pytest.mark.django_db(transaction=True)
def test_left_out_is_said_on_the_card_with_where_to_read_it(shop: Path, user: User) -> None:
    with repairing(Turn(tool_calls=(call("write_file", path="long.txt", content="x\n" * 3_000),))) as model:
        run = waiting(model, user)
        html = page(run, user)
        sequence = ProposedAction.objects.get(run=run).sequence
        client = Client()
        client.force_login(user)
        raw = client.get(reverse("playground:run_step", args=[run.pk, sequence]), {"tab": "raw"}).content.decode()
    assert "see all of it" in unescape(html) and f'href="#step-{sequence}/raw"' in html
    assert "What it would do" in raw


@pytest.mark.django_db(transaction=True)
def test_many_actions_cost_no_more_queries_than_few(user: User, django_assert_max_num_queries: Any) -> None:
    asking = Tool(
        name="ask", description="Ask.", parameters=TEXT, run=lambda line: line, group="test", requires_approval=True
    )
    UserFactory.create_batch(3, permissions=["playground.view_all_runs", "playground.decide_action"])
    queries = []
    with site_tool(asking):
        for count in (2, 12):
            calls = tuple(call("ask", line=f"{number}") for number in range(count))
            with script(Turn(tool_calls=calls), tool_groups=["test"]) as model:
                run = waiting(model, user)
            with django_assert_max_num_queries(60) as captured:
                read_waiting(Run.objects.get(pk=run.pk), user=user, now=timezone.now())
                read_inbox(user=user, now=timezone.now())
            queries.append(len(captured.captured_queries))
    assert queries[1] <= queries[0]


@pytest.mark.django_db(transaction=True)
def test_those_who_can_decide_are_named_the_first_few(shop: Path, user: User) -> None:
    """The same as whether each of them may: by rights of their own or of a group, and only who sees the run."""
    sees, decides = "playground.view_all_runs", "playground.decide_action"
    for permissions in ([sees], [decides], ["playground.view_run", decides]):
        UserFactory(permissions=permissions)
    UserFactory(is_active=False, is_superuser=True)
    UserFactory(is_staff=False, is_superuser=True)
    team = Group.objects.create(name="Deciders")
    team.permissions.set(Permission.objects.filter(codename__in=[sees.split(".")[1], decides.split(".")[1]]))
    member = UserFactory(is_staff=True)
    member.groups.add(team)
    with repairing(Turn(tool_calls=(call("terminal", command="ls"),))) as model:
        run = waiting(model, user)

    def deciders() -> str:
        (card,) = read_waiting(Run.objects.get(pk=run.pk), user=user, now=timezone.now()).cards
        return card.deciders

    assert deciders() == f"{user.username}, {member.username}"
    action = ProposedAction.objects.get(run=run)
    staff = User.objects.filter(is_active=True, is_staff=True).order_by("pk")
    assert [one for one in staff if not why_not_decide(one, run, action)] == [user, member]
    Configuration.objects.update(requires_other_decider=True)
    run.refresh_from_db()
    assert deciders() == member.username
    others = UserFactory.create_batch(6, permissions=[sees, decides])
    assert deciders() == ", ".join(u.username for u in (member, *others[:4])) + " and 2 others"
