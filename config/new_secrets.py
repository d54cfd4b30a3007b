"""Prints new secrets for an installation, as lines of an environment file: `python -m config.new_secrets`."""

from __future__ import annotations

import secrets

from cryptography.fernet import Fernet


def new_secrets() -> dict[str, str]:
    return {
        "SECRET_KEY": secrets.token_urlsafe(50),
        "LLM_ENCRYPTION_KEYS": Fernet.generate_key().decode(),
        "POSTGRES_PASSWORD": secrets.token_urlsafe(32),
    }


if __name__ == "__main__":
    for name, value in new_secrets().items():
        print(f"{name}={value}")
