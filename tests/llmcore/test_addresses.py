"""Which addresses a provider may be reached at (W6)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from llmcore.errors import ConfigurationError, ErrorKind
from llmcore.management.wire_check.server import serve_script
from llmcore.metering.client import ModelClient, open_http
from llmcore.providers.addresses import allowed_reach, reach_of
from tests.llmcore.voices import VOICES, Said, ask, call_to

CHAT = VOICES[0]


@pytest.mark.parametrize(
    ("address", "reach"),
    [
        ("8.8.8.8", "public"),
        ("2001:4860:4860::8888", "public"),
        ("127.0.0.1", "private"),
        ("127.8.9.1", "private"),
        ("::1", "private"),
        ("10.1.2.3", "private"),
        ("172.20.0.5", "private"),
        ("192.168.1.20", "private"),
        ("100.64.3.1", "private"),
        ("fd12:3456::1", "private"),
        ("169.254.169.254", "refused"),
        ("169.254.1.1", "refused"),
        ("fe80::1", "refused"),
        ("fe80::1%eth0", "refused"),
        ("100.100.100.200", "refused"),
        ("168.63.129.16", "refused"),
        ("fd00:ec2::254", "refused"),
        ("::ffff:169.254.169.254", "refused"),
        ("::ffff:127.0.0.1", "private"),
        ("64:ff9b::a9fe:a9fe", "refused"),
        ("2002:a9fe:a9fe::1", "refused"),
        ("0.0.0.0", "refused"),
        ("::", "refused"),
        ("224.0.0.1", "refused"),
        ("ff02::1", "refused"),
        ("255.255.255.255", "refused"),
        ("240.1.2.3", "refused"),
        ("not an address", "refused"),
    ],
)
def test_an_address_is_public_private_or_refused(address: str, reach: str) -> None:
    assert reach_of(address) == reach


@pytest.mark.parametrize(
    ("url", "private", "reach"),
    [
        ("https://api.example.com/v1", False, {"public"}),
        ("https://api.example.com/v1", True, {"public", "private"}),
        ("http://localhost:1234/v1", True, {"private"}),
    ],
)
def test_a_base_url_may_reach_what_the_operator_allows(url: str, private: bool, reach: set[str]) -> None:
    assert allowed_reach(url, private) == reach


@pytest.mark.parametrize(
    ("url", "private"),
    [
        ("http://localhost:1234/v1", False),
        ("http://api.example.com/v1", False),
        ("ftp://api.example.com/v1", True),
        ("file:///etc/passwd", True),
        ("api.example.com/v1", True),
        ("https:///v1", True),
        ("https://user:secret@api.example.com/v1", True),
        ("https://api.example.com/v1#part", True),
        ("https://exa mple.com:x/v1", True),
        ("", True),
    ],
)
def test_a_base_url_that_no_address_could_do_for_is_refused(url: str, private: bool) -> None:
    with pytest.raises(ConfigurationError) as caught:
        allowed_reach(url, private)
    assert "secret" not in str(caught.value)


@pytest.fixture
async def client() -> AsyncIterator[ModelClient]:
    async with open_http() as http:
        yield ModelClient(http=http)


class Names:
    """A resolver that gives the addresses it was told, and counts how often it was asked."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def __call__(self, host: str, port: int, **options: Any) -> list[Any]:
        found = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]

    def install(self) -> None:
        """Let the running event loop, which lives for one test, resolve names by this."""
        asyncio.get_running_loop().getaddrinfo = self  # type: ignore[method-assign]


async def answer_of(client: ModelClient, base_url: str, *, private: bool) -> Any:
    call = call_to(CHAT, base_url, provider={"allow_private_hosts": private})
    return (await ask(client, call)).response


@pytest.mark.parametrize(
    ("url", "addresses", "private", "why"),
    [
        ("https://model.example", ["127.0.0.1"], False, "local or private"),
        ("https://model.example", ["10.0.0.8", "::1"], False, "local or private"),
        ("https://model.example", ["169.254.169.254"], True, "metadata"),
        ("http://model.example", ["169.254.169.254"], True, "metadata"),
        ("http://model.example", ["8.8.8.8"], True, "public address"),
        ("http://169.254.169.254", ["169.254.169.254"], True, "metadata"),
    ],
)
async def test_a_name_is_judged_by_what_it_resolves_to(
    client: ModelClient, url: str, addresses: list[str], private: bool, why: str
) -> None:
    Names(addresses).install()

    response = await answer_of(client, url, private=private)

    assert response.error is not None
    assert (response.error.kind, response.error.retryable) == (ErrorKind.CONNECTION, False)
    assert why in response.error.message


async def test_the_checked_address_is_the_one_that_is_called(client: ModelClient) -> None:
    async with serve_script(CHAT.script(Said(text="Hi"), stream=True)) as server:
        port = server.origin.rpartition(":")[2]
        # Asked a second time, the name would lead to a metadata service.
        names = Names(["169.254.169.254", "127.0.0.1"], ["169.254.169.254"])
        names.install()
        response = await answer_of(client, f"http://model.example:{port}", private=True)

    assert (response.text, names.asked) == ("Hi", 1)
    assert server.received[0].headers["host"] == f"model.example:{port}"


async def test_the_next_address_is_tried_where_the_first_does_not_answer(client: ModelClient) -> None:
    async with serve_script(CHAT.script(Said(text="Hi"), stream=True)) as server:
        port = server.origin.rpartition(":")[2]
        Names(["127.0.0.2", "127.0.0.1"]).install()
        response = await answer_of(client, f"http://model.example:{port}", private=True)

    assert response.text == "Hi"


async def test_a_connection_of_one_provider_is_not_lent_to_another_that_may_not_use_it(client: ModelClient) -> None:
    async with serve_script(CHAT.script(Said(text="Hi"), stream=True, ending="keep")) as server:
        allowed = await answer_of(client, server.origin, private=True)
        refused = await answer_of(client, server.origin, private=False)

    assert allowed.text == "Hi"
    assert refused.error is not None and "Plain http" in refused.error.message
    assert len(server.received) == 1


async def test_a_name_that_does_not_resolve_is_a_connection_error(client: ModelClient) -> None:
    async def fail(*args: Any, **options: Any) -> Any:
        raise socket.gaierror(-2, "Name or service not known")

    asyncio.get_running_loop().getaddrinfo = fail  # type: ignore[method-assign]

    response = await answer_of(client, "https://model.example", private=False)

    assert response.error is not None
    assert (response.error.kind, response.error.retryable) == (ErrorKind.CONNECTION, True)
    assert "model.example can't be resolved" in response.error.message


async def test_a_server_without_https_is_a_connection_error(client: ModelClient) -> None:
    def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        response = await answer_of(client, f"https://127.0.0.1:{port}", private=True)

    assert response.error is not None
    assert response.error.kind is ErrorKind.CONNECTION
    assert "SSL" in response.error.message
