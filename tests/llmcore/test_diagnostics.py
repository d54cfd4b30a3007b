"""The tools that look into the site: bounded, masked, and no more than the acting user may see."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import DatabaseError, connection

from llmcore.diagnostics.logs import recent_logs
from llmcore.diagnostics.queries import bounded, query_rows
from llmcore.diagnostics.schema import describe_model, list_models
from llmcore.diagnostics.state import cache_state, migrations_state, resolve_url, show_settings
from llmcore.errors import ToolError
from llmcore.recent_records import MAX_RECORD_CHARS, recent
from llmcore.tools.base import Effect, ToolContext
from llmcore.tools.registry import all_tools
from playground.llm_tools import queue_state
from tests.factories import ConfigurationFactory, UserFactory

pytestmark = pytest.mark.django_db


def acting(*permissions: str) -> ToolContext:
    return ToolContext(user=UserFactory(permissions=list(permissions)))


@pytest.fixture
def listed(settings: Any) -> Any:
    settings.LLM_QUERY_FIELDS = {
        "auth.User": ["username", "is_staff"],
        "llmcore.Configuration": ["slug", "max_rounds", "model__name"],
    }
    return settings


def test_all_of_them_read_only_and_need_the_permission() -> None:
    tools = [tool for tool in all_tools().values() if tool.group == "diagnostics"]
    assert len(tools) == 9
    assert {(tool.effect, tool.permission) for tool in tools} == {(Effect.READ_ONLY, "llmcore.use_diagnostics")}


def test_models_are_those_that_the_user_may_view() -> None:
    context = acting("auth.view_user", "auth.change_group")
    assert [row["model"] for row in list_models(context)["models"]] == ["auth.Group", "auth.User"]  # K2
    assert list_models(context, app="llmcore")["count"] == 0
    assert list_models(ToolContext())["count"] == 0
    facts = {field["name"]: field for field in describe_model(context, "auth.user")["fields"]}
    assert facts["username"] == {"name": "username", "type": "CharField", "unique": True, "max_length": 150}
    assert facts["groups"]["to"] == "auth.Group"


@pytest.mark.parametrize("label", ["auth.Group", "auth.Nothing", "nothing", "a.b.c", "auth.User\0", "../auth"])
def test_a_model_that_may_not_be_seen_sounds_like_none(label: str) -> None:
    for use in (describe_model, query_rows):
        with pytest.raises(ToolError, match="that you may see"):
            use(acting("auth.view_user"), label)


@pytest.mark.usefixtures("listed")
def test_rows_show_listed_fields_only() -> None:
    context = acting("auth.view_user")
    User.objects.create(username="ada", is_staff=True)

    found = query_rows(context, "auth.User", where={"username__startswith": "ad"})

    assert found == {"rows": [{"username": "ada", "is_staff": True}], "more": False}
    assert query_rows(context, "auth.User", result="count") == {"count": 2, "more": False}
    assert query_rows(context, "auth.User", ["username"], order_by="-username", limit=1)["more"] is True


@pytest.mark.usefixtures("listed")
@pytest.mark.parametrize(
    "asked",
    [
        {"fields": ["password"]},
        {"where": {"password__startswith": "pbkdf2"}},
        {"where": {"username__regex": "(a+)+$"}},
        {"where": {"username__iregex": "(a+)+$"}},
        {"where": {"groups__name": "x"}},
        {"where": {"username__in": [["a"]] * 101}},
        {"where": {"username": {"a": 1}}},
        {"where": {"pk": 1}},
        {"order_by": "password"},
        {"order_by": "?"},
        {"order_by": "username__length"},
        {"where": {"is_staff": "perhaps"}},
        {"where": {"username__date": "x"}},
    ],
)
def test_nothing_else_can_be_asked_for_either(asked: dict[str, Any]) -> None:
    with pytest.raises(ToolError, match=r"Not allowed|needs a plain value|can't be used"):
        query_rows(acting("auth.view_user"), "auth.User", **asked)


@pytest.mark.usefixtures("listed")
def test_fields_of_another_model_need_the_right_to_see_that_one() -> None:
    row = ConfigurationFactory()
    both = acting("llmcore.view_configuration", "llmcore.view_languagemodel")
    assert query_rows(both, "llmcore.Configuration")["rows"] == [
        {"slug": row.slug, "max_rounds": 5, "model__name": row.model.name}
    ]
    one = acting("llmcore.view_configuration")
    assert list(query_rows(one, "llmcore.Configuration")["rows"][0]) == ["slug", "max_rounds"]
    with pytest.raises(ToolError, match="Not allowed"):
        query_rows(one, "llmcore.Configuration", where={"model__name": "x"})


def test_without_a_list_nothing_can_be_queried(settings: Any) -> None:
    settings.LLM_QUERY_FIELDS = {}
    off_because = all_tools()["query_rows"].off_because
    assert off_because is not None and "LLM_QUERY_FIELDS" in str(off_because(ToolContext()))
    with pytest.raises(ToolError, match="lists no fields"):
        query_rows(acting("auth.view_user"), "auth.User")


@pytest.mark.usefixtures("listed")
def test_odd_texts_reach_no_database() -> None:
    assert query_rows(acting("auth.view_user"), "auth.User", where={"username": "a\0\ud800"})["rows"] == []


def test_a_query_that_takes_too_long_is_broken_off() -> None:
    endless = {
        "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n",
        "postgresql": "SELECT pg_sleep(20)",
    }[connection.vendor]
    with (
        pytest.raises(DatabaseError, match=r"interrupted|statement timeout"),
        bounded(Group, seconds=0.2),
        connection.cursor() as cursor,
    ):
        cursor.execute(endless)
    assert Group.objects.count() == 0


def test_an_address_is_resolved_without_calling_its_view() -> None:
    assert resolve_url("/admin/login/?next=/")["name"] == "admin:login"
    assert resolve_url("admin/auth/user/7/change/")["arguments"] == {"object_id": "7"}
    with pytest.raises(ToolError, match="No view"):
        resolve_url("/nowhere/\0/")


def test_migrations_that_are_not_applied_are_named() -> None:
    state = migrations_state()["default"]
    assert state["not_applied"] == [] and "llmcore" in state["newest_applied"]


def test_settings_are_shown_without_secrets(settings: Any) -> None:
    settings.SHOP_API_KEY = "rk_live_0123456789abcdef"
    settings.SHOP_SERVERS = {"mail": "smtp://shop:hunter2hunter2@mail.example.com", "TOKEN": "abc"}
    shown = str(show_settings("SHOP"))
    assert "rk_live" not in shown and "hunter2" not in shown and "abc" not in shown  # R1
    assert "mail.example.com" in shown
    for name in ("SECRET", "KEY", "DATABASES", "BROKER", "LLM_"):
        assert settings.SECRET_KEY not in str(show_settings(name))
    assert show_settings("LLM_MAX_ROUNDS") == {"LLM_MAX_ROUNDS": "50"}
    with pytest.raises(ToolError, match="No setting"):
        show_settings("NOT_THERE")


def test_recent_records_are_bounded_and_masked(settings: Any) -> None:
    recent.lines.clear()
    logging.getLogger("shop").warning("key sk-proj-0123456789abcdefABCDEF0123 was refused")
    logging.getLogger("shop").error("%s", "x" * 1_000_000)

    found = recent_logs(level="WARNING")

    assert found["matching"] == 2 and found["sources"][0] == "worker memory"
    assert "was refused" in found["records"][0] and "sk-proj-0123" not in str(found)  # R1
    assert len(found["records"][1]) == MAX_RECORD_CHARS
    assert recent_logs(contains="REFUSED")["matching"] == 1 and recent_logs(level="CRITICAL")["matching"] == 0


def test_the_log_of_another_process_is_read_from_its_end(settings: Any, tmp_path: Path) -> None:
    log = tmp_path / "web.log"
    log.write_text("".join(f"2026-11-29 INFO shop: request {number}\n" for number in range(40_000)) + "WARNING: full\n")
    settings.LLM_LOG_FILES = {"web": str(log), "gone": str(tmp_path / "gone.log")}
    assert recent_logs("web", limit=1)["records"] == ["WARNING: full"]
    assert recent_logs("web", level="WARNING")["matching"] == 1
    with pytest.raises(ToolError, match="can't be read"):
        recent_logs("gone")
    with pytest.raises(ToolError, match="Logs are: worker memory, gone, web"):
        recent_logs("/etc/passwd")


def test_caches_and_the_queue_say_how_they_are(settings: Any) -> None:
    assert cache_state()["default"]["answers"] is True
    assert queue_state() == {"runs": {}, "oldest_waits_s": None, "running": []}
