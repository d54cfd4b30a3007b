"""What people write about runs, as they type it."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from playground.forms.runs import ids_of
from playground.services.annotate_run import MAX_NOTE_CHARS, MAX_TAG_CHARS, MAX_TAGS, tag_names
from playground.services.list_runs import PAGE_SIZE
from playground.services.start_run import MAX_TITLE_CHARS

MAX_SELECTED = 4 * PAGE_SIZE


class TagsField(forms.CharField):
    """Tags between commas."""

    def to_python(self, value: Any) -> list[str]:  # type: ignore[override]
        return tag_names(super().to_python(value) or "")

    def validate(self, value: list[str]) -> None:
        super().validate("".join(value))
        if len(value) > MAX_TAGS:
            raise forms.ValidationError(_("A run has at most %(most)s tags."), "too_many", {"most": MAX_TAGS})
        if long := [name for name in value if len(name) > MAX_TAG_CHARS]:
            raise forms.ValidationError(
                _("“%(name)s…” is too long: a tag has at most %(most)s characters."),
                "too_long",
                {"name": long[0][:MAX_TAG_CHARS], "most": MAX_TAG_CHARS},
            )

    def run_validators(self, value: list[str]) -> None:
        for name in value:
            super().run_validators(name)


class AboutRunForm(forms.Form):
    """Title and tags of a run."""

    title = forms.CharField(
        label=_("Title"), max_length=MAX_TITLE_CHARS, error_messages={"required": _("Enter a title.")}
    )
    tags = TagsField(label=_("Tags"), required=False)


class NoteField(forms.CharField):
    """Text with the line ends that everything here has, whatever the browser sent."""

    def to_python(self, value: Any) -> str:
        return str(super().to_python(value)).replace("\r\n", "\n").replace("\r", "\n").rstrip()


class NoteForm(forms.Form):
    """The note on a run, and the digest of the one that it takes the place of."""

    note = NoteField(label=_("Your note"), max_length=MAX_NOTE_CHARS, required=False, strip=False)
    seen = forms.CharField(max_length=64, required=False)


class SelectedRunsForm(forms.Form):
    """Some runs of the list."""

    def __init__(self, data: QueryDict, **options: Any) -> None:
        super().__init__(data, **options)
        self.run_ids: list[int] = []
        self._asked = data.getlist("run")

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        self.run_ids = ids_of(self._asked)
        if not self.run_ids:
            raise forms.ValidationError(_("Select at least one run."), code="none")
        if len(self.run_ids) > MAX_SELECTED:
            raise forms.ValidationError(_("That are too many runs at once."), code="too_many")
        return data


class TagRunsForm(SelectedRunsForm):
    """A tag that some runs get or lose."""

    tag = TagsField(label=_("Tag"), error_messages={"required": _("Enter a tag.")})
    remove = forms.BooleanField(required=False)

    def clean_tag(self) -> str:
        names = self.cleaned_data["tag"]
        if len(names) != 1:
            raise forms.ValidationError(_("One tag at a time."), code="several")
        return str(names[0])
