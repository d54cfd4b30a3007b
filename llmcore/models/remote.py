"""What all services have that this site sends keys to: an address, and a key that is bound to its host."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.utils.translation import gettext_lazy as _

from llmcore.models.base_url import host_of


class Remote(models.Model):
    """A service at an address; `llmcore.keys` writes and reads its key."""

    slug = models.SlugField(_("slug"), unique=True)
    name = models.CharField(_("name"), max_length=100)
    # Not a URLField: that refuses names without a dot, such as those of a container network.
    base_url = models.CharField(_("base URL"), max_length=200)
    # MultiFernet token of the key; written and read by llmcore.keys only.
    encrypted_key = models.BinaryField(_("encrypted API key"), blank=True, default=b"", editable=False)
    key_host = models.CharField(_("host the key was saved for"), max_length=255, blank=True, editable=False)
    key_env = models.CharField(
        _("key from environment variable"),
        max_length=100,
        blank=True,
        help_text=_(
            "Name of an environment variable that holds the key, instead of storing it here. It is read at each run."
        ),
    )
    allow_private_hosts = models.BooleanField(
        _("allow a local or private address"),
        default=False,
        help_text=_("Needed for servers on this machine or in your own network, and for plain http."),
    )
    enabled = models.BooleanField(_("enabled"), default=True)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return self.name

    def save(self, *args: Any, **kwargs: Any) -> None:
        if self.key_env and not self.key_host:
            self.key_host = host_of(self.base_url)
        super().save(*args, **kwargs)
