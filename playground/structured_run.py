"""What a run with a prompt of a pack is asked for, as the request of a run keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from llmcore.messages import JSON
from llmcore.structured.inputs import Material
from llmcore.structured.request import StructuredRequest


@dataclass(frozen=True, kw_only=True, slots=True)
class GivenInput:
    """The text that a person gives for an input; `origin` is where it comes from, for people."""

    name: str
    text: str
    origin: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class StructuredRun:
    """A prompt of a pack with its inputs. `schema` is another one than the prompt's, where that is given."""

    prompt: str
    inputs: tuple[GivenInput, ...] = ()
    schema: str = ""
    session: str = ""
    repairs: int = 1

    def asked(self, *, configuration: str, variables: Mapping[str, str]) -> StructuredRequest:
        """The request as the runtime takes it."""
        return StructuredRequest(
            prompt=self.prompt,
            configuration=configuration,
            session=self.session,
            inputs={
                given.name: Material(data=given.text.encode("utf-8", "replace"), origin=given.origin)
                for given in self.inputs
            },
            variables=variables,
            schema=self.schema,
            repairs=self.repairs,
        )

    def to_json(self) -> dict[str, JSON]:
        return {**asdict(self), "inputs": [asdict(given) for given in self.inputs]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(**{**data, "inputs": tuple(GivenInput(**given) for given in data.get("inputs") or ())})


def without_contents(data: Mapping[str, JSON]) -> dict[str, JSON]:
    """The same without what was given: prompt, schema and the names of the inputs are the site's own words."""
    inputs = [{"name": given["name"], "text": "", "origin": ""} for given in data.get("inputs") or ()]
    return {**data, "inputs": inputs, "session": ""}
