"""The page on which a run is forked, and the one click that makes a round again."""

from __future__ import annotations

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.views.decorators.http import require_http_methods, require_POST

from llmcore.errors import ConfigurationError
from playground.forms.fork import ForkForm
from playground.forms.new_run_refill import Refill, refill
from playground.models import Run
from playground.reading.fork import MessageReader
from playground.services.fork_run import ForkPoint, read_fork_point, request_of, retry_round
from playground.services.run_choices import RunChoices, load_run_choices
from playground.views import StaffRequest, admin_page
from playground.views.new_run import previewed, started
from playground.views.run import SEE
from playground.views.run_step import number
from playground.views.started import answer_refused, answer_started


@admin_page(*SEE)
@require_http_methods(["GET", "HEAD", "POST"])
def run_fork(request: StaffRequest, run: Run) -> HttpResponseBase:
    """The form, filled like the run at the step `?at=`, or as it was sent with what is wrong with it."""
    may_start(request)
    point = point_of(request, run)
    if isinstance(point, str):
        return answer_refused() if request.htmx else refused(request, run, point)
    filled: Refill | None = None
    if request.method == "POST":
        choices = load_run_choices(user=request.user, configuration=request.POST.get("configuration", ""))
        form = ForkForm(request.POST, choices=choices, point=point)
        if form.is_valid() and (child := started(request, form, run)):
            return answer_started(request, child)
        if request.htmx:
            return answer_refused()
    else:
        choices = load_run_choices(user=request.user, configuration=run.request["configuration"])
        filled = filled_form(point, choices)
        form = ForkForm(initial=filled.values, choices=choices, point=point)
    preview_form = ForkForm(filled.values if filled else request.POST, choices=choices, point=point)
    context = {
        "title": f"Fork run {run.pk}",
        "run": run,
        "point": point,
        "form": form,
        "choices": choices,
        "missing": filled.missing if filled else (),
        "boxes": reader_of(form).all(),
        "at": point.fork.step,
        **(previewed(request, preview_form) if choices.configuration else {}),
    }
    return TemplateResponse(request, "playground/fork/fork.html", context)


@admin_page(*SEE)
def fork_message(request: StaffRequest, run: Run, index: int) -> HttpResponse:
    """One message, opened to be edited."""
    may_start(request)
    point = point_of(request, run)
    if isinstance(point, str) or index >= len(point.fork.state.messages):
        raise Http404
    box = MessageReader(point=point).one(index)
    return TemplateResponse(request, "playground/fork/message_body.html", {"box": box})


@admin_page(*SEE)
@require_POST
def fork_choices(request: StaffRequest, run: Run) -> HttpResponse:
    """What depends on the configuration, after another one was chosen; all that was entered stays."""
    form = posted_form(request, run)
    return TemplateResponse(request, "playground/fork/new_run_choices.html", {"form": form, "choices": form.choices})


@admin_page(*SEE)
@require_POST
def fork_preview(request: StaffRequest, run: Run) -> HttpResponse:
    return TemplateResponse(request, "playground/new_run/preview.html", previewed(request, posted_form(request, run)))


@require_POST
@admin_page(*SEE)
def run_retry(request: StaffRequest, run: Run) -> HttpResponse:
    """Makes a round again, in a new run: that of the step `at`, or the last one."""
    may_start(request)
    try:
        child = retry_round(run=run, at=number(request.POST, "at"), by=request.user)
    except ConfigurationError as error:
        messages.error(request, str(error))
        return redirect("playground:run", pk=run.pk)
    return redirect("playground:run", pk=child.pk)


def may_start(request: StaffRequest) -> None:
    if not request.user.has_perm("playground.add_run"):
        raise PermissionDenied


def point_of(request: StaffRequest, run: Run) -> ForkPoint | str:
    """The place that `?at=` names, or why nothing can go on from there."""
    try:
        return read_fork_point(run=run, at=number(request.GET, "at") or 0)
    except ConfigurationError as error:
        return str(error)


def posted_form(request: StaffRequest, run: Run) -> ForkForm:
    """The form as it is now, for a part of the page."""
    may_start(request)
    point = point_of(request, run)
    if isinstance(point, str):
        raise Http404
    choices = load_run_choices(user=request.user, configuration=request.POST.get("configuration", ""))
    return ForkForm(request.POST, choices=choices, point=point)


def refused(request: StaffRequest, run: Run, why: str) -> HttpResponse:
    messages.error(request, why)
    return redirect("playground:run", pk=run.pk)


def filled_form(point: ForkPoint, choices: RunChoices) -> Refill:
    filled = refill(request_of(point.run), choices)
    offered = set(point.fork.state.offered)
    tools = [tool.name for tool in choices.tools if tool.name in offered and not tool.unavailable]
    gone = offered - set(tools)
    missing = [text for text in filled.missing if not text.startswith("tool ")]
    if point.run.redacted_at is not None:
        missing.append("secrets in its messages (masked)")
    missing += [f"tool {name}" for name in sorted(gone)]
    values = {"recorded_from": point.run.pk, **filled.values, "tools": tools}
    return Refill(values=values, missing=tuple(missing))


def reader_of(form: ForkForm) -> MessageReader:
    count = len(form.point.fork.state.messages)
    failed = {index: given for index in range(count) if (given := form.failed(index)) is not None}
    return MessageReader(point=form.point, typed=form.typed, failed=failed, errors=form.message_errors)
