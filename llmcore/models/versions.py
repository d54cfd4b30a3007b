"""Versions of skills, snippets and configurations: what each said when it was saved, kept for good."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, ClassVar

from django.db import models, transaction
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from llmcore.messages import digest_of

# Not what a person writes, or different with each save.
UNVERSIONED = {"id", "version", "updated_at"}


class WrittenOnce(models.QuerySet["PromptVersion"]):
    """Versions, which nobody changes or deletes."""

    def update(self, **kwargs: Any) -> int:
        raise TypeError("a version is never changed")

    def delete(self) -> tuple[int, dict[str, int]]:
        raise TypeError("a version is never deleted")


class PromptVersion(models.Model):
    """What a skill, snippet or configuration said from one save to the next: written once, and kept when it is gone.

    `kind` and `object_id` name the original without a reference, so that deleting it changes nothing here. `fields`
    are all that can be edited of it; `sha256` is the digest of their canonical JSON. `saved_by` is empty where a
    script or the shell saved it, or where it was found changed when a run used it.
    """

    kind = models.CharField(max_length=20)
    object_id = models.BigIntegerField()
    number = models.PositiveIntegerField(_("version"))
    name = models.CharField(_("name"), max_length=100)
    fields = models.JSONField()
    sha256 = models.CharField(max_length=64)
    saved_at = models.DateTimeField(_("saved"))
    saved_by = models.CharField(_("saved by"), max_length=200, blank=True, default="")

    objects = WrittenOnce.as_manager()

    class Meta:
        ordering = ["kind", "object_id", "-number"]
        verbose_name = _("version")
        verbose_name_plural = _("versions")
        # They are shown on the pages of what they are versions of, to those who may see that.
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["kind", "object_id", "number"], name="llmcore_prompt_version_unique")
        ]

    def __str__(self) -> str:
        return f"{self.name}, version {self.number}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if self.pk is not None:
            raise TypeError("a version is never changed")
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        raise TypeError("a version is never deleted")


class Versioned(models.Model):
    """A row whose earlier contents stay readable: each save keeps what it changed and what it made of it."""

    version_kind: ClassVar[str]
    # What `version_fields` reads beside the row itself.
    version_relations: ClassVar[tuple[str, ...]] = ()
    version: models.PositiveIntegerField[int, int]
    # Who saves; an attribute of the instance only, set by whoever knows a person.
    saved_by = ""

    class Meta:
        abstract = True

    def save(self, *args: Any, keep_version: bool = True, **kwargs: Any) -> None:
        """Save, and keep what is now stored as a version; off where more that belongs to it is saved afterwards."""
        with transaction.atomic():
            if self.pk is not None:
                # A change past this method, by a query or a script, is kept before it is written over.
                rows: models.QuerySet[Any] = type(self)._default_manager.select_for_update(of=("self",))
                before = rows.select_related(*self.version_relations).filter(pk=self.pk).first()
                if before is not None:
                    before.keep_version()
                    self.version = before.version
            super().save(*args, **kwargs)
            if keep_version:
                self.keep_version(by=self.saved_by)

    @transaction.atomic
    def keep_version(self, *, by: str = "") -> PromptVersion:
        """The version that says what this row says: the last one, or a new one where it says something else."""
        now = self.version_fields()
        last = PromptVersion.objects.filter(kind=self.version_kind, object_id=self.pk).first()
        if last is None or not self._same(last.fields, now):
            number = self.version if last is None else last.number + 1
            last, _created = PromptVersion.objects.get_or_create(
                kind=self.version_kind,
                object_id=self.pk,
                number=number,
                defaults={
                    "name": str(self)[:100],
                    "fields": now,
                    "sha256": digest_of(now),
                    "saved_at": timezone.now(),
                    "saved_by": by[:200],
                },
            )
        if self.version != last.number:
            self.version = last.number
            type(self)._default_manager.filter(pk=self.pk).update(**{"version": last.number})
        return last

    def kept_as(self, versions: Sequence[PromptVersion]) -> bool:
        """Whether `versions`, all of this row from its own number on, hold what it says now and nothing later."""
        return (
            len(versions) == 1
            and versions[0].number == self.version
            and self._same(versions[0].fields, self.version_fields())
        )

    def version_fields(self) -> dict[str, Any]:
        """All that a person edits of this row, as JSON."""
        columns = (field for field in self._meta.concrete_fields if field.name not in UNVERSIONED)
        fields = {field.name: field.to_python(getattr(self, field.attname)) for field in columns}
        # As they come back from the database: what a script sets may be a tuple or a member of an enum.
        stored: dict[str, Any] = json.loads(json.dumps(fields, default=_plain))
        return stored

    def _same(self, before: dict[str, Any], now: dict[str, Any]) -> bool:
        """Whether nothing was edited; a field that came with a newer release has its default in older versions."""
        defaults = {field.name: field.get_default() for field in self._meta.concrete_fields}
        return all(before.get(name, defaults.get(name, [])) == value for name, value in now.items())


def _plain(value: Any) -> str:
    """An exact number, spelled alike however many zeros it has."""
    if not isinstance(value, Decimal):
        raise TypeError(f"{type(value).__name__} has no place in a version")
    return f"{value.normalize():f}"
