"""The wire formats this version speaks, by name. Adding one is a file and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from llmcore.configuration import LanguageModel, Provider
from llmcore.errors import ConfigurationError
from llmcore.providers.anthropic import Anthropic
from llmcore.providers.azure_openai import AzureOpenAI
from llmcore.providers.base import Adapter
from llmcore.providers.deepseek import DeepSeek
from llmcore.providers.gemini import Gemini
from llmcore.providers.groq import Groq
from llmcore.providers.json_tools import JsonTools
from llmcore.providers.mistral import Mistral
from llmcore.providers.ollama import Ollama
from llmcore.providers.openai_chat import OPENAI, OPENAI_COMPAT, OpenAIChat
from llmcore.providers.openai_responses import OpenAIResponses
from llmcore.providers.openrouter import OpenRouter

_adapters: dict[str, Adapter] = {
    adapter.name: adapter
    for adapter in (
        OpenAIChat(OPENAI_COMPAT),
        OpenAIChat(OPENAI),
        OpenAIResponses(),
        AzureOpenAI(),
        Anthropic(),
        Gemini(),
        OpenRouter(),
        Mistral(),
        Groq(),
        DeepSeek(),
        Ollama(),
    )
}


def adapters() -> Mapping[str, Adapter]:
    """All adapters by name."""
    return MappingProxyType(_adapters)


def adapter_of(provider: Provider, model: LanguageModel) -> Adapter:
    """How this model of this provider is spoken to; ConfigurationError for an unknown wire format."""
    adapter = adapter_for(provider.adapter)
    return JsonTools(adapter) if model.tools_as_json else adapter


def adapter_for(name: str) -> Adapter:
    """The adapter of this name; ConfigurationError for an unknown one."""
    try:
        return _adapters[name]
    except KeyError:
        known = ", ".join(sorted(_adapters))
        raise ConfigurationError(f"There is no wire format {name!r}. Known are: {known}.") from None
