"""What the demo brings into an empty site: models of the scripted server, and configurations that use them."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

PROVIDER_SLUG = "demo"


@dataclass(frozen=True, kw_only=True, slots=True)
class DemoModel:
    """A model of the demo provider: the scenario of the same name. `prices` are input, cached read and output."""

    name: str
    label: str
    window: int = 32_768
    prices: tuple[str, str, str] | None = ("0.25", "0.025", "2.00")
    thinks: bool = True
    sees: bool = False

    def fields(self) -> dict[str, Any]:
        names = ("input_price", "cache_read_price", "output_price")
        prices = dict(zip(names, map(Decimal, self.prices), strict=True)) if self.prices else {}
        return {
            "label": self.label,
            "context_window": self.window,
            "max_output_tokens": 4096,
            "supports_thinking": self.thinks,
            "supports_images": self.sees,
            **prices,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class DemoConfiguration:
    """A configuration; `prompt` names a file in `content/prompts`, `summarizer` a configuration before this one, `more`
    are fields of the row."""

    slug: str
    name: str
    description: str
    model: str
    prompt: str
    skills: tuple[str, ...] = ()
    snippets: tuple[str, ...] = ()
    tool_groups: tuple[str, ...] = ()
    preset: str = ""
    summarizer: str = ""
    more: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class DemoPreset:
    """A named set of tools."""

    slug: str
    name: str
    description: str
    tools: tuple[str, ...]


PRESETS = (
    DemoPreset(
        slug="read-files",
        name="Read files",
        description="Looks into the workspace and changes nothing.",
        tools=("read_file", "search_workspace"),
    ),
    DemoPreset(
        slug="work-on-files",
        name="Work on files",
        description="Reads the workspace, writes files and hands over notes.",
        tools=("emit_artifact", "read_file", "search_workspace", "write_file"),
    ),
    DemoPreset(
        slug="repair-files",
        name="Repair files",
        description="All that works on files, commands included: a person decides about each.",
        tools=("emit_artifact", "read_file", "search_workspace", "terminal", "write_file"),
    ),
    DemoPreset(
        slug="look-up-orders",
        name="Look up orders",
        description="Orders with their payments and refunds.",
        tools=("get_order", "list_payments", "list_refunds", "search_orders"),
    ),
)

MODELS = (
    DemoModel(name="demo-support", label="Demo: support", window=16_384),
    DemoModel(name="demo-refund", label="Demo: refunds"),
    DemoModel(name="demo-report", label="Demo: reports", prices=("1.25", "0.125", "10.00")),
    DemoModel(name="demo-files", label="Demo: files"),
    DemoModel(name="demo-repair", label="Demo: repairs"),
    # Its window is too small for all of its rounds.
    DemoModel(name="demo-long", label="Demo: 40 rounds", window=8_192),
    DemoModel(name="demo-summary", label="Demo: summaries", thinks=False),
    DemoModel(name="demo-stubborn", label="Demo: repeats itself"),
    DemoModel(name="demo-truncated", label="Demo: thinks long"),
    DemoModel(name="demo-overloaded", label="Demo: overloaded", thinks=False),
    DemoModel(name="demo-broken", label="Demo: refused key", thinks=False),
    # A model without prices shows what "unpriced" looks like.
    DemoModel(name="demo-slow", label="Demo: slow", prices=None, thinks=False),
    DemoModel(name="demo-tabletop", label="Demo: tabletop", prices=("1.25", "0.125", "10.00"), sees=True),
    DemoModel(name="demo-filtered", label="Demo: filtered", thinks=False),
    DemoModel(name="demo-empty", label="Demo: says nothing", thinks=False),
)

CONFIGURATIONS = (
    DemoConfiguration(
        slug="support-triage",
        name="Support triage",
        description="Finds out what happened in a support ticket and which rule applies. Works on order DJ-48213.",
        model="demo-support",
        prompt="support-triage",
        skills=("order-lookup", "refund-policy"),
        snippets=("house-tone", "triage-output"),
        tool_groups=("orders", "customers", "policies"),
        # The window is small, so the skills may take less of it.
        more={"max_rounds": 8, "temperature": 0.2, "thinking": "medium", "skill_budget_bytes": 10_000},
    ),
    DemoConfiguration(
        slug="refund-desk",
        name="Refund desk",
        description="Asks to refund a payment, and waits until somebody approves or denies it. Works on DJ-48213.",
        model="demo-refund",
        prompt="refund-desk",
        tool_groups=("orders", "refunds"),
        more={"tools": ["get_order", "list_payments", "list_refunds", "refund_payment"]},
    ),
    DemoConfiguration(
        slug="shop-reports",
        name="Shop reports",
        description="The weekly sales report, from several questions to the shop's data.",
        model="demo-report",
        prompt="shop-reports",
        snippets=("house-tone",),
        tool_groups=("orders", "reports"),
        more={
            "max_rounds": 8,
            "thinking": "low",
            "tools": ["list_refunds", "sales_summary", "search_orders", "stock_levels"],
        },
    ),
    DemoConfiguration(
        slug="checkout-files",
        name="Checkout files",
        description="Looks for the cause of a fault in the shop's files: a configuration, logs and notes.",
        model="demo-files",
        prompt="checkout-files",
        tool_groups=("artifacts", "workspace"),
        preset="work-on-files",
        more={"max_rounds": 8, "thinking": "low", "workspace": "shop"},
    ),
    DemoConfiguration(
        slug="checkout-repair",
        name="Checkout repair",
        description="Asks to change a file and to run a command, and waits for decisions. Works on VAT for Austria.",
        model="demo-repair",
        prompt="checkout-repair",
        tool_groups=("artifacts", "workspace"),
        preset="repair-files",
        more={"max_rounds": 8, "workspace": "shop"},
    ),
    DemoConfiguration(
        slug="summaries",
        name="Summaries",
        description="Summarizes old turns for the stock audit, whose model has a small window.",
        model="demo-summary",
        prompt="summaries",
        more={"max_tokens": 400},
    ),
    DemoConfiguration(
        slug="stock-audit",
        name="Stock audit",
        description="Goes through all articles one by one: a run of 40 rounds, more than its model's window takes.",
        model="demo-long",
        prompt="stock-audit",
        tool_groups=("reports",),
        summarizer="summaries",
        more={"max_rounds": 45},
    ),
    DemoConfiguration(
        slug="endless-lookup",
        name="Endless lookup",
        description="A model that makes the same call again and again, until the rounds are used up.",
        model="demo-stubborn",
        prompt="plain-support",
        tool_groups=("orders",),
        more={"max_rounds": 6},
    ),
    DemoConfiguration(
        slug="refund-notes",
        name="Refund notes",
        description="Writes a note on an order. Its answers may be 200 tokens long, which is not enough: try 1,000.",
        model="demo-truncated",
        prompt="refund-notes",
        tool_groups=("orders",),
        more={"max_tokens": 200},
    ),
    DemoConfiguration(
        slug="rush-hour",
        name="Rush hour",
        description="A server that limits the rate: the first attempt is refused, the second one works.",
        model="demo-overloaded",
        prompt="plain-support",
        skills=("order-lookup",),
        tool_groups=("orders",),
    ),
    DemoConfiguration(
        slug="expired-key",
        name="Expired key",
        description="A server that refuses the key.",
        model="demo-broken",
        prompt="plain-support",
    ),
    DemoConfiguration(
        slug="slow-writer",
        name="Slow writer",
        description="Streams one text for 20 seconds: to watch it live, and to cancel it.",
        model="demo-slow",
        prompt="slow-writer",
        snippets=("house-tone",),
        more={"temperature": 0.9},
    ),
    DemoConfiguration(
        slug="tabletop-extraction",
        name="Tabletop extraction",
        description="Answers the prompts of the pack “tabletop” with JSON of their schemas. Spells takes a repair.",
        model="demo-tabletop",
        prompt="tabletop-extraction",
        more={"temperature": 0.0},
    ),
    DemoConfiguration(
        slug="filtered-draft",
        name="Filtered draft",
        description="A content filter ends the answer in the middle of a sentence.",
        model="demo-filtered",
        prompt="slow-writer",
    ),
    DemoConfiguration(
        slug="silent-model",
        name="Silent model",
        description="A model that answers with nothing.",
        model="demo-empty",
        prompt="plain-support",
    ),
)
