"""Addresses that lead past the rules: to credentials, into networks that are no internet, or a key to a stranger."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from llmcore.configuration import Secret
from llmcore.errors import ConfigurationError, ErrorKind
from llmcore.management.wire_check.server import Script, serve_script
from llmcore.metering.client import ModelClient, open_http
from llmcore.models.base_url import clean_base_url, host_of
from llmcore.providers.addresses import allowed_reach, reach_of
from tests.llmcore.test_addresses import Names, answer_of
from tests.llmcore.voices import KEY, VOICES, Said, ask, call_to

CHAT = VOICES[0]


@pytest.mark.parametrize(
    ("address", "reach"),
    [
        ("fd00:ec2::23", "refused"),  # hands out credentials in Amazon's clusters
        ("fd00:ec2::253", "refused"),
        ("fd20:ce::254", "refused"),
        ("169.254.170.23", "refused"),
        ("168.63.129.16", "refused"),
        ("::ffff:169.254.169.254", "refused"),
        ("::ffff:0:169.254.169.254", "refused"),
        ("::169.254.169.254", "refused"),
        ("::127.0.0.1", "refused"),
        ("64:ff9b::a9fe:a9fe", "refused"),
        ("64:ff9b:1::a9fe:a9fe", "refused"),
        # The IPv4 address may stand in other bits there than in the last ones, which are an attacker's to choose.
        ("64:ff9b:1:a9fe:a9:fe08:808:808", "refused"),
        ("2002:a9fe:a9fe::1", "refused"),
        ("2001:0:4136:e378:8000:63bf:5601:5601", "refused"),
        ("fe80::1%25eth0", "refused"),
        ("fe80::5efe:127.0.0.1", "refused"),
        ("0.0.0.1", "refused"),
        ("0.0.0.0", "refused"),
        ("255.255.255.255", "refused"),
        ("2130706433", "refused"),
        ("0177.0.0.1", "refused"),
        ("0x7f.0.0.1", "refused"),
        ("fec0::1", "private"),
        ("feff::1", "private"),
        ("fd12:3456::1", "private"),
        ("::ffff:127.0.0.1", "private"),
        ("2002:7f00:1::", "private"),
        ("64:ff9b::7f00:1", "private"),
        ("100.64.0.1", "private"),
        ("64:ff9b::808:808", "public"),
        ("2606:4700::1111", "public"),
    ],
)
def test_what_an_address_can_reach(address: str, reach: str) -> None:  # W6
    assert reach_of(address) == reach


NEVER = [
    "https://169.254.169.254/",
    "https://169.254.169.254./",
    "https://[::ffff:169.254.169.254]/",
    "https://[::ffff:a9fe:a9fe]/",
    "https://[::169.254.169.254]/",
    "https://[64:ff9b::a9fe:a9fe]/",
    "https://[64:ff9b:1::a9fe:a9fe]/",
    "https://[2002:a9fe:a9fe::]/",
    "https://[fd00:ec2::254]/",
    "https://[fd20:ce::254]/",
    "https://[fe80::1%25eth0]/",
    "https://168.63.129.16/",
    "https://100.100.100.200/",
    "https://0.0.0.0/",
    "https://[::]/",
    "https://metadata.google.internal/",
    "https://METADATA.google.internal./",
    "https://metadata/",
    "https://2852039166/",
    "https://0251.0376.0251.0376/",
    "https://0xa9fea9fe/",
    "https://0xa9.0xfe.0xa9.0xfe/",
    "https://169.16689662/",
]


@pytest.mark.parametrize("url", NEVER)
@pytest.mark.parametrize("private", [True, False])
def test_no_spelling_of_a_metadata_service_can_be_entered(url: str, private: bool) -> None:
    with pytest.raises(ValidationError):
        clean_base_url(url, allow_private_hosts=private)


AMBIGUOUS = [
    "https://good.example\\@evil.example/v1",
    "https://good.example@evil.example/v1",
    "https://user:key@evil.example/v1",
    "https://good.example#@evil.example/v1",
    "https://good.example?@evil.example/v1",
    "https://good.example;evil.example/v1",
    "https://%67ood.example/v1",
    "https://good.example%2eevil.example/v1",
    "https://good.example%00.evil.example/v1",
    "https://good.example\t.evil.example/v1",
    "https://good.example\n.evil.example/v1",
    "https://g\u043e\u043ed.example/v1",
    "https://good\u3002example/v1",
    "https://\u2460.2.3.4/v1",
]


@pytest.mark.parametrize("url", AMBIGUOUS)
def test_a_host_that_readers_could_take_for_another_one_is_refused(url: str) -> None:
    with pytest.raises(ValidationError):
        clean_base_url(url, allow_private_hosts=True)


@pytest.mark.parametrize("url", ["https://good\u3002example/v1", *AMBIGUOUS[:4], *AMBIGUOUS[9:]])
def test_the_transport_refuses_what_only_a_script_could_have_stored(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        allowed_reach(url, True)
    assert "evil" not in str(caught.value)


@pytest.mark.parametrize("url", ["https://api.example.com/v1", "https://[2606:4700::1111]:8443/v1", "https://a.b-c.io"])
def test_what_is_called_is_whom_the_key_is_for(url: str) -> None:
    assert allowed_reach(url, False) == {"public"}
    assert host_of(clean_base_url(url, allow_private_hosts=False)) == host_of(url)


@pytest.fixture
async def client() -> AsyncIterator[ModelClient]:
    async with open_http() as http:
        yield ModelClient(http=http, sleep=at_once)


async def at_once(seconds: float) -> None:
    """Waits between attempts cost a test its time."""


@pytest.mark.parametrize("host", ["2130706433", "017700000001", "0x7f000001", "127.1", "LOCALHOST"])
async def test_a_host_in_disguise_is_judged_by_where_it_leads(client: ModelClient, host: str) -> None:
    response = await answer_of(client, f"https://{host}:1", private=False)

    assert response.error is not None
    assert (response.error.kind, response.error.retryable) == (ErrorKind.CONNECTION, False)
    assert "local or private" in response.error.message


async def test_a_name_is_judged_anew_with_each_attempt(client: ModelClient) -> None:
    async with serve_script(Script(status=503, headers={"content-type": "application/json"})) as server:
        port = server.origin.rpartition(":")[2]
        names = Names(["127.0.0.1"], ["169.254.169.254"])
        names.install()
        call = call_to(CHAT, f"http://model.example:{port}", provider={"max_attempts": 3})
        response = (await ask(client, call)).response

    assert (len(server.received), names.asked) == (1, 2)
    assert response.error is not None and "never called" in response.error.message


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("stream", [True, False])
async def test_no_redirect_takes_a_key_elsewhere(client: ModelClient, status: int, stream: bool) -> None:
    async with serve_script(Script(headers={"content-type": "application/json"})) as elsewhere:
        script = Script(status=status, headers={"location": f"{elsewhere.origin}/latest/meta-data/"})
        async with serve_script(script) as server:
            response = (await ask(client, call_to(CHAT, server.origin, stream=stream))).response

    assert response.error is not None and "not followed" in response.error.message
    assert (len(server.received), elsewhere.received) == (1, [])


async def test_proxies_and_credentials_of_the_environment_are_not_used(
    client: ModelClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    async with serve_script(Script()) as proxy, serve_script(CHAT.script(Said(text="Hi"), stream=True)) as server:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.origin)
            monkeypatch.setenv(name.lower(), proxy.origin)
        netrc = tmp_path / "netrc"
        netrc.write_text("machine 127.0.0.1 login somebody password of-the-operator\n")
        netrc.chmod(0o600)
        monkeypatch.setenv("NETRC", str(netrc))
        monkeypatch.delenv("NO_PROXY", raising=False)
        response = (await ask(client, call_to(CHAT, server.origin))).response

    assert (response.text, proxy.received) == ("Hi", [])
    assert server.received[0].headers["authorization"] == f"Bearer {KEY}"


async def test_a_cookie_of_a_server_is_never_sent_back(client: ModelClient) -> None:
    script = CHAT.script(Said(text="Hi"), stream=False)
    cookie = Script(headers={**script.headers, "set-cookie": "track=1"}, writes=script.writes)
    async with serve_script(cookie) as server:
        for _ in range(2):
            await ask(client, call_to(CHAT, server.origin, stream=False))

    assert [request.headers.get("cookie") for request in server.received] == [None, None]


async def test_a_request_to_one_provider_never_carries_the_key_of_another(client: ModelClient) -> None:
    async with serve_script(CHAT.script(Said(text="Hi"), stream=True, ending="keep")) as server:
        for key in ("sk-first-1234", "sk-second-5678"):
            await ask(client, call_to(CHAT, server.origin, provider={"api_key": Secret(key)}))

    assert [request.headers["authorization"] for request in server.received] == [
        "Bearer sk-first-1234",
        "Bearer sk-second-5678",
    ]


async def test_the_list_of_models_is_asked_for_under_the_same_rules(client: ModelClient) -> None:
    provider = call_to(CHAT, "http://169.254.169.254").provider

    listing = await client.listing(provider)

    assert listing.error is not None and "never called" in listing.error.message


async def test_a_resolver_that_never_answers_ends_at_the_connect_deadline(client: ModelClient) -> None:
    async def wait(*args: Any, **options: Any) -> Any:
        await asyncio.sleep(60)
        raise socket.gaierror

    asyncio.get_running_loop().getaddrinfo = wait  # type: ignore[method-assign]
    call = call_to(CHAT, "https://model.example", provider={"connect_timeout_s": 0.05})

    response = (await ask(client, call)).response

    assert response.error is not None and response.error.kind is ErrorKind.TIMEOUT
