"""The first values of the form of a new run: those of an earlier run, or of what an address names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llmcore.conf import settings
from llmcore.redaction import MASK
from playground.forms import replacements, variables
from playground.privacy import raw_capture_refused
from playground.services.run_choices import RunChoices
from playground.services.start_run import RunRequest


@dataclass(frozen=True, kw_only=True, slots=True)
class Refill:
    """The values that fill the form like an earlier request, and what of that request no longer exists."""

    values: dict[str, Any]
    missing: tuple[str, ...]


def values_of(request: RunRequest, choices: RunChoices) -> dict[str, Any]:
    """The form's values for `request`, whatever of it can be chosen."""
    configuration = choices.configuration.slug if choices.configuration else ""
    return {
        "configuration": configuration,
        "prompt": request.prompt,
        "title": request.title,
        "override": "none" if request.system_override is None else request.override_mode,
        "system_override": request.system_override or "",
        "skills": list(request.skills),
        "snippets": list(request.snippets),
        "tools": choices.default_tools if request.tools is None else list(request.tools),
        "tools_of": configuration,
        "max_rounds": request.max_rounds,
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "thinking": request.thinking or "",
        "capture_raw": request.capture_raw,
        "versions": " ".join(f"{kind}:{pk}:{number}" for kind, pk, number in request.versions),
        **replacements.values_of(request.replacements),
        **variables.fields_of(request.variables),
    }


def refill(request: RunRequest, choices: RunChoices, *, contents_deleted: bool = False) -> Refill:
    """Fill the form from a request with all of it that can still be chosen. Of a run whose contents were deleted the
    texts are missing."""
    values = values_of(request, choices)
    missing: list[str] = []
    if contents_deleted:
        missing.append("user prompt (no longer stored)")
        if request.system_override is not None:
            missing.append("system prompt override (no longer stored)")
            values["override"] = "none"
    elif MASK in "".join([request.prompt, request.system_override or "", *request.variables.values()]):
        missing.append(f"secrets in its texts (masked, {MASK})")
    if values["capture_raw"] and (refusal := raw_capture_refused()):
        missing.append(f"raw capture ({refusal.rstrip('.')})")
        values["capture_raw"] = False

    def keep(name: str, kind: str, known: dict[str, str]) -> None:
        """`known` maps each name to the reason why it can't be chosen, empty where it can."""
        kept = []
        for item in values[name]:
            if item not in known:
                missing.append(f"{kind} {item}")
            elif reason := known[item]:
                missing.append(f"{kind} {item} ({reason})")
            else:
                kept.append(item)
        values[name] = kept

    if values["configuration"] != request.configuration:
        missing.append(f"configuration {request.configuration}")
        values["tools"] = choices.default_tools
    keep("skills", "skill", {choice.slug: "" for choice in choices.skills})
    keep("snippets", "snippet", {choice.slug: "" for choice in choices.snippets})
    keep("tools", "tool", {choice.name: choice.unavailable for choice in choices.tools})
    model = choices.configuration.model if choices.configuration else None
    for name in ("temperature", "thinking"):
        if values[name] not in (None, "") and model and not getattr(model, f"supports_{name}"):
            missing.append(f"{name} (not supported by {model})")
            values[name] = ""
    for name, bound in (("max_rounds", settings.LLM_MAX_ROUNDS), ("max_tokens", model and model.max_output_tokens)):
        if values[name] and bound and values[name] > bound:
            missing.append(f"{name.replace('_', ' ')} {values[name]} (at most {bound} now)")
            values[name] = bound
    return Refill(values=values, missing=tuple(missing))
