"""The workspaces of a site: its setting, and what a configuration does with it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from llmcore.errors import ConfigurationError
from llmcore.forms.configurations import workspace_choices
from llmcore.workspaces import workspace_named, workspaces
from playground.services.prepare_run import prepare_run
from playground.services.start_run import RunRequest
from tests.factories import ConfigurationFactory


def test_everything_that_changes_files_is_off_unless_it_is_turned_on(settings: Any, tmp_path: Path) -> None:
    settings.LLM_WORKSPACES = {"shop": {"root": str(tmp_path)}}
    (shop,) = workspaces().values()
    assert (shop.write, shop.terminal, shop.write_freely, shop.environment) == (False, False, (), ())
    assert workspace_named("shop") == shop and workspace_named("") is workspace_named("other") is None


def test_the_root_is_where_it_really_is(settings: Any, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    settings.LLM_WORKSPACES = {"shop": {"root": str(tmp_path / "link" / ".")}}
    assert workspaces()["shop"].root == os.path.realpath(tmp_path / "real")


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({}, "absolute path"),
        ({"root": "files"}, "absolute path"),
        ({"root": "/srv/.."}, "whole disk"),
        ({"root": "/srv", "terminale": True}, "unknown keys: terminale"),
        ({"root": "/srv", "write_freely": "**"}, "list of patterns"),
    ],
)
def test_a_mistake_in_the_setting_is_named(settings: Any, entry: dict[str, Any], why: str) -> None:
    settings.LLM_WORKSPACES = {"shop": entry}
    with pytest.raises(ConfigurationError, match=why):
        workspaces()


def test_a_form_offers_those_of_the_site_and_keeps_the_stored_name(settings: Any, tmp_path: Path) -> None:
    settings.LLM_WORKSPACES = {"shop": {"root": str(tmp_path)}}
    assert [name for name, _ in workspace_choices("gone")] == ["", "shop", "gone"]
    assert [name for name, _ in workspace_choices("shop")] == ["", "shop"]


@pytest.mark.django_db
def test_a_run_is_offered_what_its_workspace_lets_it_do(settings: Any, tmp_path: Path) -> None:
    settings.LLM_WORKSPACES = {"shop": {"root": str(tmp_path), "write": True}}
    with_one = ConfigurationFactory(tool_groups=["workspace"], workspace="shop")
    without = ConfigurationFactory(tool_groups=["workspace"])

    def left_out(slug: str) -> tuple[tuple[str, ...], dict[str, str]]:
        gate = prepare_run(request=RunRequest(configuration=slug, prompt="Hello"), user=None).gate
        return gate.names, {item.name: item.detail for item in gate.left_out}

    offered, reasons = left_out(with_one.slug)
    assert offered == ("read_file", "search_workspace", "write_file")
    assert reasons["terminal"] == "the terminal is off in the workspace 'shop' (setting LLM_WORKSPACES)"
    offered, reasons = left_out(without.slug)
    assert offered == () and "has no workspace" in reasons["read_file"]
