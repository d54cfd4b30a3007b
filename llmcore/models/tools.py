"""Which tools and tool groups this site allows at all, and named sets of them. A tool without a switch is on."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from llmcore.models.names import check_names


class ToolSwitch(models.Model):
    """Turns one tool on or off for the whole site."""

    name = models.CharField(_("tool"), max_length=64, unique=True)
    enabled = models.BooleanField(_("enabled"), default=True)

    class Meta:
        ordering = ["name"]
        verbose_name = _("tool")
        verbose_name_plural = _("tools")
        permissions = [("use_diagnostics", _("Can use the tools that look into this site"))]

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


class ToolPreset(models.Model):
    """A named set of tools, so that a model sees few of them."""

    slug = models.SlugField(_("slug"), unique=True)
    name = models.CharField(_("name"), max_length=100)
    description = models.CharField(_("description"), max_length=300, blank=True)
    tools = models.JSONField(_("tools"), default=list)

    class Meta:
        ordering = ["name"]
        verbose_name = _("tool preset")
        verbose_name_plural = _("tool presets")

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        check_names("tools", self.tools)
