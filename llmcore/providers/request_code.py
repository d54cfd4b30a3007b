"""A recorded request as code that sends the very same one: a curl command, or Python with httpx.

The key is never in it. Where a masked value stood, the code reads an environment variable.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import httpx

from llmcore.providers.base import MASK, TRANSPORT_HEADERS

# A shell passes at most 128 KiB as one argument; what is longer goes in through a pipe.
MAX_ARGUMENT_BYTES = 100_000
# What a client writes itself, from the address and the body.
CLIENT_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection"})
# What curl would add of its own; the last one to large bodies.
CURL_HEADERS = ("accept", "content-type", "expect")
KEY_HEADERS = frozenset({"authorization", "api-key", "x-api-key", "x-goog-api-key"})


@dataclass(frozen=True, kw_only=True, slots=True)
class RepeatableRequest:
    """A request as it was recorded: secret header values are masked. `key_variable` is to hold the API key."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: str
    key_variable: str = "API_KEY"

    @property
    def headers_to_send(self) -> dict[str, str]:
        sent = {**TRANSPORT_HEADERS, **{name.lower(): value for name, value in self.headers.items()}}
        return {name: value for name, value in sent.items() if name not in CLIENT_HEADERS}

    @property
    def wire_url(self) -> str:
        """The address with everything escaped that an address can't hold."""
        return str(httpx.URL(self.url))

    @property
    def variables(self) -> list[str]:
        """The environment variables that the code reads."""
        masked = [name for name, value in self.headers_to_send.items() if MASK in value]
        return list(dict.fromkeys(self.variable_of(name) for name in masked))

    def variable_of(self, header: str) -> str:
        return self.key_variable if header in KEY_HEADERS else variable_name(header)


def variable_name(name: str) -> str:
    """`name` as the name of an environment variable."""
    upper = re.sub(r"[^A-Z0-9]+", "_", name.upper()).strip("_") or "SECRET"
    return f"_{upper}" if upper[0].isdigit() else upper


def repeatable_request(
    *, method: str, url: str, headers: Mapping[str, str], body: bytes, key_variable: str = "API_KEY"
) -> RepeatableRequest | None:
    """The request as one that code can repeat; `None` where its address is masked or its body is no text."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    if MASK in url or "\0" in text:
        return None
    return RepeatableRequest(method=method, url=url, headers=headers, body=text, key_variable=key_variable)


def curl_command(request: RepeatableRequest) -> str:
    """A command for a POSIX shell. It shows the answer as it arrives, and stops where the key is not set."""
    headers = request.headers_to_send
    lines = [f"curl --no-buffer --globoff --path-as-is --request {shlex.quote(request.method)}"]
    lines.append(f"  {shlex.quote(request.wire_url)}")
    lines += [f"  --header {_shell_header(request, name, value)}" for name, value in headers.items()]
    lines += [f"  --header {shlex.quote(name + ':')}" for name in CURL_HEADERS if name not in headers]
    body = shlex.quote(request.body)
    if len(request.body.encode()) <= MAX_ARGUMENT_BYTES:
        return " \\\n".join([*lines, f"  --data-raw {body}"]) + "\n"
    return f"printf %s {body} |\n" + " \\\n".join([*lines, "  --data-binary @-"]) + "\n"


def httpx_code(request: RepeatableRequest) -> str:
    """A Python program. It prints the answer as it arrives."""
    headers = request.headers_to_send
    lines = [f"    {name!r}: {_python_value(request, name, value)},\n" for name, value in headers.items()]
    imports = "import os\n\n" if any(MASK in value for value in headers.values()) else ""
    return (
        f"{imports}import httpx\n\n"
        f"headers = {{\n{''.join(lines)}}}\n"
        f"body = {request.body!r}\n\n"
        f"request = httpx.Request({request.method!r}, {request.wire_url!r}, headers=headers, content=body.encode())\n"
        "with httpx.Client(timeout=600) as client:\n"
        "    response = client.send(request, stream=True)\n"
        "    print(response.status_code, response.reason_phrase)\n"
        "    for text in response.iter_text():\n"
        '        print(text, end="", flush=True)\n'
    )


def _shell_header(request: RepeatableRequest, name: str, value: str) -> str:
    if not value:
        # With a colon curl would leave the header out.
        return shlex.quote(f"{name};")
    parts = [part if part is None else shlex.quote(part) for part in _parts(f"{name}: {value}")]
    return "".join(f'"${{{request.variable_of(name)}:?}}"' if part is None else part for part in parts)


def _python_value(request: RepeatableRequest, name: str, value: str) -> str:
    parts = [f"os.environ[{request.variable_of(name)!r}]" if part is None else repr(part) for part in _parts(value)]
    return " + ".join(parts) or "''"


def _parts(text: str) -> Iterator[str | None]:
    """The pieces of `text` with `None` for each mask."""
    for index, piece in enumerate(text.split(MASK)):
        if index:
            yield None
        if piece:
            yield piece
