"""Models of services that don't tell their windows and prices: one file for each wire format, with date and source."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from llmcore.configuration import LanguageModel
from llmcore.detection.found import FoundModel
from llmcore.providers.json_text import decode_json
from llmcore.usage import Prices


def models_of(adapter: str) -> tuple[FoundModel, ...]:
    """The models of the service that is reached over `adapter`; none where there is no file for it."""
    file = files(__name__) / f"{adapter}.json"
    if not file.is_file():
        return ()
    data: Any = decode_json(file.read_bytes())
    return tuple(found_model(entry, data["as_of"]) for entry in data["models"])


def found_model(entry: Mapping[str, Any], as_of: str) -> FoundModel:
    """An entry of a file. Prices are US dollars per million tokens, written as strings so that they stay exact."""
    return FoundModel(
        model=LanguageModel(
            name=entry["name"],
            label=entry["label"],
            context_window=entry["context_window"],
            max_output_tokens=entry["max_output_tokens"],
            supports_temperature=entry["temperature"],
            supports_thinking=entry["thinking"],
            supports_images=entry["images"],
            prices=Prices.from_json(entry["prices"]),
        ),
        thinking=entry.get("ask_thinking"),
        note=" ".join(filter(None, (f"Window and prices as of {as_of}.", entry.get("note")))),
    )
