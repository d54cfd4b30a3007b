"""Reads the lists of models that servers give, and what they say of each one. Nothing in them is believed blindly."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from llmcore.configuration import LanguageModel
from llmcore.detection.asking import NoAnswer
from llmcore.messages import JSON
from llmcore.usage import Prices

MAX_NAME = 200
# More models than this of one server are not worth a list to choose from.
MAX_MODELS = 100
# Ollama reserves memory for the whole window that a request asks for: that of the largest models fills a machine.
MAX_OLLAMA_WINDOW = 16_384
MAX_WINDOW = 2**31 - 1
# What servers list beside models that answer.
NO_CHAT = re.compile(r"embed|rerank|whisper|(^|[^a-z])tts([^a-z]|$)", re.IGNORECASE)
WINDOWS = ("max_model_len", "context_length", "context_window", "max_context_length", "inputTokenLimit")
OUTPUTS = ("max_completion_tokens", "outputTokenLimit")
PRICES = {
    "input": "prompt",
    "output": "completion",
    "cache_read": "input_cache_read",
    "cache_creation": "input_cache_write",
}
PRICE = re.compile(r"\d{1,3}(\.\d{1,12})?")
NUM_CTX = re.compile(r"^num_ctx[ \t]+(\d{1,9})[ \t]*$", re.MULTILINE)


def compatible_models(listing: JSON) -> list[LanguageModel]:
    """The models of an OpenAI-compatible server by name, with what the better ones tell of them."""
    by_name = {name: entry for entry in entries(listing, "data") if (name := name_of(entry.get("id")))}
    return [compatible_model(name, entry) for name, entry in sorted(by_name.items()) if not NO_CHAT.search(name)]


def compatible_model(name: str, entry: Mapping[str, JSON]) -> LanguageModel:
    """A model as its entry in a list describes it. Sources: the lists of vLLM, llama.cpp, Groq, OpenRouter, Mistral and
    Gemini; what none of them tells is taken for the usual."""
    architecture, able = mapping(entry.get("architecture")), mapping(entry.get("capabilities"))
    named = words(entry.get("supported_parameters"))
    return LanguageModel(
        name=name,
        label=label_of(name, entry),
        context_window=first_count(entry, *WINDOWS) or first_count(mapping(entry.get("meta")), "n_ctx"),
        max_output_tokens=first_count(entry, *OUTPUTS)
        or first_count(mapping(entry.get("top_provider")), "max_completion_tokens"),
        supports_tools="tools" in named if named else able.get("function_calling") is not False,
        supports_temperature="temperature" in named if named else True,
        supports_thinking="reasoning" in named or entry.get("thinking") is True,
        supports_images="image" in words(architecture.get("input_modalities")) or able.get("vision") is True,
        supports_structured_output="structured_outputs" in named if named else True,
        prices=prices_in(mapping(entry.get("pricing"))),
    )


def label_of(name: str, entry: Mapping[str, JSON]) -> str:
    shown = next((text for key in ("display_name", "displayName") if (text := name_of(entry.get(key)))), "")
    return shown or name.rpartition("/")[2] or name


def first_count(entry: Mapping[str, JSON], *names: str) -> int | None:
    return next((size for name in names if (size := count(entry.get(name)))), None)


def prices_in(pricing: Mapping[str, JSON]) -> Prices:
    """OpenRouter's prices, which are dollars for one token."""
    found: dict[str, Any] = {ours: price_of(pricing.get(theirs)) for ours, theirs in PRICES.items()}
    return Prices(**found) if found["input"] is not None and found["output"] is not None else Prices()


def price_of(value: JSON) -> Decimal | None:
    """Dollars per million tokens for a text of dollars per token; a price that is no exact figure is none."""
    if not isinstance(value, str) or not PRICE.fullmatch(value):
        return None
    return Decimal(value) * 1_000_000


def owner_of(listing: JSON) -> str:
    """What an OpenAI-compatible server writes as the owner of its models."""
    return next((owner for entry in entries(listing, "data") if isinstance(owner := entry.get("owned_by"), str)), "")


def ollama_names(listing: JSON) -> list[str]:
    """The names in Ollama's list of models, sorted."""
    return sorted({name for entry in entries(listing, "models") if (name := name_of(entry.get("name")))})


def ollama_model(name: str, description: JSON) -> LanguageModel | None:
    """A model as Ollama describes it; `None` where it doesn't answer but embeds. Without a list of capabilities, as
    old versions are, it is trusted with text only."""
    described = mapping(description)
    capabilities = words(described.get("capabilities"))
    if capabilities and "completion" not in capabilities:
        return None
    return LanguageModel(
        name=name,
        label=name.removesuffix(":latest"),
        context_window=ollama_window(described),
        supports_tools="tools" in capabilities,
        supports_tool_choice=False,
        supports_thinking="thinking" in capabilities,
        supports_images="vision" in capabilities,
    )


def ollama_window(described: Mapping[str, JSON]) -> int | None:
    """The window that the model's own file asks for, else what it was made for up to `MAX_OLLAMA_WINDOW`."""
    parameters = described.get("parameters")
    if isinstance(parameters, str) and (wanted := NUM_CTX.search(parameters)):
        return count(int(wanted[1]))
    info = mapping(described.get("model_info"))
    sizes = [size for key, value in info.items() if key.endswith(".context_length") and (size := count(value))]
    return min(*sizes, MAX_OLLAMA_WINDOW) if sizes else None


def entries(listing: JSON, items: str) -> list[Mapping[str, JSON]]:
    """The objects in a list of models. NoAnswer: it is no such list, so this is another kind of server."""
    found = mapping(listing).get(items)
    if not isinstance(found, list):
        raise NoAnswer("the answer is no list of models")
    return [entry for entry in found if isinstance(entry, dict)]


def mapping(value: JSON) -> Mapping[str, JSON]:
    return value if isinstance(value, dict) else {}


def words(value: JSON) -> set[str]:
    return {word for word in value if isinstance(word, str)} if isinstance(value, list) else set()


def name_of(value: JSON) -> str:
    """`value` if it can be a model's name, else nothing."""
    usable = isinstance(value, str) and value.isprintable() and value == value.strip() and len(value) <= MAX_NAME
    return value if usable else ""


def count(value: JSON) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_WINDOW
    return value if whole else None
