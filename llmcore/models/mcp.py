"""MCP servers: where tools come from that this site's code doesn't have, and which of their tools were agreed to."""

from __future__ import annotations

import re
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from llmcore.models.base_url import clean_address
from llmcore.models.remote import Remote

EXAMPLE = "https://mcp.example.com/mcp"
# What names of tools begin with: short, and without two underscores, which end it there.
SLUG = re.compile(r"[a-z0-9]+(?:[_-][a-z0-9]+)*")
MAX_SLUG_CHARS = 24


class MCPServer(Remote):
    """A server of tools. `listed` are the definitions that it listed last, `accepted` those that an admin has agreed
    to, by the server's own name of the tool: only where both are the same, the tool is offered. `refused` are listed
    tools that can't be used, with the reason."""

    base_url = models.CharField(
        _("address"),
        max_length=200,
        blank=True,
        help_text=_(
            "The whole address of its endpoint, for example https://mcp.example.com/mcp. The key is sent to this host "
            "only."
        ),
    )
    command = models.CharField(
        _("command"),
        max_length=64,
        blank=True,
        help_text=_("Instead of an address: a program that the setting LLM_MCP_COMMANDS names."),
    )
    believes_hints = models.BooleanField(
        _("believe what it says of its tools"),
        default=False,
        help_text=_(
            "Tools that it calls read-only then run without approval. Tick it only for a server that you run or trust: "
            "nothing holds it to what it says."
        ),
    )
    connect_timeout_s = models.FloatField(
        _("connect timeout (s)"), default=10.0, validators=[MinValueValidator(0.1), MaxValueValidator(60)]
    )
    call_timeout_s = models.FloatField(
        _("call timeout (s)"),
        default=60.0,
        validators=[MinValueValidator(0.1), MaxValueValidator(3600)],
        help_text=_("Longest time for one call of a tool."),
    )
    listed = models.JSONField(_("listed tools"), default=list, editable=False)
    refused = models.JSONField(_("tools that can't be used"), default=list, editable=False)
    accepted = models.JSONField(_("accepted tools"), default=dict, editable=False)
    listed_at = models.DateTimeField(_("listed at"), null=True, blank=True, editable=False)
    accepted_at = models.DateTimeField(_("accepted at"), null=True, blank=True, editable=False)
    accepted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.SET_NULL,
        null=True,
        blank=True,
        editable=False,
        related_name="+",
        verbose_name=_("accepted by"),
    )

    class Meta:
        ordering = ["name"]
        verbose_name = _("MCP server")
        verbose_name_plural = _("MCP servers")

    def clean(self) -> None:
        errors: dict[str, Any] = {}
        if self.slug and (len(self.slug) > MAX_SLUG_CHARS or not SLUG.fullmatch(self.slug)):
            errors["slug"] = _(
                "The names of its tools begin with it: use at most %d small letters and digits, with single hyphens or "
                "underscores between them."
            ) % (MAX_SLUG_CHARS,)
        if bool(self.base_url) == bool(self.command):
            errors["base_url"] = _("Give either an address or a command.")
        elif self.base_url:
            try:
                self.base_url = clean_address(
                    self.base_url, allow_private_hosts=self.allow_private_hosts, example=EXAMPLE
                )
            except ValidationError as error:
                errors["base_url"] = error
        if errors:
            raise ValidationError(errors)

    def forget_tools(self) -> None:
        """What another server listed says nothing about this one; the row is not saved."""
        self.listed, self.refused, self.accepted = [], [], {}
        self.listed_at = self.accepted_at = self.accepted_by = None
