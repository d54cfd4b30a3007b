"""Where a run was forked from and what differs, and which runs were made from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llmcore.runs.fork import Fork, differences, without_contents
from llmcore.runs.state import RunState
from playground.access import may_see, visible_runs
from playground.models import Run
from playground.reading.compare.sides import run_before
from playground.reading.dry_run import dry_run_of, matches_dry_run, parent_of
from playground.services.fork_run import retryable, why_not_fork
from playground.services.run_for_real import why_not_for_real

SHOWN = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class ForkedFrom:
    """The line under the title of a fork. `step` is what was chosen in the run `run`, which may be `deleted` by now,
    or not `shown` to the reader."""

    run: int
    step: int
    round: int
    shown: bool
    deleted: bool
    differs: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Child:
    """A run that was made from this one: forked at a round, or started again from its form."""

    pk: int
    round: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    """What stands around a run and is the same however far it is: its tags and, of the runs that the reader may see,
    what it was made from, the one before it with the same configuration, and what was made from it, a few more than
    are shown. `dry` is the dry run that it was started from, whoever may see that."""

    tags: tuple[str, ...]
    parent: int | None
    before: int | None
    children: tuple[Child, ...]
    dry: Run | None


def read_surroundings(run: Run, *, user: Any) -> Surroundings:
    children = visible_runs(user).filter(parent=run.pk).order_by("pk").values_list("pk", "forked_at_round")
    parent = parent_of(run)
    return Surroundings(
        tags=tuple(tag.name for tag in run.tags.all()),
        parent=parent.pk if parent and may_see(user, parent) else None,
        before=run_before(run, user=user),
        children=tuple(Child(pk=pk, round=round) for pk, round in children[: SHOWN + 1]),
        dry=dry_run_of(run, parent),
    )


def read_family(run: Run, *, user: Any, around: Surroundings) -> dict[str, Any]:
    return {
        "compare_parent": around.parent,
        "compare_before": None if around.before == around.parent else around.before,
        "match": matches_dry_run(run, around.dry, user=user),
        "why_not_for_real": why_not_for_real(run),
        "forked_from": forked_from(run, shown=around.parent is not None),
        "children": around.children[:SHOWN],
        "more_children": len(around.children) > SHOWN,
        "may_fork": user.has_perm("playground.add_run") and not why_not_fork(run),
        "retry_round": run.rounds if user.has_perm("playground.add_run") and retryable(run) else None,
    }


def forked_from(run: Run, *, shown: bool) -> ForkedFrom | None:
    if run.forked_at_round is None or not run.request.get("fork"):
        return None
    fork = Fork.from_json(without_contents(run.request["fork"]))
    state = RunState.from_json({**run.plan["state"], "messages": []}) if run.plan else None
    return ForkedFrom(
        run=fork.run,
        step=fork.step,
        round=run.forked_at_round,
        shown=shown,
        deleted=run.parent_id is None,
        differs=tuple(differences(fork, names=names_of(run.plan), state=state)),
    )


def names_of(plan: Mapping[str, Any] | None) -> dict[str, str]:
    """What a run used, as a fork names it."""
    used = (plan or {}).get("configuration")
    if not used:
        return {}
    return {"configuration": used["name"], "provider": used["provider"]["slug"], "model": used["model"]["name"]}
