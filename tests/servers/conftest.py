"""One installation in production, as docker-compose.yml describes it, and what its tests do with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from llmcore.providers.scripted.app import ScriptedModel
from llmcore.providers.scripted.scenario import Scenario, Turn
from llmcore.providers.scripted.server import serve
from tests.installation import Installation
from tests.playground.driven import call
from tests.servers.visitor import Visitor

PASSWORD = "correct horse battery"
# A restart of the database on a busy machine has to fit in.
LEASE_S = 5.0
POOL_SIZE = 3
SENTENCE = "word " * 60
LOOK_UP = Turn(tool_calls=(call("list_policies"),))
SCENARIOS = [
    # 300 characters in five or in fifteen seconds: what is done meanwhile takes its time on a busy machine.
    Scenario(name="slow", turns=(LOOK_UP, Turn(text=SENTENCE, chunk_chars=5, chunk_delay_s=0.08))),
    Scenario(name="slower", turns=(LOOK_UP, Turn(text=SENTENCE, chunk_chars=5, chunk_delay_s=0.25))),
    # Until somebody cancels it.
    Scenario(name="endless", turns=(LOOK_UP, Turn(text=SENTENCE * 20, chunk_chars=5, chunk_delay_s=0.25))),
    Scenario(name="quick", turns=(LOOK_UP, Turn(text="Good day."))),
    Scenario(
        name="asks", turns=(Turn(tool_calls=(call("terminal", command="echo run >> ran.txt"),)), Turn(text="Done."))
    ),
]
CONFIGURE = """
from llmcore.models import Configuration, LanguageModel, Provider
provider = Provider.objects.create(
    slug="scripted", name="Scripted", adapter="openai_compat", base_url={url!r}, allow_private_hosts=True
)
for name in ("slow", "slower", "endless", "quick"):
    model = LanguageModel.objects.create(provider=provider, name=name)
    Configuration.objects.create(slug=name, name=name, model=model, tool_groups=["policies"])
model = LanguageModel.objects.create(provider=provider, name="asks")
Configuration.objects.create(slug="asks", name="asks", model=model, tool_groups=["workspace"], workspace="shop")
"""


@dataclass
class Site:
    """The running installation, its model, the files of its workspace, and its database as seen from outside."""

    installation: Installation
    model: ScriptedModel
    files: Path

    def rows(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.installation.postgres.url, autocommit=True) as connection:
            return connection.execute(query, parameters).fetchall()

    def run(self, pk: int) -> dict[str, Any]:
        names = ("status", "reason", "attempt", "answer", "worker", "detail")
        ((*values,),) = self.rows(f"SELECT {', '.join(names)} FROM playground_run WHERE id = %s", pk)
        return dict(zip(names, values, strict=True))

    def kinds(self, pk: int) -> list[str]:
        return [k for (k,) in self.rows("SELECT kind FROM playground_runstep WHERE run_id = %s ORDER BY sequence", pk)]

    def streaming(self, pk: int) -> bool:
        return bool(self.rows("SELECT 1 FROM playground_runpartial WHERE run_id = %s AND text <> ''", pk))

    def wait_for_status(self, pk: int, *statuses: str) -> None:
        self.installation.wait(lambda: self.run(pk)["status"] in statuses, f"run {pk} to be {statuses}", 60)

    def visitor(self) -> Visitor:
        return Visitor(self.installation.url)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    model = ScriptedModel(SCENARIOS)
    folder = tmp_path_factory.mktemp("installation")
    # Small, so that tests notice who holds more than needed.
    files = folder / "files"
    files.mkdir()
    installation = Installation(
        folder,
        LLM_LEASE_S=str(LEASE_S),
        DATABASE_POOL_SIZE=str(POOL_SIZE),
        LLM_WORKSPACES=json.dumps({"shop": {"root": str(files), "terminal": True}}),
    )
    with serve(model) as url:
        try:
            installation.collect_static()
            installation.up("web", "worker")
            installation.manage(
                "createsuperuser", "--noinput", "--username", "admin", "--email", "admin@example.com",
                DJANGO_SUPERUSER_PASSWORD=PASSWORD,
            )  # fmt: skip
            installation.manage("shell", "--no-imports", "-c", CONFIGURE.format(url=url))
            yield Site(installation, model, files)
        finally:
            installation.down()


@pytest.fixture
def admin(site: Site) -> Iterator[Visitor]:
    with site.visitor() as visitor:
        assert visitor.log_in("admin", PASSWORD).status_code == 302
        yield visitor
