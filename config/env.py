"""The only reader of the environment: everything an operator can set, with its default.

Nothing needs to be set to try the product: then it runs embedded, with SQLite and a file-system queue under
`DATA_DIR`, and makes its own secrets there.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import environ
from cryptography.fernet import Fernet

BASE_DIR = Path(__file__).resolve().parent.parent

env = environ.Env()


def secret_file(path: Path, make: str) -> str:
    """The content of `path`; a new file, readable by its owner only, gets the value `make`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text().strip()
    with os.fdopen(descriptor, "w") as file:
        file.write(make + "\n")
    return make


DATA_DIR = Path(env.str("DATA_DIR", default=str(BASE_DIR / "var"))).resolve()
DEBUG = env.bool("DEBUG", default=False)
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[])
DATABASE_URL = env.str("DATABASE_URL", default="")
REDIS_URL = env.str("REDIS_URL", default="")
SECRET_KEY = env.str("SECRET_KEY", default="") or secret_file(DATA_DIR / "secret_key", secrets.token_urlsafe(50))
# Comma-separated Fernet keys, the newest first; the others only decrypt.
ENCRYPTION_KEYS = env.list("LLM_ENCRYPTION_KEYS", default=[]) or [
    secret_file(DATA_DIR / "encryption_key", Fernet.generate_key().decode())
]
# Variables that a provider may name as the home of its key although they don't end with _API_KEY or _API_TOKEN.
KEY_VARIABLES = env.list("LLM_KEY_VARIABLES", default=[])
DEMO_MODEL_URL = env.str("DEMO_MODEL_URL", default="http://127.0.0.1:8766/v1")
LEASE_S = env.float("LLM_LEASE_S", default=15.0)


def environment_secret(name: str) -> str | None:
    """The value of the variable that a provider names as the home of its key; read at each use, never kept."""
    return os.environ.get(name)


def secret_values() -> list[str]:
    """Values of this process's environment that look like secrets by their name, to be removed from what is written."""
    words = ("KEY", "TOKEN", "SECRET", "PASSWORD")
    return [
        value for name, value in os.environ.items() if any(word in name.upper() for word in words) and len(value) >= 8
    ]


def environment_with(**changes: str) -> dict[str, str]:
    """The environment for a child process: this one's, with `changes`."""
    return {**os.environ, **changes}
