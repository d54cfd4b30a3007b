"""Who may import whom, read from the code's own import statements."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
APPS = ("llmcore", "playground", "demo", "config")

# The parts of llmcore that are Django; all the rest is plain Python.
DJANGO_PARTS = (
    "llmcore.models",
    "llmcore.migrations",
    "llmcore.management",
    "llmcore.admin",
    "llmcore.apps",
    "llmcore.budgets.database",
    "llmcore.forms",
    "llmcore.conf",
    "llmcore.mcp_commands",
    "llmcore.mcp_servers",
    "llmcore.database_access",
    "llmcore.diagnostics",
    "llmcore.llm_tools",
    "llmcore.recent_records",
    "llmcore.site_budgets",
    "llmcore.site_calls",
    "llmcore.site_hooks",
    "llmcore.site_permits",
    "llmcore.site_turns",
    "llmcore.site_usage",
    "llmcore.workspaces",
    "llmcore.enrollment",
    "llmcore.keys",
    "llmcore.permits.database",
    "llmcore.simulation",
    "llmcore.site_completions",
    "llmcore.store",
    "llmcore.templatetags",
    "llmcore.versions",
)
# referencing is jsonschema's own part.
PLAIN_LIBRARIES = {"httpx", "httpcore", "anyio", "jsonschema", "referencing", "regex", "llmcore"}

# From the top down: a part may import those of later rows only, and of its own.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("llmcore.lint", "llmcore.structured.completion", "llmcore.turns"),
    ("llmcore.findings",),
    ("llmcore.runs.loop",),
    ("llmcore.runs",),
    ("llmcore.actions",),
    (
        *("llmcore.prompts", "llmcore.context", "llmcore.tools", "llmcore.metering", "llmcore.detection"),
        "llmcore.structured",
    ),
    ("llmcore.providers",),
    ("llmcore.configuration", "llmcore.trace", "llmcore.redaction", "llmcore.permits", "llmcore.budgets"),
    ("llmcore.messages",),
    ("llmcore.usage",),
    ("llmcore.errors",),
)
SDK_USERS = frozenset({"llmcore.tools.mcp.client", "llmcore.tools.mcp.checked_http", "llmcore.tools.mcp.program"})
FORBIDDEN_NAMES = {"utils", "helpers", "common", "misc", "manager", "managers", "handler", "handlers", "processor"}


@dataclass(frozen=True)
class Import:
    module: str
    imported: str
    line: int
    nested: bool

    def __str__(self) -> str:
        return f"{self.module}:{self.line} imports {self.imported}"


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules() -> dict[str, ast.Module]:
    return {module_name(p): ast.parse(p.read_text()) for app in APPS for p in sorted((ROOT / app).rglob("*.py"))}


def type_checking_lines(tree: ast.Module) -> set[int]:
    """Lines under `if TYPE_CHECKING:`, which import nothing when the program runs."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def imports_of(name: str, tree: ast.Module) -> Iterator[Import]:
    skipped = type_checking_lines(tree)
    top = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            found = [full if full in MODULES else node.module for full in inner]
        else:
            continue
        if node.lineno not in skipped:
            yield from (Import(name, item, node.lineno, id(node) not in top) for item in dict.fromkeys(found))


MODULES = modules()
IMPORTS = [found for name, tree in MODULES.items() for found in imports_of(name, tree)]


def within(module: str, parts: tuple[str, ...]) -> bool:
    return any(module == part or module.startswith(part + ".") for part in parts)


def is_plain(module: str) -> bool:
    return within(module, ("llmcore",)) and not within(module, DJANGO_PARTS)


def test_the_plain_part_of_the_runtime_knows_no_framework() -> None:
    wrong = [
        found
        for found in IMPORTS
        if is_plain(found.module)
        and (root := found.imported.split(".")[0]) not in PLAIN_LIBRARIES
        and root not in sys.stdlib_module_names
    ]
    # The scripted model server is a double; it brings up its HTTP server only when it is asked to serve.
    server = "llmcore.providers.scripted.server"
    wrong = [found for found in wrong if not (found.module == server and found.nested)]
    # Of the two stores of permits one is Redis.
    store = "llmcore.permits.redis"
    wrong = [found for found in wrong if not (found.module == store and within(found.imported, ("redis",)))]
    # The SDK of MCP servers is imported by what only a call or a listing imports.
    sdk = ("mcp", "mcp_types", "httpx2", "pydantic")
    wrong = [found for found in wrong if not (found.module in SDK_USERS and within(found.imported, sdk))]
    assert not wrong, "\n".join(map(str, wrong))


def test_the_sdk_of_mcp_servers_is_imported_by_a_first_call_only() -> None:
    importers = {found.module for found in IMPORTS if found.imported in SDK_USERS}
    assert importers <= SDK_USERS


def test_the_plain_part_of_the_runtime_imports_none_of_its_django_parts() -> None:
    wrong = [found for found in IMPORTS if is_plain(found.module) and within(found.imported, DJANGO_PARTS)]
    assert not wrong, "\n".join(map(str, wrong))


def layer_of(module: str) -> int | None:
    matches = [(len(part), row) for row, parts in enumerate(LAYERS) for part in parts if within(module, (part,))]
    return max(matches)[1] if matches else None


def test_imports_inside_the_runtime_point_down() -> None:
    wrong = []
    for found in IMPORTS:
        above, below = layer_of(found.module), layer_of(found.imported)
        if is_plain(found.module) and above is not None and below is not None and below < above:
            wrong.append(str(found))
    assert not wrong, "\n".join(wrong)


def test_every_plain_module_has_a_layer() -> None:
    unplaced = [name for name in MODULES if is_plain(name) and name != "llmcore" and layer_of(name) is None]
    assert not unplaced


def test_there_are_no_import_cycles() -> None:
    graph: dict[str, set[str]] = {name: set() for name in MODULES}
    for found in IMPORTS:
        if not found.nested and found.imported in MODULES and found.imported != found.module:
            graph[found.module].add(found.imported)
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join((*path[path.index(name) :], name))
        if name not in done:
            for target in sorted(graph[name]):
                visit(target, (*path, name))
            done.add(name)

    for name in graph:
        visit(name, ())


def test_only_the_metered_client_imports_the_transport() -> None:
    importers = {found.module for found in IMPORTS if found.imported == "llmcore.providers.transport"}
    assert importers == {"llmcore.metering.client", "llmcore.metering.attempt"}
    # Whoever could make an attempt could make it unmetered.
    makers = {found.module for found in IMPORTS if found.imported == "llmcore.metering.attempt"}
    assert makers == {"llmcore.metering.client"}


def test_only_one_module_reads_the_environment() -> None:
    readers = {
        name
        for name, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("os.environ", "os.getenv")
    }
    # manage.py, the server entry points and Celery name the settings module, as Django's own templates do.
    allowed = {"config.env", "config.asgi", "config.wsgi", "config.celery"}
    # A program of its own, which is handed what its command may know as its environment.
    allowed |= {"llmcore.tools.workspace.supervisor"}
    assert readers <= allowed, readers - allowed


def test_views_know_services_and_forms_but_no_providers() -> None:
    wrong = [
        found
        for found in IMPORTS
        if within(found.module, ("playground.views",))
        and within(found.imported, ("httpx", "llmcore.providers", "llmcore.metering", "llmcore.store"))
    ]
    assert not wrong, "\n".join(map(str, wrong))


def test_services_never_see_a_request() -> None:
    wrong = [
        found
        for found in IMPORTS
        if within(found.module, ("playground.services",)) and within(found.imported, ("django.http",))
    ]
    assert not wrong, "\n".join(map(str, wrong))


def test_the_runtime_does_not_know_the_pages_or_the_demo() -> None:
    wrong = [
        f for f in IMPORTS if within(f.module, ("llmcore",)) and within(f.imported, ("playground", "demo", "config"))
    ]
    wrong += [f for f in IMPORTS if within(f.module, ("playground",)) and within(f.imported, ("demo", "config"))]
    # The embedded process tree is the one place of the pages that brings the demo site up.
    wrong = [f for f in wrong if f.module != "playground.management.commands.embedded"]
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("name", sorted(MODULES))
def test_modules_are_named_for_what_they_hold(name: str) -> None:
    assert not FORBIDDEN_NAMES & set(name.split("."))


@pytest.mark.parametrize(
    "name", sorted(n for n in MODULES if ".migrations" not in n and n.split(".")[-1] not in ("management", "commands"))
)
def test_modules_say_what_belongs_in_them(name: str) -> None:
    tree = MODULES[name]
    assert not tree.body or ast.get_docstring(tree), f"{name} has no docstring"


def test_no_module_reads_settings_while_it_is_imported() -> None:
    wrong = []
    for name, tree in MODULES.items():
        if name.startswith("config") or ".migrations" in name:
            continue
        for node in tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.Expr):
                wrong += [
                    f"{name}:{n.lineno}"
                    for n in ast.walk(node)
                    if isinstance(n, ast.Attribute) and ast.unparse(n).startswith("settings.")
                ]
    assert not wrong, wrong
