"""Action rules: which calls of tools are approved, asked for or denied before anybody is."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import models
from django.utils.translation import gettext_lazy as _


class ActionRule(models.Model):
    """What this site says about some calls of tools: the row of a `llmcore.actions.policy.Rule`."""

    class Ruling(models.TextChoices):
        DENY = "deny", _("deny")
        REQUIRE = "require", _("require approval")
        AUTO_APPROVE = "auto_approve", _("approve automatically")

    name = models.CharField(
        _("name"),
        max_length=100,
        unique=True,
        help_text=_("Shown wherever the rule decides; a model that is denied sees it too."),
    )
    ruling = models.CharField(_("decision"), max_length=20, choices=Ruling.choices)
    tool = models.CharField(
        _("tool"), max_length=100, default="*", help_text=_("Its name; * stands for any characters, ? for one.")
    )
    argument = models.CharField(
        _("argument"),
        max_length=100,
        blank=True,
        help_text=_(
            "Name of the argument that the pattern is for. Blank: the command, else the path, else all as JSON."
        ),
    )
    pattern = models.CharField(
        _("pattern"),
        max_length=500,
        blank=True,
        help_text=_("What the whole text must look like, with * and ?, for example: git log *. Blank: anything."),
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.CASCADE,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("user"),
        help_text=_("Only for runs of this user."),
    )
    group = models.ForeignKey(
        Group,
        models.CASCADE,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("group"),
        help_text=_("Only for runs of the users in this group."),
    )
    position = models.PositiveSmallIntegerField(
        _("place"), default=0, help_text=_("Of rules that decide the same, the one with the lowest number is named.")
    )
    enabled = models.BooleanField(_("enabled"), default=True)

    class Meta:
        ordering = ["position", "pk"]
        verbose_name = _("action rule")
        verbose_name_plural = _("action rules")

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        if self.user_id is not None and self.group_id is not None:
            raise ValidationError({"group": _("A rule is for one user or for one group: leave one of them blank.")})
        if self.argument and not self.pattern:
            raise ValidationError({"pattern": _("Say what the argument must look like, or leave the argument blank.")})
