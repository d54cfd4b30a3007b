"""The shop's tools: what a model may ask about the shop, and the two things that it may write."""

from demo.llm_tools import customers, orders, policies, refunds, reports

__all__ = ["customers", "orders", "policies", "refunds", "reports"]
