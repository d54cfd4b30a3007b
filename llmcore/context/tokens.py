"""Estimates of token counts, where no provider has counted yet.

The figures are estimates: each model family has its own tokenizer. They follow byte-pair encodings of about 100,000
to 200,000 entries (cl100k, o200k), stand within some ten percent of them for prose and code, and lean to too many.
What a provider reports always replaces them.
"""

from __future__ import annotations


def estimate_tokens(text: str) -> int:
    return (len(text.encode("utf-8", "surrogatepass")) + 3) // 4
