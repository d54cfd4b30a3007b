"""What detection has entered."""

from __future__ import annotations

from django.db import models

from llmcore.models.providers import Provider


class DetectedItem(models.Model):
    """Something that detection entered once, and so never enters again: people may have changed or deleted it since.

    `provider` is the row of a provider, as long as it is there.
    """

    key = models.CharField(max_length=500, unique=True)
    provider = models.ForeignKey(Provider, models.SET_NULL, null=True, blank=True, related_name="+")

    def __str__(self) -> str:
        return self.key
