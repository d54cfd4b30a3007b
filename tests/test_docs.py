"""What the documents say is checked against the code: samples run, and everything that they name exists."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name

import pytest
from django.apps import apps
from django.core.management import get_commands, load_command_class

from llmcore.runs.outcome import EXIT_CODE_OF

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
CODE_SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
APPS = ("llmcore", "playground", "demo", "config")
FOLDERS = (*APPS, "docs", "tests", "templates", "static", "bench", ".ci")
# What is made by running the product.
MADE = (".venv/", "var/")


def named(document: Path) -> str:
    return str(document.relative_to(ROOT))


def fences(document: Path, *languages: str) -> list[str]:
    return [found["text"] for found in FENCE.finditer(document.read_text()) if found["language"] in languages]


def prose(document: Path) -> str:
    return FENCE.sub("", document.read_text())


def spans(document: Path) -> list[str]:
    return CODE_SPAN.findall(prose(document))


def code_lines(document: Path) -> Iterator[str]:
    """Everything that is meant to be typed."""
    yield from spans(document)
    for text in fences(document, "", "sh"):
        yield from text.replace("\\\n", " ").splitlines()


def table_keys(document: Path, heading: str) -> list[str]:
    """The code spans in the first column of the first table under `heading`."""
    _, _, below = document.read_text().partition(f"\n## {heading}\n")
    rows = re.search(r"(?:^\|.*\n)+", below, re.MULTILINE)
    assert rows, f"no table under {heading!r}"
    return [key for row in rows[0].splitlines()[2:] for key in CODE_SPAN.findall(row.split("|")[1])]


every_document = pytest.mark.parametrize("document", DOCUMENTS, ids=named)


# Its samples are pieces of one project, which is made and run in tests/adopted/.
WITH_SAMPLES = [d for d in DOCUMENTS if fences(d, "python") and d.name != "adopting.md"]


@pytest.mark.parametrize("document", WITH_SAMPLES, ids=named)
def test_python_samples_run(document: Path, tmp_path: Path) -> None:
    """A sample begins with the name of its file; those of one name belong together. Files of tests are run."""
    files: dict[Path, str] = {}
    for sample in fences(document, "markdown"):
        first, _, text = sample.partition("\n")
        if name := re.fullmatch(r"<!-- ([\w/]+\.md) -->", first):
            (tmp_path / name[1]).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name[1]).write_text(text)
    for sample in fences(document, "python"):
        first, _, rest = sample.partition("\n")
        name = re.fullmatch(r"# ([\w/]+\.py)", first)
        assert name, f"a sample that doesn't name its file: {first}"
        path = tmp_path / name[1]
        files[path] = f"{files[path]}\n\n{rest}" if path in files else rest
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for folder in path.relative_to(tmp_path).parents[:-1]:
            (tmp_path / folder / "__init__.py").touch()
    environment = {
        **os.environ,
        "DATA_DIR": str(tmp_path / "data"),
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)]),
    }
    environment.pop("DATABASE_URL", None)
    options = [
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--rootdir",
        str(tmp_path),
        "-c",
        str(ROOT / "pyproject.toml"),
    ]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options, *map(str, files)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    # 5: all samples could be imported, and none of them is a test.
    assert result.returncode in (0, 5), result.stdout + result.stderr


@every_document
def test_links_lead_somewhere(document: Path) -> None:
    wrong = []
    for target in LINK.findall(prose(document)):
        address, _, anchor = target.partition("#")
        if re.match(r"\w+:", address):
            continue
        path = (document.parent / address).resolve() if address else document
        if not path.exists() or (anchor and anchor not in anchors(path)):
            wrong.append(target)
    assert not wrong


def anchors(document: Path) -> set[str]:
    """The headings as GitHub addresses them."""
    headings = re.findall(r"^#+ (.+)$", prose(document), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@every_document
def test_named_paths_exist(document: Path) -> None:
    wrong = []
    for span in spans(document):
        path = span.rstrip("/")
        is_path = re.fullmatch(r"[\w.*/-]+", span) and (span.endswith("/") or re.search(r"\.\w+$", span) or "/" in span)
        if is_path and span.split("/")[0] in FOLDERS and "/" in span and not list(ROOT.glob(path)):
            wrong.append(span)
    assert not wrong


@every_document
def test_named_python_objects_exist(document: Path) -> None:
    permissions = {
        f"{model._meta.app_label}.{codename}"
        for model in apps.get_models()
        for codename in (
            *(f"{action}_{model._meta.model_name}" for action in model._meta.default_permissions),
            *(codename for codename, _ in model._meta.permissions),
        )
    }
    wrong = []
    for span in spans(document):
        if not re.fullmatch(rf"(?:{'|'.join(APPS)})(?:\.\w+)+", span) or span in permissions:
            continue
        try:
            resolve_name(span)
        except (ImportError, AttributeError):
            wrong.append(span)
    assert not wrong


@every_document
def test_named_commands_take_the_named_options(document: Path) -> None:
    commands = get_commands()
    wrong = []
    for line in code_lines(document):
        for name, rest in re.findall(r"manage\.py (\w+)([^|;&]*)", line):
            if name not in commands:
                wrong.append(f"manage.py {name}")
                continue
            app = commands[name]
            command = load_command_class(app, name) if isinstance(app, str) else app
            known = command.create_parser("manage.py", name)._option_string_actions
            wrong += [f"{name} {option}" for option in re.findall(r"(?<=\s)--[\w-]+", rest) if option not in known]
    assert not wrong


@every_document
def test_named_make_targets_exist(document: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    used = {target for line in code_lines(document) for target in re.findall(r"^\s*make ([a-z][\w-]*)", line)}
    assert used <= targets


def test_every_environment_variable_is_described() -> None:
    read = re.findall(r"\benv\.\w+\(\"(\w+)\"", (ROOT / "config" / "env.py").read_text())
    assert sorted(table_keys(ROOT / "docs" / "operations.md", "Environment variables")) == sorted(read)


def test_every_variable_of_the_containers_is_described() -> None:
    compose = (ROOT / "docker-compose.yml").read_text()
    document = (ROOT / "docs" / "operations.md").read_text()
    _, _, section = document.partition("\n### In containers\n")
    assert set(re.findall(r"\$\{(\w+)", compose)) == set(re.findall(r"`([A-Z_]{4,})`", section.partition("\n## ")[0]))


def test_every_exit_code_is_described() -> None:
    document = (ROOT / "docs" / "operations.md").read_text()
    rows = re.findall(r"^\| (\d+) \| (`.+?`) \|", document, re.MULTILINE)
    described = {reason: int(code) for code, reasons in rows for reason in CODE_SPAN.findall(reasons)}
    assert described == {reason.value: code for reason, code in EXIT_CODE_OF.items()}
