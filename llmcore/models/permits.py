"""Who may have a provider call in flight, and who waits for it, where there is no Redis that keeps this."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class PermitTicket(models.Model):
    """The row of a `llmcore.permits.base.Ticket`. Times are microseconds of the database's clock."""

    token = models.CharField(max_length=32, primary_key=True)
    provider = models.CharField(max_length=50)
    calls = models.PositiveIntegerField(null=True)
    total = models.PositiveIntegerField(null=True)
    run_id = models.BigIntegerField(null=True)
    order = models.BigIntegerField()
    held_since = models.BigIntegerField(null=True)
    lease_until = models.BigIntegerField()

    class Meta:
        ordering = ["order"]
        verbose_name = _("call in flight")
        verbose_name_plural = _("calls in flight")
        # Nobody edits them.
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.provider}, run {self.run_id}"
