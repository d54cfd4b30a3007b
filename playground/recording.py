"""Writes what a driven run records: in order, one transaction per batch, and only while the claim holds."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import F
from django.utils import timezone

from llmcore.actions.proposals import Proposal
from llmcore.conf import settings
from llmcore.messages import JSON
from llmcore.redaction import Redactor, storable
from llmcore.runs.outcome import EndReason
from llmcore.site_usage import DatabaseMeter
from llmcore.trace import RunStep, StepKind, WireExchange
from playground import models
from playground.approvals import write_proposed
from playground.claims import Claim, ClaimLost, end_columns, lease_end, queue_columns, suspend_columns
from playground.content import redacted_step, step_without_contents
from playground.erasure import Masking, known_tools
from playground.figures import Figures, milliseconds, times
from playground.loop_thread import Barrier, Exchanged, Item, Metered, PartialText, Recorded
from playground.privacy import PrivacyLevel
from playground.rows import content_row, exchange_row, step_row, tool_rows
from playground.search import index_run
from playground.search.steps import SearchableSteps
from playground.services.apply_privacy import apply_privacy_at_end, find_masking
from playground.wakeups import wake_on_commit

logger = logging.getLogger(__name__)

# A database that is away for a moment (a restart, a lock) is waited for as long as the lease lasts.
RETRY_S = 0.25


class CancelledMeanwhile(Exception):
    """Somebody asked for the end of a run that was about to wait."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """What was made of a request, until it is stored: columns of the run, and contents by digest."""

    columns: Mapping[str, Any]
    contents: Mapping[str, JSON]


class RunRecording:
    """The rows of one run while a worker drives it; to be used on one thread."""

    def __init__(self, *, claim: Claim, redactor: Redactor, meter: DatabaseMeter) -> None:
        self._run = claim.run
        self._claim = claim
        # The run's row as long as the claim holds, else nothing: every write goes through it.
        self._row = claim.row
        self._columns: dict[str, Any] = {}
        self._planned: Planned | None = None
        self._redactor = redactor
        self._level = PrivacyLevel(claim.run.privacy_level)
        self._meter = meter
        # An earlier segment may have left one.
        self._has_partial = True
        self._figures = Figures()
        self._searchable = SearchableSteps()
        self._claimed = time.monotonic()
        self._renewed = self._claimed

    @property
    def segment_ms(self) -> float:
        """Since the claim."""
        return (time.monotonic() - self._claimed) * 1000

    @property
    def offset_ms(self) -> float:
        """The age of the run: since the first claim, by the database's times between segments."""
        started_at = self._run.started_at or self._claim.claimed_at
        return milliseconds(self._claim.claimed_at - started_at) + self.segment_ms

    def go_on(self, steps: Iterable[RunStep]) -> None:
        """Count on from the `steps` of earlier segments."""
        steps = list(steps)
        self._figures = Figures(steps)
        self._searchable = SearchableSteps(steps)

    def write(self, items: Sequence[Item], partial: PartialText | None = None) -> None:
        """Store `items` and let those pass who wait for it. ClaimLost: nothing was written and nothing will be."""
        if not items and partial is None:
            return
        for item in items:
            if isinstance(item, Recorded):
                self._figures.add(item.step)
        steps = [item for item in items if isinstance(item, Recorded)]
        columns = {"last_sequence": steps[-1].step.sequence, **self._used()} if steps else {}
        searchable = self._searchable.add(item.step for item in steps)
        contents = {digest: value for item in steps for digest, value in item.contents.items()}
        self._store(columns, lambda: self._write_rows(items, steps, partial, searchable), contents)
        self._has_partial = partial is not None or (self._has_partial and not answered(steps))
        for item in items:
            if isinstance(item, Barrier):
                item.passed()

    def plan(self, plan: Mapping[str, JSON], contents: Mapping[str, JSON], *, max_rounds: int) -> None:
        """Store what was made of the request together with what is written next, in front of it."""
        self._planned = Planned(columns={"plan": self._clean(plan), "max_rounds": max_rounds}, contents=contents)

    def renew(self) -> None:
        """Keep the lease; ClaimLost if it is gone. Does nothing while the lease is fresh."""
        if time.monotonic() - self._renewed > settings.LLM_LEASE_S / 3:
            self._store({}, lambda: None, revise=False)

    def cancel_requested(self) -> bool:
        """Whether a person asked for the end; ClaimLost if the claim no longer holds."""
        found = self._retried(lambda: list(self._row.values_list("cancel_requested_at", flat=True)))
        if not found:
            raise ClaimLost
        return found[0] is not None

    def end(
        self, *, reason: EndReason, detail: str, answer: str, error: JSON, findings: JSON, now: datetime | None = None
    ) -> None:
        """The last write: the claim is released with it."""
        now = now or timezone.now()
        if self._planned is not None:
            # What is to be masked is looked for in what is stored.
            self._store({}, lambda: None)
        masking = self._find_masking() if reason not in models.GO_ON else None
        columns = {
            **self._used(),
            **end_columns(reason=reason, detail=self._text(detail), now=now),
            "answer": self._text(answer),
            "error": self._clean(error),
            "findings": self._clean(findings),
        }
        self._store(columns, lambda: self._write_end(masking, now), renewing=False)

    def suspend(self, proposal: Proposal, *, now: datetime | None = None) -> bool:
        """Let the run wait for decisions about `proposal`; False, and nothing is changed, where
        somebody asked for its end meanwhile."""
        now = now or timezone.now()
        try:
            columns = {**self._used(), **suspend_columns(now=now)}
            self._store(columns, lambda: self._write_proposed(proposal, now), renewing=False)
        except CancelledMeanwhile:
            return False
        return True

    def _write_proposed(self, proposal: Proposal, now: datetime) -> None:
        # The row is locked by now: who asks later finds a run that waits, and ends it.
        if models.Run.objects.filter(pk=self._claim.run_id, cancel_requested_at__isnull=False).exists():
            raise CancelledMeanwhile
        self._delete_partial()
        write_proposed(run_id=self._claim.run_id, proposal=proposal, now=now)

    def give_back(self) -> None:
        """Put the run back into the queue, for any worker to go on with it at once."""
        now = timezone.now()
        columns = {**self._used(), **queue_columns(since=now, now=now), "lease_until": now}
        # Somebody may ask for the end at this very moment: the next worker is to see it.
        del columns["cancel_requested_at"], columns["cancelled_by"]
        self._store(columns, self._delete_partial, renewing=False)

    def _used(self) -> dict[str, Any]:
        waited = milliseconds(self._claim.claimed_at - self._run.created_at)
        return {
            **self._figures.columns(),
            **times(
                wall_ms=waited + self.segment_ms,
                queue_ms=self._run.queue_ms or 0.0,
                permit_ms=self._figures.permit_ms,
                model_ms=self._figures.model_ms,
                tool_ms=self._figures.tool_ms,
                approval_ms=self._run.approval_ms or 0.0,
            ),
        }

    def _store(
        self,
        columns: dict[str, Any],
        write_rows: Callable[[], None],
        contents: Mapping[str, JSON] = MappingProxyType({}),
        *,
        renewing: bool = True,
        revise: bool = True,
    ) -> None:
        """What is planned goes with it. `contents` are there before `write_rows` writes who refers to them."""
        if self._planned is not None:
            columns = {**self._planned.columns, **columns}
            contents = {**self._planned.contents, **contents}

        def store() -> None:
            # Most steps change few of a run's many figures.
            changed = {n: v for n, v in columns.items() if n not in self._columns or self._columns[n] != v}
            if renewing:
                changed["lease_until"] = lease_end(timezone.now())
            if revise:
                changed["revision"] = F("revision") + 1
            with transaction.atomic():
                # First, so that the row is locked: who takes the run over waits, or we find it taken.
                if not self._row.update(**changed):
                    raise ClaimLost
                self._write_contents(contents)
                write_rows()
                if revise:
                    wake_on_commit(self._claim.run_id)

        self._retried(store)
        self._columns.update(columns)
        self._planned = None
        self._renewed = time.monotonic()

    def _retried(self, access: Callable[[], Any]) -> Any:
        while True:
            try:
                return access()
            except (OperationalError, InterfaceError) as error:
                if time.monotonic() - self._renewed > settings.LLM_LEASE_S:
                    raise ClaimLost("the database was away for longer than the lease") from error
                logger.warning("run %s: the database is away, trying again: %s", self._claim.run_id, error)
                connection.close()
                time.sleep(RETRY_S)

    def _write_rows(
        self, items: Sequence[Item], steps: Sequence[Recorded], partial: PartialText | None, searchable: bool
    ) -> None:
        run_id = self._claim.run_id
        # What a lost connection left unclear is written again; nobody else writes, so equal keys are equal rows.
        models.RunStep.objects.bulk_create(
            [step_row(run_id, item.step, self._step_data(item.step)) for item in steps], ignore_conflicts=True
        )
        models.WireExchangeRecord.objects.bulk_create(
            [
                exchange_row(run_id, item.sequence, self._masked(item.exchange))
                for item in items
                if isinstance(item, Exchanged)
            ],
            ignore_conflicts=True,
        )
        self._meter.record_all((item.call, item.response, item.cost) for item in items if isinstance(item, Metered))
        if self._has_partial and answered(steps):
            self._delete_partial()
        if partial is not None:
            self._write_partial(partial)
        if searchable:
            tools = tool_rows(run_id, map(self._readable, self._tool_names()))
            models.RunTool.objects.bulk_create(tools, ignore_conflicts=True)
            index_run(run_id)

    def _find_masking(self) -> Masking | None:
        """What the end will mask, found before it locks the run. Without it, the end tries by itself."""
        try:
            return find_masking(self._run, self._redactor, between=self.renew)
        except ClaimLost:
            raise
        except Exception:
            logger.exception("run %s could not be looked through for secrets", self._claim.run_id)
            return None

    def _write_end(self, masking: Masking | None, now: datetime) -> None:
        self._delete_partial()
        apply_privacy_at_end(run_id=self._claim.run_id, now=now, masking=masking)
        index_run(self._claim.run_id)

    def _step_data(self, step: RunStep) -> JSON:
        """What is stored of a step for people to read. What the run goes on from are the contents."""
        match self._level:
            case PrivacyLevel.METADATA:
                return self._clean(step_without_contents(step.kind, step.data, known_tools(self._run)))
            case PrivacyLevel.REDACTED:
                return self._clean(redacted_step(step.kind, step.data, self._redactor))
        return self._clean(step.data)

    def _tool_names(self) -> set[str]:
        names = self._searchable.tools
        return names & known_tools(self._run) if self._level is PrivacyLevel.METADATA else names

    def _write_contents(self, contents: Mapping[str, JSON]) -> None:
        models.RunContent.objects.bulk_create(
            [content_row(self._claim.run_id, digest, self._clean(value)) for digest, value in contents.items()],
            ignore_conflicts=True,
        )

    def _write_partial(self, partial: PartialText) -> None:
        if self._level is PrivacyLevel.METADATA:
            # Where a call stands in line says nothing of what is said in it.
            partial = replace(partial, text="", thinking="", tool_call="")
        models.RunPartial.objects.update_or_create(
            run_id=self._claim.run_id,
            defaults={
                "round": partial.round,
                "text": self._readable(partial.text),
                "thinking": self._readable(partial.thinking),
                "tool_call": self._readable(partial.tool_call),
                "waiting": partial.waiting,
            },
        )

    def _delete_partial(self) -> None:
        models.RunPartial.objects.filter(run_id=self._claim.run_id).delete()

    def _clean(self, value: Any, *, patterns: bool = False) -> Any:
        plain = dict(value) if isinstance(value, Mapping) else value
        return storable(self._redactor.deep(plain, patterns=True)) if patterns else self._redactor.stored(plain)

    def _text(self, text: str) -> str:
        return str(storable(self._redactor.known(text)))

    def _readable(self, text: str) -> str:
        """A text that is stored for people to read only."""
        return self._text(text) if self._level is PrivacyLevel.FULL else str(storable(self._redactor.patterns(text)))

    def _masked(self, exchange: WireExchange) -> WireExchange:
        """Bodies keep their bytes but for known secrets; what stands around them is also searched for patterns."""
        chunks = self._redactor.known_chunks([chunk for _, chunk in exchange.chunks])
        return replace(
            exchange,
            url=self._redactor.patterns(exchange.url),
            request_headers=self._clean(exchange.request_headers, patterns=True),
            request_body=self._redactor.known_bytes(exchange.request_body),
            response_headers=self._clean(exchange.response_headers, patterns=True),
            chunks=tuple((ms, chunk) for (ms, _), chunk in zip(exchange.chunks, chunks, strict=True)),
            error=exchange.error and self._redactor.patterns(exchange.error),
        )


def answered(steps: Iterable[Recorded]) -> bool:
    """Whether a whole answer or summary is among `steps`: what was shown while it came is out of date then."""
    return any(item.step.kind in (StepKind.RESPONSE, StepKind.COMPACTION) for item in steps)
