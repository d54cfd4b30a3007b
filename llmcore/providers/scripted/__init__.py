"""A scripted model: a server that speaks each of the wire formats and answers from a script, for tests and the demo."""

from llmcore.providers.scripted.app import RecordedRequest, ScriptedModel
from llmcore.providers.scripted.scenario import Scenario, Turn, load_scenarios
from llmcore.providers.scripted.server import serve

__all__ = ["RecordedRequest", "Scenario", "ScriptedModel", "Turn", "load_scenarios", "serve"]
