"""The demo shop as a Django app."""

from django.apps import AppConfig


class DemoConfig(AppConfig):
    name = "demo"
    verbose_name = "Shop"
    default_auto_field = "django.db.models.BigAutoField"
