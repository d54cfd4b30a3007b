"""What a base URL may look like, as far as that can be told without resolving its host.

The transport looks again at the addresses a name resolves to; this is for the person who types it.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from llmcore.providers.addresses import reach_of

# Sources: the cloud providers' documentation of their metadata services.
METADATA_HOSTS = frozenset({"metadata.google.internal", "metadata.goog", "metadata", "instance-data"})
# Underscores are in no host of the internet, but in names of container networks.
HOST = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+(%[a-z0-9.]+)?")
ENDPOINTS = ("/chat/completions", "/completions", "/responses", "/messages", "/models", "/api/chat", "/api/generate")
DEFAULT_PORTS = {"https": 443, "http": 80}


def host_of(base_url: str) -> str:
    """Whom a key may be sent to: the host, with the port where it isn't the usual one, and "http://" in front where
    it would travel unencrypted. Empty for what is no URL."""
    parts = split(base_url)
    if parts is None or not parts.hostname:
        return ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    if parts.port is not None and parts.port != DEFAULT_PORTS.get(parts.scheme):
        host += f":{parts.port}"
    return host if parts.scheme == "https" else f"{parts.scheme}://{host}"


def clean_base_url(base_url: str, *, allow_private_hosts: bool) -> str:
    """The URL in its one spelling, without a slash at its end; a ValidationError says what to change."""
    address = clean_address(
        base_url, allow_private_hosts=allow_private_hosts, example="https://api.openai.com/v1"
    ).rstrip("/")
    for endpoint in ENDPOINTS:
        if urlsplit(address).path.endswith(endpoint):
            raise ValidationError(
                _("Leave out “%(endpoint)s”: the base URL ends before it, the wire format adds it."),
                params={"endpoint": endpoint},
            )
    return address


def clean_address(address: str, *, allow_private_hosts: bool, example: str) -> str:
    """An address that requests go to as it is, in its one spelling; a ValidationError says what to change."""
    parts = split(address.strip())
    if parts is None or parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        raise ValidationError(
            _("Enter a whole URL that begins with https://, for example %(example)s."), params={"example": example}
        )
    if re.search(r"[\s\\\x00-\x1f\x7f]", address.strip()):
        raise ValidationError(_("A URL has no spaces, line breaks or backslashes: remove them."))
    if parts.username is not None or parts.password is not None:
        raise ValidationError(_("Remove the user name and password from the URL: the key has a field of its own."))
    if parts.query or parts.fragment or "?" in address or "#" in address:
        raise ValidationError(_("Remove everything from “?” or “#” on: the key has a field of its own."))
    if not parts.hostname.isascii():
        raise ValidationError(_("Write the host in its ASCII form (xn--…): look-alike letters hide where a key goes."))
    if not HOST.fullmatch(parts.hostname):
        raise ValidationError(_("A host has letters, digits, dots and hyphens only: correct it."))
    check_host(parts, allow_private_hosts)
    host = host_of(address.strip()).removeprefix("http://")
    return f"{parts.scheme}://{host}{parts.path}"


def check_host(parts: SplitResult, allow_private_hosts: bool) -> None:
    host = (parts.hostname or "").rstrip(".")
    reach = reach_of(host) if is_address(host) else None
    if reach is None and re.fullmatch(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+))*", host):
        raise ValidationError(_("Write the IP address in its usual form, for example 192.168.1.20."))
    if host in METADATA_HOSTS or reach == "refused":
        raise ValidationError(
            _("This address is never called: it is link-local, a cloud's metadata service or no single host.")
        )
    private = is_private_name(host) if reach is None else reach == "private"
    if private and not allow_private_hosts:
        raise ValidationError(
            _("This is a local or private address. If it is meant, tick “allow a local or private address”.")
        )
    if parts.scheme == "http" and reach == "public":
        raise ValidationError(_("Use https: plain http is for servers on this machine or in your own network only."))
    # A name may stand for a private address, which only its resolution shows; the transport decides then.
    if parts.scheme == "http" and not allow_private_hosts:
        raise ValidationError(
            _("Use https. Plain http is for servers in your own network: tick “allow a local or private address”.")
        )


def split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _port = parts.port  # raises for a port that is no number
    except ValueError:
        return None
    return parts


def is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_private_name(host: str) -> bool:
    """Names that can only be local ones: of this machine, of a container network, or of a zone kept for that."""
    return "." not in host or host.endswith((".localhost", ".local", ".internal", ".lan", ".home.arpa"))
