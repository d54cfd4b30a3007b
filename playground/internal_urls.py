"""The addresses for other engines, which come with a token instead of a login."""

from django.urls import path

from playground.views import internal

app_name = "internal"
urlpatterns = [
    path("sessions/<str:session>/llm-turn", internal.llm_turn, name="llm_turn"),
    path("sessions/<str:session>/actions", internal.actions, name="actions"),
    path("sessions/<str:session>/actions/<int:action_id>", internal.action_state, name="action_state"),
]
