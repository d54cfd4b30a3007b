"""Collects one answer as it arrives, whole or in pieces, and turns it into a response. Every wire format ends here, so
the rules on finish reasons, ids and empty answers hold for all of them, streamed or not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import Decimal

from llmcore.errors import ErrorKind, ProviderError
from llmcore.messages import JSON, Delta, FinishReason, Message, ModelResponse, Part
from llmcore.providers.base import ModelCall
from llmcore.providers.call_drafts import MAX_CALLS, CallDraft, build_calls
from llmcore.providers.failures import broken
from llmcore.providers.finish import settle
from llmcore.providers.json_text import encode_json, mend_surrogates
from llmcore.providers.think_tags import ThinkSplitter
from llmcore.usage import Usage

# What a server says about its answer stands in the first page of a run, so it is bounded.
MAX_WORD = 200
MAX_REFUSAL = 20_000
MAX_USAGE_BYTES = 20_000


class Answer:
    """What has arrived of one answer.

    `ended` says that the provider marked the end, `finish_raw` is its last non-empty finish reason. `thinking_extra`
    goes back to the provider with the thinking.
    """

    def __init__(self, call: ModelCall) -> None:
        self.drafts: list[CallDraft] = []
        self.finish_raw = ""
        self.usage: Usage | None = None
        self.error: ProviderError | None = None
        self.ended = False
        self.served_model: str | None = None
        self.response_id: str | None = None
        self.provider_cost: Decimal | None = None
        self.thinking_extra: JSON = None
        self._call = call
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._refusal: list[str] = []
        mode = call.model.inline_think
        self._splitter = ThinkSplitter(mode) if mode else None

    def add_text(self, text: str) -> Iterable[Delta]:
        if self._splitter is None:
            self._text.append(text)
            return (Delta(kind="text", text=text),)
        return self._take(self._splitter.feed(text))

    def add_thinking(self, text: str) -> Iterable[Delta]:
        self._thinking.append(text)
        return (Delta(kind="thinking", text=text),)

    def add_refusal(self, text: str) -> Iterable[Delta]:
        self._refusal.append(text)
        return ()

    def _take(self, pieces: Iterable[tuple[str, str]]) -> list[Delta]:
        deltas: list[Delta] = []
        for kind, text in pieces:
            deltas.extend(self.add_thinking(text) if kind == "thinking" else ())
            if kind == "text":
                self._text.append(text)
                deltas.append(Delta(kind="text", text=text))
        return deltas

    def response(
        self, reasons: Mapping[str, FinishReason], *, streamed: bool, cancelled: bool = False
    ) -> ModelResponse:
        """The response; a stream without any sign of its end is `stream_incomplete`."""
        if self._splitter is not None:
            self._take(self._splitter.finish())
        refusal = mend_surrogates("".join(self._refusal))[:MAX_REFUSAL] or None
        if len(self.drafts) > MAX_CALLS:
            del self.drafts[MAX_CALLS:]
            message = f"The answer asks for more than {MAX_CALLS:,} tool calls."
            self.error = self.error or broken(ErrorKind.MALFORMED_RESPONSE, message)
        finish, error = self._finish(reasons, refusal, streamed=streamed, cancelled=cancelled)
        cut_off = error is not None or finish not in (FinishReason.STOP, FinishReason.TOOL_CALLS, FinishReason.PAUSE)
        return ModelResponse(
            message=Message(
                role="assistant",
                parts=self._parts(finish),
                tool_calls=build_calls(self.drafts, self._call, cut_off=cut_off),
            ),
            finish_reason=finish,
            finish_reason_raw=self.finish_raw[:MAX_WORD],
            usage=_bounded_usage(self.usage),
            error=error,
            refusal=refusal,
            cancelled=cancelled,
            served_model=self.served_model and self.served_model[:MAX_WORD],
            response_id=self.response_id and self.response_id[:MAX_WORD],
            provider_cost=self.provider_cost,
        )

    def _finish(
        self, reasons: Mapping[str, FinishReason], refusal: str | None, *, streamed: bool, cancelled: bool
    ) -> tuple[FinishReason | None, ProviderError | None]:
        if cancelled:
            return None, None
        if self.error is not None:
            return FinishReason.ERROR, self.error
        if streamed and not self.ended and not self.finish_raw:
            message = "The stream ended before the model said that it had finished."
            return FinishReason.ERROR, broken(ErrorKind.STREAM_INCOMPLETE, message)
        if refusal is not None:
            return FinishReason.CONTENT_FILTER, None
        finish = settle(self.finish_raw, reasons, has_calls=bool(self.drafts))
        if finish == FinishReason.ERROR:
            said = self.finish_raw[:MAX_WORD]
            message = f"The provider ended the answer with the reason “{said}” and said no more."
            return finish, broken(ErrorKind.SERVER, message)
        if finish == FinishReason.STOP and not self._has_text():
            message = "The model ended its answer without any text or tool call."
            if self._thinking:
                message = "The model ended its answer after thinking, without any text or tool call."
            return finish, broken(ErrorKind.EMPTY_RESPONSE, message)
        return finish, None

    def _has_text(self) -> bool:
        return any(self._text) or self._unclosed_answer(FinishReason.STOP)

    def _unclosed_answer(self, finish: FinishReason | None) -> bool:
        """Whether what passed for thinking was the answer: a pre-filled tag was never closed, yet the model ended."""
        splitter = self._splitter
        return bool(
            finish == FinishReason.STOP
            and splitter is not None
            and splitter.prefilled
            and not splitter.closed
            and self._thinking
        )

    def _parts(self, finish: FinishReason | None) -> tuple[Part, ...]:
        thinking, text = mend_surrogates("".join(self._thinking)), mend_surrogates("".join(self._text))
        if self._unclosed_answer(finish):
            thinking, text = "", thinking + text
        parts = []
        if thinking:
            parts.append(Part(kind="thinking", text=thinking, extra=self.thinking_extra))
        if text:
            parts.append(Part(text=text))
        return tuple(parts)


def _bounded_usage(usage: Usage | None) -> Usage | None:
    """The counts stay; the report that they were read from does not where it is no mere list of counts."""
    if usage is not None and usage.raw is not None and len(encode_json(usage.raw)) > MAX_USAGE_BYTES:
        return replace(usage, raw=None)
    return usage
