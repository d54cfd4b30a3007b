"""The runtime as a Django app."""

from django.apps import AppConfig


class LLMCoreConfig(AppConfig):
    name = "llmcore"
    verbose_name = "LLM"
    default_auto_field = "django.db.models.BigAutoField"
