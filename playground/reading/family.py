"""Where a run was forked from and what differs, and which runs were made from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llmcore.runs.fork import Fork, differences, without_contents
from llmcore.runs.state import RunState
from playground.access import visible_runs
from playground.models import Run
from playground.reading.compare.sides import run_before
from playground.reading.dry_run import matches_dry_run
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
class Relatives:
    """The runs around one that the reader may see: what it was made from, the one before it with the same
    configuration, and what was made from it, a few more than are shown."""

    parent: int | None
    before: int | None
    children: tuple[Child, ...]


def read_relatives(run: Run, *, user: Any) -> Relatives:
    children = visible_runs(user).filter(parent=run.pk).order_by("pk").values_list("pk", "forked_at_round")
    return Relatives(
        parent=visible_parent(run, user=user),
        before=run_before(run, user=user),
        children=tuple(Child(pk=pk, round=round) for pk, round in children[: SHOWN + 1]),
    )


def read_family(run: Run, *, user: Any, relatives: Relatives | None = None) -> dict[str, Any]:
    """`relatives` where they were just read: unlike the rest, they are the same however far the run is."""
    relatives = relatives or read_relatives(run, user=user)
    return {
        "compare_parent": relatives.parent,
        "compare_before": None if relatives.before == relatives.parent else relatives.before,
        "match": matches_dry_run(run, user=user),
        "why_not_for_real": why_not_for_real(run),
        "forked_from": forked_from(run, shown=relatives.parent is not None),
        "children": relatives.children[:SHOWN],
        "more_children": len(relatives.children) > SHOWN,
        "may_fork": user.has_perm("playground.add_run") and not why_not_fork(run),
        "retry_round": run.rounds if user.has_perm("playground.add_run") and retryable(run) else None,
    }


def visible_parent(run: Run, *, user: Any) -> int | None:
    """The run that this one was made from, if the reader may see it."""
    seen = run.parent_id is not None and visible_runs(user).filter(pk=run.parent_id).exists()
    return run.parent_id if seen else None


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
