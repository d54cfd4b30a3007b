"""The addresses of the playground, to be included before the admin's own."""

from django.urls import URLPattern

app_name = "playground"
urlpatterns: list[URLPattern] = []
