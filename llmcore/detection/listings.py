"""Reads the lists of models that servers give, and what they say of each one. Nothing in them is believed blindly."""

from __future__ import annotations

import re
from collections.abc import Mapping

from llmcore.configuration import LanguageModel
from llmcore.detection.asking import NoAnswer
from llmcore.messages import JSON

MAX_NAME = 200
# More models than this of one server are not worth a list to choose from.
MAX_MODELS = 100
# Ollama reserves memory for the whole window that a request asks for: that of the largest models fills a machine.
MAX_OLLAMA_WINDOW = 16_384
MAX_WINDOW = 2**31 - 1
# What servers list beside models that answer.
NO_CHAT = re.compile(r"embed|rerank|whisper|(^|[^a-z])tts([^a-z]|$)", re.IGNORECASE)
NUM_CTX = re.compile(r"^num_ctx[ \t]+(\d{1,9})[ \t]*$", re.MULTILINE)


def compatible_models(listing: JSON) -> list[LanguageModel]:
    """The models of an OpenAI-compatible server by name, with what the better ones tell of them."""
    by_name = {name: entry for entry in entries(listing, "data") if (name := name_of(entry.get("id")))}
    return [compatible_model(name, entry) for name, entry in sorted(by_name.items()) if not NO_CHAT.search(name)]


def compatible_model(name: str, entry: Mapping[str, JSON]) -> LanguageModel:
    meta, architecture = mapping(entry.get("meta")), mapping(entry.get("architecture"))
    windows = (entry.get("max_model_len"), entry.get("context_length"), entry.get("context_window"), meta.get("n_ctx"))
    return LanguageModel(
        name=name,
        label=name.rpartition("/")[2] or name,
        context_window=next((size for value in windows if (size := count(value))), None),
        supports_images="image" in words(architecture.get("input_modalities")),
    )


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
