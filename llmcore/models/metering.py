"""What provider calls used and cost."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _


class UsageRecord(models.Model):
    """One provider call, a failed one too. Unknown counts and costs are null, never 0."""

    class Purpose(models.TextChoices):
        ROUND = "", _("a round")
        SUMMARY = "summary", _("a summary of old turns")

    created_at = models.DateTimeField(_("time"), auto_now_add=True, db_index=True)
    configuration = models.ForeignKey(
        "llmcore.Configuration",
        models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("configuration"),
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+", verbose_name=_("user")
    )
    run_id = models.BigIntegerField(_("run"), null=True, blank=True, db_index=True)
    # What another engine calls that which it asked for a turn of.
    session = models.CharField(_("session"), max_length=200, blank=True, default="", db_index=True)
    purpose = models.CharField(_("purpose"), max_length=20, blank=True, default="", choices=Purpose.choices)
    provider_slug = models.CharField(_("provider"), max_length=50)
    model_name = models.CharField(_("model"), max_length=200)
    served_model = models.CharField(_("served model"), max_length=200, blank=True)
    input_tokens = models.PositiveIntegerField(_("input tokens"), null=True)
    output_tokens = models.PositiveIntegerField(_("output tokens"), null=True)
    total_tokens = models.PositiveIntegerField(_("total tokens"), null=True)
    cache_read_input_tokens = models.PositiveIntegerField(_("cached tokens"), null=True)
    cache_creation_input_tokens = models.PositiveIntegerField(_("cache-written tokens"), null=True)
    reasoning_output_tokens = models.PositiveIntegerField(_("reasoning tokens"), null=True)
    raw = models.JSONField(_("usage as reported"), null=True)
    cost = models.DecimalField(_("cost (USD)"), max_digits=20, decimal_places=12, null=True)
    error_kind = models.CharField(_("error"), max_length=40, blank=True)

    class Meta:
        ordering = ["-pk"]
        verbose_name = _("usage record")
        verbose_name_plural = _("usage records")

    def __str__(self) -> str:
        return f"{self.model_name}, {self.created_at:%Y-%m-%d %H:%M:%S}"
