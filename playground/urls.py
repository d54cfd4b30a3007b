"""The addresses of the playground, to be included before the admin's own."""

from django.urls import path

from playground.views import new_run, run, runs

app_name = "playground"
urlpatterns = [
    path("", runs.runs, name="runs"),
    path("live/", runs.runs_live, name="runs_live"),
    path("new/", new_run.new_run, name="new_run"),
    path("new/choices/", new_run.new_run_choices, name="new_run_choices"),
    path("new/preview/", new_run.preview, name="preview"),
    path("runs/<int:pk>/", run.run, name="run"),
]
