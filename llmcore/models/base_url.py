"""What a base URL may look like, as far as that can be told without resolving its host.

The transport looks again at the addresses a name resolves to; this is for the person who types it.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import SplitResult, urlsplit

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

Address = IPv4Address | IPv6Address

# Sources: the cloud providers' documentation of their metadata services.
METADATA_HOSTS = frozenset({"metadata.google.internal", "metadata.goog", "metadata", "instance-data"})
METADATA_ADDRESSES = frozenset(
    ip_address(text) for text in ("169.254.169.254", "fd00:ec2::254", "100.100.100.200", "192.0.0.192")
)
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
    parts = split(base_url.strip())
    if parts is None or parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        raise ValidationError(_("Enter a whole URL that begins with https://, for example https://api.openai.com/v1."))
    if re.search(r"[\s\\\x00-\x1f\x7f]", base_url.strip()):
        raise ValidationError(_("A URL has no spaces, line breaks or backslashes: remove them."))
    if parts.username is not None or parts.password is not None:
        raise ValidationError(_("Remove the user name and password from the URL: the key has a field of its own."))
    if parts.query or parts.fragment or "?" in base_url or "#" in base_url:
        raise ValidationError(_("Remove everything from “?” or “#” on: the key has a field of its own."))
    if not parts.hostname.isascii():
        raise ValidationError(_("Write the host in its ASCII form (xn--…): look-alike letters hide where a key goes."))
    check_host(parts, allow_private_hosts)
    path = parts.path.rstrip("/")
    for endpoint in ENDPOINTS:
        if path.endswith(endpoint):
            raise ValidationError(
                _("Leave out “%(endpoint)s”: the base URL ends before it, the wire format adds it."),
                params={"endpoint": endpoint},
            )
    host = host_of(base_url.strip()).removeprefix("http://")
    return f"{parts.scheme}://{host}{path}"


def check_host(parts: SplitResult, allow_private_hosts: bool) -> None:
    host = (parts.hostname or "").rstrip(".")
    address = address_of(host)
    if address is None and re.fullmatch(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+))*", host):
        raise ValidationError(_("Write the IP address in its usual form, for example 192.168.1.20."))
    if host in METADATA_HOSTS or (address is not None and is_forbidden(address)):
        raise ValidationError(
            _("This address is never called: it is link-local, a cloud's metadata service or no single host.")
        )
    private = is_private_name(host) if address is None else is_private(address)
    if private and not allow_private_hosts:
        raise ValidationError(
            _("This is a local or private address. If it is meant, tick “allow a local or private address”.")
        )
    if parts.scheme == "http" and address is not None and not private:
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


def address_of(host: str) -> Address | None:
    try:
        address = ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def is_forbidden(address: Address) -> bool:
    return address in METADATA_ADDRESSES or address.is_link_local or address.is_multicast or address.is_unspecified


def is_private(address: Address) -> bool:
    return address.is_loopback or address.is_private or not address.is_global


def is_private_name(host: str) -> bool:
    """Names that can only be local ones: of this machine, of a container network, or of a zone kept for that."""
    return "." not in host or host.endswith((".localhost", ".local", ".internal", ".lan", ".home.arpa"))
