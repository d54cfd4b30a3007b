"""Real tokenizers, where the optional package `splintr-rs` is installed: it brings its vocabularies along.

Packages that fetch a vocabulary at run time are of no use here: a preview would wait for a network.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

PACKAGE = "splintr"

# The vocabulary of the models whose names begin so, without what a gateway puts before a slash; the first that fits.
_VOCABULARIES = tuple(
    (re.compile(pattern), vocabulary)
    for pattern, vocabulary in (
        (r"gpt-oss", "o200k_base"),
        (r"(chatgpt-|ft:)?(gpt-4o|gpt-4\.1|gpt-4\.5|gpt-5|o1|o3|o4)", "o200k_base"),
        (r"(ft:)?(gpt-4|gpt-3\.5|gpt-35)", "cl100k_base"),
        (r"(meta-)?llama-?3", "llama3"),
        (r"deepseek-(chat|reasoner|v3|r1(?!-distill|:\d))", "deepseek_v3"),
        (r"qwen", "qwen3"),
        (r"gemma-?3", "gemma3"),
        (r"phi-?4", "phi4"),
        (r"(mistral-nemo|ministral|mistral-small-24|mistral-small3|mistral-large-24|devstral|magistral)", "mistral_v3"),
    )
)


def vocabulary_of(model: str) -> str:
    """The name of the vocabulary that counts the tokens of `model`; empty where none is known or nothing can count."""
    if find_spec(PACKAGE) is None:
        return ""
    name = model.rsplit("/", 1)[-1].lower()
    return next((vocabulary for pattern, vocabulary in _VOCABULARIES if pattern.match(name)), "")


@cache
def counter(vocabulary: str) -> Callable[[str], int] | None:
    """Counts the tokens of a text; `None` where this process can't. Loaded once, in some tenths of a second."""
    if not vocabulary or find_spec(PACKAGE) is None:
        return None
    tokenizer: Any = importlib.import_module(PACKAGE).Tokenizer.from_pretrained(vocabulary)

    def count(text: str) -> int:
        # Half a surrogate pair has no UTF-8, and no provider gets it.
        return len(tokenizer.encode_ordinary(text.encode("utf-8", "replace").decode()))

    return count
