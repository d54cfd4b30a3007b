"""What is worth knowing of a request before it is sent: small pure functions over a draft, each with what to change."""

from llmcore.lint import pieces, request, texts, tools
from llmcore.lint.draft import Draft
from llmcore.lint.notice import Fix, Notice
from llmcore.lint.registry import look_over

__all__ = ["Draft", "Fix", "Notice", "look_over", "pieces", "request", "texts", "tools"]
