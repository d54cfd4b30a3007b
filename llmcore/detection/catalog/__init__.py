"""Models of services that don't tell their windows: one file for each wire format, with date and source."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from llmcore.configuration import LanguageModel
from llmcore.detection.found import FoundModel
from llmcore.providers.json_text import decode_json
from llmcore.providers.price_list import usual_prices
from llmcore.usage import Prices


def models_of(adapter: str) -> tuple[FoundModel, ...]:
    """The models of the service that is reached over `adapter`; none where there is no file for it."""
    file = files(__name__) / f"{adapter}.json"
    if not file.is_file():
        return ()
    data: Any = decode_json(file.read_bytes())
    return tuple(found_model(adapter, entry, data["as_of"]) for entry in data["models"])


def found_model(adapter: str, entry: Mapping[str, Any], as_of: str) -> FoundModel:
    """An entry of a file, with the price that is shipped for it."""
    shipped = usual_prices(adapter, entry["name"])
    return FoundModel(
        model=LanguageModel(
            name=entry["name"],
            label=entry["label"],
            context_window=entry["context_window"],
            max_output_tokens=entry["max_output_tokens"],
            supports_temperature=entry["temperature"],
            supports_thinking=entry["thinking"],
            supports_images=entry["images"],
            prices=shipped.prices if shipped else Prices(),
        ),
        thinking=entry.get("ask_thinking"),
        note=" ".join(filter(None, (f"Window and prices as of {as_of}.", entry.get("note")))),
    )
