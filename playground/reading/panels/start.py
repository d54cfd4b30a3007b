"""Start: what the run was asked for, and the configuration as it was then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from llmcore.runs.fork import without_contents
from llmcore.structured.packs import site_prompts
from playground.numbers import duration
from playground.pictures import picture_label
from playground.reading.boxes import Box, any_box, json_box, text_box
from playground.reading.panels.base import Panel, Query, Tab
from playground.reading.step_record import StepRecord


def tabs(record: StepRecord) -> list[Tab]:
    return [Tab(slug="start", title="Settings at start", read=read)]


def read(record: StepRecord, query: Query) -> Panel:
    run, plan = record.run, record.plan
    own = ("prompt", "variables", "structured")
    request = {name: value for name, value in run.request.items() if name not in own and value not in (None, [])}
    if run.request.get("fork"):
        # Its messages are those of the first request.
        request["fork"] = without_contents(run.request["fork"])
    boxes = list(given_boxes(run.request)) if run.contents_deleted_at is None else []
    if run.request.get("variables"):
        boxes.append(json_box("variables", "Values of variables", dict(run.request["variables"])))
    boxes.append(json_box("request", "Asked for", request))
    if plan.structured:
        boxes.append(json_box("manifest", "Prompt of a pack, by digests", dict(plan.structured)))
    if plan.configuration:
        boxes.append(json_box("configuration", "Configuration, as it was", dict(plan.configuration)))
    if plan.parameters:
        boxes.append(json_box("parameters", "Parameters of each call", dict(plan.parameters)))
    if plan.limits:
        boxes.append(json_box("limits", "Limits", dict(plan.limits)))
    context = {
        "boxes": boxes,
        "waited": duration(record.line.duration_ms),
        "worker": run.worker,
        "attempt": run.attempt,
        "fingerprint": plan.fingerprint,
        "level": run.privacy_level,
        "pack": pack_now(plan.structured),
    }
    return Panel(template="start", context=context, boxes=tuple(boxes))


def given_boxes(request: Mapping[str, Any]) -> Iterator[Box]:
    """What a person wrote: the user's prompt, or the inputs of a prompt of a pack."""
    if structured := request.get("structured"):
        for number, given in enumerate(structured["inputs"]):
            note = f"from {given['origin']}" if given.get("origin") else ""
            title = f"Input {given['name']}"
            if media_type := given.get("media_type"):
                yield text_box(f"input-{number}", title, picture_label(media_type, given.get("data")), note=note)
            else:
                yield any_box(f"input-{number}", title, given["text"], note=note)
    else:
        yield text_box("prompt", "User prompt", str(request.get("prompt") or ""))


def pack_now(manifest: Mapping[str, Any] | None) -> str:
    """What became of the prompt since the run, in a sentence; empty where it wasn't one of a pack."""
    if manifest is None:
        return ""
    now = site_prompts.prompts().get(manifest["prompt"])
    if now is None:
        return "It is no longer registered."
    if now.fingerprint != manifest["fingerprint"]:
        return "Its files have changed since this run."
    if now.schema is not None and now.schema.id == manifest["schema"]["id"]:
        same = now.schema.sha256 == manifest["schema"]["sha256"]
        return "It is the same now." if same else "Its response schema has changed since this run."
    return "It is the same now, with another response schema."
