"""What to do about a failed call, with the names and figures of that call."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from llmcore.errors import ErrorKind, ProviderError
from llmcore.providers.base import ModelCall

NO_WINDOW = "This site doesn't know the model's window: enter it at the model."
# The providers' names of a parameter in lower case, and what it is called and switched off by here.
SWITCHES: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("temperature",), ("temperature", "untick “temperature” at the model")),
    **dict.fromkeys(("top_p", "topp"), ("top p", "untick “temperature” at the model, which holds for both")),
    **dict.fromkeys(
        (
            *("reasoning_effort", "reasoning", "reasoning_format", "include_reasoning", "output_config", "effort"),
            *("thinking", "think", "thinkingconfig", "thinkingbudget", "thinkinglevel", "thinking_config"),
            *("thinking_budget", "thinking_level"),
        ),
        ("thinking", "untick “thinking effort” at the model"),
    ),
    **dict.fromkeys(
        ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxoutputtokens", "num_predict"),
        ("max tokens", "correct it in the configuration, and the output cap at the model"),
    ),
    **dict.fromkeys(("seed", "random_seed"), ("seed", "leave it blank in the configuration")),
    **dict.fromkeys(("stop", "stop_sequences", "stopsequences"), ("stop", "leave it blank in the configuration")),
    **dict.fromkeys(("tool_choice", "toolconfig", "tool_config"), ("tool choice", "untick “tool choice” at the model")),
    **dict.fromkeys(("tools", "functiondeclarations"), ("tools", "untick “tools” at the model")),
    "parallel_tool_calls": ("parallel tool calls", "leave it as the provider has it in the configuration"),
    **dict.fromkeys(("stream", "stream_options"), ("streaming", "untick “streaming” at the model")),
    **dict.fromkeys(("image_url", "images", "inlinedata", "inline_data"), ("images", "untick “images” at the model")),
}
# What is said instead of a parameter's name.
PHRASES: Mapping[str, str] = {
    "tool use": "tools",
    "function calling": "tools",
    "image input": "images",
    "thinking mode": "thinking",
}
# Servers that call tools only when they were started with a flag.
FLAGS = re.compile(r"--(jinja|enable-auto-tool-choice|tool-call-parser)\b")
REFUSED = re.compile(
    r"not (supported|permitted|allowed|available|enabled)|does(n't| not) (support|allow)|unsupported|deprecated"
    r"|un(known|recognized)|only the default|extra inputs|no longer|may only be|cannot be|must be|disabled"
    r"|only works|that support",
    re.IGNORECASE,
)


def hint_for(error: ProviderError, call: ModelCall) -> str:
    """What an admin can do about `error`, in a sentence or two; empty where its kind says all there is to say."""
    provider, model = call.provider, call.model
    if flag := FLAGS.search(error.message):
        return (
            f"Start the server with {flag[0]}, so that {model.name} can call tools; or tick “tool calls as JSON” at "
            "the model, or offer no tools."
        )
    match error.kind:
        case ErrorKind.AUTHENTICATION if not provider.api_key:
            return f"{provider.name} has no API key here. Open the provider and enter one."
        case ErrorKind.NOT_FOUND:
            address = provider.base_url or "its usual address"
            return (
                f"Check the model's name, {model.name}, and the base URL of {provider.name}, {address}: the provider "
                "doesn't know one of them."
            )
        case ErrorKind.CONTEXT_LENGTH:
            return context_hint(call)
        case ErrorKind.INVALID_REQUEST:
            return parameter_hint(error, call)
        case ErrorKind.CONNECTION:
            return f"Check the base URL of {provider.name}, {provider.base_url}, and that the server there runs."
        case ErrorKind.TIMEOUT:
            return (
                f"{provider.name} may take {provider.connect_timeout_s:g} s to connect, {provider.read_timeout_s:g} s "
                f"between two pieces and {provider.total_timeout_s:g} s in all. Try again, or raise these limits."
            )
    return ""


def unknown_model_hint(call: ModelCall, like: Sequence[str], count: int) -> str:
    """For a model that is not among the `count` ones that the provider lists; `like` are the nearest of them."""
    known = f"Did you mean {' or '.join(like)}?" if like else f"It lists {count:,} other models."
    return f"{call.provider.name} has no model {call.model.name}. {known} Correct the name at the model."


def context_hint(call: ModelCall) -> str:
    window, reserved = call.model.context_window, call.parameters.max_tokens
    known = NO_WINDOW if window is None else f"The window of {call.model.name} is entered here as {window:,} tokens."
    kept = f" {reserved:,} of it are kept for the answer by max tokens." if reserved and window else ""
    return f"The prompt doesn't fit. {known}{kept} Shorten the prompt or choose a model with a larger window."


def parameter_hint(error: ProviderError, call: ModelCall) -> str:
    """Which parameter was refused, and how it is switched off."""
    name = refused_parameter(error)
    if name is None:
        return ""
    label, switch = SWITCHES[name]
    return f"{call.model.name} doesn't take {label} as it was sent. To leave it out, {switch}."


def refused_parameter(error: ProviderError) -> str | None:
    """The provider's name of the parameter that it refused, if it is one of those that can be switched off."""
    if error.param:
        # Such as "reasoning.summary" or "tools[0].function".
        first = re.split(r"[.\[]", error.param.lower(), maxsplit=1)[0]
        return first if first in SWITCHES else None
    if not REFUSED.search(error.message):
        return None
    message = error.message.lower()
    named = next((word for word in re.findall(r"[a-z_]+", message) if word in SWITCHES), None)
    return named or next((name for phrase, name in PHRASES.items() if phrase in message), None)
