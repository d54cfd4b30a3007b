"""Artifacts of a run, what its tools handed over to people: as the page shows them, and as files."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llmcore.tools.unseen import visible
from llmcore.trace import StepKind
from playground.models import Run, RunContent, RunStep
from playground.reading.boxes import byte_size, pretty, shown
from playground.reading.lines import StepList
from playground.reading.step_rows import StepRow

# What one page lists, reads and renders at most; the rest is in the steps.
MAX_LISTED = 100
MAX_READ_BYTES = 2_000_000
MAX_NOTE_CHARS = 20_000
MAX_RENDERED_CHARS = 60_000
MAX_NAME_CHARS = 100
MAX_ENDING_CHARS = 12
ENDINGS = {"note": ".md", "file": ""}
# What some system makes a path, a stream, a device or a shell's word of.
UNSAFE_IN_NAMES = frozenset('/\\:*?"<>|')


@dataclass(frozen=True, kw_only=True, slots=True)
class ArtifactView:
    """An artifact as it is shown: the `index`-th (from 0) of the tool result `sequence`.

    `kind` is "note" or "file" where its payload is one, whatever it calls itself, else "". `text` is what it holds,
    all of it. `line` and `round` are where the result stands. `file_name` is what it is saved as.
    """

    sequence: int
    index: int
    line: int
    round: int
    type: str
    kind: str
    name: str
    media_type: str
    file_name: str
    text: str

    @property
    def size(self) -> int:
        return byte_size(self.text)

    @property
    def label(self) -> str:
        """What it is, in a word."""
        return self.media_type or self.type

    @property
    def note_address(self) -> str:
        """Where the page has it rendered."""
        return f"#artifact-{self.sequence}-{self.index}"

    @property
    def step_address(self) -> str:
        return f"#step-{self.line}/result"

    @property
    def is_note(self) -> bool:
        return self.kind == "note"

    @property
    def head(self) -> str:
        """As much of a note as is rendered."""
        return self.text[:MAX_NOTE_CHARS]

    @property
    def cut(self) -> bool:
        return len(self.text) > MAX_NOTE_CHARS


@dataclass(frozen=True, kw_only=True, slots=True)
class Artifacts:
    """The artifacts of a run for its page. `notes` are those that are rendered there; `more` says that not all are
    listed, and `gone` that what some results handed over is no longer stored."""

    items: tuple[ArtifactView, ...] = ()
    notes: tuple[ArtifactView, ...] = ()
    more: bool = False
    gone: bool = False


def read_artifacts(run: Run, steps: StepList, rows: Iterable[StepRow]) -> Artifacts:
    """In the order of their results. No query where there are none."""
    results = [row for row in rows if row.kind == StepKind.TOOL_RESULT.value and row.data.get("artifacts")]
    if not results:
        return Artifacts()
    contents = RunContent.objects.filter(run=run)
    digests = {row.data["artifacts"] for row in results[:MAX_LISTED]}
    sizes = dict(contents.filter(digest__in=digests).values_list("digest", "size"))
    listed, room = [], MAX_READ_BYTES
    for row in results[:MAX_LISTED]:
        room -= sizes.get(row.data["artifacts"], 0)
        if room >= 0:
            listed.append(row)
    digests = {row.data["artifacts"] for row in listed}
    values = dict(contents.filter(digest__in=digests).values_list("digest", "value"))
    lines = {sequence: line.sequence for line in steps.lines for sequence in line.steps}
    items = [
        view
        for row in listed
        for view in artifact_views(
            values.get(row.data["artifacts"]),
            sequence=row.sequence,
            line=lines.get(row.sequence, row.sequence),
            round=row.round,
        )
    ]
    return Artifacts(
        items=tuple(items[:MAX_LISTED]),
        notes=rendered_notes(items[:MAX_LISTED]),
        more=len(results) > len(listed) or len(items) > MAX_LISTED,
        gone=any(values.get(row.data["artifacts"]) is None for row in listed),
    )


def rendered_notes(items: Sequence[ArtifactView]) -> tuple[ArtifactView, ...]:
    """The notes among `items` that a page can bear to render, the first ones."""
    notes, room = [], MAX_RENDERED_CHARS
    for item in items:
        if item.is_note and len(item.head) <= room:
            notes.append(item)
            room -= len(item.head)
    return tuple(notes)


def find_artifact(run: Run, sequence: int, index: int) -> ArtifactView:
    """LookupError where the result `sequence` of `run` has no such artifact, or has it no longer."""
    step = RunStep.objects.filter(run=run, sequence=sequence, kind=StepKind.TOOL_RESULT).first()
    digest = step.data.get("artifacts") if step else None
    value = RunContent.objects.filter(run=run, digest=digest).values_list("value", flat=True).first()
    views = artifact_views(value, sequence=sequence, line=sequence, round=step.round if step else 0)
    found = next((view for view in views if view.index == index), None)
    if found is None:
        raise LookupError(f"run {run.pk} has no artifact {sequence}/{index}")
    return found


def artifact_views(value: Any, *, sequence: int, line: int, round: int) -> list[ArtifactView]:
    """What a result keeps of its artifacts, as it is shown. Tools made it: nothing about it is certain."""
    items = value if isinstance(value, list) else []
    return [
        _view(item, sequence=sequence, index=index, line=line, round=round)
        for index, item in enumerate(items)
        if isinstance(item, dict)
    ]


def _view(item: Mapping[str, Any], *, sequence: int, index: int, line: int, round: int) -> ArtifactView:
    type, payload = str(item.get("type") or "artifact"), item.get("payload")
    match payload:
        case {"title": str(title), "body": str(text)} if type == "note":
            kind, name, media_type = "note", title, ""
        case {"name": str(name), "content": str(text), **more} if type == "file":
            kind, media_type = "file", str(more.get("media_type") or "")
        case _:
            kind, name, media_type, text = "", type, "", pretty(payload)
    return ArtifactView(
        sequence=sequence,
        index=index,
        line=line,
        round=round,
        type=_short(type),
        kind=kind,
        name=_short(name) or _short(type),
        media_type=_short(media_type),
        file_name=safe_name(name, ENDINGS.get(kind, ".json")),
        text=shown(text),
    )


def _short(text: str) -> str:
    """A name on one line, with what can't be seen in it named."""
    line = visible(shown(" ".join(text.split())))
    return line if len(line) <= MAX_NAME_CHARS else f"{line[: MAX_NAME_CHARS - 1]}…"


def safe_name(name: str, ending: str = "") -> str:
    """`name` as the name of a file on any system: no path, no hidden file, nothing that turns its ending around.
    Without an `ending` it keeps its own."""
    kept = "".join("_" if char in UNSAFE_IN_NAMES or _unseen(char) else char for char in name)
    stem, dot, own = kept.strip(" .").rpartition(".")
    if not ending and stem and len(own) <= MAX_ENDING_CHARS:
        ending = dot + own
    else:
        stem = kept
    stem = stem.strip(" .")[: MAX_NAME_CHARS - len(ending)].rstrip(" .")
    return f"{stem or 'artifact'}{ending}"


def _unseen(char: str) -> bool:
    return unicodedata.category(char)[0] in "CZ" and char != " "
