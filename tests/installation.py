"""The services of docker-compose.yml as plain processes: the same commands and variables, without containers.

PostgreSQL and Redis are the system's own; names and ports of the containers' network become free ports of this machine.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from config.new_secrets import new_secrets
from tests.services import PostgreSQL, Redis, Server, free_port, program, stop

ROOT = Path(__file__).resolve().parent.parent
START_S = 180.0
VARIABLE = re.compile(r"\$(?:(?P<escaped>\$)|\{(?P<name>\w+)(?::(?P<kind>[-?])(?P<rest>[^}]*))?\})")


class VariableMissing(ValueError):
    """A variable that the file requires is not set."""


def load_services(variables: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The services of docker-compose.yml with `variables` put in, as Docker Compose does it."""

    def value_of(match: re.Match[str]) -> str:
        if match["escaped"]:
            return "$"
        value = variables.get(match["name"], "")
        if not value and match["kind"] == "?":
            raise VariableMissing(f"{match['name']} {match['rest']}")
        return value or (match["rest"] if match["kind"] == "-" else "")

    def filled(node: Any) -> Any:
        match node:
            case dict():
                return {key: filled(value) for key, value in node.items()}
            case list():
                return [filled(item) for item in node]
            case str():
                return VARIABLE.sub(value_of, node)
        return node

    services = filled(yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"])
    return {name: dict(service) for name, service in services.items()}


def collect_command() -> list[str]:
    """How the image collects its static files."""
    dockerfile = (ROOT / "Dockerfile").read_text()
    (line,) = [line for line in dockerfile.splitlines() if line.startswith("RUN") and "collectstatic" in line]
    return ["sh", "-c", line.removeprefix("RUN ")]


@dataclass
class Replica:
    """One process of a service, with a /tmp of its own."""

    service: str
    command: list[str]
    environment: dict[str, str]
    log: Path
    tmp: Path
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self) -> None:
        self.tmp.mkdir(exist_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self.process is None:
            return
        if number is signal.SIGKILL:
            # As with a container: all of its processes are gone, and none of them keeps the port.
            os.killpg(self.process.pid, number)
        ended = stop(self.process, 40, number)
        self.process = None
        assert ended, f"{self.service} did not end by itself:\n{self.last_lines()}"

    def last_lines(self, count: int = 20) -> str:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return "\n".join([f"--- {self.log.name}", *(line[:500] for line in lines[-count:])])

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid


class Installation:
    """All services of one installation; `variables` are what its operator writes into the file .env."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.variables = {**new_secrets(), "ALLOWED_HOSTS": "127.0.0.1", **variables}
        self.services = load_services(self.variables)
        self._folder = folder
        settings = self.services["postgres"]["environment"]
        self.postgres = PostgreSQL(
            user=settings["POSTGRES_USER"], password=settings["POSTGRES_PASSWORD"], database=settings["POSTGRES_DB"]
        )
        self.redis = Redis()
        self.replicas: dict[str, list[Replica]] = {}
        self._web_port, self._model_port = free_port(), free_port()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._web_port}"

    def up(self, *services: str) -> None:
        """Start `services` after what they depend on, and wait until they are healthy."""
        for name in services:
            self._reach_dependencies(name)
            self.start(name)
        for name in services:
            self.wait(lambda name=name: self.healthy(name), f"{name} to be healthy")

    def _reach_dependencies(self, name: str) -> None:
        for other, wanted in self.services[name].get("depends_on", {}).items():
            if other in self.replicas:
                continue
            if wanted["condition"] == "service_completed_successfully":
                self._reach_dependencies(other)
                self.run(other)
                self.replicas[other] = []
            else:
                self.up(other)

    def start(self, name: str) -> None:
        if server := self._server(name):
            self.replicas[name] = []
            if isinstance(server, PostgreSQL) and not server.created:
                server.create()
            else:
                server.start()
            return
        count = int(self.services[name].get("deploy", {}).get("replicas", 1))
        self.replicas[name] = [self._replica(name, number) for number in range(1, count + 1)]
        for replica in self.replicas[name]:
            replica.start()

    def end(self, name: str, number: signal.Signals = signal.SIGTERM) -> None:
        if server := self._server(name):
            server.stop()
        for replica in self.replicas.get(name, []):
            replica.end(number)

    def down(self) -> None:
        for name in reversed(self.replicas):
            self.end(name)
        self.postgres.remove()
        self.redis.stop()

    def run(self, name: str, *more: str, command: Sequence[str] = (), **variables: str) -> str:
        """What a one-shot process of the service prints; it gets `more` arguments, or another `command`."""
        replica = self._replica(name, 0)
        done = subprocess.run(
            [*(command or replica.command), *more],
            cwd=ROOT,
            env={**replica.environment, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=START_S,
        )
        assert done.returncode == 0, f"{name} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        return done.stdout

    def manage(self, *arguments: str, **variables: str) -> str:
        """What `docker compose run --rm web python manage.py …` prints."""
        return self.run("web", *arguments, command=[sys.executable, "manage.py"], **variables)

    def healthy(self, name: str) -> bool:
        """Whether the health check of the service passes in all its processes."""
        kind, *command = self.services[name]["healthcheck"]["test"]
        replicas = self.replicas[name] or [self._replica(name, 0)]
        for replica in replicas:
            if replica.process is not None and replica.process.poll() is not None:
                raise AssertionError(f"{name} ended with {replica.process.returncode}:\n{self.log(name)}")
            check = [self._here(part, replica.tmp) for part in command]
            check = ["sh", "-c", *check] if kind == "CMD-SHELL" else self._program(check)
            if subprocess.run(check, env=replica.environment, capture_output=True, timeout=30).returncode:
                return False
        return True

    def wait(self, ready: Callable[[], object], what: str, timeout_s: float = START_S) -> None:
        deadline = time.monotonic() + timeout_s
        while not ready():
            assert time.monotonic() < deadline, f"waited for {what} in vain\n" + "\n".join(map(self.log, self.replicas))
            time.sleep(0.1)

    def log(self, name: str) -> str:
        """The end of what the service's processes printed."""
        return "\n".join(replica.last_lines() for replica in self.replicas[name])

    def _server(self, name: str) -> Server | None:
        return {"postgres": self.postgres, "redis": self.redis}.get(name)

    def _replica(self, name: str, number: int) -> Replica:
        service, tmp = self.services[name], self._folder / f"{name}-{number}"
        command = service.get("command", [])
        words = shlex.split(command) if isinstance(command, str) else command
        of_file = self.variables if "env_file" in service else {}
        own = {key: self._here(str(value), tmp) for key, value in service.get("environment", {}).items()}
        return Replica(
            service=name,
            command=self._program([self._here(word, tmp) for word in words]),
            environment={**self._basics(), **of_file, **own},
            log=self._folder / f"{name}-{number}.log",
            tmp=tmp,
        )

    def _basics(self) -> dict[str, str]:
        """What the image gives to every process, and where programs find these servers by themselves."""
        return {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(self._folder),
            "PYTHONUNBUFFERED": "1",
            "DATA_DIR": str(self._folder / "var"),
            "PGHOST": "127.0.0.1",
            "PGPORT": str(self.postgres.port),
        }

    def _here(self, text: str, tmp: Path) -> str:
        places = {
            "postgres:5432": f"127.0.0.1:{self.postgres.port}",
            "redis:6379": f"127.0.0.1:{self.redis.port}",
            "demo-model:8766": f"127.0.0.1:{self._model_port}",
            "0.0.0.0": "127.0.0.1",
            "8000": str(self._web_port),
            "8766": str(self._model_port),
            "/tmp": str(tmp),
        }
        # Whole words only: secrets hold any digits.
        words = "|".join(map(re.escape, places))
        return re.sub(rf"(?<![\w-])({words})(?![\w-])", lambda match: places[match[0]], text)

    def _program(self, command: list[str]) -> list[str]:
        match command:
            case ["python", *rest]:
                return [sys.executable, *rest]
            case ["uvicorn" | "celery" as name, *rest]:
                return [sys.executable, "-m", name, *rest]
            case ["pg_isready", *rest]:
                return [str(program("pg_isready")), *rest]
            case ["redis-cli", *rest]:
                return ["redis-cli", "-p", str(self.redis.port), *rest]
        return command

    def collect_static(self) -> None:
        subprocess.run(collect_command(), cwd=ROOT, env=self._basics(), check=True, capture_output=True)
