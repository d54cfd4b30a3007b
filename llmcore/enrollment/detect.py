"""Looks around once and enters what is new. Doing it again is harmless."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from llmcore.conf import settings
from llmcore.detection.servers import Elsewhere, Look, find_servers, ollama_place, usual_places
from llmcore.detection.services import find_services
from llmcore.enrollment.enroll import Enrolled, enroll_once
from llmcore.providers.local_servers import LocalServer
from llmcore.providers.registry import adapters


@dataclass(frozen=True, kw_only=True, slots=True)
class Detection:
    """The result of a look around. `looks` are all the places where a server could have been."""

    looks: tuple[Look, ...]
    enrolled: tuple[Enrolled, ...]
    problems: tuple[str, ...] = ()


def detect(*, timeout_s: float, places: Sequence[LocalServer] | None = None) -> Detection:
    """Look at the usual places (or `places`) on this machine and for keys in the environment, and enter what is new."""
    problems: list[str] = []
    if places is None:
        places = usual_places(ollama_or_problem(problems))
    looks = asyncio.run(find_servers(places, timeout_s=timeout_s))
    servers = [look.provider for look in looks if look.provider is not None]
    services = find_services(settings.LLM_ENVIRONMENT_SECRET, adapters())
    enrolled = [enroll_once(found) for found in chain(servers, services)]
    return Detection(looks=tuple(looks), enrolled=tuple(enrolled), problems=tuple(problems))


def ollama_or_problem(problems: list[str]) -> LocalServer | None:
    try:
        return ollama_place(settings.LLM_OLLAMA_HOST)
    except Elsewhere as error:
        problems.append(str(error))
        return None
