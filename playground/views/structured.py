"""The form of a structured completion, and the check of the configurations that prompts name."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpResponse, HttpResponseBase
from django.template.response import TemplateResponse
from django.views.decorators.http import require_http_methods, require_POST

from llmcore.errors import ConfigurationError
from llmcore.structured.packs import Prompt, site_prompts
from playground.forms.structured import StructuredForm, first_values, values_of
from playground.models import Run
from playground.services.check_configurations import check_configurations
from playground.services.describe_prompt import describe_prompt, prompts_by_pack
from playground.services.run_choices import usable_configurations
from playground.services.start_complete_run import start_complete_run
from playground.services.start_run import RunRequest, given_title
from playground.views import StaffRequest, admin_page
from playground.views.new_run import run_to_repeat
from playground.views.started import answer_refused, answer_started


@admin_page("playground.add_run")
@require_http_methods(["GET", "HEAD", "POST"])
def structured(request: StaffRequest) -> HttpResponseBase:
    """The form of the prompt `?prompt=`, empty, with its `?example=`, or filled like the run `?from=`; or as it was
    sent, with what is wrong with it."""
    repeated, configurations = run_to_repeat(request), tuple(usable_configurations())
    prompt = chosen_prompt(request, repeated)
    if prompt is None or not configurations:
        if request.htmx:
            return answer_refused()
        nothing = {"title": "Structured completion", "configurations": configurations}
        return TemplateResponse(request, "playground/structured/nothing.html", nothing)
    earlier = RunRequest.from_json(repeated.request).structured if repeated else None
    options: dict[str, Any] = {"prompt": prompt, "configurations": configurations, "earlier": earlier}
    if request.method == "POST":
        form = StructuredForm(request.POST, request.FILES, **options)
        if form.is_valid() and (run := started(request, form, repeated)):
            return answer_started(request, run)
        if request.htmx:
            return answer_refused()
        slug = request.POST.get("configuration", "")
    else:
        slugs = [row.slug for row in configurations]
        slug = prompt.configuration if prompt.configuration in slugs else slugs[0]
        values = filled(prompt, repeated, slug, examples="example" in request.GET)
        slug = values["configuration"]
        form = StructuredForm(initial=values, **options)
    context = {
        "title": "Structured completion",
        "form": form,
        "packs": prompts_by_pack(),
        "described": describe_prompt(prompt=prompt, configuration=slug),
        "repeated": repeated,
        "gone": repeated is not None and repeated.contents_deleted_at is not None,
    }
    return TemplateResponse(request, "playground/structured/structured.html", context)


@admin_page("playground.add_run")
@require_POST
def check(request: StaffRequest) -> HttpResponse:
    """Whether each configuration that a prompt names could answer; nothing is sent."""
    context = {"title": "Configurations of prompts", "checked": check_configurations()}
    return TemplateResponse(request, "playground/structured/checked.html", context)


def chosen_prompt(request: StaffRequest, repeated: Run | None) -> Prompt | None:
    """The prompt that is asked for, else the first one; `None` where this site has none. 404 for an unknown one."""
    prompts = site_prompts.prompts()
    asked = request.POST.get("prompt") or request.GET.get("prompt")
    if not asked and repeated is not None:
        asked = (repeated.request.get("structured") or {}).get("prompt")
    if not asked:
        return next(iter(prompts.values()), None)
    if asked not in prompts:
        raise Http404(f"There is no prompt “{asked}”.")
    return prompts[asked]


def filled(prompt: Prompt, repeated: Run | None, slug: str, *, examples: bool) -> dict[str, Any]:
    if repeated is None or not repeated.request.get("structured"):
        return first_values(prompt, configuration=slug, examples=examples)
    earlier = RunRequest.from_json(repeated.request)
    return values_of(prompt, earlier, given_title(run=repeated, request=earlier))


def started(request: StaffRequest, form: StructuredForm, parent: Run | None) -> Run | None:
    """The run of a valid form, made from `parent`; or `None`: then the form says why."""
    asked = form.run_request(dry_run="dry_run" in request.POST)
    try:
        return start_complete_run(request=asked, by=request.user, parent=parent)
    except ConfigurationError as error:
        form.refuse(error)
        return None
