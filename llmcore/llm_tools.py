"""The built-in tools of every site that has this app, found as the tools of each app are."""

from llmcore.diagnostics import logs, queries, schema, state
from llmcore.tools.builtin import files, terminal

__all__ = ["files", "logs", "queries", "schema", "state", "terminal"]
