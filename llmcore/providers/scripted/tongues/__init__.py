"""The wire formats that the scripted model speaks, one file each."""

from llmcore.providers.scripted.tongues.anthropic import AnthropicTongue
from llmcore.providers.scripted.tongues.base import Tongue, Utterance
from llmcore.providers.scripted.tongues.chat import ChatTongue
from llmcore.providers.scripted.tongues.gemini import GeminiTongue
from llmcore.providers.scripted.tongues.ollama import OllamaTongue
from llmcore.providers.scripted.tongues.responses import ResponsesTongue

__all__ = ["TONGUES", "Tongue", "Utterance"]

TONGUES: tuple[Tongue, ...] = (ChatTongue(), ResponsesTongue(), AnthropicTongue(), GeminiTongue(), OllamaTongue())
