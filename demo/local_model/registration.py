"""Enters the local model into the site: a provider, its model and a configuration to start runs with."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from demo.local_model.server import CONTEXT_WINDOW, MODEL_NAME
from demo.models import LoadedItem
from llmcore.models import Configuration, LanguageModel, Provider

SLUG = "local-model"
PROVIDER_KEY = f"provider:{SLUG}"

PROVIDER: dict[str, Any] = {"name": "Local model", "adapter": "openai_compat", "allow_private_hosts": True}
# It ignores tools, and answers with prose where one is required. One prompt is worked on at a time: others wait.
MODEL: dict[str, Any] = {
    "label": "SmolLM2 135M (local)",
    "context_window": CONTEXT_WINDOW,
    "supports_tools": False,
    "supports_tool_choice": False,
}
CONFIGURATION: dict[str, Any] = {
    "name": "Local model",
    "description": "A small real model on this machine (`make local-model`). It uses no tools, and knows little.",
    "system_prompt": "You are a helpful assistant. You answer in one short sentence.",
    # With any chance in it, a model of this size soon talks nonsense.
    "temperature": 0.0,
    # Small models don't always find an end.
    "max_tokens": 300,
    # The default would fill the window.
    "skill_budget_bytes": 6_000,
}


@transaction.atomic
def register_local_model(url: str) -> Provider:
    """Create what is missing, and let the provider follow the model to the address `url`.

    What people changed is left as it is, an address too that is not the one which was written here.
    """
    written, _ = LoadedItem.objects.get_or_create(key=PROVIDER_KEY)
    provider, _ = Provider.objects.get_or_create(slug=SLUG, defaults={**PROVIDER, "base_url": url})
    if provider.base_url == written.value:
        provider.base_url = url
        provider.save(update_fields=["base_url"])
    if provider.base_url == url:
        written.value = url
        written.save(update_fields=["value"])
    model, _ = LanguageModel.objects.get_or_create(provider=provider, name=MODEL_NAME, defaults=MODEL)
    if not model.configurations.exists():
        Configuration.objects.get_or_create(slug=SLUG, defaults={**CONFIGURATION, "model": model})
    return provider
