"""Removes secrets from texts, bytes, JSON values and exceptions."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Sequence

from llmcore.messages import JSON
from llmcore.redaction.known import forms_of, masked, merged, spans_of
from llmcore.redaction.patterns import MASK, is_secret_name, redact_patterns
from llmcore.redaction.streams import spelled
from llmcore.redaction.values import change_texts, storable, texts_of

_FRAMES_PER_EXCEPTION = 30
_LONGEST_RENDERING = 20_000


class Redactor:
    """Knows the secrets of this process and removes them: first layer `known`, both layers `patterns`."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = frozenset(secrets)
        forms = {form for secret in self._secrets for form in forms_of(secret)}
        self._forms = sorted(forms, key=len, reverse=True)
        self._byte_forms = [form.encode("utf-8", "surrogatepass") for form in self._forms]

    def knowing(self, secret: str) -> Redactor:
        """One that knows `secret` as well; the same object where it does already."""
        return self if secret in self._secrets else Redactor((*self._secrets, secret))

    def known(self, text: str) -> str:
        """`text` without the known secrets, in any of their spellings; the same object where there is none."""
        spans = spans_of(self._forms, text)
        return masked(text, spans, MASK) if spans else text

    def known_bytes(self, data: bytes) -> bytes:
        spans = spans_of(self._byte_forms, data)
        return masked(data, spans, MASK.encode()) if spans else data

    def known_chunks(self, chunks: Sequence[bytes]) -> list[bytes]:
        """As `known_bytes` for a body that arrived in pieces: a secret cut by them, or spelled by several events of a
        stream, is found and the cuts stay."""
        body = b"".join(chunks)
        spans = merged([*spans_of(self._byte_forms, body), *spelled(body, lambda text: spans_of(self._forms, text))])
        if not spans:
            return list(chunks)
        pieces = []
        place = begin = 0
        for chunk in chunks:
            end = begin + len(chunk)
            within = []
            while place < len(spans) and spans[place][0] < end:
                start, stop = spans[place]
                within.append((max(start, begin) - begin, min(stop, end) - begin))
                if stop > end:
                    # It goes on in the next chunk.
                    break
                place += 1
            pieces.append(masked(chunk, within, MASK.encode()))
            begin = end
        return pieces

    def patterns(self, text: str) -> str:
        """`text` without the known secrets and without anything that looks like one."""
        return redact_patterns(self.known(text))

    def deep(self, value: JSON, *, patterns: bool = False) -> JSON:
        """A JSON value with all its texts and keys redacted; the same object where there is nothing to redact.

        Known secrets only, unless `patterns` asks for both layers, which is for what leaves the site and is not
        stored; then values under the name of a secret ("x-api-key", "password") are masked as well.
        """
        return change_texts(value, self._either_layer if patterns else lambda text, name: self.known(text))

    def stored(self, value: JSON) -> JSON:
        """A JSON value as it may be stored: without the known secrets, and with nothing that a database refuses."""
        # Nearly all that is stored is clean, and all its texts together are searched in the time that one takes.
        together = "\n".join(texts_of(value))
        if self.known(together) == together and storable(together) == together:
            return value
        return storable(self.deep(value))

    def _either_layer(self, text: str, name: str) -> str:
        return MASK if text and is_secret_name(name) else self.patterns(text)

    def render_exception(self, error: BaseException) -> str:
        """The traceback of `error` and of all that caused it, redacted, as storable text of bounded length."""
        rendered = traceback.TracebackException.from_exception(error, limit=-_FRAMES_PER_EXCEPTION, compact=True)
        text = self.patterns("".join(rendered.format()))
        if len(text) > _LONGEST_RENDERING:
            # What failed last stands at the end, what caused it at the start.
            head, tail = _LONGEST_RENDERING // 4, _LONGEST_RENDERING * 3 // 4
            left_out = len(text) - head - tail
            text = f"{text[:head]}\n[… {left_out:,} characters left out …]\n{text[-tail:]}"
        return str(storable(text))
