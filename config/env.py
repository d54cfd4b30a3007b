"""The only reader of the environment: everything an operator can set, with its default.

Nothing needs to be set to try the product: then it runs embedded, with SQLite and a file-system queue under
`DATA_DIR`, and makes its own secrets there. With a database server it is in production: secrets have to be given,
and what protects them on their way is switched on.
"""

from __future__ import annotations

import os
import re
import secrets
import sys
from decimal import Decimal
from pathlib import Path
from typing import NoReturn
from urllib.parse import unquote

import environ
from cryptography.fernet import Fernet
from django.core.exceptions import ImproperlyConfigured

BASE_DIR = Path(__file__).resolve().parent.parent

env = environ.Env()

MAKE_SECRETS = "python -m config.new_secrets"
PASSWORD_IN_ADDRESS = re.compile(r"://[^/?#\s:]*:([^/?#\s]+)@")
# What servers take as "starting it again is of no use".
START_REFUSED = 3


def refuse(name: str, what: str) -> NoReturn:
    """End the process with a message instead of a traceback, for the operator who has to set the variable `name`."""
    sys.stderr.write(
        f"Start refused: {name} {what}. With a database server, the site makes no secrets of its own.\n"
        f"This prints new ones, ready for the environment: {MAKE_SECRETS}\n"
    )
    sys.exit(START_REFUSED)


def secret_file(path: Path, make: str) -> str:
    """The content of `path`; a new file, readable by its owner only, gets the value `make`."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text().strip()
    with os.fdopen(descriptor, "w") as file:
        file.write(make + "\n")
    return make


def is_encryption_key(text: str) -> bool:
    try:
        Fernet(text)
    except ValueError:
        return False
    return True


DATA_DIR = Path(env.str("DATA_DIR", default=str(BASE_DIR / "var"))).resolve()
DEBUG = env.bool("DEBUG", default=False)
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[])
DATABASE_URL = env.str("DATABASE_URL", default="")
REDIS_URL = env.str("REDIS_URL", default="")
PRODUCTION = env.bool("PRODUCTION", default=bool(DATABASE_URL) and not DEBUG)
# Without a database server it holds all that runs say, and the sessions of those who are logged in; in production,
# files that everybody may read.
DATA_DIR.mkdir(mode=0o755 if PRODUCTION else 0o700, parents=True, exist_ok=True)
SECRET_KEY = env.str("SECRET_KEY", default="")
# Comma-separated Fernet keys, the newest first; the others only decrypt.
ENCRYPTION_KEYS = env.list("LLM_ENCRYPTION_KEYS", default=[])
if PRODUCTION:
    if not SECRET_KEY:
        refuse("SECRET_KEY", "is not set")
    if not ENCRYPTION_KEYS:
        refuse("LLM_ENCRYPTION_KEYS", "is not set")
    if not all(map(is_encryption_key, ENCRYPTION_KEYS)):
        refuse("LLM_ENCRYPTION_KEYS", "holds a value that is no encryption key")
else:
    SECRET_KEY = SECRET_KEY or secret_file(DATA_DIR / "secret_key", secrets.token_urlsafe(50))
    ENCRYPTION_KEYS = ENCRYPTION_KEYS or [secret_file(DATA_DIR / "encryption_key", Fernet.generate_key().decode())]
# Variables that a provider may name as the home of its key although they don't end with _API_KEY or _API_TOKEN.
KEY_VARIABLES = env.list("LLM_KEY_VARIABLES", default=[])
# Tokens of other engines that may ask for single turns, with commas: the new one first while an old one still holds.
SERVICE_TOKENS = env.list("LLM_SERVICE_TOKENS", default=[])
# Ollama's own variable: where it listens.
OLLAMA_HOST = env.str("OLLAMA_HOST", default="")
# Folders that tools may work in: JSON as in the setting of this name. Embedded, the demo's own.
WORKSPACES = env.json("LLM_WORKSPACES", default=None)
if WORKSPACES is None:
    demo_files = {"root": str(DATA_DIR / "workspace"), "write": True, "write_freely": ["notes/**"], "terminal": True}
    WORKSPACES = {} if PRODUCTION else {"shop": demo_files}
DEMO_MODEL_URL = env.str("DEMO_MODEL_URL", default="http://127.0.0.1:8766/v1")
LEASE_S = env.float("LLM_LEASE_S", default=15.0)
APPROVAL_EXPIRY_S = env.float("LLM_APPROVAL_EXPIRY_S", default=86_400.0)
# Most tokens and US dollars that one run may use; no limit if empty.
MAX_RUN_TOKENS = env.parse_value(text, int) if (text := env.str("LLM_MAX_RUN_TOKENS", default="")) else None
MAX_RUN_COST = env.parse_value(text, Decimal) if (text := env.str("LLM_MAX_RUN_COST", default="")) else None
# Most provider calls in flight, of all workers together; no limit if empty.
MAX_CALLS_IN_FLIGHT = env.parse_value(text, int) if (text := env.str("LLM_MAX_CALLS_IN_FLIGHT", default="")) else None


def days(text: str) -> int | None:
    """A number of days after which something is deleted; `None` for "never"."""
    if text != "never" and not text.isdecimal():
        raise ImproperlyConfigured(f"A retention of {text!r}: it is a number of days, or “never”.")
    return None if text == "never" else int(text)


RAW_RETENTION_DAYS = days(env.str("LLM_RAW_RETENTION_DAYS", default="7"))
CONTENT_RETENTION_DAYS = days(env.str("LLM_CONTENT_RETENTION_DAYS", default="90"))
METADATA_RETENTION_DAYS = days(env.str("LLM_METADATA_RETENTION_DAYS", default="never"))
PRIVACY_LEVEL = env.str("LLM_PRIVACY_LEVEL", default="full")
# Unset, raw captures are allowed at the privacy level "full" only.
RAW_CAPTURE = env.parse_value(text, bool) if (text := env.str("LLM_RAW_CAPTURE", default="")) else None

# How many connections to the database server a process shares among its requests, runs and tools; 0 for one each. To
# connect and to look at each table for the first time takes as long as the whole beginning of a run.
DATABASE_POOL_SIZE = env.int("DATABASE_POOL_SIZE", default=0)
# Off where nobody but this machine or a private network sees the traffic: cookies then travel in clear.
HTTPS = env.bool("HTTPS", default=PRODUCTION)
SSL_REDIRECT = env.bool("SSL_REDIRECT", default=HTTPS)
HSTS_SECONDS = env.int("HSTS_SECONDS", default=31_536_000 if HTTPS else 0)
HSTS_INCLUDE_SUBDOMAINS = env.bool("HSTS_INCLUDE_SUBDOMAINS", default=True)
HSTS_PRELOAD = env.bool("HSTS_PRELOAD", default=False)
LOG_LEVEL = env.str("LOG_LEVEL", default="INFO" if PRODUCTION else "WARNING").upper()
LOG_FORMAT = env.str("LOG_FORMAT", default="json" if PRODUCTION else "text")
LOG_STREAM = env.str("LOG_STREAM", default="stdout" if PRODUCTION else "stderr")
# A file that a worker touches while it is well, for health checks; none if empty.
WORKER_ALIVE_FILE = env.str("WORKER_ALIVE_FILE", default="")


def environment_secret(name: str) -> str | None:
    """The value of the variable that a provider names as the home of its key; read at each use, never kept."""
    return os.environ.get(name)


def secret_values() -> list[str]:
    """Values of this process's environment that look like secrets by their name, and the passwords in its addresses of
    servers (of the database, the queue, mail, …), to be removed from what is written."""
    words = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL")
    named = [value for name, value in os.environ.items() if any(word in name.upper() for word in words)]
    inside = [unquote(found) for value in os.environ.values() for found in PASSWORD_IN_ADDRESS.findall(value)]
    return [value for value in (*named, *inside) if len(value) >= 8]


def environment_with(**changes: str) -> dict[str, str]:
    """The environment for a child process: this one's, with `changes`."""
    return {**os.environ, **changes}
