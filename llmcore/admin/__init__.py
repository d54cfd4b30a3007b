"""The admin of the stored configuration, one module per area."""

from llmcore.admin.budgets import BudgetAdmin
from llmcore.admin.configurations import ConfigurationAdmin
from llmcore.admin.mcp import MCPServerAdmin
from llmcore.admin.prompts import SkillAdmin, SnippetAdmin
from llmcore.admin.providers import LanguageModelAdmin, ProviderAdmin
from llmcore.admin.rules import ActionRuleAdmin
from llmcore.admin.tools import ToolPresetAdmin, ToolSwitchAdmin
from llmcore.admin.usage import UsageRecordAdmin

__all__ = [
    "ActionRuleAdmin",
    "BudgetAdmin",
    "ConfigurationAdmin",
    "LanguageModelAdmin",
    "MCPServerAdmin",
    "ProviderAdmin",
    "SkillAdmin",
    "SnippetAdmin",
    "ToolPresetAdmin",
    "ToolSwitchAdmin",
    "UsageRecordAdmin",
]
