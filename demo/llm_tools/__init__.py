"""The shop's tools: what a model may ask about the shop, and the one thing it may write."""

from demo.llm_tools import customers, orders, policies, reports

__all__ = ["customers", "orders", "policies", "reports"]
