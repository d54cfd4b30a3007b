"""What people write about a run, whether it has ended or not: its title, its tags, a note."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from hashlib import sha256

from django.contrib.auth.models import User
from django.db import transaction

from llmcore import store
from llmcore.redaction import storable
from playground import access
from playground.models import Run, RunTag
from playground.privacy import PrivacyLevel
from playground.search import index_run
from playground.services.start_run import one_line

MAX_TAGS = 12
MAX_TAG_CHARS = 40
MAX_NOTE_CHARS = 10_000


class NoteChanged(Exception):
    """The note isn't the one that the writer saw; `note` is the one that is there now."""

    def __init__(self, note: str) -> None:
        super().__init__("the note was changed by somebody else")
        self.note = note


@dataclass(frozen=True, kw_only=True, slots=True)
class Tagging:
    """What became of runs that were to be tagged alike: the ids of each kind."""

    changed: tuple[int, ...] = ()
    unchanged: tuple[int, ...] = ()
    refused: tuple[int, ...] = ()
    full: tuple[int, ...] = ()


def tag_names(text: str) -> list[str]:
    """Tags as a person types them, between commas or line ends, as they are stored: each once, in lower case."""
    names = (" ".join(piece.lower().split()).lstrip("#").strip() for piece in re.split(r"[,;\n]", text))
    return list(dict.fromkeys(filter(None, names)))


def digest_of_note(note: str) -> str:
    return sha256(note.encode()).hexdigest()[:16]


@transaction.atomic
def describe_run(*, run: Run, title: str, tags: Iterable[str]) -> bool:
    """Give the run a title and exactly these tags; False where it was deleted meanwhile."""
    # First, so that the row is locked: its driver brings the index up to date, too.
    if not Run.objects.filter(pk=run.pk).update(title=one_line(_clean(title, run))):
        return False
    names = {_clean(name, run) for name in tags}
    RunTag.objects.filter(run_id=run.pk).exclude(name__in=names).delete()
    RunTag.objects.bulk_create((RunTag(run_id=run.pk, name=name) for name in sorted(names)), ignore_conflicts=True)
    index_run(run.pk)
    return True


@transaction.atomic
def write_note(*, run: Run, note: str, seen: str) -> str | None:
    """Keep the note and return it as it is stored; `None` where the run was deleted meanwhile.

    `seen` is the digest of the note that the writer began with; NoteChanged where it is another one now.
    """
    row = Run.objects.select_for_update().filter(pk=run.pk)
    current = row.values_list("note", flat=True).first()
    if current is None:
        return None
    note = _clean(note, run)
    if note != current:
        if digest_of_note(current) != seen:
            raise NoteChanged(current)
        row.update(note=note)
        index_run(run.pk)
    return note


@transaction.atomic
def tag_runs(*, run_ids: Collection[int], by: User, name: str, remove: bool = False) -> Tagging:
    """Add a tag to the runs, or remove it, where `by` may do so; ids of runs that they can't see are passed over."""
    kinds: dict[str, list[int]] = {"changed": [], "unchanged": [], "refused": [], "full": []}
    runs = access.visible_runs(by).select_for_update(of=("self",)).filter(pk__in=run_ids).order_by("pk")
    for run in runs.only("pk", "user_id", "privacy_level").prefetch_related("tags"):
        kinds[_tag(run, by, _clean(name, run), remove)].append(run.pk)
    return Tagging(**{kind: tuple(ids) for kind, ids in kinds.items()})


def _tag(run: Run, by: User, name: str, remove: bool) -> str:
    names = {tag.name for tag in run.tags.all()}
    if not access.may_annotate(by, run):
        return "refused"
    if (name in names) != remove:
        return "unchanged"
    if remove:
        RunTag.objects.filter(run_id=run.pk, name=name).delete()
    elif len(names) >= MAX_TAGS:
        return "full"
    else:
        RunTag.objects.create(run_id=run.pk, name=name)
    index_run(run.pk)
    return "changed"


def _clean(text: str, run: Run) -> str:
    """Without this site's secrets and, below full privacy, without what looks like one; as a database takes it."""
    redactor = store.site_redactor()
    kept = redactor.known(text) if run.privacy_level == PrivacyLevel.FULL else redactor.patterns(text)
    return str(storable(kept))
