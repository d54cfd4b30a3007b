"""What has changed in the sources of a run since: configuration, skills and snippets, then and now, and which snippets
tags would bring now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet
from django.urls import reverse

from llmcore.models import Configuration, PromptVersion, Snippet, Versioned
from llmcore.prompts.changes import FieldChange, field_changes
from llmcore.versions import KINDS, VersionRef
from playground.models import Run
from playground.numbers import plural
from playground.reading.step_rows import is_live

NAMED = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangedSource:
    """A source of the run that says something else now, or nothing any more (`deleted`); or one that the run did not
    have and that would now join by its tag, without `then`. `leaves` says that its tag no longer brings it."""

    kind: str
    name: str
    then: int | None
    now: int | None
    changes: tuple[FieldChange, ...] = ()
    leaves: bool = False
    then_url: str = ""
    edit_url: str = ""

    @property
    def deleted(self) -> bool:
        return self.now is None

    @property
    def joins(self) -> bool:
        return self.then is None

    @property
    def word(self) -> str:
        """What became of the whole of it; empty where only fields changed."""
        if self.deleted:
            return "deleted"
        return "joins by its tag" if self.joins else "no longer joins by a tag" if self.leaves else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Since:
    """The changed sources of a run. `complete` says that each of its versions was kept: it can be made again."""

    sources: tuple[ChangedSource, ...] = ()
    complete: bool = False

    @property
    def count(self) -> int:
        """What there is to tell; nothing changed where it is 0."""
        return self._fields + sum(source.joins or source.leaves for source in self.sources)

    @property
    def title(self) -> str:
        """ "3 fields changed since this run, 1 snippet would join now"."""
        said = [f"{plural(self._fields, 'field')} changed since this run"] if self._fields else []
        for word, count in (
            ("join", sum(source.joins for source in self.sources)),
            ("leave", sum(source.leaves for source in self.sources)),
        ):
            said += [f"{plural(count, 'snippet')} would {word} now"] if count else []
        return ", ".join(said)

    @property
    def what(self) -> str:
        names = [
            f"{change.label} of {source.kind} {source.name}" for source in self.sources for change in source.changes
        ]
        names += [f"{source.kind} {source.name} ({source.word})" for source in self.sources if source.word]
        rest = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        return ", ".join(names[:NAMED]) + rest

    @property
    def _fields(self) -> int:
        """Deleted sources count as one."""
        return sum(len(source.changes) + source.deleted for source in self.sources)


def read_since(run: Run, *, user: Any) -> Since:
    """Nothing while it runs, and for runs that recorded no versions. Nothing either of what `user` may not see."""
    refs = recorded_versions(run)
    if is_live(run) or not refs:
        return Since()
    wanted = Q(pk__in=())
    for ref in refs:
        wanted |= Q(kind=ref.kind, object_id=ref.object_id, number=ref.number)
    kept = list(PromptVersion.objects.filter(wanted))
    seen = [version for version in kept if _sees(user, version.kind)]
    rows = {
        kind: _current(model, [version.object_id for version in seen if version.kind == kind])
        for kind, model in KINDS.items()
    }
    tags = _Tags.of(run, kept, rows["configuration"])
    compared = [_compared(version, rows[version.kind].get(version.object_id), tags, user) for version in seen]
    joining = [_joining(row, user) for row in tags.joining(refs)] if _sees(user, "snippet") else []
    return Since(
        sources=(*(source for source in compared if source.changes or source.word), *joining),
        complete=len(kept) == len(refs),
    )


def recorded_versions(run: Run) -> tuple[VersionRef, ...]:
    return tuple(VersionRef(*ref) for ref in (run.plan or {}).get("versions") or ())


def _current(model: type[Versioned], pks: list[int]) -> dict[int, Versioned]:
    if not pks:
        return {}
    rows: QuerySet[Any] = model._default_manager.filter(pk__in=pks)
    return {row.pk: row for row in rows.select_related(*model.version_relations)}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Tags:
    """The snippets that the configuration's tags brought `then`, by row, and bring `now`."""

    then: frozenset[int] = frozenset()
    now: tuple[Snippet, ...] = ()

    @classmethod
    def of(cls, run: Run, kept: Sequence[PromptVersion], rows: Mapping[int, Versioned]) -> _Tags:
        version = next((version for version in kept if version.kind == Configuration.version_kind), None)
        row = rows.get(version.object_id) if version else None
        if version is None or not isinstance(row, Configuration):
            return cls()
        tags = set(version.fields.get("snippet_tags") or ())
        named = {*(version.fields.get("snippets") or ()), *(run.request.get("snippets") or ())}
        brought = (
            snippet.object_id
            for snippet in kept
            if snippet.kind == Snippet.version_kind
            and tags.intersection(snippet.fields.get("tags") or ())
            and snippet.fields["slug"] not in named
        )
        return cls(then=frozenset(brought), now=tuple(row.tagged_snippets()))

    def joining(self, refs: Iterable[VersionRef]) -> list[Snippet]:
        """Those that the run did not have, which is made of `refs`."""
        had = {ref.object_id for ref in refs if ref.kind == Snippet.version_kind}
        return [row for row in self.now if row.enabled and row.pk not in had]

    def left(self, pk: int) -> bool:
        return pk in self.then and all(row.pk != pk for row in self.now)


def _joining(row: Snippet, user: Any) -> ChangedSource:
    edit_url = _edit_url(row.version_kind, row, user)
    return ChangedSource(kind=row.version_kind, name=row.slug, then=None, now=row.version, edit_url=edit_url)


def _edit_url(kind: str, row: Versioned | None, user: Any) -> str:
    """Empty without a row, or the right to change it."""
    if row is None or not _may(user, "change", kind):
        return ""
    return reverse(f"admin:llmcore_{kind}_change", args=[row.pk])


def _compared(version: PromptVersion, row: Versioned | None, tags: _Tags, user: Any) -> ChangedSource:
    return ChangedSource(
        kind=version.kind,
        name=version.fields.get("slug") or version.name,
        then=version.number,
        now=None if row is None else row.version,
        changes=() if row is None else tuple(field_changes(version.fields, row.version_fields())),
        then_url=reverse(f"admin:llmcore_{version.kind}_version", args=[version.object_id, version.number]),
        edit_url=_edit_url(version.kind, row, user),
        leaves=version.kind == Snippet.version_kind and row is not None and tags.left(version.object_id),
    )


def _sees(user: Any, kind: str) -> bool:
    return _may(user, "view", kind) or _may(user, "change", kind)


def _may(user: Any, action: str, kind: str) -> bool:
    return bool(user.has_perm(f"llmcore.{action}_{kind}"))
