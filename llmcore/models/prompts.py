"""Skills and snippets: the stored pieces of prompts."""

from __future__ import annotations

from django.core.validators import RegexValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from llmcore.configuration import sha256_of_text
from llmcore.models.names import check_names
from llmcore.models.versions import Versioned

slug_validator = RegexValidator(r"^[a-z0-9][a-z0-9-]*$", _("Lower-case letters, digits and hyphens."))


class Skill(Versioned):
    """An instruction package, injected into the first user message."""

    version_kind = "skill"

    class Trust(models.IntegerChoices):
        UNTRUSTED = 0, _("untrusted")
        SITE = 1, _("site")
        REVIEWED = 2, _("reviewed")

    slug = models.SlugField(_("slug"), unique=True, validators=[slug_validator])
    name = models.CharField(_("name"), max_length=100)
    description = models.TextField(_("description"), blank=True)
    body = models.TextField(_("body"), help_text=_("Markdown. It is fenced before the text of the first user message."))
    sha256 = models.CharField(
        _("SHA-256 of the body"),
        max_length=64,
        editable=False,
        help_text=_("Compared at use: a body changed past this form is not injected."),
    )
    # None: the skill declares none, which is no restriction.
    allowed_tools = models.JSONField(
        _("allowed tools"),
        null=True,
        blank=True,
        default=None,
        help_text=_("A list of tool names. Leave empty for no restriction; it never approves anything."),
    )
    trust = models.SmallIntegerField(_("trust"), choices=Trust.choices, default=Trust.SITE)
    enabled = models.BooleanField(_("enabled"), default=True)
    version = models.PositiveIntegerField(_("version"), default=1, editable=False)
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    class Meta:
        ordering = ["slug"]
        verbose_name = _("skill")
        verbose_name_plural = _("skills")

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        if self.allowed_tools is not None:
            check_names("allowed_tools", self.allowed_tools)

    @property
    def is_sealed(self) -> bool:
        """Whether the body is the one that a person saved."""
        return self.sha256 == sha256_of_text(self.body)

    def seal(self) -> None:
        """Take the present body as the true one: to be called where a person saves it, never elsewhere."""
        self.sha256 = sha256_of_text(self.body)


class Snippet(Versioned):
    """Reusable text, added as a system message of its own."""

    version_kind = "snippet"

    slug = models.SlugField(_("slug"), unique=True, validators=[slug_validator])
    name = models.CharField(_("name"), max_length=100)
    body = models.TextField(_("body"))
    tags = models.JSONField(_("tags"), default=list, blank=True)
    enabled = models.BooleanField(_("enabled"), default=True)
    version = models.PositiveIntegerField(_("version"), default=1, editable=False)
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    class Meta:
        ordering = ["slug"]
        verbose_name = _("prompt snippet")
        verbose_name_plural = _("prompt snippets")

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        check_names("tags", self.tags)
