"""The list of a provider's models: how it is asked for, and the names in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from llmcore.errors import ErrorKind, ProviderError
from llmcore.messages import JSON, ModelResponse
from llmcore.providers.base import WireReply
from llmcore.providers.failures import broken, error_in, failure
from llmcore.providers.whole_reply import read_reply

MAX_NAME = 200
# So many of the nearest names are told.
MAX_NEAREST = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """What a provider answered when it was asked for its models: the decoded list, or how that failed."""

    body: JSON = None
    error: ProviderError | None = None

    @property
    def entries(self) -> list[Mapping[str, JSON]]:
        """The objects in the list, in whichever of the usual places it stands."""
        found = self.body
        if isinstance(found, dict):
            found = next((found[name] for name in ("data", "models") if isinstance(found.get(name), list)), [])
        return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []

    @property
    def names(self) -> list[str]:
        return sorted({name for entry in self.entries if (name := name_in(entry))})


def read_listing(reply: WireReply) -> Listing:
    """The list in an HTTP response, or its error."""
    body: JSON = None

    def keep(decoded: JSON, status: int) -> ModelResponse:
        nonlocal body
        body = decoded
        report = error_in(decoded)
        if report is None and not isinstance(decoded, dict | list):
            return ModelResponse(error=broken(ErrorKind.MALFORMED_RESPONSE, "The answer is no list of models.", status))
        return ModelResponse(error=failure(report, status) if report else None)

    error = read_reply(reply, keep).error
    return Listing(body=None if error else body, error=error)


def name_in(entry: Mapping[str, JSON]) -> str:
    """A model's name as requests spell it; empty where there is none that can be used."""
    name = next((value for key in ("id", "name", "model") if isinstance(value := entry.get(key), str) and value), "")
    usable = name.isprintable() and name == name.strip() and len(name) <= MAX_NAME
    return name.removeprefix("models/") if usable else ""


def nearest(wanted: str, names: Iterable[str]) -> list[str]:
    """The names that are most like `wanted`, the nearest first."""
    by_key = {name.lower().rpartition("/")[2]: name for name in names}
    key = wanted.lower().rpartition("/")[2]
    within = [name for short, name in by_key.items() if key and (key in short or short in key)]
    like = [by_key[short] for short in get_close_matches(key, by_key, n=MAX_NEAREST, cutoff=0.6)]
    return list(dict.fromkeys([*like, *within]))[:MAX_NEAREST]
