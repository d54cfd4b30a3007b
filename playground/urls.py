"""The addresses of the playground, to be included before the admin's own."""

from django.urls import path

from playground.views import (
    annotate,
    approvals,
    compare,
    fork,
    live,
    new_run,
    run,
    run_artifact,
    run_search,
    run_since,
    run_step,
    run_steps,
    runs,
    runs_export,
)

app_name = "playground"
urlpatterns = [
    path("", runs.runs, name="runs"),
    path("actions/", approvals.actions, name="actions"),
    path("live/", runs.runs_live, name="runs_live"),
    path("export/", runs_export.runs_export, name="runs_export"),
    path("tag/", annotate.runs_tag, name="runs_tag"),
    path("compare/", compare.compare, name="compare"),
    path("new/", new_run.new_run, name="new_run"),
    path("new/choices/", new_run.new_run_choices, name="new_run_choices"),
    path("new/preview/", new_run.preview, name="preview"),
    path("runs/<int:pk>/", run.run, name="run"),
    path("runs/<int:pk>/steps/", run_steps.run_steps, name="run_steps"),
    path("runs/<int:pk>/steps/<int:sequence>/", run_step.run_step, name="run_step"),
    path("runs/<int:pk>/artifacts/<int:sequence>/<int:index>/", run_artifact.run_artifact, name="run_artifact"),
    path("runs/<int:pk>/since/", run_since.run_since, name="run_since"),
    path("runs/<int:pk>/search/", run_search.run_search, name="run_search"),
    path("runs/<int:pk>/events/", live.run_events, name="run_events"),
    path("runs/<int:pk>/updates/", live.run_updates, name="run_updates"),
    path("runs/<int:pk>/actions/<int:action_id>/", approvals.action_decide, name="action_decide"),
    path("runs/<int:pk>/about/", annotate.run_about, name="run_about"),
    path("runs/<int:pk>/note/", annotate.run_own_note, name="run_own_note"),
    path("runs/<int:pk>/cancel/", run.run_cancel, name="run_cancel"),
    path("runs/<int:pk>/continue/", run.run_continue, name="run_continue"),
    path("runs/<int:pk>/retry/", fork.run_retry, name="run_retry"),
    path("runs/<int:pk>/fork/", fork.run_fork, name="run_fork"),
    path("runs/<int:pk>/fork/messages/<int:index>/", fork.fork_message, name="fork_message"),
    path("runs/<int:pk>/fork/choices/", fork.fork_choices, name="fork_choices"),
    path("runs/<int:pk>/fork/preview/", fork.fork_preview, name="fork_preview"),
    path("runs/<int:pk>/for-real/", run.run_real, name="run_for_real"),
    path("runs/<int:pk>/export/", run.run_export, name="run_export"),
    path("runs/<int:pk>/delete/", run.run_delete, name="run_delete"),
]
