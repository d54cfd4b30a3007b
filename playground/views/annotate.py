"""Title, tags and note of runs, edited where they stand."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from playground import access
from playground.forms.annotations import AboutRunForm, NoteForm, TagRunsForm
from playground.models import Run
from playground.numbers import plural
from playground.reading.page import read_head
from playground.services.annotate_run import (
    NoteChanged,
    Tagging,
    describe_run,
    digest_of_note,
    tag_runs,
    write_note,
)
from playground.services.filter_choices import load_tags
from playground.services.list_runs import runs_by_id
from playground.views import StaffRequest, admin_page

SEE = ("playground.view_run", "playground.view_all_runs")


@require_http_methods(["GET", "POST"])
@admin_page(*SEE)
def run_about(request: StaffRequest, run: Run) -> HttpResponse:
    """The form for title and tags, and what comes in its place once they are saved."""
    check_annotator(request, run)
    if request.method == "POST":
        form = AboutRunForm(request.POST)
        if form.is_valid():
            if not describe_run(run=run, title=form.cleaned_data["title"], tags=form.cleaned_data["tags"]):
                raise Http404
            run.refresh_from_db()
            return about_saved(request, run)
    else:
        tags = ", ".join(tag.name for tag in run.tags.all())
        form = AboutRunForm(initial={"title": run.title, "tags": tags})
    context = {"run": run, "form": form, "known_tags": load_tags(user=request.user)}
    status = 422 if form.errors else 200
    return TemplateResponse(request, "playground/run/run_about_form.html", context, status=status)


def about_saved(request: StaffRequest, run: Run) -> HttpResponse:
    if not request.htmx:
        return redirect("playground:run", pk=run.pk)
    context = {**read_head(run, user=request.user), "saved": True}
    return TemplateResponse(request, "playground/run/run_about_saved.html", context)


@require_POST
@admin_page(*SEE)
def run_own_note(request: StaffRequest, run: Run) -> HttpResponse:
    """Saves the note. The answer says only whether it is saved: what is being typed is never replaced."""
    check_annotator(request, run)
    form = NoteForm(request.POST)
    context: dict[str, Any] = {"run": run, "seen": request.POST.get("seen", "")[:64]}
    if form.is_valid():
        try:
            note = write_note(run=run, note=form.cleaned_data["note"], seen=form.cleaned_data["seen"])
        except NoteChanged as changed:
            # Whoever has read it may save again.
            context |= {"other": changed.note, "seen": digest_of_note(changed.note)}
        else:
            if note is None:
                raise Http404
            context |= {"saved_at": timezone.now(), "seen": digest_of_note(note)}
    else:
        context["problem"] = next(iter(form.errors.values()))[0]
    status = 200 if "saved_at" in context else 422
    return TemplateResponse(request, "playground/run/own_note_state.html", context, status=status)


@require_POST
@admin_page(*SEE)
def runs_tag(request: StaffRequest) -> HttpResponse:
    """Adds a tag to the selected runs or removes it, and shows their rows anew."""
    form = TagRunsForm(request.POST)
    if not form.is_valid():
        problem = next(iter(form.errors.values()))[0]
        return TemplateResponse(request, "playground/runs/tagged.html", {"problem": problem}, status=422)
    name, remove = form.cleaned_data["tag"], form.cleaned_data["remove"]
    tagging = tag_runs(run_ids=form.run_ids, by=request.user, name=name, remove=remove)
    if not request.htmx:
        return redirect("playground:runs")
    context = {
        "runs": runs_by_id(user=request.user, ids=tagging.changed),
        "done": tagging_in_words(tagging, name, remove=remove),
        "tag": name,
        "incomplete": bool(tagging.refused or tagging.full),
    }
    return TemplateResponse(request, "playground/runs/tagged.html", context)


def tagging_in_words(tagging: Tagging, name: str, *, remove: bool) -> str:
    count = len(tagging.changed)
    sentences = [
        f"“{name}” removed from {plural(count, 'run')}." if remove else f"“{name}” added to {plural(count, 'run')}."
    ]
    if not count:
        sentences = ["Nothing changed."]
    if tagging.unchanged:
        has = "did not have it" if remove else "had it already"
        sentences.append(f"{plural(len(tagging.unchanged), 'run')} {has}.")
    if tagging.refused:
        sentences.append(f"You may not tag {plural(len(tagging.refused), 'run')} of others.")
    if tagging.full:
        sentences.append(f"{plural(len(tagging.full), 'run')} can't take another tag.")
    return " ".join(sentences)


def check_annotator(request: StaffRequest, run: Run) -> None:
    if not access.may_annotate(request.user, run):
        raise PermissionDenied
