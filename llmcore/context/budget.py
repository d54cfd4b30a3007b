"""What of a model's window a prompt may take, and where it went: the one formula for the preview, the notices before a
run, its rounds and its findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, Self

from llmcore.configuration import LanguageModel, Parameters
from llmcore.context.tokens import Share

# Of the window, the part that is kept for an answer whose length nobody limited.
_UNLIMITED_ANSWER = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class WindowUse:
    """Where the window went, in tokens: `shares` are what the prompt is made of; `reserve` is kept for the answer,
    `margin` for what the estimate of the prompt may be wrong by.

    All parts add up to the `window`; where that is unknown, so are reserve, margin and what is free, and the shares are
    all there is. Of the prompt, `counted` tokens were counted by the provider with an earlier request.
    """

    shares: Mapping[Share, int]
    window: int | None = None
    reserve: int | None = None
    margin: int | None = None
    counted: int = 0

    @property
    def used(self) -> int:
        return sum(self.shares.values())

    @property
    def most_used(self) -> int:
        """What the prompt may come to, if the estimate is wrong by all of its margin."""
        return self.used + (self.margin or 0)

    @property
    def budget(self) -> int | None:
        """The most that the prompt may take; `None` where the window is unknown."""
        return None if self.window is None else max(self.window - (self.reserve or 0) - (self.margin or 0), 0)

    @property
    def free(self) -> int | None:
        """What is left; below 0 where more is taken than there is."""
        return None if self.window is None else self.window - self.used - (self.reserve or 0) - (self.margin or 0)

    def to_json(self) -> dict[str, Any]:
        return {
            "window": self.window,
            "used": self.used,
            "reserve": self.reserve,
            "margin": self.margin,
            "free": self.free,
            "counted": self.counted,
            "shares": {share.value: tokens for share, tokens in self.shares.items()},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(
            shares={Share(name): tokens for name, tokens in data["shares"].items()},
            **{name: data[name] for name in ("window", "reserve", "margin", "counted")},
        )

    def has_room(self, parameters: Parameters) -> bool:
        """Whether an answer can follow: as long a one as was asked for, or where nobody limited it any."""
        if self.window is None:
            return True
        return self.used + (self.margin or 0) + (parameters.max_tokens or 1) <= self.window

    def is_crowded(self, percent: int) -> bool:
        """Whether the prompt takes more than `percent` of what it may; never for 0."""
        return bool(percent) and self.budget is not None and self.used > self.budget * percent / 100

    def could_have_room(self, parameters: Parameters, *, without: int) -> bool:
        """Whether an answer could follow if `without` tokens of the prompt were gone, at the best."""
        return self.window is None or self.used - without + (parameters.max_tokens or 1) <= self.window


def window_use(
    shares: Mapping[Share, int], *, model: LanguageModel, parameters: Parameters, doubtful: int, percent: float
) -> WindowUse:
    """How `shares` stand in the window of `model`. `doubtful` of their tokens are estimated, each of which may be wrong
    by `percent`; the others its provider has counted."""
    used = sum(shares.values())
    return WindowUse(
        shares=shares,
        window=model.context_window,
        reserve=_reserve(model, parameters),
        margin=None if model.context_window is None else ceil(doubtful * percent / 100),
        counted=used - doubtful,
    )


def _reserve(model: LanguageModel, parameters: Parameters) -> int | None:
    """What is kept for the answer: as much as was asked for, else what the model can give, but no more than a part of
    the window, since some models can fill all of it."""
    if model.context_window is None:
        return None
    if parameters.max_tokens is not None:
        return parameters.max_tokens
    part = model.context_window // _UNLIMITED_ANSWER
    return part if model.max_output_tokens is None else min(model.max_output_tokens, part)


def longest_answer(use: WindowUse, *, model: LanguageModel, parameters: Parameters) -> int | None:
    """The most tokens that an answer can have: as many as were asked for, else what the model can give in what the
    prompt leaves of the window; `None` where nothing bounds it."""
    if parameters.max_tokens is not None:
        return parameters.max_tokens
    left = None if use.window is None else max(use.window - use.used, 0)
    bounds = [bound for bound in (model.max_output_tokens, left) if bound is not None]
    return min(bounds) if bounds else None
