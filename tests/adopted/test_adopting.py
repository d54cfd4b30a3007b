"""What docs/adopting.md says is done in a fresh project, to the letter, up to a run that is read on its page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from llmcore.conf import CONTENT_SECURITY_POLICY, DEFAULTS
from llmcore.providers.scripted import Scenario, ScriptedModel, Turn, serve
from tests.adopted.existing_site import ExistingSite, environment_of
from tests.adopted.page import PAGE, samples
from tests.playground.driven import wait_for
from tests.services import free_port, stop

pytestmark = pytest.mark.embedded

ROOT = Path(__file__).resolve().parent.parent.parent
START_S = 120.0
MODEL = Scenario(
    name="support-model",
    turns=(
        Turn(tool_calls=({"name": "find_order", "arguments": {"number": "A-1001"}},)),
        Turn(text="Your order was shipped on Monday."),
    ),
)
KEYS_OF_USERS = """
from accounts.models import User
from django.utils import timezone
from llmcore.models import ActionRule
from llmcore.store import load_policy
from playground.approvals import audit
from llmcore.actions.proposals import DecisionKind
from playground.models import DecisionRecord

user = User.objects.get()
ActionRule.objects.create(name="Not for Maren", ruling="deny", user=user)
policy = load_policy(user)
assert policy.rules[0].user_id == policy.actor.user_id == user.pk, policy
audit(DecisionKind.DENY, by=user, at=timezone.now(), call_id="1", tool="refund", turn_digest="", key="")
assert DecisionRecord.objects.get().user_id == str(user.pk)
"""
# What everybody has in another place than the page.
MODEL_URL, PORT = "http://127.0.0.1:8080/v1", "8000"


def adopt(site: ExistingSite, model_url: str, port: int) -> list[str]:
    """Do what the page says in its order; returns the commands of the programs that are to go on."""
    for sample in samples():
        if sample.file.endswith("/settings.py"):
            site.append(sample.file, sample.text)
        elif sample.file:
            (site.folder / sample.file).write_text(sample.text.replace(MODEL_URL, model_url))
        elif "uvicorn" in sample.text:
            return [command.replace(PORT, str(port)) for command in sample.commands]
        else:
            for command in sample.commands:
                site.run(command)
    raise AssertionError("the page doesn't say how to start")


@contextmanager
def started(site: ExistingSite, commands: list[str], url: str) -> Iterator[None]:
    processes = [site.start(command) for command in commands]
    try:
        wait_for(lambda: answers(url) or any(p.poll() is not None for p in processes), "the login page", START_S)
        yield
    finally:
        for process in processes:
            stop(process)


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/admin/login/").status_code == 200
    except httpx.TransportError:
        return False


class Browser:
    """Somebody who is logged in."""

    def __init__(self, http: httpx.Client, username: str) -> None:
        self.http = http
        self.http.get("/admin/login/")
        answer = self.post("/admin/login/", username=username, password="correct horse", next="/admin/playground/")
        assert answer.status_code == 200 and str(answer.url).endswith("/admin/playground/"), answer.text

    def post(self, path: str, **form: str) -> httpx.Response:
        token = self.http.cookies["csrftoken"]
        return self.http.post(path, data={"csrfmiddlewaretoken": token, **form}, follow_redirects=True)


def test_an_existing_site_runs_its_own_tool(tmp_path: Path, redis_url: str) -> None:
    (tmp_path / "llm-playground").symlink_to(ROOT)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    site = ExistingSite(tmp_path / "project", environment_of(tmp_path / "packages", REDIS_URL=redis_url))
    site.create()
    model = ScriptedModel([MODEL])
    with serve(model) as model_url:
        commands = adopt(site, model_url, port)
        assert "no issues" in site.run("python manage.py check")
        assert "No changes" in site.run("python manage.py makemigrations --check --dry-run")
        for file in ("llmcore/admin.css", "playground/playground.css", "django_htmx/htmx-2.min.js"):
            assert f"Found '{file}' here" in site.run(f"python manage.py findstatic --first {file}")
        site.run(
            "python manage.py shell",
            "from accounts.models import User\nfrom django.contrib.auth.models import Group\n"
            "User.objects.get().groups.add(Group.objects.get(name='LLM playground'))\n",
        )
        with started(site, commands, url), httpx.Client(base_url=url, timeout=30) as http:
            browser = Browser(http, "maren@example.com")
            form = http.get("/admin/playground/new/")
            assert 'value="find_order"' in form.text and "The shop's office" in form.text.replace("&#x27;", "'")
            assert form.headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
            chosen = {"configuration": "support", "tools_of": "support", "tools": "find_order"}
            refused = browser.post("/admin/playground/new/", **chosen, override="append", system_override="Be brief.")
            assert "Enter a user prompt." in refused.text and "Be brief.</textarea>" in refused.text
            run = browser.post("/admin/playground/new/", **chosen, override="none", prompt="Where is A-1001?")
            page = str(run.url)
            assert re.search(r"/admin/playground/runs/\d+/$", page), run.text
            wait_for(lambda: "pg-pill--done" in http.get(page).text, "the run to end", 60)
            shown = http.get(page).text
            assert "Your order was shipped on Monday." in shown and "find_order" in shown
            assert "event: end" in http.get(f"{page}events/").text
            assert "support-model" in http.get("/admin/playground/export/").text
    results = [message for message in model.requests[-1].json["messages"] if message["role"] == "tool"]
    assert len(results) == 1 and "shipped on Monday" in results[0]["content"]
    site.run("python manage.py shell", KEYS_OF_USERS)
    assert "Traceback" not in site.logs()


def test_the_page_has_each_setting_with_its_default() -> None:
    rows = re.findall(r"^\| `(LLM_\w+)` \| (.+?) \|", PAGE.read_text(), re.MULTILINE)
    assert sorted(name for name, _ in rows) == sorted(name for name in DEFAULTS if name.startswith("LLM_"))
    said = dict(rows)
    for name in ("LLM_MAX_ROUNDS", "LLM_MAX_REQUEST_BYTES", "LLM_LEASE_S", "LLM_PRIVACY_LEVEL"):
        default = DEFAULTS[name]()
        assert said[name] == (default if isinstance(default, str) else f"{default:,.0f}")
