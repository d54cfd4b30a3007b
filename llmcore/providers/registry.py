"""The wire formats this version speaks, by name. Adding one is a file and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from llmcore.errors import ConfigurationError
from llmcore.providers.base import Adapter
from llmcore.providers.ollama import Ollama
from llmcore.providers.openai_chat import OPENAI, OPENAI_COMPAT, OpenAIChat

_adapters: dict[str, Adapter] = {
    adapter.name: adapter
    for adapter in (
        OpenAIChat(OPENAI_COMPAT),
        OpenAIChat(OPENAI),
        Ollama(),
    )
}


def adapters() -> Mapping[str, Adapter]:
    """All adapters by name."""
    return MappingProxyType(_adapters)


def adapter_for(name: str) -> Adapter:
    """The adapter of this name; ConfigurationError for an unknown one."""
    try:
        return _adapters[name]
    except KeyError:
        known = ", ".join(sorted(_adapters))
        raise ConfigurationError(f"There is no wire format {name!r}. Known are: {known}.") from None
