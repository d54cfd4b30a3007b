"""The stored configuration: rows that `llmcore.store` turns into the runtime's values."""

from llmcore.models.budgets import Budget, BudgetCrossing, BudgetPeriod, BudgetReservation
from llmcore.models.configurations import (
    Configuration,
    ConfigurationFallback,
    ConfigurationSkill,
    ConfigurationSnippet,
)
from llmcore.models.detection import DetectedItem
from llmcore.models.mcp import MCPServer
from llmcore.models.metering import UsageRecord
from llmcore.models.permits import PermitTicket
from llmcore.models.prompts import Skill, Snippet
from llmcore.models.providers import LanguageModel, Provider
from llmcore.models.rules import ActionRule
from llmcore.models.tools import ToolGroupSwitch, ToolPreset, ToolSwitch
from llmcore.models.versions import PromptVersion, Versioned

__all__ = [
    "ActionRule",
    "Budget",
    "BudgetCrossing",
    "BudgetPeriod",
    "BudgetReservation",
    "Configuration",
    "ConfigurationFallback",
    "ConfigurationSkill",
    "ConfigurationSnippet",
    "DetectedItem",
    "LanguageModel",
    "MCPServer",
    "PermitTicket",
    "PromptVersion",
    "Provider",
    "Skill",
    "Snippet",
    "ToolGroupSwitch",
    "ToolPreset",
    "ToolSwitch",
    "UsageRecord",
    "Versioned",
]
