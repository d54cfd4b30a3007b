"""What of a run can be found: prompt, answer, tools, errors, and what people wrote about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.db.models import Q
from django.db.models.functions import Left

from llmcore.trace import StepKind
from playground.models import Run, RunStep, RunTag, RunTool
from playground.privacy import PrivacyLevel
from playground.rows import load_contents
from playground.search.base import Document
from playground.search.steps import MAX_ERRORS, error_text
from playground.search.words import bounded_words_of

# PostgreSQL takes a megabyte for the words of a run.
LONG_BYTES = 200_000
SHORT_BYTES = 40_000

ERRORS = (
    Q(kind=StepKind.TOOL_RESULT, data__is_error=True)
    | Q(kind=StepKind.RESPONSE, data__error__message__isnull=False)
    | Q(kind__in=(StepKind.RETRY, StepKind.ERROR))
)


def document_of(run_id: int) -> Document | None:
    """The words of the run as it is in the database now; `None` where there is no such run."""
    run = (
        Run.objects.filter(pk=run_id)
        .annotate(prompt_start=Left("prompt", LONG_BYTES), answer_start=Left("answer", LONG_BYTES))
        .values(
            "title",
            "note",
            "detail",
            "error",
            "prompt_start",
            "answer_start",
            "privacy_level",
            "redacted_at",
            "last_sequence",
            "request__system_override",
            "request__structured",
            "plan__versions",
        )
        .first()
    )
    return None if run is None else _document(run, _about(run_id, run), _happened(run_id, run))


def document_of_new(run: Run) -> Document:
    """The words of a run that nobody has tagged or noted anything about, and that nothing has happened to."""
    columns = {
        "prompt_start": run.prompt[:LONG_BYTES],
        "answer_start": "",
        "privacy_level": run.privacy_level,
        "redacted_at": None,
        "request__system_override": run.request["system_override"],
        "request__structured": run.request["structured"],
        "plan__versions": None,
    }
    return _document(columns, [run.title], ())


def _document(run: Mapping[str, Any], about: Iterable[str], happened: Iterable[str]) -> Document:
    return (
        bounded_words_of("\n".join(about), max_bytes=SHORT_BYTES),
        bounded_words_of("\n".join(happened), max_bytes=SHORT_BYTES),
        bounded_words_of(f"{run['prompt_start']}\n{_given(run)}", max_bytes=LONG_BYTES),
        bounded_words_of(run["answer_start"], max_bytes=LONG_BYTES),
    )


def _given(run: Mapping[str, Any]) -> str:
    """The override, and the inputs of a prompt of a pack."""
    if not _readable(run):
        return ""
    inputs = (run["request__structured"] or {}).get("inputs") or ()
    return "\n".join([run["request__system_override"] or "", *(given["text"] for given in inputs)])


def _readable(run: Mapping[str, Any]) -> bool:
    """Whether request and contents are for people to read; below full privacy, until the end, they are for the run."""
    return run["privacy_level"] == PrivacyLevel.FULL or run["redacted_at"] is not None


def _about(run_id: int, run: Mapping[str, Any]) -> Iterator[str]:
    yield run["title"]
    yield from RunTag.objects.filter(run_id=run_id).values_list("name", flat=True)
    yield run["note"]


def _happened(run_id: int, run: Mapping[str, Any]) -> Iterator[str]:
    yield from RunTool.objects.filter(run_id=run_id).values_list("name", flat=True)
    for kind, object_id, number in run["plan__versions"] or ():
        yield f"{word_of_source(kind, object_id)} {word_of_source(kind, object_id, number)}"
    yield run["detail"]
    yield str((run["error"] or {}).get("message") or "")
    if run["last_sequence"]:
        yield from _failures(run_id, run)


def word_of_source(kind: str, object_id: int, number: int | None = None) -> str:
    """What the index has of a skill, snippet or configuration, or of a version of it: a word that nobody types."""
    return f"{kind}{object_id}" if number is None else f"{kind}{object_id}v{number}"


def _failures(run_id: int, run: Mapping[str, Any]) -> Iterator[str]:
    failed = RunStep.objects.filter(ERRORS, run_id=run_id).order_by("sequence").values_list("kind", "data")
    tracebacks = []
    for kind, data in failed[:MAX_ERRORS]:
        yield error_text(StepKind(kind), data)
        tracebacks.append(data.get("traceback"))
    if _readable(run):
        # Its last line is the exception, of which the step itself says nothing.
        for text in load_contents(run_id, filter(None, tracebacks)).values():
            yield str(text or "").rstrip().rpartition("\n")[2]
