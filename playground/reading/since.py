"""What has changed in the sources of a run since: configuration, skills and snippets, then and now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet
from django.urls import reverse

from llmcore.models import PromptVersion, Versioned
from llmcore.prompts.changes import FieldChange, field_changes
from llmcore.versions import KINDS, VersionRef
from playground.models import Run
from playground.numbers import plural
from playground.reading.step_rows import is_live

NAMED = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangedSource:
    """A source of the run that says something else now, or nothing any more (`deleted`)."""

    kind: str
    name: str
    then: int
    now: int | None
    changes: tuple[FieldChange, ...]
    then_url: str = ""
    edit_url: str = ""

    @property
    def deleted(self) -> bool:
        return self.now is None


@dataclass(frozen=True, kw_only=True, slots=True)
class Since:
    """The changed sources of a run. `complete` says that each of its versions was kept: it can be made again."""

    sources: tuple[ChangedSource, ...] = ()
    complete: bool = False

    @property
    def count(self) -> int:
        return sum(len(source.changes) or 1 for source in self.sources)

    @property
    def title(self) -> str:
        """ "3 fields changed since this run": deleted sources count as one."""
        return f"{plural(self.count, 'field')} changed since this run"

    @property
    def what(self) -> str:
        names = [
            f"{change.label} of {source.kind} {source.name}" for source in self.sources for change in source.changes
        ]
        names += [f"{source.kind} {source.name} (deleted)" for source in self.sources if source.deleted]
        rest = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        return ", ".join(names[:NAMED]) + rest


def read_since(run: Run, *, user: Any) -> Since:
    """Nothing while it runs, and for runs that recorded no versions. Nothing either of what `user` may not see."""
    refs = recorded_versions(run)
    if is_live(run) or not refs:
        return Since()
    wanted = Q(pk__in=())
    for ref in refs:
        wanted |= Q(kind=ref.kind, object_id=ref.object_id, number=ref.number)
    kept = list(PromptVersion.objects.filter(wanted))
    seen = [version for version in kept if _may(user, "view", version.kind) or _may(user, "change", version.kind)]
    rows = {
        kind: _current(model, [version.object_id for version in seen if version.kind == kind])
        for kind, model in KINDS.items()
    }
    compared = (_compared(version, rows[version.kind].get(version.object_id), user) for version in seen)
    return Since(
        sources=tuple(source for source in compared if source.changes or source.deleted),
        complete=len(kept) == len(refs),
    )


def recorded_versions(run: Run) -> tuple[VersionRef, ...]:
    return tuple(VersionRef(*ref) for ref in (run.plan or {}).get("versions") or ())


def _current(model: type[Versioned], pks: list[int]) -> dict[int, Versioned]:
    if not pks:
        return {}
    rows: QuerySet[Any] = model._default_manager.filter(pk__in=pks)
    return {row.pk: row for row in rows.select_related(*model.version_relations)}


def _compared(version: PromptVersion, row: Versioned | None, user: Any) -> ChangedSource:
    edit_url = ""
    if row is not None and _may(user, "change", version.kind):
        edit_url = reverse(f"admin:llmcore_{version.kind}_change", args=[version.object_id])
    return ChangedSource(
        kind=version.kind,
        name=version.fields.get("slug") or version.name,
        then=version.number,
        now=None if row is None else row.version,
        changes=() if row is None else tuple(field_changes(version.fields, row.version_fields())),
        then_url=reverse(f"admin:llmcore_{version.kind}_version", args=[version.object_id, version.number]),
        edit_url=edit_url,
    )


def _may(user: Any, action: str, kind: str) -> bool:
    return bool(user.has_perm(f"llmcore.{action}_{kind}"))
