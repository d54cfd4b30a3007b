"""The action policy: a pure function from a call, who makes it, and the site's rules to what may happen."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase

from llmcore.actions.shell import commands_in, is_plain
from llmcore.messages import JSON, canonical_json
from llmcore.tools.base import Action, ActionKind


class Ruling(StrEnum):
    """What may happen to a call. Of several the first in this order wins."""

    DENY = "deny"
    REQUIRE = "require"
    AUTO_APPROVE = "auto_approve"


STRICTEST_FIRST = tuple(Ruling)
ASKED = "ask each time, in this run"


@dataclass(frozen=True, kw_only=True, slots=True)
class Actor:
    """The user that a call acts for, as far as rules name users and groups. A user's key is of the kind that the site
    gives its users."""

    user_id: Hashable | None = None
    group_ids: frozenset[int] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """What a site says about some calls.

    `tool` and `pattern` are patterns with `*`, `?` and `[…]` for the whole text, in upper and lower case as written.
    `argument` names the argument whose text `pattern` is for; without it, that is the command, else the path, else
    all arguments as JSON. An empty pattern fits everything. `user_id` and `group_id` restrict the rule to their calls.
    """

    name: str
    ruling: Ruling
    tool: str = "*"
    argument: str = ""
    pattern: str = ""
    user_id: Hashable | None = None
    group_id: int | None = None
    id: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """What the policy says of a call, the rule that says so (`None`: the tool itself), and why, in a sentence.

    `matched` are all rules that fit, in their order.
    """

    ruling: Ruling
    why: str
    rule: Rule | None = None
    matched: tuple[Rule, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """The rules of a site, in their order, for the calls of one user."""

    rules: tuple[Rule, ...] = ()
    actor: Actor = field(default_factory=Actor)

    def asking(self, tools: Iterable[str]) -> Policy:
        """The same policy, which lets a person decide about each call of these tools that it doesn't deny."""
        asked = tuple(Rule(name=ASKED, ruling=Ruling.REQUIRE, tool=name) for name in tools)
        return replace(self, rules=(*self.rules, *asked))

    def judge(self, *, tool: str, arguments: Mapping[str, JSON], action: Action, needs_approval: str | None) -> Judged:
        """`needs_approval` is why the tool itself wants a person for this call, `None` where it doesn't."""
        return judge(
            rules=self.rules,
            actor=self.actor,
            tool=tool,
            arguments=arguments,
            action=action,
            needs_approval=needs_approval,
        )


def judge(
    *,
    rules: Sequence[Rule],
    actor: Actor,
    tool: str,
    arguments: Mapping[str, JSON],
    action: Action,
    needs_approval: str | None,
) -> Judged:
    """Deny beats require, and require beats auto-approve, whatever the order; of rules that say the same, the first
    is named. A line for a shell that is more than one plain command is never auto-approved."""
    matched = tuple(rule for rule in rules if _fits(rule, actor, tool, arguments, action))
    for ruling in STRICTEST_FIRST:
        rule = next((rule for rule in matched if rule.ruling is ruling), None)
        if rule is None:
            continue
        if ruling is Ruling.AUTO_APPROVE and not _may_be_automatic(action):
            why = f"The rule “{rule.name}” can't approve it: {CAREFUL}"
            return Judged(ruling=Ruling.REQUIRE, why=why, rule=rule, matched=matched)
        return Judged(ruling=ruling, why=_WHY[ruling].format(rule.name), rule=rule, matched=matched)
    if needs_approval is not None:
        return Judged(ruling=Ruling.REQUIRE, why=needs_approval)
    if not _may_be_automatic(action):
        return Judged(ruling=Ruling.REQUIRE, why=f"A person must decide: {CAREFUL}")
    return Judged(ruling=Ruling.AUTO_APPROVE, why="The tool needs no approval, and no rule says otherwise.")


_WHY = {
    Ruling.DENY: "The rule “{}” denies it.",
    Ruling.REQUIRE: "The rule “{}” wants a person to decide.",
    Ruling.AUTO_APPROVE: "The rule “{}” approves it.",
}
CAREFUL = "a shell would read more in this line than one plain command."


def _may_be_automatic(action: Action) -> bool:
    return not action.shell or is_plain(action.command)


def _fits(rule: Rule, actor: Actor, tool: str, arguments: Mapping[str, JSON], action: Action) -> bool:
    if rule.user_id is not None and rule.user_id != actor.user_id:
        return False
    if rule.group_id is not None and rule.group_id not in actor.group_ids:
        return False
    if not fnmatchcase(tool, rule.tool):
        return False
    return not rule.pattern or any(fnmatchcase(text, rule.pattern) for text in _texts(rule, arguments, action))


def _texts(rule: Rule, arguments: Mapping[str, JSON], action: Action) -> Iterable[str]:
    """What the pattern of `rule` is for; it is enough that one of these fits."""
    if rule.argument:
        named = [_text(arguments[rule.argument])] if rule.argument in arguments else []
        return [*named, *_commands(rule, action)] if named == [action.command] else named
    if action.kind is ActionKind.COMMAND:
        return _commands(rule, action)
    return [action.path] if action.kind is ActionKind.FILE_CHANGE else [canonical_json(dict(arguments))]


def _commands(rule: Rule, action: Action) -> list[str]:
    line = action.command.strip()
    # What forbids must also see what stands behind an operator; what allows must fit the whole line.
    return [line] if rule.ruling is Ruling.AUTO_APPROVE or not action.shell else commands_in(line)


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else canonical_json(value)
