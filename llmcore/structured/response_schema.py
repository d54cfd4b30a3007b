"""The value of a response schema: what an answer has to be, with an identity and a digest."""

from __future__ import annotations

import json
from dataclasses import dataclass

from llmcore.configuration import sha256_of_text
from llmcore.messages import JSON


@dataclass(frozen=True, kw_only=True, slots=True)
class ResponseSchema:
    """A JSON Schema for answers. `text` is its JSON in the order in which it was written, which is the order in which
    models write an answer; `sha256` is over that."""

    id: str
    text: str
    sha256: str

    @classmethod
    def of(cls, id: str, value: JSON) -> ResponseSchema:
        """The schema `value`, taken as it is."""
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return cls(id=id, text=text, sha256=sha256_of_text(text))

    @property
    def json(self) -> dict[str, JSON]:
        """A copy of its own: what is changed in it changes nothing here."""
        value: dict[str, JSON] = json.loads(self.text)
        return value

    @property
    def title(self) -> str:
        return str(self.json.get("title") or self.id)

    def diagnostics(self) -> dict[str, JSON]:
        """What can be told of it anywhere: not what it says."""
        return {"id": self.id, "sha256": self.sha256, "bytes": len(self.text.encode("utf-8", "surrogatepass"))}
