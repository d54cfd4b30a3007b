"""Which fields of a provider's usage our counts are made of: they are read and explained by one description."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from llmcore.messages import JSON
from llmcore.providers.token_counts import count, total_of
from llmcore.usage import Usage


@dataclass(frozen=True, slots=True)
class Term:
    """One number of a provider: the paths under which it may stand, with dots between names; the first one counts."""

    paths: tuple[str, ...]

    def find(self, raw: Mapping[str, JSON]) -> tuple[str, int] | None:
        return next(((path, number) for path in self.paths if (number := _at(raw, path)) is not None), None)


def term(*paths: str) -> Term:
    return Term(paths)


@dataclass(frozen=True, kw_only=True, slots=True)
class Formula:
    """How one of our counts came about: the fields that were added up, and their sum."""

    name: str
    terms: tuple[tuple[str, int], ...]

    @property
    def result(self) -> int:
        return sum(number for _, number in self.terms)


@dataclass(frozen=True, kw_only=True, slots=True)
class UsageFields:
    """The terms of each of our counts. A sum is known where its first term is; of `any_of` one is enough. Without a
    `total` of its own the provider's is prompt and completion together. `note` says what its prompt count includes."""

    input_tokens: tuple[Term, ...]
    output_tokens: tuple[Term, ...]
    total_tokens: tuple[Term, ...] = ()
    cache_read_input_tokens: tuple[Term, ...] = ()
    cache_creation_input_tokens: tuple[Term, ...] = ()
    reasoning_output_tokens: tuple[Term, ...] = ()
    any_of: frozenset[str] = field(default=frozenset())
    note: str = ""

    def read(self, raw: Mapping[str, JSON] | None) -> Usage | None:
        """Our counts; what is missing, null or no sensible number is unknown."""
        if not raw:
            return None
        counts = {name: self._sum(name, raw) for name in NAMES}
        prompt, completion = counts["input_tokens"], counts["output_tokens"]
        total = total_of(counts.pop("total_tokens"), prompt, completion)
        return Usage(**counts, total_tokens=total, raw=raw)

    def explain(self, raw: Mapping[str, JSON] | None) -> list[Formula]:
        """The formula of each count that `raw` has."""
        if not raw:
            return []
        formulas = [Formula(name=name, terms=terms) for name in NAMES if (terms := self._terms(name, raw))]
        own = {formula.name: formula.result for formula in formulas}
        parts = [(name, own[name]) for name in ("input_tokens", "output_tokens") if name in own]
        total = total_of(own.get("total_tokens"), own.get("input_tokens"), own.get("output_tokens"))
        if total is not None and total != own.get("total_tokens"):
            formulas = [formula for formula in formulas if formula.name != "total_tokens"]
            formulas.append(Formula(name="total_tokens", terms=tuple(parts)))
        return formulas

    def _sum(self, name: str, raw: Mapping[str, JSON]) -> int | None:
        found = self._terms(name, raw)
        return sum(number for _, number in found) if found else None

    def _terms(self, name: str, raw: Mapping[str, JSON]) -> tuple[tuple[str, int], ...]:
        terms: tuple[Term, ...] = getattr(self, name)
        found = [one.find(raw) for one in terms]
        if not found or (found[0] is None and name not in self.any_of):
            return ()
        return tuple(one for one in found if one is not None)


NAMES = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "reasoning_output_tokens",
    "total_tokens",
)

# OpenAI's two interfaces and everything like them. DeepSeek has cache hits in a field of its own.
OPENAI_USAGE = UsageFields(
    input_tokens=(term("prompt_tokens", "input_tokens"),),
    output_tokens=(term("completion_tokens", "output_tokens"),),
    total_tokens=(term("total_tokens"),),
    cache_read_input_tokens=(
        term("prompt_tokens_details.cached_tokens", "input_tokens_details.cached_tokens", "prompt_cache_hit_tokens"),
    ),
    cache_creation_input_tokens=(
        term("prompt_tokens_details.cache_write_tokens", "input_tokens_details.cache_write_tokens"),
    ),
    reasoning_output_tokens=(
        term("completion_tokens_details.reasoning_tokens", "output_tokens_details.reasoning_tokens"),
    ),
    note="The provider's prompt count includes cached tokens, its completion includes reasoning.",
)


def _at(raw: Mapping[str, JSON], path: str) -> int | None:
    value: JSON = raw
    for name in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return count(value)
