"""The connections themselves, under httpcore's pool: encrypted ones, slow readers, and what an idle one is told."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpcore
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from llmcore.providers.network import CheckedBackend

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(serve: Serve, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """The port of a server that talks with each client as `serve` does."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context, limit=2**24)
    async with server:
        yield server.sockets[0].getsockname()[1]


@asynccontextmanager
async def pool(context: ssl.SSLContext | None = None) -> AsyncIterator[httpcore.AsyncConnectionPool]:
    async with httpcore.AsyncConnectionPool(
        ssl_context=context, network_backend=CheckedBackend(frozenset({"private"}))
    ) as opened:
        yield opened


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer each request until the client goes."""
    try:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(OK)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def certificate(folder: Path) -> Path:
    """A file with a key and a certificate for 127.0.0.1, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a test")])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .sign(key, hashes.SHA256())
    )
    file = folder / "server.pem"
    file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + signed.public_bytes(serialization.Encoding.PEM)
    )
    return file


def server_context(file: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


async def test_an_encrypted_connection_serves_many_calls(tmp_path: Path) -> None:
    file = certificate(tmp_path)
    trusting = ssl.create_default_context(cafile=str(file))

    async with serving(answer, server_context(file)) as port, pool(trusting) as http:
        replies = [await http.request("GET", f"https://127.0.0.1:{port}/") for _ in range(3)]
        assert len(http.connections) == 1

    assert [reply.content for reply in replies] == [b"ok"] * 3


async def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    context = server_context(certificate(tmp_path))

    async with serving(answer, context) as port, pool(ssl.create_default_context()) as http:
        with pytest.raises(httpcore.ConnectError, match="self-signed certificate"):
            await http.request("GET", f"https://127.0.0.1:{port}/")


async def test_a_refused_connection_says_so() -> None:
    async with serving(answer) as port:
        pass
    async with pool() as http:
        with pytest.raises(httpcore.ConnectError, match="Connection refused"):
            await http.request("GET", f"http://127.0.0.1:{port}/")


async def test_a_long_body_arrives_whole_both_ways() -> None:
    sent = b"0123456789" * 500_000

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = await reader.readexactly(len(sent))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()

    async with serving(echo) as port, pool() as http:
        reply = await http.request("POST", f"http://127.0.0.1:{port}/", content=sent)

    assert reply.content == sent


async def test_a_server_that_reads_nothing_runs_into_the_write_deadline() -> None:
    gone = asyncio.Event()

    async def stare(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await gone.wait()
        writer.close()

    async with serving(stare) as port, pool() as http:
        with pytest.raises(httpcore.WriteTimeout):
            await http.request(
                "POST", f"http://127.0.0.1:{port}/", content=b"x" * 50_000_000, extensions={"timeout": {"write": 0.1}}
            )
        gone.set()


async def test_what_a_server_says_to_an_idle_connection_is_no_answer_to_the_next_call() -> None:
    said = asyncio.Event()
    connections: list[asyncio.StreamWriter] = []

    async def give_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        await writer.drain()
        if len(connections) == 1:
            await said.wait()
            writer.write(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    async with serving(give_up) as port, pool() as http:
        await http.request("GET", f"http://127.0.0.1:{port}/")
        said.set()
        await asyncio.wait_for(connections[0].wait_closed(), 60)
        # The last words are on their way to this side of the loopback.
        while http.connections and not http.connections[0].has_expired():
            await asyncio.sleep(0)
        reply = await http.request("GET", f"http://127.0.0.1:{port}/")

    assert (reply.status, len(connections)) == (200, 2)
