"""Asks MCP servers for their tools."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from llmcore.mcp_servers import list_tools
from llmcore.models import MCPServer
from llmcore.tools.mcp.sessions import ServerFailed


class Command(BaseCommand):
    """`llm_mcp_tools [SLUG …]`: for a timer, or after a server was updated. It accepts nothing."""

    help = (
        "Asks MCP servers for their tools, stores what they list, and says what has to be accepted in the admin. All "
        "enabled servers, or those that are named. Fails where a server can't be asked."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slugs", nargs="*", metavar="SLUG", help="only these servers")

    def handle(self, *args: Any, **options: Any) -> None:
        slugs = options["slugs"]
        rows = MCPServer.objects.filter(slug__in=slugs) if slugs else MCPServer.objects.filter(enabled=True)
        if unknown := sorted(set(slugs) - {row.slug for row in rows}):
            raise CommandError(f"There is no MCP server {', '.join(unknown)}.")
        failed = [row.slug for row in rows if not self._list(row)]
        if failed:
            raise CommandError(f"Not listed: {', '.join(failed)}.")

    def _list(self, row: MCPServer) -> bool:
        try:
            tools = list_tools(row, now=timezone.now())
        except ServerFailed as failure:
            self.stderr.write(f"{row.slug}: {failure}")
            return False
        listed = [tool for tool in tools if not tool.is_gone]
        self.stdout.write(f"{row.slug}: {len(listed)} listed, {len(row.refused)} can't be used.")
        for title, names in (
            ("new, to be accepted", [tool.name for tool in tools if tool.is_new]),
            ("changed, to be accepted again", [tool.name for tool in tools if tool.is_changed]),
            ("not listed any more", [tool.name for tool in tools if tool.is_gone]),
        ):
            if names:
                self.stdout.write(f"  {title}: {', '.join(names)}")
        return True
