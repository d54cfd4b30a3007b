"""Actions that other engines propose: kept apart from those of runs, since there is no run that could wait or go on."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from llmcore.actions.proposals import DecisionKind
from playground.ordered_json import OrderedJSONField
from playground.privacy import PrivacyLevel


class EngineAction(models.Model):
    """A call of a tool that another engine proposes, and that awaits a person, or awaited one.

    `session` and `call_id` are the engine's own words. `content` has what the step of a run's proposed action has: what
    the call would do, its arguments, and why a person is asked; `None` where it is no longer stored. `key` says what
    the decision holds for (see `llmcore.actions.proposals`), and `digest`, with session and call, what it names.
    `user` is for whom the engine acts. `decision` is empty while it waits; `reason` is what the decider said.
    """

    session = models.CharField(_("session"), max_length=200)
    call_id = models.CharField(_("call"), max_length=200, blank=True, default="")
    configuration = models.ForeignKey(
        "llmcore.Configuration", models.SET_NULL, null=True, related_name="+", verbose_name=_("configuration")
    )
    configuration_name = models.CharField(_("configuration"), max_length=200)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+", verbose_name=_("user")
    )
    other_decider = models.BooleanField(_("somebody else decides"), default=False)
    tool = models.CharField(_("tool"), max_length=200)
    rule = models.CharField(_("rule"), max_length=200, blank=True, default="")
    key = models.CharField(max_length=64)
    digest = models.CharField(max_length=64)
    content = OrderedJSONField(null=True)
    privacy_level = models.CharField(max_length=10, choices=[(level.value, level.value) for level in PrivacyLevel])
    proposed_at = models.DateTimeField(_("proposed"))
    expires_at = models.DateTimeField(_("expires"))

    decision = models.CharField(
        _("decision"),
        max_length=10,
        choices=[(kind.value, kind.value) for kind in DecisionKind],
        blank=True,
        default="",
    )
    decided_at = models.DateTimeField(_("decided"), null=True)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+", verbose_name=_("decided by")
    )
    reason = models.TextField(_("reason"), blank=True, default="")

    class Meta:
        ordering = ["pk"]
        verbose_name = _("action of an engine")
        verbose_name_plural = _("actions of engines")
        default_permissions = ()
        constraints = [
            # An engine that asks again for want of an answer waits for the same decision.
            models.UniqueConstraint(
                fields=["session", "digest"], name="playground_engine_action_once", condition=models.Q(decision="")
            )
        ]
        indexes = [
            models.Index(fields=["expires_at"], name="playground_engine_waiting", condition=models.Q(decision="")),
            models.Index(fields=["decided_at"], name="playground_engine_decided"),
        ]

    def __str__(self) -> str:
        return f"{self.tool}, session {self.session}"

    @property
    def waits(self) -> bool:
        return not self.decision
