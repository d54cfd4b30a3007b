"""How the tokens of a model are counted before its provider has: by its own vocabulary or a rule of thumb, corrected by
what the provider counted for earlier runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from llmcore.configuration import LanguageModel
from llmcore.context import tokens
from llmcore.context.learning import LEAST_SAMPLES
from llmcore.context.tokenizers import counter
from llmcore.messages import Message, ToolSpec


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimator:
    """Counts tokens as a model's provider is expected to. `tokenizer` names the vocabulary, empty for the rule of
    thumb; `ratio` is what the provider counted for each token of ours, as the median of the last `samples` runs."""

    tokenizer: str = ""
    ratio: float = 1.0
    samples: int = 0

    @classmethod
    def of(cls, model: LanguageModel) -> Self:
        return cls(tokenizer=model.tokenizer, ratio=model.token_ratio, samples=model.token_samples)

    def text(self, text: str) -> int:
        count = counter(self.tokenizer) or tokens.estimate_tokens
        return max(self._corrected(count(text)), 1) if text else 0

    def roughly(self, text: str) -> int:
        """The same in little time for any length."""
        return self._corrected((counter(self.tokenizer) or tokens.estimate_roughly)(text))

    def size(self, size: int) -> int:
        """A text of `size` bytes that isn't at hand: by a rule of thumb whatever counts the others, corrected as they
        are."""
        return self._corrected(tokens.estimate_size(size))

    def message(self, message: Message) -> int:
        """A message in a request, with its calls and its frame; in little time for any length."""
        return sum(self.shares(message).values())

    def shares(self, message: Message) -> dict[tokens.Share, int]:
        """The same by what it is made of."""
        count = counter(self.tokenizer) or tokens.estimate_roughly
        shares = tokens.message_shares(message, count)
        return tokens.apportioned(shares, self._corrected(sum(shares.values())))

    def tools(self, specs: Iterable[ToolSpec]) -> int:
        count = counter(self.tokenizer) or tokens.estimate_tokens
        return self._corrected(tokens.estimate_tools(specs, count))

    @property
    def how(self) -> str:
        """How it counts, in a sentence."""
        by = f"Counted with the vocabulary {self.tokenizer}" if self.tokenizer else "Estimated by a rule of thumb"
        if self.samples < LEAST_SAMPLES:
            return f"{by}; runs of this model correct it from the third on."
        return f"{by}, × {self.ratio:.2f} as {self.samples} runs of this model taught."

    def _corrected(self, count: int) -> int:
        return round(count * self.ratio)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(**data)
