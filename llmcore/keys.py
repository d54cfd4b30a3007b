"""API keys of providers and MCP servers: encrypted at rest and bound to the host that they were saved for, or read from
the environment.

A stored token holds the host beside the key, so that not even a changed row sends a key anywhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.db import transaction
from django.db.models import QuerySet

from llmcore.conf import no_environment, settings
from llmcore.configuration import Secret
from llmcore.database_access import FixedQuery
from llmcore.errors import ConfigurationError, SecretUnavailable
from llmcore.models import MCPServer, Provider
from llmcore.models.base_url import host_of
from llmcore.models.remote import Remote
from llmcore.redaction.logs import keep_out_of_log

# All that have keys.
KINDS: tuple[type[Remote], ...] = (Provider, MCPServer)
MIN_KEY_LENGTH = 8
# Whoever edits these can send a variable's value anywhere, so not every secret of the process may be named.
KEY_VARIABLE = re.compile(r"[A-Za-z][A-Za-z0-9_]*_API_(KEY|TOKEN)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Rotation:
    """What a rotation of the encryption key found: services re-encrypted, and those without a stored key."""

    rotated: int
    without_key: int


def problem_of_key(key: str) -> str:
    """Why `key` can't be an API key, in words for the person who typed it; empty if it can."""
    if not key.isascii() or not key.isprintable() or " " in key:
        return "An API key has no spaces, line breaks or accented letters: paste the key alone."
    if len(key) < MIN_KEY_LENGTH:
        return f"This is too short for an API key (fewer than {MIN_KEY_LENGTH} characters): paste the whole key."
    return ""


def problem_of_variable(name: str) -> str:
    """Why the variable `name` can't be used as a key, in words for the person who typed it; empty if it can."""
    if KEY_VARIABLE.fullmatch(name) or name in settings.LLM_KEY_VARIABLES:
        return ""
    return (
        "The name of a variable must end with _API_KEY or _API_TOKEN, for example OPENAI_API_KEY, so that no other "
        "secret of this site can be sent elsewhere. The operator can allow more in the setting LLM_KEY_VARIABLES."
    )


def save_key(remote: Remote, key: str) -> None:
    """Put the encrypted key on the row, for the present host; the row is not saved."""
    if problem := problem_of_key(key):
        raise ConfigurationError(problem)
    host = host_of(remote.base_url)
    remote.encrypted_key = _fernet().encrypt(f"{host}\n{key}".encode())
    remote.key_host = host
    remote.key_env = ""


def use_environment_key(remote: Remote, name: str) -> None:
    """Let the row name the variable its key is read from, for the present host; the row is not saved."""
    if problem := problem_of_variable(name):
        raise ConfigurationError(problem)
    remote.encrypted_key = b""
    remote.key_host = host_of(remote.base_url)
    remote.key_env = name


def forget_key(remote: Remote) -> None:
    """Take the key off the row; the row is not saved."""
    remote.encrypted_key = b""
    remote.key_host = ""
    remote.key_env = ""


def kind_of(remote: Remote) -> str:
    """What it is called on the pages."""
    return str(remote._meta.verbose_name)


def has_key(remote: Remote) -> bool:
    """Whether the row says where its key is; it may still be unreadable."""
    return bool(remote.encrypted_key or remote.key_env)


def is_for_other_host(remote: Remote) -> bool:
    """Whether the row has a key that was saved for another host than its present one."""
    return has_key(remote) and remote.key_host != host_of(remote.base_url)


def read_key(remote: Remote) -> Secret:
    """The key in clear, empty for a service without one; SecretUnavailable says why it can't be had."""
    if not has_key(remote):
        return Secret("")
    if is_for_other_host(remote):
        raise SecretUnavailable(_other_host(remote, remote.key_host))
    if remote.key_env:
        return Secret(_environment_key(remote))
    host, key = _decrypt(remote)
    if host != host_of(remote.base_url):
        raise SecretUnavailable(_other_host(remote, host))
    return Secret(key)


def _keys() -> QuerySet[Any, tuple[Any, ...]]:
    first, *others = (
        kind._default_manager.order_by().values_list("name", "encrypted_key", "key_env") for kind in KINDS
    )
    return first.union(*others, all=True)


_KEYS = FixedQuery(_keys)


def readable_keys() -> Iterator[str]:
    """Every key that this process can read, wherever it may be sent; unreadable ones are passed over."""
    # Of which kind a key is doesn't matter here.
    for name, encrypted_key, key_env in _KEYS.rows():
        remote = Provider(name=name, encrypted_key=encrypted_key, key_env=key_env)
        try:
            if remote.encrypted_key:
                yield _decrypt(remote)[1]
            elif remote.key_env:
                yield _environment_key(remote)
        except SecretUnavailable:
            continue


@transaction.atomic
def rotate_keys() -> Rotation:
    """Encrypt every stored key with the newest encryption key; all or none."""
    fernet = _fernet()
    remotes = [row for kind in KINDS for row in kind._default_manager.select_for_update().order_by("name")]
    with_key = [remote for remote in remotes if remote.encrypted_key]
    lost = [remote for remote in with_key if not _is_readable(remote, fernet)]
    if lost:
        names = ", ".join(f"“{remote.name}”" for remote in lost)
        raise SecretUnavailable(
            f"Nothing was changed: the keys of {names} can't be decrypted with any key in LLM_ENCRYPTION_KEYS. "
            "Add the encryption key they were saved with, or remove these API keys in the admin and enter them again."
        )
    for remote in with_key:
        remote.encrypted_key = fernet.rotate(bytes(remote.encrypted_key))
        remote.save(update_fields=["encrypted_key"])
    return Rotation(rotated=len(with_key), without_key=len(remotes) - len(with_key))


def _fernet() -> MultiFernet:
    keys = []
    for number, key in enumerate(settings.LLM_ENCRYPTION_KEYS, start=1):
        try:
            keys.append(Fernet(key))
        except ValueError:
            # The cause would carry the key into logs.
            raise SecretUnavailable(
                f"Value {number} of LLM_ENCRYPTION_KEYS is no encryption key. "
                "“manage.py llm_rotate_keys --generate” prints a new one."
            ) from None
    if not keys:
        raise SecretUnavailable(
            "LLM_ENCRYPTION_KEYS is empty, so no API key can be stored or read. "
            "“manage.py llm_rotate_keys --generate” prints a key for it."
        )
    return MultiFernet(keys)


def _is_readable(remote: Remote, fernet: MultiFernet) -> bool:
    try:
        fernet.decrypt(bytes(remote.encrypted_key))
    except InvalidToken:
        return False
    return True


def _decrypt(remote: Remote) -> tuple[str, str]:
    """Host and key of the stored token."""
    try:
        text = _fernet().decrypt(bytes(remote.encrypted_key)).decode()
    except InvalidToken:
        raise SecretUnavailable(
            f"The API key of “{remote.name}” can't be decrypted: none of the keys in LLM_ENCRYPTION_KEYS fits. Add "
            "the encryption key it was saved with to LLM_ENCRYPTION_KEYS (without that variable: the file "
            f"encryption_key in the data directory), or open the {kind_of(remote)} and enter the API key again."
        ) from None
    host, _newline, key = text.partition("\n")
    # Only a process that has a key in clear can log it.
    keep_out_of_log(key)
    return host, key


def _environment_key(remote: Remote) -> str:
    name = remote.key_env
    if problem := problem_of_variable(name):
        raise SecretUnavailable(f"The key of “{remote.name}” can't be read from {name}. {problem}")
    read = settings.LLM_ENVIRONMENT_SECRET
    if read is no_environment:
        raise SecretUnavailable(
            f"The key of “{remote.name}” is in the environment variable {name}, but this site reads none: let its "
            f"setting LLM_ENVIRONMENT_SECRET be os.environ.get, or open the {kind_of(remote)} and enter a key."
        )
    key = (read(name) or "").strip()
    if not key:
        raise SecretUnavailable(
            f"The environment variable {name}, which holds the key of “{remote.name}”, is not set. Set it for the "
            f"web server and the workers and restart them, or open the {kind_of(remote)} and enter a key."
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise SecretUnavailable(
            f"The environment variable {name} holds no API key: it has spaces or line breaks in it."
        )
    return key


def _other_host(remote: Remote, host: str) -> str:
    return (
        f"The key of “{remote.name}” was saved for {host or 'no host'} and is not sent to "
        f"{host_of(remote.base_url)}. Open the {kind_of(remote)} and enter the key for the new address."
    )
