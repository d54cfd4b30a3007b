"""The runtime as a Django app."""

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules

from llmcore.conf import settings
from llmcore.redaction import Redactor
from llmcore.redaction.logs import redact_log


class LLMCoreConfig(AppConfig):
    name = "llmcore"
    verbose_name = "LLM"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        redact_log(Redactor([settings.SECRET_KEY, *settings.LLM_ENCRYPTION_KEYS, *settings.LLM_SECRET_VALUES()]))
        # A site's tools are registered by importing them, as the admin finds each app's `admin.py`.
        autodiscover_modules("llm_tools")
