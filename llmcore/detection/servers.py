"""Looks for model servers on this machine, at all places at the same time and within one short deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

import httpx

from llmcore.configuration import LanguageModel
from llmcore.detection.asking import NoAnswer, ask, open_local_http
from llmcore.detection.found import FoundModel, FoundProvider
from llmcore.detection.listings import MAX_MODELS, compatible_models, ollama_model, ollama_names, owner_of
from llmcore.providers.local_servers import LOCAL_SERVERS, OLLAMA, LocalServer, is_loopback

# How many models of a server are asked about at a time.
QUESTIONS = 8
# Addresses to listen on, and where a server that does so can be called.
CALLABLE = {"0.0.0.0": "127.0.0.1", "::": "::1", "localhost": "127.0.0.1", "": "127.0.0.1"}


class Elsewhere(Exception):
    """An address is not one of this machine, so it is left alone; the text says what to do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """What was seen at a place: a provider, or the reason why there is none."""

    place: LocalServer
    provider: FoundProvider | None = None
    reason: str = ""


def usual_places(ollama: LocalServer | None = OLLAMA) -> list[LocalServer]:
    """Each server's usual address; `ollama` is another one for Ollama, or `None` to leave it alone."""
    others = [server for server in LOCAL_SERVERS if server is not OLLAMA]
    return [ollama, *others] if ollama else others


def ollama_place(host: str) -> LocalServer:
    """Where Ollama is called according to its own variable `OLLAMA_HOST`: a host, host:port or URL, or empty."""
    text = host.strip()
    is_url = "://" in text
    try:
        parts = urlsplit(text if is_url else f"http://{text}")
        # A URL without a port means the usual one of its scheme; a mere host means Ollama's.
        port = parts.port or (80 if is_url else OLLAMA.port)
    except ValueError:
        raise Elsewhere("OLLAMA_HOST is no address, so Ollama is not looked for.") from None
    called = CALLABLE.get(parts.hostname or "", parts.hostname or "")
    if parts.scheme != "http" or not is_loopback(called) or parts.path.strip("/") or parts.username is not None:
        raise Elsewhere(
            "OLLAMA_HOST is no plain address of this machine, so it is not called. Enter that Ollama as a provider, "
            "in the admin under LLM."
        )
    return replace(OLLAMA, host=called, port=port)


async def find_servers(places: Iterable[LocalServer], *, timeout_s: float) -> list[Look]:
    """What is to be seen at `places` within `timeout_s` seconds, in their order."""
    async with open_local_http() as http:
        return list(await asyncio.gather(*(look_at(http, place, timeout_s) for place in places)))


async def look_at(http: httpx.AsyncClient, place: LocalServer, timeout_s: float) -> Look:
    deadline = asyncio.get_running_loop().time() + timeout_s
    look = look_at_ollama if place.adapter == OLLAMA.adapter else look_at_compatible
    try:
        return Look(place=place, provider=await look(http, place, deadline))
    except TimeoutError:
        return Look(place=place, reason=f"no answer within {timeout_s:g} s")
    except NoAnswer as error:
        return Look(place=place, reason=str(error))


async def look_at_compatible(http: httpx.AsyncClient, place: LocalServer, deadline: float) -> FoundProvider:
    async with asyncio.timeout_at(deadline):
        listing = await ask(http, f"{place.base_url}/models")
    models = compatible_models(listing)
    # Another server than the usual one may have the port.
    owners = {server.owner: server.name for server in LOCAL_SERVERS if server.owner}
    return found_at(replace(place, name=owners.get(owner_of(listing), place.name)), models)


async def look_at_ollama(http: httpx.AsyncClient, place: LocalServer, deadline: float) -> FoundProvider:
    async with asyncio.timeout_at(deadline):
        names = ollama_names(await ask(http, f"{place.base_url}/api/tags"))
    asking = asyncio.Semaphore(QUESTIONS)

    async def describe(name: str) -> LanguageModel | None:
        async with asking, asyncio.timeout_at(deadline):
            return ollama_model(name, await ask(http, f"{place.base_url}/api/show", {"model": name}))

    # Those that describe themselves in time are not lost with the others.
    described = await asyncio.gather(*map(describe, names[:MAX_MODELS]), return_exceptions=True)
    silent = sum(isinstance(model, NoAnswer | TimeoutError) for model in described)
    models = [model for model in described if isinstance(model, LanguageModel)]
    return found_at(place, models, silent=silent, too_many=len(names) > MAX_MODELS)


def found_at(
    place: LocalServer, models: Sequence[LanguageModel], *, silent: int = 0, too_many: bool = False
) -> FoundProvider:
    problems = []
    if silent:
        problems.append(f"{silent} of its models did not say what they are; they are asked again next time.")
    if too_many or len(models) > MAX_MODELS:
        problems.append(f"It has more than {MAX_MODELS} models: the others have to be entered by hand.")
    if not models and not problems:
        problems.append("It has no model that answers.")
    return FoundProvider(
        name=place.name,
        adapter=place.adapter,
        base_url=place.base_url,
        about=f"at {place.address}",
        models=tuple(FoundModel(model=model) for model in models[:MAX_MODELS]),
        problems=tuple(problems),
    )
