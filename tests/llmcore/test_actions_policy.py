"""The action policy: which of the rules that fit a call decides, and what is never approved by itself."""

from __future__ import annotations

import pytest

from llmcore.actions.policy import Actor, Judged, Rule, Ruling, judge
from llmcore.actions.shell import is_plain
from llmcore.tools.base import Action, ActionKind

ASKS = "Each call of terminal needs approval."


def rule(ruling: str, pattern: str = "", **more: object) -> Rule:
    return Rule(name=f"{ruling} {pattern}", ruling=Ruling(ruling), pattern=pattern, **more)  # type: ignore[arg-type]


def command(line: str, *, shell: bool = True) -> Action:
    return Action(kind=ActionKind.COMMAND, title="Run a command", command=line, shell=shell)


def judged(*rules: Rule, action: Action | None = None, needs: str | None = ASKS, **more: object) -> Judged:
    facts = {"tool": "terminal", "arguments": {}, "actor": Actor(), **more}
    return judge(rules=rules, action=action or command("git status"), needs_approval=needs, **facts)  # type: ignore[arg-type]


# P1


def test_the_strictest_rule_wins_whatever_the_order() -> None:
    deny, require, auto = rule("deny", "git *"), rule("require", "git *"), rule("auto_approve", "git *")

    assert judged(auto, require, deny).rule == deny
    assert judged(auto, require).rule == require
    assert judged(auto).ruling is Ruling.AUTO_APPROVE


def test_of_rules_that_say_the_same_the_first_is_named() -> None:
    first, second = rule("require", "git *"), rule("require", "*")

    found = judged(first, second)

    assert (found.rule, found.matched) == (first, (first, second))
    assert found.why == "The rule “require git *” wants a person to decide."


def test_without_a_rule_the_tool_itself_decides() -> None:
    assert (judged().ruling, judged().why, judged().rule) == (Ruling.REQUIRE, ASKS, None)
    assert judged(needs=None).ruling is Ruling.AUTO_APPROVE


def test_a_rule_can_ask_for_a_call_that_the_tool_would_allow() -> None:
    assert judged(rule("require"), needs=None).ruling is Ruling.REQUIRE


@pytest.mark.parametrize(
    "line",
    [
        "git status; rm -rf /",
        "git status && rm x",
        "git status || rm x",
        "git status | sh",
        "git status & rm x",
        "git status > /etc/passwd",
        "git status < secret",
        "git status $(rm x)",
        "git status `rm x`",
        "git status $HOME",
        "git status ${HOME}",
        "git status\nrm x",
        "git status\rrm x",
        "git status <(rm x)",
        "git status {a,b}",
        "git status *",
        "git status ~",
        "git status \\\nrm",
        'git status "$(rm x)"',
        "git status '; rm'",
        "git status 'open",
        "git status # rm",
        "git status !!",
        "GIT_DIR=/tmp/evil git status",
        "git status \x1b[2K",
        "git status\u2028rm x",
        "git ѕtatus",
        "(git status)",
        "",
        "   ",
    ],
)
def test_a_shell_line_with_more_than_plain_words_is_never_approved_by_itself(line: str) -> None:
    assert not is_plain(line)
    found = judged(rule("auto_approve", "*"), action=command(line))

    assert found.ruling is Ruling.REQUIRE
    assert judged(action=command(line), needs=None).ruling is Ruling.REQUIRE


@pytest.mark.parametrize("line", ["git status", "git log -n 3 --oneline", 'grep -r "two words" src/', "make test"])
def test_a_plain_command_can_be_approved_by_a_rule(line: str) -> None:
    assert judged(rule("auto_approve", "*"), action=command(line)).ruling is Ruling.AUTO_APPROVE


def test_words_that_no_shell_reads_may_hold_anything() -> None:
    action = command("grep 'a;b$(c)' notes.txt", shell=False)

    assert judged(rule("auto_approve", "grep *"), action=action).ruling is Ruling.AUTO_APPROVE


def test_a_pattern_is_for_the_whole_text() -> None:
    auto = rule("auto_approve", "git status")

    assert judged(auto, action=command("git status")).ruling is Ruling.AUTO_APPROVE
    assert judged(auto, action=command("git status --porcelain")).ruling is Ruling.REQUIRE
    assert judged(auto, action=command("sudo git status")).ruling is Ruling.REQUIRE


@pytest.mark.parametrize("line", ["ls; rm -rf /", "ls && rm -rf /", "echo $(rm -rf /)", "ls | rm -rf /", "(rm -rf /)"])
def test_what_forbids_sees_what_stands_behind_an_operator(line: str) -> None:
    assert judged(rule("deny", "rm *"), action=command(line)).ruling is Ruling.DENY


def test_a_rule_can_be_for_one_argument() -> None:
    small = rule("auto_approve", "?.??", argument="amount", tool="refund_*")
    action = Action(kind=ActionKind.CALL, title="Refund")

    def found(**arguments: object) -> Ruling:
        return judged(small, action=action, tool="refund_payment", arguments=arguments).ruling

    assert found(amount="9.90") is Ruling.AUTO_APPROVE
    assert found(amount="99.90") is Ruling.REQUIRE
    assert found(price="9.90") is Ruling.REQUIRE
    assert judged(small, action=action, tool="pay", arguments={"amount": "9.90"}).ruling is Ruling.REQUIRE


def test_of_a_file_change_the_pattern_is_for_the_path_and_of_other_calls_for_the_arguments() -> None:
    change = Action(kind=ActionKind.FILE_CHANGE, title="Change", path="docs/a.md")
    plain = Action(kind=ActionKind.CALL, title="Call")

    assert judged(rule("deny", "docs/*"), action=change).ruling is Ruling.DENY
    assert judged(rule("deny", '*"all":true*'), action=plain, arguments={"all": True}).ruling is Ruling.DENY


def test_a_rule_can_be_for_the_calls_of_a_user_or_a_group() -> None:
    ours, theirs = rule("auto_approve", user_id=1), rule("auto_approve", group_id=7)

    assert judged(ours, actor=Actor(user_id=1)).ruling is Ruling.AUTO_APPROVE
    assert judged(ours, actor=Actor(user_id=2)).ruling is Ruling.REQUIRE
    assert judged(theirs, actor=Actor(user_id=2, group_ids=frozenset({7}))).ruling is Ruling.AUTO_APPROVE
    assert judged(theirs, actor=Actor()).ruling is Ruling.REQUIRE


def test_a_rule_that_forbids_looks_behind_operators_also_where_it_names_the_argument() -> None:
    line = "ls; rm -rf x"
    forbidding, approving = rule("deny", "rm *", argument="command"), rule("auto_approve", "ls*", argument="command")
    arguments = {"command": line, "note": line}

    assert judged(forbidding, action=command(line), arguments=arguments).ruling is Ruling.DENY
    assert judged(approving, action=command(line), arguments=arguments).ruling is Ruling.REQUIRE
    other = rule("deny", "rm *", argument="note")
    assert judged(other, action=command("ls"), arguments=arguments).rule is None
