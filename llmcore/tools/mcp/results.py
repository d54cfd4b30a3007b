"""What a server gave for a call, as a result of this site's own tools: text for the model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from llmcore.messages import JSON
from llmcore.tools.results import FailureKind, ToolResult, json_text
from llmcore.tools.results import clean as without_unstorable

# Beyond this nothing is joined, whatever a run's limits are.
MAX_BLOCKS = 1_000


def result_of_call(answer: Mapping[str, Any], *, clean: Callable[[str], str]) -> ToolResult:
    """The result of a call from the JSON of its answer, which `clean` frees of the server's key."""
    text = clean(text_of_answer(answer))
    if answer.get("isError"):
        return ToolResult.failed(FailureKind.TOOL_ERROR, text or "The tool failed without saying why.")
    return ToolResult(text=text)


def text_of_answer(answer: Mapping[str, Any]) -> str:
    """Its blocks in their order, and its structured content where no block says the same."""
    blocks = list(answer.get("content") or ())
    texts = [text for block in blocks[:MAX_BLOCKS] if (text := text_of_block(block))]
    if len(blocks) > MAX_BLOCKS:
        texts.append(f"[{len(blocks) - MAX_BLOCKS:,} more parts were left out.]")
    structured = answer.get("structuredContent")
    if structured is not None and not any(says(text, structured) for text in texts):
        texts.append(json_text(structured))
    return without_unstorable("\n\n".join(texts))


def says(text: str, value: JSON) -> bool:
    """Whether the text is this value; servers that have a text only wrap it into an object for those who want one."""
    if value == {"result": text}:
        return True
    try:
        return bool(json.loads(text) == value)
    except (ValueError, RecursionError):
        return False


def text_of_block(block: Mapping[str, Any]) -> str:
    """A block as text; of what is none, what it was."""
    match block.get("type"):
        case "text":
            return str(block.get("text") or "")
        case "image" | "audio" as kind:
            return unreadable(kind, block.get("mimeType"), block.get("data"))
        case "resource":
            resource = block.get("resource") or {}
            if "text" in resource:
                return f"{resource.get('uri')}:\n{resource['text']}"
            return f"{resource.get('uri')}: {unreadable('file', resource.get('mimeType'), resource.get('blob'))}"
        case "resource_link":
            return "Link: " + " – ".join(link_words(block))
    return "[A part of a kind that is not known here was left out.]"


def link_words(block: Mapping[str, Any]) -> Iterator[str]:
    for name in ("uri", "title", "name", "description"):
        if value := block.get(name):
            yield str(value)


def unreadable(kind: str, media_type: Any, data: Any) -> str:
    size = len(str(data or "")) * 3 // 4
    return f"[{kind}, {str(media_type or 'of unknown type')[:100]}, about {size:,} bytes: it can't be shown as text.]"
