"""All that a site has written down, as one text to look for secrets in."""

from __future__ import annotations

from django.apps import apps

from llmcore.models import Provider


def database() -> str:
    """Every value of every table; the encrypted keys are the only place where a key belongs."""
    values = []
    for model in apps.get_models():
        left_out = {"encrypted_key"} if model is Provider else set()
        names = [field.attname for field in model._meta.concrete_fields if field.name not in left_out]
        for row in model._default_manager.values_list(*names):
            values += [bytes(value).decode("latin-1") if isinstance(value, bytes) else str(value) for value in row]
    return "\n".join(values)


def longest_piece(secret: str, text: str) -> str:
    """The longest beginning or end of `secret` that `text` has."""
    for size in range(len(secret), 0, -1):
        for piece in (secret[:size], secret[-size:]):
            if piece in text:
                return piece
    return ""
