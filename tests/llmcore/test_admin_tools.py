"""The page of the tools: every known tool and group has a switch, rows are made when one is moved."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from llmcore.models import ToolGroupSwitch, ToolPreset, ToolSwitch
from llmcore.store import Switches, load_configuration, load_switches
from llmcore.tools.registry import all_tools
from tests.factories import ConfigurationFactory, UserFactory

pytestmark = pytest.mark.django_db
URL = "admin:llmcore_toolswitch_changelist"
TOOLS = sorted(all_tools())
GROUPS = sorted({tool.group for tool in all_tools().values()})
ALL_ON = Switches(disabled_tools=set(), disabled_groups=set())
RIGHTS = ["llmcore.change_toolswitch", "llmcore.change_toolgroupswitch"]


@pytest.fixture
def admin(client: Client) -> Client:
    client.force_login(UserFactory(is_superuser=True))
    return client


def sent(*, off: list[str] | None = None, tools: list[str] = TOOLS, groups: list[str] = GROUPS) -> dict[str, Any]:
    """What the browser sends from a page that showed `tools` and `groups`, all on but those in `off`."""
    names = [f"tool:{name}" for name in tools] + [f"group:{name}" for name in groups]
    data = {f"shown:{name}": "True" for name in names}
    return data | {name: "on" for name in names if name not in (off or [])}


def test_every_known_tool_and_group_is_shown_and_on(admin: Client) -> None:
    page = admin.get(reverse(URL))
    form = page.context["form"]
    assert page.status_code == 200 and TOOLS and GROUPS
    for name in [f"tool:{name}" for name in TOOLS] + [f"group:{name}" for name in GROUPS]:
        assert form[name].value() is True
    assert not ToolSwitch.objects.exists()


def test_only_moved_switches_get_a_row_and_a_log_entry(admin: Client) -> None:
    admin.post(reverse(URL), sent(off=[f"tool:{TOOLS[0]}", f"group:{GROUPS[0]}"]))
    assert load_switches() == Switches(disabled_tools={TOOLS[0]}, disabled_groups={GROUPS[0]})
    assert ToolSwitch.objects.count() == ToolGroupSwitch.objects.count() == 1
    assert {entry.change_message for entry in LogEntry.objects.all()} == {"Switched off."}

    admin.post(reverse(URL), sent())
    assert load_switches() == ALL_ON
    assert LogEntry.objects.filter(change_message="Switched on.").count() == 2


def test_saving_without_a_change_writes_nothing(admin: Client) -> None:
    assert admin.post(reverse(URL), sent()).status_code == 302
    assert not ToolSwitch.objects.exists() and not LogEntry.objects.exists()


def test_a_tool_that_was_not_on_the_page_is_left_alone(admin: Client) -> None:
    admin.post(reverse(URL), sent(tools=TOOLS[1:], groups=[]))
    assert load_switches() == ALL_ON
    admin.post(reverse(URL), {})
    assert load_switches() == ALL_ON


def test_a_switched_off_tool_that_is_gone_can_be_switched_on(admin: Client) -> None:
    ToolSwitch.objects.create(name="gone", enabled=False)
    ToolGroupSwitch.objects.create(name="empty", enabled=False)
    page = admin.get(reverse(URL)).content.decode()
    assert "Not known to this site any more" in page and "No tool of this site is in this group" in page
    admin.post(reverse(URL), sent(tools=[*TOOLS, "gone"], groups=[*GROUPS, "empty"]))
    assert load_switches() == ALL_ON


@pytest.mark.parametrize(
    ("rights", "tools", "groups"),
    [
        (RIGHTS, {TOOLS[0]}, {GROUPS[0]}),
        (RIGHTS[:1], {TOOLS[0]}, set()),
        (["llmcore.view_toolswitch", RIGHTS[1]], set(), {GROUPS[0]}),
    ],
)
def test_each_right_moves_its_own_switches(
    client: Client, rights: list[str], tools: set[str], groups: set[str]
) -> None:
    client.force_login(UserFactory(permissions=rights))
    client.post(reverse(URL), sent(off=[f"tool:{TOOLS[0]}", f"group:{GROUPS[0]}"]))
    assert load_switches() == Switches(disabled_tools=tools, disabled_groups=groups)


def test_who_may_only_look_has_no_button_and_no_way(client: Client) -> None:
    client.force_login(UserFactory(permissions=["llmcore.view_toolswitch"]))
    page = client.get(reverse(URL))
    assert page.status_code == 200 and 'type="submit" class="default"' not in page.content.decode()
    assert client.post(reverse(URL), sent(off=[f"tool:{TOOLS[0]}"])).status_code == 403
    assert load_switches().disabled_tools == set()


def test_who_may_not_look_sees_nothing(client: Client) -> None:
    client.force_login(UserFactory())
    assert client.get(reverse(URL)).status_code == 403


def test_the_page_takes_the_same_queries_for_any_number(
    admin: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    ToolSwitch.objects.bulk_create(ToolSwitch(name=f"tool-{number}") for number in range(30))
    with django_assert_max_num_queries(6):
        admin.get(reverse(URL))


def test_a_preset_is_ticked_together_and_kept_while_a_configuration_uses_it(admin_client: Client) -> None:
    data = {"name": "Look up", "slug": "look-up", "description": "", "tools": ["search_orders", "get_order"]}
    assert admin_client.post(reverse("admin:llmcore_toolpreset_add"), data).status_code == 302
    preset = ToolPreset.objects.get()
    assert sorted(preset.tools) == ["get_order", "search_orders"]
    unknown = data | {"slug": "b", "tools": ["no"]}
    assert admin_client.post(reverse("admin:llmcore_toolpreset_add"), unknown).status_code == 200

    ConfigurationFactory(tool_preset=preset)
    page = admin_client.get(reverse("admin:llmcore_toolpreset_changelist")).content.decode()
    assert "search_orders" in page
    admin_client.post(reverse("admin:llmcore_toolpreset_delete", args=[preset.pk]), {"post": "yes"})
    assert ToolPreset.objects.exists()


def test_a_configuration_takes_a_preset_or_a_list() -> None:
    preset = ToolPreset.objects.create(slug="a", name="A", tools=["get_order"])
    row = ConfigurationFactory(tool_preset=preset, tools=["get_order"], tool_groups=["orders"])
    with pytest.raises(ValidationError, match="not both"):
        row.clean()
    row.tools = None
    row.clean()
    assert load_configuration(row).tools == ("get_order",)
