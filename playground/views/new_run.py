"""The form that starts a run, with its live preview."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.http import Http404, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from llmcore.errors import ConfigurationError
from llmcore.prompts.variables import UnresolvedVariables
from playground.access import visible_runs
from playground.forms.new_run import NewRunForm, PreviewForm
from playground.forms.new_run_refill import refill
from playground.models import Run
from playground.reading.since import recorded_versions
from playground.services.list_runs import list_runs
from playground.services.preview_run import preview_run
from playground.services.record_results import NotRecorded, with_recordings
from playground.services.run_choices import RunChoices, load_run_choices
from playground.services.start_complete_run import start_complete_run
from playground.services.start_run import RunRequest, given_title
from playground.views import StaffRequest, admin_page
from playground.views.runs import table
from playground.views.started import answer_refused, answer_started

VIEWS = {"source": "view_source.html", "plain": "view_plain.html", "json": "view_json.html", "exact": "view_json.html"}
RECENT = 5


@admin_page("playground.add_run")
@require_http_methods(["GET", "HEAD", "POST"])
def new_run(request: StaffRequest) -> HttpResponseBase:
    """The empty form, the form filled like the run `?from=` or with what `?configuration=`, `?skill=` and `?snippet=`
    name, or the form as it was sent with what is wrong with it."""
    repeated = run_to_repeat(request)
    if request.method != "POST" and repeated is not None and repeated.forked_at_round is not None:
        # What it was asked for are the messages that it went on from.
        return redirect("playground:run_fork", pk=repeated.pk)
    if request.method != "POST" and repeated is not None and repeated.request.get("structured"):
        return redirect(f"{reverse('playground:structured')}?from={repeated.pk}")
    if request.method == "POST":
        choices = load_run_choices(user=request.user, configuration=request.POST.get("configuration", ""))
        form = NewRunForm(request.POST, choices=choices)
        if form.is_valid() and (run := started(request, form, repeated)):
            return answer_started(request, run, in_place=True)
        if request.htmx:
            return answer_refused()
        values: Any = request.POST
        missing: tuple[str, ...] = ()
    else:
        configuration = repeated.request["configuration"] if repeated else request.GET.get("configuration", "")
        choices = load_run_choices(user=request.user, configuration=configuration)
        if repeated is None:
            values, missing = named_form(request.GET, choices)
        else:
            values, missing = filled_form(repeated, choices, as_then=request.GET.get("as") == "then")
        form = NewRunForm(initial=values, choices=choices)
    context = {
        "title": "New run",
        "form": form,
        "choices": choices,
        "repeated": repeated,
        "missing": missing,
        **(previewed(request, PreviewForm(values, choices=choices), sent=form) if choices.configuration else {}),
        **table(list_runs(user=request.user, size=RECENT).runs),
    }
    return TemplateResponse(request, "playground/new_run/new_run.html", context)


@admin_page("playground.add_run")
@require_POST
def new_run_choices(request: StaffRequest) -> HttpResponse:
    """What depends on the configuration, after another one was chosen; all that was entered stays."""
    choices = load_run_choices(user=request.user, configuration=request.POST.get("configuration", ""))
    form = PreviewForm(request.POST, choices=choices)
    return TemplateResponse(request, "playground/new_run/new_run_choices.html", {"form": form, "choices": choices})


@admin_page("playground.add_run")
@require_POST
def preview(request: StaffRequest) -> HttpResponse:
    choices = load_run_choices(user=request.user, configuration=request.POST.get("configuration", ""))
    context = previewed(request, PreviewForm(request.POST, choices=choices))
    return TemplateResponse(request, "playground/new_run/preview.html", context)


def run_to_repeat(request: StaffRequest) -> Run | None:
    pk = request.GET.get("from")
    if pk is None:
        return None
    run = visible_runs(request.user).filter(pk=pk).first() if pk.isdecimal() and len(pk) < 19 else None
    if run is None:
        raise Http404
    return run


def named_form(query: QueryDict, choices: RunChoices) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The first values of the form with what an address names, and what of that can't be chosen."""
    likely = choices.configuration.slug if choices.configuration else ""
    asked = RunRequest(
        configuration=query.get("configuration") or likely,
        prompt="",
        skills=tuple(dict.fromkeys(query.getlist("skill"))),
        snippets=tuple(dict.fromkeys(query.getlist("snippet"))),
    )
    filled = refill(asked, choices)
    return filled.values, filled.missing


def filled_form(repeated: Run, choices: RunChoices, *, as_then: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The first values of the form, and what of the earlier request can't be among them."""
    earlier = RunRequest.from_json(repeated.request)
    # What it was made of matters only to who asks for it: else it is what is stored now.
    versions = tuple((ref.kind, ref.object_id, ref.number) for ref in recorded_versions(repeated)) if as_then else ()
    earlier = replace(earlier, title=given_title(run=repeated, request=earlier), versions=versions)
    filled = refill(earlier, choices, contents_deleted=repeated.contents_deleted_at is not None)
    return filled.values, filled.missing


def started(request: StaffRequest, form: NewRunForm, parent: Run | None) -> Run | None:
    """The run of a valid form, made from `parent`; or `None`: then the form says why."""
    asked = form.run_request(dry_run="dry_run" in request.POST)
    try:
        earlier = RunRequest.from_json(parent.request) if parent else None
        asked = with_recordings(asked, by=request.user, earlier=earlier)
        return start_complete_run(request=asked, by=request.user, parent=parent, found=form.found)
    except NotRecorded as error:
        form.add_error("recorded_from", str(error))
        return None
    except UnresolvedVariables as error:
        form.refuse_unresolved(error)
        return None
    except ConfigurationError as error:
        form.add_error("configuration", str(error))
        return None


def previewed(request: StaffRequest, form: NewRunForm, *, sent: NewRunForm | None = None) -> dict[str, Any]:
    """What `preview.html` shows: the preview, or why there is none; and a field for each variable of the prompt, with
    what is wrong with it in the form as it was `sent`."""
    view = request.POST.get("view", "")
    preview, problem = None, ""
    if form.is_valid():
        try:
            preview = preview_run(request=form.run_request(), user=request.user)
        except ConfigurationError as error:
            problem = str(error)
    return {
        "preview_form": form,
        "preview_view": f"playground/new_run/{VIEWS.get(view, VIEWS['source'])}",
        "exact": view == "exact",
        "preview": preview,
        "problem": problem,
        "variables": (sent or form).variable_inputs(preview.prepared.assembly.variables if preview else None),
    }
