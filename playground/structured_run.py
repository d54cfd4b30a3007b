"""What a run with a prompt of a pack is asked for, as the request of a run keeps it."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from llmcore.messages import JSON
from llmcore.structured.inputs import Material
from llmcore.structured.request import StructuredRequest


@dataclass(frozen=True, kw_only=True, slots=True)
class GivenInput:
    """What a person gives for an input: a text, or a picture as base64 (`data`) with its `media_type`. `origin` is
    where it comes from, for people."""

    name: str
    text: str = ""
    origin: str = ""
    media_type: str = ""
    data: str = ""

    @classmethod
    def of_picture(cls, *, name: str, data: bytes, media_type: str, origin: str) -> Self:
        return cls(name=name, origin=origin, media_type=media_type, data=b64encode(data).decode())

    @property
    def size(self) -> int:
        """Bytes of what was given."""
        return len(self.material.data)

    @property
    def sent_size(self) -> int:
        """Bytes that it takes in a request: pictures travel as base64."""
        return len(self.data) or self.size

    @property
    def material(self) -> Material:
        if self.data:
            return Material(data=b64decode(self.data), media_type=self.media_type, origin=self.origin)
        return Material(data=self.text.encode("utf-8", "replace"), origin=self.origin)

    def to_json(self) -> dict[str, JSON]:
        return {name: value for name, value in asdict(self).items() if value or name not in ("media_type", "data")}


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
            inputs={given.name: given.material for given in self.inputs},
            variables=variables,
            schema=self.schema,
            repairs=self.repairs,
        )

    def to_json(self) -> dict[str, JSON]:
        return {**asdict(self), "inputs": [given.to_json() for given in self.inputs]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(**{**data, "inputs": tuple(GivenInput(**given) for given in data.get("inputs") or ())})


def without_contents(data: Mapping[str, JSON]) -> dict[str, JSON]:
    """The same without what was given: prompt, schema and the names of the inputs are the site's own words."""
    inputs = [{"name": given["name"], "text": "", "origin": ""} for given in data.get("inputs") or ()]
    return {**data, "inputs": inputs, "session": ""}
