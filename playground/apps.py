"""The playground as a Django app."""

from django.apps import AppConfig
from django.core.checks import register

from playground.checks import retention_and_privacy


class PlaygroundConfig(AppConfig):
    name = "playground"
    verbose_name = "LLM playground"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        register(retention_and_privacy)
