"""The playground as a Django app."""

from django.apps import AppConfig

from playground.privacy import site_level
from playground.retention import Retention


class PlaygroundConfig(AppConfig):
    name = "playground"
    verbose_name = "LLM playground"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # ImproperlyConfigured: no process is to start with settings by which it would store too much or too long.
        site_level()
        Retention.of_site()
