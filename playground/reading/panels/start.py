"""Start: what the run was asked for, and the configuration as it was then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from llmcore.runs.fork import without_contents
from llmcore.structured.packs import site_prompts
from playground.numbers import duration
from playground.pictures import picture_label
from playground.reading.boxes import Box, any_box, json_box, text_box
from playground.reading.panels.base import Panel, Query, Tab
from playground.reading.pictures import PictureView, part_of, picture_of
from playground.reading.step_record import StepRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class GivenPicture:
    """A picture that was given for an input; `view` is `None` where it can only be named."""

    title: str
    note: str
    label: str
    view: PictureView | None


def tabs(record: StepRecord) -> list[Tab]:
    return [Tab(slug="start", title="Settings at start", read=read)]


def read(record: StepRecord, query: Query) -> Panel:
    run, plan = record.run, record.plan
    own = ("prompt", "variables", "structured")
    request = {name: value for name, value in run.request.items() if name not in own and value not in (None, [])}
    if run.request.get("fork"):
        # Its messages are those of the first request.
        request["fork"] = without_contents(run.request["fork"])
    kept = run.contents_deleted_at is None
    boxes = list(given_boxes(run.request)) if kept else []
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
        "pictures": list(given_pictures(record)) if kept else [],
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
    """What a person wrote: the user's prompt, or the inputs of a prompt of a pack that are texts."""
    if structured := request.get("structured"):
        for number, given in enumerate(structured["inputs"]):
            if not given.get("media_type"):
                title, note = _named(given)
                yield any_box(f"input-{number}", title, given["text"], note=note)
    else:
        yield text_box("prompt", "User prompt", str(request.get("prompt") or ""))


def given_pictures(record: StepRecord) -> Iterator[GivenPicture]:
    """The pictures among the inputs, each as it was sent: where nothing was sent, or is kept, it is only named."""
    inputs = (record.run.request.get("structured") or {}).get("inputs") or ()
    pictures = [given for given in inputs if given.get("media_type")]
    sent = dict(_sent_pictures(record)) if pictures else {}
    for given in pictures:
        title, note = _named(given)
        label = picture_label(given["media_type"], given.get("data"))
        yield GivenPicture(title=title, note=note, label=label, view=sent.get(given["name"]))


def _sent_pictures(record: StepRecord) -> Iterator[tuple[str, PictureView]]:
    """The pictures in the first prompt by the inputs that they were given for."""
    plan = record.plan
    contents = record.contents(plan.messages)
    for segment in plan.segments:
        digest = plan.messages[segment.message]
        part = part_of(contents.get(digest), segment)
        if picture := picture_of(record.run, plan, digest, segment, part):
            yield segment.source_id, picture


def _named(given: Mapping[str, Any]) -> tuple[str, str]:
    return f"Input {given['name']}", f"from {given['origin']}" if given.get("origin") else ""


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
