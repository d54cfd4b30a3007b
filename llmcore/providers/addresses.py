"""Which addresses a provider may be reached at, judged after resolution so that no name can lead elsewhere."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Literal
from urllib.parse import urlsplit

import httpx

from llmcore.errors import ConfigurationError

Address = IPv4Address | IPv6Address
Reach = Literal["public", "private", "refused"]

# Sources: the cloud providers' documentation of their metadata and instance services.
METADATA = frozenset(
    ip_address(text)
    for text in ("169.254.169.254", "fd00:ec2::254", "100.100.100.200", "192.0.0.192", "168.63.129.16", "fd20:ce::254")
)
# Source: the same. In it are also the services that hand out credentials and resolve names.
INSTANCE_SERVICES = ip_network("fd00:ec2::/32")
# The prefixes behind which an IPv4 address stands in the last 32 bits. The second one is for a network's own use, and
# of it only this part: elsewhere the address may stand in other bits, and these say what an attacker wants.
NAT64 = (ip_network("64:ff9b::/96"), ip_network("64:ff9b:1::/96"))
LOCAL_NAT64 = ip_network("64:ff9b:1::/48")
THIS_NETWORK = ip_network("0.0.0.0/8")


def reach_of(text: str) -> Reach:
    """Who can be at the address `text`: anyone on the internet, this machine and its networks, or no model server."""
    try:
        address = _embedded(ip_address(text.partition("%")[0]))
    except ValueError:
        return "refused"
    if address in METADATA or address in INSTANCE_SERVICES or address in LOCAL_NAT64 or address in THIS_NETWORK:
        return "refused"
    if address.is_link_local or address.is_multicast or address.is_unspecified:
        return "refused"
    # Site-local addresses were private networks before there were unique local ones, and count as global since.
    if address.is_loopback or (isinstance(address, IPv6Address) and address.is_site_local):
        return "private"
    if address.is_reserved:
        return "refused"
    return "public" if address.is_global else "private"


def _embedded(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for, where it does."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address.sixtofour is not None:
            return address.sixtofour
        if address.teredo is not None:
            return address.teredo[1]
        if any(address in network for network in NAT64):
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


@lru_cache(maxsize=256)
def allowed_reach(url: str, allow_private_hosts: bool) -> frozenset[Reach]:
    """What the host of `url` may resolve to. ConfigurationError where no address would do.

    Plain http is for loopback and private hosts that the operator allows; nothing goes over the internet unencrypted.
    """
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, UnicodeError, ValueError):
        raise ConfigurationError(
            "The base URL can't be read. It should look like https://api.example.com/v1."
        ) from None
    if not same_host(url, parsed):
        raise ConfigurationError("The base URL can be read in more than one way. Write its host in plain letters.")
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ConfigurationError("The base URL must begin with https:// (or http:// for a local server).")
    if parsed.userinfo or parsed.fragment:
        raise ConfigurationError("The base URL must hold no user name, password or fragment.")
    if parsed.scheme == "http" and not allow_private_hosts:
        raise ConfigurationError("Plain http is for local servers only; allow private hosts, or use https.")
    allowed: set[Reach] = {"private"} if allow_private_hosts else set()
    if parsed.scheme == "https":
        allowed.add("public")
    return frozenset(allowed)


def same_host(url: str, parsed: httpx.URL) -> bool:
    """Whether all readers of `url` see the host that would be called: a key is bound to what another one reads."""
    try:
        return url.isascii() and (urlsplit(url).hostname or "") == parsed.raw_host.decode("ascii")
    except ValueError:
        return False


def refusal(host: str, addresses: list[str], allowed: frozenset[Reach]) -> str:
    """Why none of the addresses of `host` may be called."""
    reaches = {reach_of(address) for address in addresses}
    if reaches == {"refused"}:
        return f"{host} is a link-local, metadata or reserved address: it is never called."
    if "private" in reaches and "private" not in allowed:
        return f"{host} is a local or private address, which this provider is not allowed to use."
    return f"{host} is a public address: plain http is for local and private servers only."
