"""Keeps secrets out of what is stored, logged and shown, and characters out that a database refuses.

Two layers: known secret values are removed from everything that is written; patterns of secrets from errors, logs,
headers and exports only. A pattern applied to a stored message would change what the model gets when a run goes on.
"""

from llmcore.redaction.patterns import MASK
from llmcore.redaction.redactor import Redactor
from llmcore.redaction.values import storable

__all__ = ["MASK", "Redactor", "storable"]
