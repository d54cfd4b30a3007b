"""Assembles the calls of a streamed answer in the OpenAI family, whose fragments are routed by id and index."""

from __future__ import annotations

from collections.abc import Collection

from llmcore.messages import JSON
from llmcore.providers.call_drafts import MAX_CALLS, MAX_NAME, CallDraft, read_id
from llmcore.providers.json_text import decode_json


class _Open:
    """A call that is being streamed."""

    __slots__ = ("draft", "index", "pieces")

    def __init__(self, identity: str | None, index: JSON) -> None:
        self.draft = CallDraft(id=identity)
        self.index = index
        self.pieces: list[str] = []

    @property
    def is_complete(self) -> bool:
        if isinstance(self.draft.arguments, dict):
            return True
        if not self.pieces or not self.pieces[-1].rstrip().endswith("}"):
            return False
        try:
            return isinstance(decode_json("".join(self.pieces)), dict)
        except ValueError:
            return False


class CallFragments:
    """Routes fragments to calls.

    By id first: a new id always opens a call. An index is a key, not a position; a fragment without an id and with an
    unknown index goes on with the latest call, unless it names a tool of its own. `names` are those of the tools that
    were offered: a name may be cut, too, and where it can be both, they tell a second name from the rest of the first.
    """

    def __init__(self, names: Collection[str] = ()) -> None:
        self._calls: list[_Open] = []
        self._names = frozenset(names)

    def add(self, fragment: JSON) -> str:
        """Take a fragment and return the text that it adds to its call's arguments."""
        if not isinstance(fragment, dict):
            return ""
        function = fragment.get("function") or fragment.get("custom")
        function = function if isinstance(function, dict) else {}
        name = value if isinstance(value := function.get("name"), str) else ""
        arguments = function.get("arguments", function.get("input"))
        identity = read_id(fragment.get("id"))
        if not (name or identity or arguments):
            return ""
        call = self._route(identity, fragment.get("index"), name, arguments)
        self._extend_name(call.draft, name)
        if isinstance(arguments, str):
            call.pieces.append(arguments)
            return arguments
        if arguments is not None:
            call.draft.arguments = arguments
        return ""

    def drafts(self) -> list[CallDraft]:
        for call in self._calls:
            if call.pieces and call.draft.arguments is None:
                call.draft.arguments = "".join(call.pieces)
        return [call.draft for call in self._calls]

    def _route(self, identity: str | None, index: JSON, name: str, arguments: JSON) -> _Open:
        found = self._find(identity, index, name, arguments)
        if found is None and len(self._calls) > MAX_CALLS:
            # The answer is refused for its many calls already.
            found = self._calls[-1]
        if found is None:
            found = _Open(identity, index)
            self._calls.append(found)
        if found.draft.id is None:
            found.draft.id = identity
        return found

    def _find(self, identity: str | None, index: JSON, name: str, arguments: JSON) -> _Open | None:
        latest = self._calls[-1] if self._calls else None
        if latest is None:
            return None
        if identity is not None:
            known = next((call for call in reversed(self._calls) if call.draft.id == identity), None)
            return None if known is None or self._begins_anew(known, index, name, arguments) else known
        if index is None:
            known = latest
        else:
            known = next((call for call in reversed(self._calls) if call.index == index), None)
            if known is None:
                return None if name else latest
        return None if self._begins_anew(known, known.index, name, arguments) else known

    def _begins_anew(self, known: _Open, index: JSON, name: str, arguments: JSON) -> bool:
        """Whether a fragment that would be routed to `known` is another call under the same id or index.

        Servers that double their ids or send no index do that: the fragment names a tool again after the call was
        complete, or under another index, or names another tool.
        """
        before = known.draft.name
        if not name or not before:
            return False
        if index is not None and known.index is not None and index != known.index:
            return True
        if name != before and {before, name} <= self._names and before + name not in self._names:
            return True
        return (bool(arguments) or name != before) and known.is_complete

    @staticmethod
    def _extend_name(draft: CallDraft, name: str) -> None:
        # A fragment equal to the name so far is a repeat (llama.cpp), any other one a continuation.
        if name and name != draft.name and len(draft.name) < MAX_NAME:
            draft.name += name
