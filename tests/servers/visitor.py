"""Somebody's browser behind the proxy that ends TLS for an installation: only what HTTP needs of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookies import SimpleCookie
from typing import Any

import httpx

RUNS = "/admin/playground/"


class Visitor:
    """Sends and keeps cookies by itself: they are for HTTPS only, and the proxy's side here is plain HTTP."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=60)
        self._referer = url.replace("http://", "https://") + "/"
        self.cookies: dict[str, str] = {}

    def __enter__(self) -> Visitor:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self._keep(self._http.get(path, headers=self._headers(headers)))

    def post(self, path: str, data: dict[str, Any], **headers: str) -> httpx.Response:
        form = {"csrfmiddlewaretoken": self.cookies.get("csrftoken", ""), **data}
        return self._keep(self._http.post(path, data=form, headers=self._headers(headers)))

    def log_in(self, username: str, password: str) -> httpx.Response:
        self.get("/admin/login/")
        return self.post("/admin/login/", {"username": username, "password": password, "next": RUNS})

    def start_run(self, configuration: str, prompt: str = "Hello?") -> int:
        """The number of a run that was started with the form."""
        self.get(f"{RUNS}new/")
        form = {"configuration": configuration, "tools_of": "", "prompt": prompt, "override": "none"}
        response = self.post(f"{RUNS}new/", form)
        assert response.status_code == 302, response.text
        return int(re.findall(r"/runs/(\d+)/", response.headers["Location"])[0])

    def exported(self, run: int) -> dict[str, Any]:
        response = self.get(f"{RUNS}runs/{run}/export/")
        assert response.status_code == 200, response.text
        return dict(response.json())

    @contextmanager
    def events(self, run: int, after: int = 0) -> Iterator[Iterator[tuple[str, dict[str, Any]]]]:
        """The live events of a run, by name and data, until the stream ends."""
        headers = self._headers({"Accept": "text/event-stream"})
        path = f"{RUNS}runs/{run}/events/?after={after}"
        with self._http.stream("GET", path, headers=headers) as response:
            assert response.status_code == 200
            yield _events(response)

    def _headers(self, more: dict[str, str]) -> dict[str, str]:
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        proxy = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "203.0.113.7"}
        return {"Cookie": cookies, "Referer": self._referer, **proxy, **more}

    def _keep(self, response: httpx.Response) -> httpx.Response:
        for header in response.headers.get_list("Set-Cookie"):
            for morsel in SimpleCookie(header).values():
                assert morsel["secure"], header
                self.cookies[morsel.key] = morsel.value
        return response


def _events(response: httpx.Response) -> Iterator[tuple[str, dict[str, Any]]]:
    name = ""
    for line in response.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))
