"""MCP servers in the admin: their addresses and keys, what they list, and what of it was agreed to."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_POST

from llmcore.admin.keys import KeyedAdmin, key_fields
from llmcore.database_access import outside_transactions
from llmcore.forms.mcp import MCPServerForm
from llmcore.mcp_commands import mcp_commands
from llmcore.mcp_servers import ListedTool, accept_tools, list_tools, listed_tools, server_value, tool_name
from llmcore.models import MCPServer
from llmcore.prompts.changes import FieldChange, field_changes
from llmcore.tools.mcp.listing import Definition
from llmcore.tools.mcp.offered import SEPARATOR
from llmcore.tools.mcp.sessions import ServerFailed
from llmcore.tools.unseen import visible


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCard:
    """A listed tool on the page of its server."""

    tool: ListedTool
    name: str

    @property
    def own_name(self) -> str:
        """What the server calls it, where its name for models doesn't end so."""
        return "" if self.name.endswith(f"{SEPARATOR}{self.tool.name}") else visible(self.tool.name)

    @property
    def definition(self) -> Definition | None:
        return self.tool.listed or self.tool.accepted

    @property
    def description(self) -> str:
        """With each character seen that shows nothing: what a model reads, and only that, is agreed to."""
        return visible(self.definition.told) if self.definition else ""

    @property
    def parameters(self) -> str:
        return visible(as_lines(self.definition.parameters)) if self.definition else ""

    @property
    def changes(self) -> list[FieldChange]:
        """What the server has changed since the tool was accepted."""
        before, after = self.tool.accepted, self.tool.listed
        return [] if before is None or after is None else field_changes(readable(before), readable(after))


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolsPanel:
    """The tools of a server on its page: those that wait for somebody to accept them, and those that were accepted."""

    cards: list[ToolCard]
    refused: list[tuple[str, str]]

    @property
    def waiting(self) -> list[ToolCard]:
        return [card for card in self.cards if card.tool.waits]

    @property
    def accepted(self) -> list[ToolCard]:
        return [card for card in self.cards if not card.tool.waits]


@admin.register(MCPServer)
class MCPServerAdmin(KeyedAdmin):
    """MCP servers with their tools."""

    form = MCPServerForm
    list_display = ["name", "place", "key", "tools", "listed_at", "enabled"]
    list_filter = ["enabled"]
    search_fields = ["name", "slug", "base_url"]
    prepopulated_fields = {"slug": ["name"]}
    actions = ["list_again"]

    def get_fieldsets(self, request: HttpRequest, obj: MCPServer | None = None) -> Any:
        may_edit = self.has_change_permission(request, obj) if obj else True
        by_command = ["command"] if mcp_commands() or (obj and obj.command) else []
        return [
            (None, {"fields": ["name", "slug", "base_url", *by_command, "allow_private_hosts", "enabled"]}),
            (gettext_lazy("Key"), {"fields": key_fields(obj, may_edit)}),
            (gettext_lazy("Trust"), {"fields": ["believes_hints"]}),
            (gettext_lazy("Deadlines"), {"fields": [("connect_timeout_s", "call_timeout_s")]}),
        ]

    def get_urls(self) -> list[URLPattern]:
        return [
            path("<int:pk>/list/", self.admin_site.admin_view(self.list_view), name="llmcore_mcpserver_list"),
            path("<int:pk>/accept/", self.admin_site.admin_view(self.accept_view), name="llmcore_mcpserver_accept"),
            *super().get_urls(),
        ]

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        if row := context.get("original"):
            context["panel"] = panel_of(row)
        return super().render_change_form(request, context, *args, **kwargs)

    def response_add(self, request: HttpRequest, obj: MCPServer, *args: Any, **kwargs: Any) -> HttpResponse:
        """To its own page, since the next thing to do is there: to list its tools."""
        response = super().response_add(request, obj, *args, **kwargs)
        if {"_addanother", "_continue", "_popup"} & request.POST.keys() or not self.has_change_permission(request, obj):
            return response
        return HttpResponseRedirect(tools_url(obj))

    # The server is asked meanwhile.
    @outside_transactions
    @method_decorator(require_POST)
    def list_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        row = self._changeable(request, pk)
        self._list(request, row)
        return HttpResponseRedirect(change_url(row))

    @method_decorator(require_POST)
    def accept_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        row = self._changeable(request, pk)
        looked_at = request.POST.getlist("shown" if "all" in request.POST else "accept")
        accepted = accept_tools(row, frozenset(looked_at), by=request.user, now=timezone.now())
        if accepted:
            self.log_change(request, row, _("Accepted tools: %s.") % ", ".join(accepted))
            text = ngettext("%(count)d tool was accepted.", "%(count)d tools were accepted.", len(accepted))
            offer = _("Configurations that tick the group “%(group)s” offer them.")
            said = f"{text} {offer}" % {"count": len(accepted), "group": server_value(row).group}
            messages.success(request, said)
        if missed := len(set(looked_at)) - len(accepted):
            messages.warning(
                request, _("Not accepted: %d. The server lists them otherwise by now: look again.") % missed
            )
        if not looked_at:
            messages.warning(request, _("No tool was ticked."))
        return HttpResponseRedirect(change_url(row))

    @admin.action(description=gettext_lazy("List tools"), permissions=["change"])
    def list_again(self, request: HttpRequest, rows: QuerySet[MCPServer]) -> None:
        for row in rows:
            self._list(request, row)

    @admin.display(description=gettext_lazy("address"), ordering="base_url")
    def place(self, obj: MCPServer) -> str:
        return obj.base_url or _("command “%s”") % obj.command

    @admin.display(description=gettext_lazy("tools"))
    def tools(self, obj: MCPServer) -> str:
        if obj.listed_at is None:
            return _("never listed")
        tools = listed_tools(obj)
        waiting = sum(tool.waits for tool in tools)
        offered = _("%d accepted") % sum(not tool.waits and not tool.is_gone for tool in tools)
        return f"{offered}, " + _("%d to accept") % waiting if waiting else offered

    def _changeable(self, request: HttpRequest, pk: int) -> MCPServer:
        row = MCPServer.objects.filter(pk=pk).first()
        if row is None:
            raise Http404
        if not self.has_change_permission(request, row):
            raise PermissionDenied
        return row

    def _list(self, request: HttpRequest, row: MCPServer) -> None:
        try:
            tools = list_tools(row, now=timezone.now())
        except ServerFailed as failure:
            messages.error(request, str(failure))
            return
        self.log_change(request, row, _("Listed its tools."))
        listed = [tool for tool in tools if not tool.is_gone]
        text = ngettext("%(name)s lists %(count)d tool.", "%(name)s lists %(count)d tools.", len(listed))
        text = text % {"name": row.name, "count": len(listed)}
        if waiting := sum(tool.waits for tool in tools):
            look = ngettext("%d of them is not accepted yet.", "%d of them are not accepted yet.", waiting) % waiting
            messages.warning(request, format_html('{} <a href="{}">{}</a>', text, tools_url(row), look))
        else:
            messages.success(request, text + " " + _("All of them were accepted before."))


def panel_of(row: MCPServer) -> ToolsPanel:
    cards = [ToolCard(tool=tool, name=tool_name(row, tool.name)) for tool in listed_tools(row)]
    return ToolsPanel(cards=cards, refused=[(visible(name), reason) for name, reason in row.refused])


def change_url(row: MCPServer) -> str:
    return reverse("admin:llmcore_mcpserver_change", args=[row.pk])


def tools_url(row: MCPServer) -> str:
    return change_url(row) + "#tools"


def readable(definition: Definition) -> dict[str, Any]:
    """A definition field by field, as a person compares it."""
    return {
        "title": visible(definition.title),
        "description": visible(definition.description),
        "parameters": visible(as_lines(definition.parameters)),
        "says_that_it_only_reads": definition.reads_only,
    }


def as_lines(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
