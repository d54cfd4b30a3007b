"""Structured completions for the code of a site: with its prompts, configurations and usage records."""

from __future__ import annotations

from typing import Any

from llmcore import store
from llmcore.errors import ConfigurationError, InvalidTarget
from llmcore.site_budgets import site_budgets
from llmcore.site_calls import make_calls
from llmcore.site_usage import DatabaseMeter
from llmcore.structured.completion import StructuredAnswer, complete
from llmcore.structured.packs import site_prompts
from llmcore.structured.recorder import UseRecorder
from llmcore.structured.request import Ready, StructuredRequest, make_ready


def complete_structured(
    request: StructuredRequest, *, user: Any = None, recorder: UseRecorder | None = None
) -> StructuredAnswer:
    """Make the completion and wait for it. What is wrong with the request is a ConfigurationError before any call;
    CompletionFailed says how it ended otherwise. Each call is a usage record of `user`. Secrets of this site in what is
    given are left out.

    From a coroutine: `await sync_to_async(complete_structured, thread_sensitive=False)(request)`.
    """
    redactor = store.site_redactor()
    # Nobody means to send these to a model.
    ready = ready_request(request.without_secrets(redactor))
    meter = DatabaseMeter(user=user, configuration_id=ready.configuration.id, redactor=redactor)
    budgets = site_budgets(configuration=ready.configuration, user=user)
    return make_calls(
        lambda site: complete(
            ready,
            client=site.client,
            meter=site.meter,
            recorder=recorder,
            cancel=site.cancel,
            redact=redactor.patterns,
        ),
        meter=meter,
        budgets=budgets,
    )


def ready_request(request: StructuredRequest, *, read_keys: bool = True) -> Ready:
    """The request with the configuration that it names, or its prompt does; no call is made."""
    prompt = site_prompts.prompt(request.prompt)
    slug = request.configuration or prompt.configuration
    if not slug:
        raise InvalidTarget(f"The prompt “{prompt.id}” names no configuration of its own: name one in the request.")
    try:
        configuration = store.load_configuration(slug, read_keys=read_keys)
    except ConfigurationError as error:
        raise type(error)(f"The prompt “{prompt.id}” can't be completed. {error}") from error
    return make_ready(request, registry=site_prompts, configuration=configuration)
