"""Questions to servers of this machine: bounded in size, never sent anywhere else."""

from __future__ import annotations

import httpx

from llmcore.messages import JSON
from llmcore.providers.json_text import decode_json, encode_json
from llmcore.providers.local_servers import is_loopback
from llmcore.providers.network import REACH, AddressRefused, CheckedTransport

MAX_ANSWER_BYTES = 1024 * 1024


class NoAnswer(Exception):
    """Nobody is there, or what came can't be used; the text says which in a few words, and never quotes it."""


def open_local_http() -> httpx.AsyncClient:
    """The client for `ask`. Proxies and credentials of the environment are not used, redirects not followed."""
    return httpx.AsyncClient(transport=CheckedTransport(), trust_env=False, follow_redirects=False)


async def ask(http: httpx.AsyncClient, url: str, question: JSON = None) -> JSON:
    """The JSON at `url`, or the answer to a `question` posted there. NoAnswer in all other cases.

    How long that may take is the caller's to bound.
    """
    try:
        request = local_request(http, url, question)
        response = await http.send(request, stream=True)
        try:
            return decode_json(await whole_body(response))
        finally:
            await response.aclose()
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, AddressRefused):
        raise NoAnswer("nobody answers") from None
    except ValueError:
        raise NoAnswer("the answer is no JSON") from None


def local_request(http: httpx.AsyncClient, url: str, question: JSON) -> httpx.Request:
    if not is_loopback(httpx.URL(url).host):
        raise NoAnswer("it is not on this machine")
    # What was packed could grow past its bound within one read.
    headers = {"accept": "application/json", "accept-encoding": "identity", "user-agent": "llmcore"}
    # A name of this machine may still resolve to another one; the transport looks at that.
    extensions = {REACH: frozenset({"private"}), "timeout": {}}
    if question is None:
        return http.build_request("GET", url, headers=headers, extensions=extensions)
    headers["content-type"] = "application/json"
    return http.build_request("POST", url, headers=headers, content=encode_json(question), extensions=extensions)


async def whole_body(response: httpx.Response) -> bytes:
    if response.status_code != 200:
        raise NoAnswer(f"the answer is HTTP {response.status_code}")
    body = bytearray()
    # As it comes: what was packed without having been asked for is no JSON.
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > MAX_ANSWER_BYTES:
            raise NoAnswer(f"the answer is longer than {MAX_ANSWER_BYTES // 1024:,} KiB")
    return bytes(body)
