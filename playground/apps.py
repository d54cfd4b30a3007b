"""The playground as a Django app."""

from django.apps import AppConfig
from django.core.checks import register

from playground.checks import rows_are_in_one_database, times_have_zones
from playground.privacy import site_level
from playground.retention import Retention


class PlaygroundConfig(AppConfig):
    name = "playground"
    verbose_name = "LLM playground"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        register(times_have_zones)
        register(rows_are_in_one_database)
        # ImproperlyConfigured: no process is to start with settings by which it would store too much or too long.
        site_level()
        Retention.of_site()
