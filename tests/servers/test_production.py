"""The services of docker-compose.yml run the site as they stand there: safe, healthy, and all of them needed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import psycopg
import pytest
import yaml

from config.new_secrets import new_secrets
from tests.installation import ROOT, VariableMissing, load_services
from tests.servers.conftest import PASSWORD, POOL_SIZE, Site
from tests.servers.visitor import RUNS, Visitor

SECRETS = {**new_secrets(), "ALLOWED_HOSTS": "llm.example.com"}
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())


def environment(folder: Path, **variables: str) -> dict[str, str]:
    """Of a site with a database server that nobody asks."""
    return {
        "PATH": os.environ["PATH"],
        "DATA_DIR": str(folder),
        "DATABASE_URL": "postgres://nobody@127.0.0.1:1/none",
        **{name: value for name, value in variables.items() if value},
    }


def python(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment(folder, **variables),
        capture_output=True,
        text=True,
        timeout=120,
    )


# --- before the start ---


@pytest.mark.parametrize("name", ["SECRET_KEY", "LLM_ENCRYPTION_KEYS", "POSTGRES_PASSWORD", "ALLOWED_HOSTS"])
def test_services_are_not_started_without_a_required_variable(name: str) -> None:
    with pytest.raises(VariableMissing, match=f"^{name} is not set"):
        load_services({**SECRETS, name: ""})


@pytest.mark.parametrize(
    "start",
    [
        ["manage.py", "check"],
        ["-m", "celery", "-A", "config", "worker", "--pool", "threads"],
        ["-m", "uvicorn", "config.asgi:application", "--port", "0"],
        ["-m", "uvicorn", "config.asgi:application", "--port", "0", "--workers", "2"],
    ],
)
def test_start_is_refused_without_secrets(start: list[str], tmp_path: Path) -> None:
    done = python(tmp_path, *start, SECRET_KEY=SECRETS["SECRET_KEY"])
    assert "Start refused: LLM_ENCRYPTION_KEYS is not set." in done.stderr
    assert "python -m config.new_secrets" in done.stderr
    # The supervisor of several web processes gives up, and reports that as an orderly end.
    assert done.returncode == (0 if "--workers" in start else 3)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"SECRET_KEY": ""}, "SECRET_KEY is not set"),
        ({"LLM_ENCRYPTION_KEYS": "too short"}, "LLM_ENCRYPTION_KEYS holds a value that is no encryption key"),
    ],
)
def test_refusal_says_what_is_wrong(variables: dict[str, str], said: str, tmp_path: Path) -> None:
    done = python(tmp_path, "manage.py", "check", **{**SECRETS, **variables})
    assert said in done.stderr and "Traceback" not in done.stderr
    assert "too short" not in done.stderr


def test_new_secrets_are_enough_to_start_and_differ_each_time(tmp_path: Path) -> None:
    lines = python(tmp_path, "-m", "config.new_secrets").stdout.splitlines()
    made = dict(line.split("=", 1) for line in lines)
    assert made.keys() == SECRETS.keys() - {"ALLOWED_HOSTS"} and made != SECRETS
    assert python(tmp_path, "manage.py", "check", **made).returncode == 0


def test_deployment_check_finds_nothing(tmp_path: Path) -> None:
    done = python(tmp_path, "manage.py", "check", "--deploy", "--fail-level", "WARNING", **SECRETS)
    assert done.returncode == 0, done.stderr


# --- what the file says about containers, which nothing here can start ---


def test_every_service_has_a_health_check_or_ends_by_itself() -> None:
    for name, service in COMPOSE["services"].items():
        assert "healthcheck" in service or service["restart"] == "no", name


def test_site_runs_without_rights_in_its_containers() -> None:
    for name in ("web", "worker", "migrate"):
        service = COMPOSE["services"][name]
        assert service["read_only"] and service["cap_drop"] == ["ALL"]
    assert re.search(r"^USER site$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)


def test_the_web_server_has_a_bound_of_its_own_for_its_connections() -> None:
    services = load_services({**SECRETS, "DATABASE_POOL_SIZE": "7"})
    sizes = {name: service.get("environment", {}).get("DATABASE_POOL_SIZE") for name, service in services.items()}
    assert sizes == {**sizes, "web": "7", "worker": "100", "migrate": None}


def test_workers_take_the_connections_of_the_runs_before(site: Site, admin: Visitor) -> None:
    with psycopg.connect(site.installation.postgres.url, autocommit=True) as watching:

        def number(query: str, *parameters: object) -> int:
            ((found,),) = watching.execute(query, parameters).fetchall()
            return int(found)

        def opened_during(count: int) -> int:
            opened = "SELECT sessions FROM pg_stat_database WHERE datname = current_database()"
            ended = "SELECT count(*) FROM playground_run WHERE id = ANY(%s) AND status = 'completed'"
            before = number(opened)
            runs = [admin.start_run("quick") for _ in range(count)]
            site.installation.wait(lambda: number(ended, runs) == count, "the runs to end", 60)
            return number(opened) - before

        # Any thread of either worker may take one.
        opened_during(8)
        # Celery ends the connection of each task: without a pool these were eight, and more for their tools.
        assert opened_during(8) <= 4


def test_nothing_secret_is_written_into_the_image_or_the_services() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert {".*", "var/"} <= set(ignored)
    for service in COMPOSE["services"].values():
        for name, value in service.get("environment", {}).items():
            assert not re.search("SECRET|KEY|PASSWORD", name) or re.fullmatch(r"\$\{\w+:\?[^}]+}", value), name


# --- the running site ---


def test_all_health_checks_pass(site: Site) -> None:
    names = ("postgres", "redis", "web", "worker")
    assert all(site.installation.healthy(name) for name in names)
    assert len(site.installation.replicas["worker"]) == 2


def test_health_is_told_to_anyone_and_nothing_else(site: Site) -> None:
    # As a load balancer asks: by address, in clear, without a login.
    response = httpx.get(f"{site.installation.url}/healthz", headers={"Host": "10.0.0.7"}, timeout=60)
    assert (response.status_code, response.text) == (200, "ok\n")
    assert "Set-Cookie" not in response.headers


def test_run_is_started_and_seen_to_complete(site: Site, admin: Visitor) -> None:  # D1
    run = admin.start_run("quick", "Which policies are there?")
    site.wait_for_status(run, "completed")
    exported = admin.exported(run)
    assert exported["run"]["answer"] == "Good day."
    assert [step["kind"] for step in exported["steps"]] == [
        "request", "context", "response", "tool_call", "tool_result", "request", "context", "response",
    ]  # fmt: skip
    workers = {replica.pid for replica in site.installation.replicas["worker"]}
    assert int(site.run(run)["worker"].rpartition(":")[2]) in workers
    page = admin.get(f"{RUNS}runs/{run}/")
    assert page.status_code == 200 and "Good day." in page.text


def test_several_workers_share_the_runs(site: Site, admin: Visitor) -> None:
    runs = [admin.start_run("slow") for _ in range(6)]
    for run in runs:
        site.wait_for_status(run, "completed")
    assert len({site.run(run)["worker"] for run in runs}) == 2
    assert {site.run(run)["attempt"] for run in runs} == {1}


@pytest.fixture
def one_at_a_time(site: Site) -> Iterator[None]:
    """The model's provider takes one call at a time."""
    site.rows("UPDATE llmcore_provider SET max_calls_in_flight = 1 RETURNING id")
    yield
    site.rows("UPDATE llmcore_provider SET max_calls_in_flight = NULL RETURNING id")


@pytest.mark.usefixtures("one_at_a_time")
def test_workers_share_a_limit_of_calls(site: Site, admin: Visitor) -> None:  # S1, S4
    def positions() -> list[int]:
        found = site.rows("SELECT waiting FROM playground_runpartial WHERE waiting IS NOT NULL")
        return sorted(place["position"] for (place,) in found)

    first = admin.start_run("endless")
    site.installation.wait(lambda: site.streaming(first), "the answer to be streamed", 60)
    others = [admin.start_run("quick") for _ in range(2)]
    site.installation.wait(lambda: positions() == [1, 2], "the other calls to wait", 60)
    page = admin.get(f"{RUNS}calls/").text
    assert "waits, 1st of 2" in page and "waits, 2nd of 2" in page
    assert admin.post(f"{RUNS}runs/{first}/cancel/", {}).status_code == 302
    site.wait_for_status(first, "cancelled")
    for run in others:
        site.wait_for_status(run, "completed")
    assert all("permit" in site.kinds(run) for run in others)


def test_static_files_have_names_that_browsers_keep_for_good(site: Site, admin: Visitor) -> None:
    page = admin.get(RUNS).text
    paths = re.findall(r'(?:src|href)="(/static/[^"]+)"', page)
    assert len(paths) > 5
    for path in paths:
        assert re.search(r"\.[0-9a-f]{12}\.\w+$", path), path
        response = admin.get(path, **{"Accept-Encoding": "gzip"})
        assert response.status_code == 200
        assert response.headers["Cache-Control"] == "max-age=315360000, public, immutable"
    (style,) = [path for path in paths if "playground.css" in path or "/playground.0" in path][:1] or [paths[0]]
    assert admin.get(style, **{"Accept-Encoding": "gzip"}).headers["Content-Encoding"] == "gzip"


def test_requests_in_clear_are_sent_to_https(site: Site) -> None:
    response = httpx.get(f"{site.installation.url}/admin/login/", timeout=60)
    assert response.status_code == 301 and response.headers["Location"].startswith("https://127.0.0.1")


def test_pages_are_guarded_by_headers_and_cookies(site: Site, admin: Visitor) -> None:
    headers = admin.get(RUNS).headers
    assert headers["Strict-Transport-Security"] == "max-age=31536000; includeSubDomains"
    assert headers["Referrer-Policy"] == "same-origin"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    # `Visitor` refuses every cookie that isn't for HTTPS only.
    assert {"csrftoken", "sessionid"} <= admin.cookies.keys()


def test_other_hosts_are_refused(site: Site, admin: Visitor) -> None:
    assert admin.get("/admin/login/", Host="evil.example.com").status_code == 400


def test_logins_are_throttled_in_all_processes(site: Site) -> None:
    with site.visitor() as visitor:
        answers = [visitor.log_in("mallory", f"guess {number}") for number in range(8)]
        assert [answer.status_code for answer in answers] == [200] * 4 + [429] * 4
        assert "Too many failed logins for “mallory”" in answers[-1].text
        assert "try again in 15 minutes" in answers[-1].text
        # Others aren't locked out by it.
        assert visitor.log_in("admin", PASSWORD).status_code == 302


def test_log_is_lines_of_json_without_secrets(site: Site) -> None:
    for name in ("web", "worker"):
        for replica in site.installation.replicas[name]:
            lines = replica.log.read_text().splitlines()
            entries = [json.loads(line) for line in lines if line.startswith("{")]
            assert entries and {"time", "level", "logger", "message", "process"} <= entries[0].keys()
            assert not any("/healthz" in line for line in lines), "requests are in the proxy's log"
            assert not any(secret in line for line in lines for secret in new_secrets_of(site))


def new_secrets_of(site: Site) -> list[str]:
    return [site.installation.variables[name] for name in new_secrets()]


def test_live_pages_hold_no_connection_while_they_wait(site: Site, admin: Visitor) -> None:
    run = admin.start_run("slower")
    site.installation.wait(lambda: site.streaming(run), "the answer to be streamed", 60)
    sessions = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
    ((before,),) = site.rows(sessions)
    with ExitStack() as stack:
        # More than all web processes have connections.
        visitors = [stack.enter_context(Visitor(site.installation.url)) for _ in range(4 * POOL_SIZE)]
        streams = []
        for visitor in visitors:
            visitor.cookies = admin.cookies
            streams.append(stack.enter_context(visitor.events(run)))
        for events in streams:
            assert next(events)[0] == "step"
        for _ in range(10):
            assert admin.get(RUNS).status_code == 200
        ((count,),) = site.rows(sessions)
        assert count <= before + 2 * POOL_SIZE
        assert {[name for name, _ in events][-1] for events in streams} == {"end"}
