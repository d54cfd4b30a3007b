"""Reads the many shapes in which providers report an error."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from llmcore.errors import ErrorKind, ProviderError
from llmcore.messages import JSON
from llmcore.providers.failure_kinds import RETRYABLE_KINDS, STATUS_OF_WORD, is_retryable, kind_of
from llmcore.providers.json_text import decode_json, encode_json, mend_surrogates

MAX_MESSAGE = 2_000
MAX_EXCERPT = 300
MAX_WORD = 200
# How much of a text is looked at to tell what it is.
MAX_READ = 20_000

HTML = re.compile(r"<(!doctype|html|head|body)\b", re.IGNORECASE)
DURATION = re.compile(r"(\d{1,7}(?:\.\d{1,9})?)s")
TITLE = re.compile(r"<title[^>]*>([^<]{1,200})", re.IGNORECASE)


@dataclass(kw_only=True, slots=True)
class Report:
    """What an error body says. `words` are its codes and types, the most telling first."""

    message: str = ""
    words: tuple[str, ...] = ()
    status: int | None = None
    param: str | None = None
    failed_generation: str | None = None
    retry_after_s: float | None = None


def error_in(body: JSON) -> Report | None:
    """The error that a decoded body reports, if it does: inside HTTP 200 too, and beside choices."""
    if isinstance(body, list) and len(body) == 1:
        return error_in(body[0])
    if not isinstance(body, dict):
        return None
    error = body.get("error")
    if error:
        return read_report(error, outer=body)
    if body.get("object") == "error" or body.get("type") == "error":
        return read_report(body)
    return None


def read_report(error: JSON, outer: Mapping[str, JSON] | None = None) -> Report:
    """Read an error object or text; `outer` is the object around it."""
    around = outer or {}
    if not isinstance(error, dict):
        return Report(message=_text(error), status=_first_status(around))
    metadata, inner = _object(error, "metadata"), _object(error, "innererror")
    details = [item for item in error["details"] if isinstance(item, dict)] if _is_list(error.get("details")) else []
    words = [item.get("reason") for item in details]
    if metadata.get("flagged_input"):
        # OpenRouter's moderation answers as if the key had no right.
        words.append("content_filter")
    words += [error.get("code"), inner.get("code"), error.get("status"), error.get("type"), metadata.get("error_type")]
    message = error.get("message") or error.get("detail") or error.get("msg") or error.get("error")
    if (raw := metadata.get("raw")) and isinstance(raw, str) and message:
        message = f"{_text(message)} ({raw})"
    asked, window = error.get("n_prompt_tokens"), error.get("n_ctx")
    if message and isinstance(asked, int) and isinstance(window, int):
        # llama.cpp's figures stand beside its message.
        message = f"{_text(message)} ({asked:,} tokens of prompt in a window of {window:,})"
    failed = error.get("failed_generation")
    if isinstance(failed, dict | list):
        failed = encode_json(failed).decode()
    return Report(
        message=_text(message) if message else "",
        words=tuple(word for word in words if isinstance(word, str) and word and not word.isdigit()),
        status=_first_status(error) or _first_status(around),
        param=error["param"] if isinstance(error.get("param"), str) else None,
        failed_generation=failed if isinstance(failed, str) else None,
        retry_after_s=next((wait for item in details if (wait := _seconds(item.get("retryDelay"))) is not None), None),
    )


def failure(report: Report, status: int) -> ProviderError:
    """The error of a report that came with HTTP `status`."""
    lowered = [word.lower() for word in report.words]
    effective = report.status or status
    if status < 400 and report.status is None:
        effective = next((STATUS_OF_WORD[word] for word in lowered if word in STATUS_OF_WORD), status)
    elif status >= 400:
        effective = status
    kind = kind_of(lowered, report.message, effective)
    return ProviderError(
        kind=kind,
        message=clean_message(report.message) or f"The server answered with HTTP {status} and no message.",
        status=effective,
        retryable=is_retryable(kind, effective),
        retry_after_s=report.retry_after_s,
        code=report.words[0][:MAX_WORD] if report.words else None,
        param=report.param and report.param[:MAX_WORD],
        failed_generation=report.failed_generation and report.failed_generation[:MAX_READ],
    )


def http_failure(status: int, body: bytes, content_type: str = "") -> ProviderError:
    """The error of an HTTP response that isn't a success, whatever its body is."""
    if 300 <= status < 400:
        message = f"The server redirects to another address (HTTP {status}), and redirects are not followed."
        return failure(Report(message=message), status)
    try:
        value = decode_json(body)
    except ValueError:
        value = None
    report = error_in(value)
    if report is None and isinstance(value, dict):
        report = read_report({**value, "message": value.get("message") or _details(value) or ""})
    if report is None:
        report = Report(message=describe_body(body, content_type, status))
    return failure(report, status)


def describe_body(body: bytes, content_type: str, status: int) -> str:
    """One line about a body that is not what was asked for; never its markup."""
    text = mend_surrogates(body[:MAX_READ].decode("utf-8", "replace")).strip()
    if not text:
        return f"The server answered with HTTP {status} and an empty body."
    if "html" in content_type.lower() or HTML.search(text):
        return f"The server answered with HTTP {status} and {_page(text)} instead of JSON."
    return f"The server answered with HTTP {status} and this text: {_excerpt(text)}"


def broken(kind: ErrorKind, message: str, status: int | None = 200) -> ProviderError:
    """A failure of the answer itself, on a request that succeeded."""
    return ProviderError(kind=kind, message=message, status=status, retryable=kind in RETRYABLE_KINDS)


def clean_message(message: str) -> str:
    """A provider's message as it may be shown: bounded, without control characters, and never a page's markup."""
    if HTML.search(message):
        return f"The server's error message is {_page(message)}."
    text = "".join(char if char.isprintable() or char == "\n" else " " for char in mend_surrogates(message)).strip()
    return text if len(text) <= MAX_MESSAGE else text[:MAX_MESSAGE] + "…"


def _page(text: str) -> str:
    title = TITLE.search(text)
    return f"an HTML page titled “{' '.join(title[1].split())}”" if title else "an HTML page"


def _object(parent: Mapping[str, JSON], name: str) -> Mapping[str, JSON]:
    value = parent.get(name)
    return value if isinstance(value, dict) else {}


def _first_status(fields: Mapping[str, JSON]) -> int | None:
    values = (fields.get(name) for name in ("code", "status_code", "status", "raw_status_code"))
    return next((status for value in values if (status := _status(value))), None)


def _status(value: JSON) -> int | None:
    if isinstance(value, str) and value.isdigit():
        value = int(value[:4])
    return value if isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599 else None


def _is_list(value: JSON) -> bool:
    return isinstance(value, list)


def _seconds(value: JSON) -> float | None:
    """A duration as Google writes it, such as "34s"."""
    matched = DURATION.fullmatch(value) if isinstance(value, str) else None
    return float(matched[1]) if matched else None


def _details(body: Mapping[str, JSON]) -> str:
    """The complaints of a FastAPI server or of a list of errors, on one line."""
    return "; ".join(_complaints(body.get("detail") or body.get("errors") or ""))


def _complaints(detail: JSON) -> Iterator[str]:
    if isinstance(detail, str):
        if detail:
            yield detail
    elif isinstance(detail, list):
        for item in detail[:10]:
            yield from _complaints(item)
    elif isinstance(detail, dict):
        place = ".".join(str(part) for part in detail["loc"]) if isinstance(detail.get("loc"), list) else ""
        message = _text(detail.get("msg") or detail.get("message") or detail)
        yield f"{place}: {message}" if place else message


def _text(value: JSON) -> str:
    return value[:MAX_READ] if isinstance(value, str) else _excerpt(str(value))


def _excerpt(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_EXCERPT else text[:MAX_EXCERPT] + "…"
