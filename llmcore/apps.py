"""The runtime as a Django app."""

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules

from llmcore.conf import most_calls_in_flight, service_tokens, settings
from llmcore.mcp_commands import mcp_commands
from llmcore.recent_records import remember_records
from llmcore.redaction import Redactor
from llmcore.redaction.logs import redact_log
from llmcore.site_hooks import site_hooks
from llmcore.tools.builtin.artifacts import register_tool, site_artifacts
from llmcore.tools.registry import site_tools
from llmcore.workspaces import workspaces


class LLMCoreConfig(AppConfig):
    name = "llmcore"
    verbose_name = "LLM"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        redact_log(
            Redactor(
                [
                    settings.SECRET_KEY,
                    *settings.LLM_ENCRYPTION_KEYS,
                    *settings.LLM_SERVICE_TOKENS,
                    *settings.LLM_SECRET_VALUES(),
                ]
            )
        )
        remember_records(settings.LLM_RECENT_LOGS)
        # A mistake in them shows at start, not in a run.
        workspaces()
        mcp_commands()
        most_calls_in_flight()
        service_tokens()
        # A site's tools are registered by importing them, as the admin finds each app's `admin.py`.
        autodiscover_modules("llm_tools")
        # And its prompts.
        autodiscover_modules("llm_prompts")
        site_hooks()
        # Last, so that it knows the types of artifacts that the apps have registered.
        register_tool(site_tools, site_artifacts)
