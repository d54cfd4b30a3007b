"""The runtime as a Django app."""

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class LLMCoreConfig(AppConfig):
    name = "llmcore"
    verbose_name = "LLM"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # A site's tools are registered by importing them, as the admin finds each app's `admin.py`.
        autodiscover_modules("llm_tools")
