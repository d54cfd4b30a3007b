"""Tools about the shop's rules."""

from __future__ import annotations

from typing import Annotated

from demo.documents import documents
from llmcore.errors import ToolError
from llmcore.messages import JSON
from llmcore.tools.registry import tool


@tool(group="policies")
def list_policies() -> JSON:
    """The names of the shop's policies with their titles and the numbers of their sections."""
    return [
        {"name": policy.slug, "title": policy.title, "sections": policy.sections}
        for policy in documents("policies").values()
    ]


@tool(group="policies")
def read_policy(
    name: Annotated[str, "The policy's name, for example refunds.", {"maxLength": 60}],
    section: Annotated[str | None, "Only this section, for example 3.2; all of it otherwise."] = None,
) -> JSON:
    """The wording of one of the shop's policies, or of one section of it, as Markdown."""
    policies = documents("policies")
    if name not in policies:
        raise ToolError(f"There is no policy {name!r}. Choices are: {', '.join(policies)}")
    policy = policies[name]
    if section is None:
        return policy.body
    text = policy.section(section)
    if text is None:
        raise ToolError(f"The policy {name!r} has no section {section[:20]!r}. It has {', '.join(policy.sections)}.")
    return text
