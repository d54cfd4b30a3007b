"""Encrypts all stored API keys with the newest encryption key."""

from __future__ import annotations

from typing import Any

from cryptography.fernet import Fernet
from django.core.management.base import BaseCommand, CommandError, CommandParser

from llmcore.errors import SecretUnavailable
from llmcore.keys import rotate_keys


class Command(BaseCommand):
    """`llm_rotate_keys`: put the new key first in LLM_ENCRYPTION_KEYS, restart, run this, then drop the old ones."""

    help = (
        "Encrypts all stored API keys with the first key in LLM_ENCRYPTION_KEYS. To rotate: put a new key (--generate) "
        "in front of the old ones, restart all processes, run this command, then remove the old ones."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--generate", action="store_true", help="Print a new encryption key and do nothing else.")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["generate"]:
            self.stdout.write(Fernet.generate_key().decode())
            return
        try:
            rotation = rotate_keys()
        except SecretUnavailable as error:
            raise CommandError(str(error)) from error
        self.stdout.write(
            f"API keys encrypted with the newest encryption key: {rotation.rotated}. "
            f"Providers without a stored key: {rotation.without_key}."
        )
        self.stdout.write("Older encryption keys are no longer needed for them.")
