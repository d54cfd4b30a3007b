"""Collects one answer as it arrives, whole or in pieces, and turns it into a response. Every wire format ends here, so
the rules on finish reasons, ids and empty answers hold for all of them, streamed or not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import Decimal

from llmcore.errors import ErrorKind, ProviderError
from llmcore.messages import JSON, Delta, FinishReason, Message, ModelResponse, Part
from llmcore.providers.base import ModelCall
from llmcore.providers.blocks import Block, Blocks
from llmcore.providers.call_drafts import MAX_CALLS, CallDraft, build_calls
from llmcore.providers.failures import broken, clean_message
from llmcore.providers.finish import KIND_OF_FINISH, settle
from llmcore.providers.json_text import encode_json, mend_surrogates
from llmcore.providers.think_tags import ThinkSplitter
from llmcore.usage import Usage

# What a server says about its answer stands in the first page of a run, so it is bounded.
MAX_WORD = 200
MAX_REFUSAL = 20_000
MAX_USAGE_BYTES = 20_000
# Longer lists of blocks are no answer that anybody waits for.
MAX_BLOCKS = 5_000


class Answer:
    """What has arrived of one answer.

    `ended` says that the provider marked the end, `finish_raw` is its last non-empty finish reason, `finish_note` what
    it says about it. `thinking_extra` goes back to the provider with thinking that has no block of its own.
    """

    def __init__(self, call: ModelCall) -> None:
        self.drafts: list[CallDraft] = []
        self.blocks = Blocks()
        self.finish_raw = ""
        self.finish_note = ""
        self.usage: Usage | None = None
        self.error: ProviderError | None = None
        self.ended = False
        self.served_model: str | None = None
        self.response_id: str | None = None
        self.provider_cost: Decimal | None = None
        self.thinking_extra: JSON = None
        self._call = call
        self._has_text = False
        self._has_thinking = False
        self._refusal: list[str] = []
        mode = call.model.inline_think
        self._splitter = ThinkSplitter(mode) if mode else None

    def add_text(self, text: str, key: int | str | None = None) -> Iterable[Delta]:
        """Text of the block `key`, or of an answer that has one text only."""
        if self._splitter is None:
            return self._add_text(text, self.blocks.get("text", key))
        return self._take(self._splitter.feed(text), self.blocks.get("text", key))

    def add_thinking(self, text: str, key: int | str | None = None) -> Iterable[Delta]:
        block = self.blocks.get("thinking", key)
        if key is None:
            block.extra = self.thinking_extra
        self._has_thinking = True
        block.pieces.append(text)
        return (Delta(kind="thinking", text=text),)

    def add_call(self, draft: CallDraft) -> None:
        """A call that stands between blocks."""
        self.drafts.append(draft)
        self.blocks.place(draft)

    def add_refusal(self, text: str) -> Iterable[Delta]:
        self._refusal.append(text)
        return ()

    def _add_text(self, text: str, block: Block) -> Iterable[Delta]:
        self._has_text = self._has_text or bool(text)
        block.pieces.append(text)
        return (Delta(kind="text", text=text),)

    def _take(self, pieces: Iterable[tuple[str, str]], block: Block) -> list[Delta]:
        deltas: list[Delta] = []
        for kind, text in pieces:
            deltas.extend(self.add_thinking(text) if kind == "thinking" else self._add_text(text, block))
        return deltas

    def response(
        self, reasons: Mapping[str, FinishReason], *, streamed: bool, cancelled: bool = False
    ) -> ModelResponse:
        """The response; a stream without any sign of its end is `stream_incomplete`."""
        if self._splitter is not None and (held := list(self._splitter.finish())):
            self._take(held, self.blocks.get("text"))
        refusal = mend_surrogates("".join(self._refusal))[:MAX_REFUSAL] or None
        if len(self.drafts) > MAX_CALLS:
            del self.drafts[MAX_CALLS:]
            message = f"The answer asks for more than {MAX_CALLS:,} tool calls."
            self.error = self.error or broken(ErrorKind.MALFORMED_RESPONSE, message)
        if len(self.blocks) > MAX_BLOCKS:
            message = f"The answer has more than {MAX_BLOCKS:,} blocks."
            self.error = self.error or broken(ErrorKind.MALFORMED_RESPONSE, message)
        finish, error = self._finish(reasons, refusal, streamed=streamed, cancelled=cancelled)
        cut_off = error is not None or finish not in (FinishReason.STOP, FinishReason.TOOL_CALLS, FinishReason.PAUSE)
        parts = self._parts(finish)
        return ModelResponse(
            message=Message(
                role="assistant",
                parts=parts,
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
            blocked = self.error.kind == ErrorKind.CONTENT_FILTER
            return FinishReason.CONTENT_FILTER if blocked else FinishReason.ERROR, self.error
        if streamed and not self.ended and not self.finish_raw:
            message = "The stream ended before the model said that it had finished."
            return FinishReason.ERROR, broken(ErrorKind.STREAM_INCOMPLETE, message)
        if refusal is not None:
            return FinishReason.CONTENT_FILTER, None
        finish = settle(self.finish_raw, reasons, has_calls=bool(self.drafts))
        if finish == FinishReason.ERROR:
            return finish, self._failed_finish()
        if finish == FinishReason.STOP and not (self._has_text or self._unclosed_answer(finish)):
            message = "The model ended its answer without any text or tool call."
            if self._has_thinking:
                message = "The model ended its answer after thinking, without any text or tool call."
            return finish, broken(ErrorKind.EMPTY_RESPONSE, message)
        return finish, None

    def _failed_finish(self) -> ProviderError:
        said, note = self.finish_raw[:MAX_WORD], clean_message(self.finish_note)
        message = f"The provider ended the answer with the reason “{said}”" + (f": {note}" if note else " and no more.")
        return broken(KIND_OF_FINISH.get(self.finish_raw, ErrorKind.SERVER), message)

    def _unclosed_answer(self, finish: FinishReason | None) -> bool:
        """Whether what passed for thinking was the answer: a pre-filled tag was never closed, yet the model ended."""
        splitter = self._splitter
        return bool(
            finish == FinishReason.STOP
            and splitter is not None
            and splitter.prefilled
            and not splitter.closed
            and self._has_thinking
        )

    def _parts(self, finish: FinishReason | None) -> tuple[Part, ...]:
        parts = self.blocks.parts()
        if self._unclosed_answer(finish):
            text = "".join(part.text for part in parts if part.kind != "provider")
            return (Part(text=text), *(part for part in parts if part.kind == "provider"))
        return parts


def _bounded_usage(usage: Usage | None) -> Usage | None:
    """The counts stay; the report that they were read from does not where it is no mere list of counts."""
    if usage is not None and usage.raw is not None and len(encode_json(usage.raw)) > MAX_USAGE_BYTES:
        return replace(usage, raw=None)
    return usage
