"""Switches: which tools and tool groups this site allows at all. A tool without a row is on."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class ToolSwitch(models.Model):
    """Turns one tool on or off for the whole site."""

    name = models.CharField(_("tool"), max_length=64, unique=True)
    enabled = models.BooleanField(_("enabled"), default=True)

    class Meta:
        ordering = ["name"]
        verbose_name = _("tool")
        verbose_name_plural = _("tools")

    def __str__(self) -> str:
        return self.name


class ToolGroupSwitch(models.Model):
    """Turns a group of tools on or off for the whole site."""

    name = models.CharField(_("tool group"), max_length=64, unique=True)
    enabled = models.BooleanField(_("enabled"), default=True)

    class Meta:
        ordering = ["name"]
        verbose_name = _("tool group")
        verbose_name_plural = _("tool groups")

    def __str__(self) -> str:
        return self.name
