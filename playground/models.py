"""Runs and their recorded traces."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from llmcore.actions.proposals import DecisionKind
from llmcore.runs.outcome import EndReason, RunStatus
from playground.engine_action import EngineAction as EngineAction
from playground.ordered_json import OrderedJSONField
from playground.privacy import PrivacyLevel

# The ends after which a run can go on from where it was.
GO_ON = (EndReason.INTERRUPTED, EndReason.BUDGET_EXHAUSTED)


def choices_of(
    enum: type[RunStatus] | type[EndReason] | type[PrivacyLevel] | type[DecisionKind],
) -> list[tuple[str, str]]:
    return [(member.value, member.value.replace("_", " ").capitalize()) for member in enum]


class Run(models.Model):
    """One execution from input to outcome, as a person started it.

    `request` is the form as sent (see `playground.services.start_run.RunRequest`): it fills the form for a re-run.
    `plan` is what the worker made of it before round 1: configuration without secrets, initial state, gate, segments
    and dropped sources. Figures are null while unknown. All durations are milliseconds.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="llm_runs")
    configuration = models.ForeignKey("llmcore.Configuration", models.SET_NULL, null=True, related_name="runs")
    # Names as they were, so that a run stays readable when its configuration is gone.
    configuration_name = models.CharField(_("configuration"), max_length=100)
    model_name = models.CharField(_("model"), max_length=200)
    # The route that the run fell back to (provider/model); empty where it didn't.
    served_by = models.CharField(_("served by"), max_length=300, blank=True, default="")
    title = models.CharField(_("title"), max_length=200)
    prompt = models.TextField(_("user prompt"))
    request = OrderedJSONField(_("request"))
    dry_run = models.BooleanField(_("dry run"), default=False)
    capture_raw = models.BooleanField(_("raw capture"), default=False)
    parent = models.ForeignKey("self", models.SET_NULL, null=True, blank=True, related_name="children")
    # Where the run began that goes on from the middle of another one.
    forked_at_round = models.PositiveIntegerField(_("forked at round"), null=True, blank=True)

    status = models.CharField(
        _("status"), max_length=20, choices=choices_of(RunStatus), default=RunStatus.QUEUED.value, db_index=True
    )
    reason = models.CharField(_("reason"), max_length=20, choices=choices_of(EndReason), blank=True, default="")
    detail = models.TextField(_("detail"), blank=True, default="")
    error = models.JSONField(_("error"), null=True, blank=True)
    answer = models.TextField(_("answer"), blank=True, default="")
    plan = OrderedJSONField(_("plan"), null=True, blank=True)
    findings = models.JSONField(_("findings"), default=list, blank=True)
    # What a person wrote about the run; nothing of it reaches a model.
    note = models.TextField(_("note"), blank=True, default="")

    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    # Since when it waits for a worker; for an interrupted run that goes on, since its last worker was lost.
    queued_at = models.DateTimeField(_("queued"), default=timezone.now)
    started_at = models.DateTimeField(_("started"), null=True, blank=True)
    ended_at = models.DateTimeField(_("ended"), null=True, blank=True)

    # The claim: which worker drives the run, for the how-manieth time, and until when it must be heard of again (while
    # it is queued: until when a worker must have claimed it).
    attempt = models.PositiveIntegerField(_("attempt"), default=0)
    worker = models.CharField(_("worker"), max_length=200, blank=True, default="")
    lease_until = models.DateTimeField(_("lease until"), null=True, blank=True, db_index=True)
    # While it waits for a decision: since when. How often and how long it did so before are kept beside it.
    suspended_at = models.DateTimeField(_("suspended"), null=True, blank=True)
    suspensions = models.PositiveIntegerField(_("times suspended"), default=0)
    cancel_requested_at = models.DateTimeField(_("cancel requested"), null=True, blank=True)
    cancelled_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")

    # What is stored of the run, and what of it was deleted when. `…_kept_days` is how long such data were kept then;
    # null where they were not to be kept at all.
    privacy_level = models.CharField(
        _("privacy level"), max_length=20, choices=choices_of(PrivacyLevel), default=PrivacyLevel.FULL.value
    )
    redacted_at = models.DateTimeField(_("redacted"), null=True, blank=True)
    raw_deleted_at = models.DateTimeField(_("raw capture deleted"), null=True, blank=True)
    raw_kept_days = models.PositiveIntegerField(_("days raw captures were kept"), null=True, blank=True)
    contents_deleted_at = models.DateTimeField(_("contents deleted"), null=True, blank=True)
    contents_kept_days = models.PositiveIntegerField(_("days contents were kept"), null=True, blank=True)

    # Grows with everything a watcher might show; the live view polls this one number.
    revision = models.PositiveIntegerField(_("revision"), default=0)
    last_sequence = models.PositiveIntegerField(_("last step"), default=0)

    rounds = models.PositiveIntegerField(_("rounds"), default=0)
    max_rounds = models.PositiveIntegerField(_("rounds allowed"), default=0)
    tool_calls = models.PositiveIntegerField(_("tool calls"), default=0)
    tool_errors = models.PositiveIntegerField(_("failed tool calls"), default=0)
    # By a person, a rule or a hook of the site: they didn't fail.
    tool_denials = models.PositiveIntegerField(_("denied tool calls"), default=0)
    input_tokens = models.PositiveBigIntegerField(_("input tokens"), null=True)
    cache_read_input_tokens = models.PositiveBigIntegerField(_("cached tokens"), null=True)
    cache_creation_input_tokens = models.PositiveBigIntegerField(_("cache-written tokens"), null=True)
    output_tokens = models.PositiveBigIntegerField(_("output tokens"), null=True)
    reasoning_output_tokens = models.PositiveBigIntegerField(_("reasoning tokens"), null=True)
    context_peak = models.PositiveIntegerField(_("largest prompt"), null=True)
    cost = models.DecimalField(_("cost (USD)"), max_digits=20, decimal_places=12, null=True)
    queue_ms = models.FloatField(_("queue"), null=True)
    permit_ms = models.FloatField(_("permits"), null=True)
    model_ms = models.FloatField(_("model"), null=True)
    tool_ms = models.FloatField(_("tools"), null=True)
    approval_ms = models.FloatField(_("approval"), null=True)
    overhead_ms = models.FloatField(_("overhead"), null=True)
    wall_ms = models.FloatField(_("wall time"), null=True)

    class Meta:
        ordering = ["-pk"]
        verbose_name = _("playground run")
        permissions = [
            ("view_all_runs", _("Can see the runs of other users")),
            ("view_raw", _("Can see raw requests and responses")),
            ("cancel_all_runs", _("Can cancel the runs of other users")),
            ("annotate_all_runs", _("Can edit title, tags and note of the runs of other users")),
        ]
        indexes = [
            models.Index(fields=["user", "-id"], name="playground_run_user"),
            models.Index(fields=["configuration", "-id"], name="playground_run_configuration"),
            models.Index(fields=["status", "-id"], name="playground_run_status"),
            models.Index(fields=["model_name", "-id"], name="playground_run_model"),
            models.Index(
                fields=["served_by", "-id"], name="playground_run_served_by", condition=~models.Q(served_by="")
            ),
            models.Index(fields=["created_at"], name="playground_run_created"),
            # What is still to be deleted, so that looking for it doesn't grow with all that was.
            models.Index(
                fields=["ended_at"],
                name="playground_run_raw",
                condition=models.Q(capture_raw=True, raw_deleted_at=None),
            ),
            models.Index(
                fields=["ended_at"], name="playground_run_contents", condition=models.Q(contents_deleted_at=None)
            ),
        ]

    def __str__(self) -> str:
        return self.title

    @property
    def tries(self) -> int:
        """How often a worker began with it, not counting that it went on after a decision."""
        return self.attempt - self.suspensions + (self.suspended_at is not None)

    @property
    def continuable(self) -> bool:
        """Whether the run was broken off and still has what it needs to go on."""
        whole = self.contents_deleted_at is None and self.redacted_at is None
        return self.reason in GO_ON and whole


class RunTag(models.Model):
    """A word by which a person files a run, in lower case."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="tags")
    name = models.CharField(_("tag"), max_length=40)

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["run", "name"], name="playground_tag_unique")]
        indexes = [models.Index(fields=["name", "run"], name="playground_tag_name")]

    def __str__(self) -> str:
        return self.name


class RunTool(models.Model):
    """A tool that the model called in a run, by its name."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="tools")
    name = models.CharField(_("tool"), max_length=200)

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["run", "name"], name="playground_tool_unique")]
        indexes = [models.Index(fields=["name", "run"], name="playground_tool_name")]

    def __str__(self) -> str:
        return self.name


class RunStep(models.Model):
    """A recorded step: the row of a `llmcore.trace.RunStep`."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="steps")
    sequence = models.PositiveIntegerField()
    round = models.PositiveIntegerField()
    kind = models.CharField(max_length=20)
    started_ms = models.FloatField()
    duration_ms = models.FloatField()
    data = OrderedJSONField()

    class Meta:
        ordering = ["sequence"]
        constraints = [models.UniqueConstraint(fields=["run", "sequence"], name="playground_step_unique")]

    def __str__(self) -> str:
        return f"{self.sequence} {self.kind}"


class RunContent(models.Model):
    """A message, tool list or large text of a run, stored once under its digest. `size` is bytes of its JSON; of a
    deleted one digest and size stay, with JSON's null for its value."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="contents")
    digest = models.CharField(max_length=64)
    size = models.PositiveIntegerField()
    value = OrderedJSONField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "digest"], name="playground_content_unique")]

    def __str__(self) -> str:
        return self.digest[:12]


class WireExchangeRecord(models.Model):
    """One captured HTTP request and response of a run with raw capture: the row of a `WireExchange`.

    `chunk_times` are [milliseconds since sent, bytes] pairs that cut `response_body` as it arrived.
    """

    run = models.ForeignKey(Run, models.CASCADE, related_name="exchanges")
    sequence = models.PositiveIntegerField()
    attempt = models.PositiveIntegerField()
    method = models.CharField(max_length=10)
    url = models.TextField()
    request_headers = models.JSONField()
    request_body = models.BinaryField()
    status = models.PositiveIntegerField(null=True)
    response_headers = models.JSONField(default=dict)
    response_body = models.BinaryField(default=b"")
    chunk_times = models.JSONField(default=list)
    error = models.TextField(blank=True, default="")

    class Meta:
        ordering = ["sequence", "attempt"]
        constraints = [
            models.UniqueConstraint(fields=["run", "sequence", "attempt"], name="playground_exchange_unique")
        ]

    def __str__(self) -> str:
        return f"{self.method} {self.url}"


class RunPartial(models.Model):
    """What is being streamed right now, coalesced; gone when the run ends. `waiting`: nothing yet, for the call stands
    in line for its permit, or a summary is being written (see `llmcore.trace.Listener.waiting`)."""

    run = models.OneToOneField(Run, models.CASCADE, related_name="partial", primary_key=True)
    round = models.PositiveIntegerField(default=0)
    text = models.TextField(blank=True, default="")
    thinking = models.TextField(blank=True, default="")
    tool_call = models.TextField(blank=True, default="")
    waiting = models.JSONField(null=True)

    def __str__(self) -> str:
        return f"run {self.run_id}, round {self.round}"


class ProposedAction(models.Model):
    """A tool call that awaits a person, or awaited one.

    `proposal` and `reason` are digests of the run's contents: what the call would do, and what the decider said.
    `sequence` is the step that proposed it. `turn_digest` is what a decision names, `key` what it holds for (see
    `llmcore.actions.proposals`). `decision` is empty while it waits.
    """

    run = models.ForeignKey(Run, models.CASCADE, related_name="actions", verbose_name=_("run"))
    sequence = models.PositiveIntegerField()
    round = models.PositiveIntegerField(_("round"))
    call_id = models.TextField()
    tool = models.CharField(_("tool"), max_length=200)
    kind = models.CharField(max_length=20)
    position = models.PositiveIntegerField()
    calls = models.PositiveIntegerField()
    turn_digest = models.CharField(max_length=64)
    key = models.CharField(max_length=64)
    proposal = models.CharField(max_length=64)
    rule = models.CharField(_("rule"), max_length=200, blank=True, default="")
    proposed_at = models.DateTimeField(_("proposed"))
    expires_at = models.DateTimeField(_("expires"))

    decision = models.CharField(_("decision"), max_length=10, choices=choices_of(DecisionKind), blank=True, default="")
    decided_at = models.DateTimeField(_("decided"), null=True, blank=True)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+", verbose_name=_("decided by")
    )
    reason = models.CharField(max_length=64, blank=True, default="")
    again = models.BooleanField(default=False)

    class Meta:
        ordering = ["run", "sequence"]
        verbose_name = _("proposed action")
        verbose_name_plural = _("proposed actions")
        permissions = [("decide_action", _("Can approve or deny proposed actions"))]
        constraints = [models.UniqueConstraint(fields=["run", "sequence"], name="playground_action_unique")]
        indexes = [
            # What waits, so that neither the count in the menu nor the sweep grows with all that was decided.
            models.Index(fields=["expires_at"], name="playground_action_waiting", condition=models.Q(decision=""))
        ]

    def __str__(self) -> str:
        return f"{self.tool}, run {self.run_id}"

    @property
    def waits(self) -> bool:
        return not self.decision


class AppendOnly(models.QuerySet["DecisionRecord"]):
    """Rows that are written once."""

    def update(self, **kwargs: Any) -> int:
        raise TypeError("what was decided is never changed")

    def delete(self) -> tuple[int, dict[str, int]]:
        raise TypeError("what was decided is never deleted")


class DecisionRecord(models.Model):
    """Who decided what about a proposed action, when, and on which digest: written once, and kept when the run is gone.

    One of another engine is of a session in place of a run. It holds numbers and names instead of references, so that
    nothing else can change it. It has no contents.
    """

    at = models.DateTimeField(_("decided"))
    decision = models.CharField(_("decision"), max_length=10, choices=choices_of(DecisionKind))
    # As text: a site's users may have keys of another kind than numbers.
    user_id = models.CharField(_("user number"), max_length=255, null=True)
    username = models.CharField(_("by"), max_length=200, blank=True, default="")
    run_id = models.BigIntegerField(_("run"), null=True, db_index=True)
    session = models.CharField(_("session"), max_length=200, blank=True, default="")
    call_id = models.TextField(_("call"))
    tool = models.CharField(_("tool"), max_length=200)
    rule = models.CharField(_("rule"), max_length=200, blank=True, default="")
    turn_digest = models.CharField(_("digest of the turn"), max_length=64)
    key = models.CharField(_("digest of the call"), max_length=64)
    again = models.BooleanField(_("for the rest of the run"), default=False)

    objects = AppendOnly.as_manager()

    class Meta:
        ordering = ["-pk"]
        verbose_name = _("decision")
        verbose_name_plural = _("decisions")

    def __str__(self) -> str:
        place = f"session {self.session}" if self.run_id is None else f"run {self.run_id}"
        return f"{self.decision} {self.tool}, {place}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if self.pk is not None:
            raise TypeError("what was decided is never changed")
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        raise TypeError("what was decided is never deleted")
