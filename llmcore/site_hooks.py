"""The hooks of this site, as the setting `LLM_TOOL_HOOKS` names them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import connections
from django.utils.module_loading import import_string

from llmcore.conf import settings
from llmcore.errors import ConfigurationError
from llmcore.runs.hooks import Hooks
from llmcore.tools.execute import in_thread, is_async

KINDS = ("pre_tool_use", "post_tool_use")


def site_hooks() -> Hooks:
    """In the order of the setting. ConfigurationError says what is wrong with it."""
    if unknown := sorted(set(settings.LLM_TOOL_HOOKS) - set(KINDS)):
        raise ConfigurationError(
            f"LLM_TOOL_HOOKS has unknown keys: {', '.join(unknown)}. Known are {', '.join(KINDS)}."
        )
    return Hooks(**{kind: tuple(map(_hook, settings.LLM_TOOL_HOOKS.get(kind, ()))) for kind in KINDS})


def _hook(path: str) -> Callable[..., Any]:
    try:
        function = import_string(path)
    except ImportError as error:
        raise ConfigurationError(f"LLM_TOOL_HOOKS names {path!r}, which can't be imported: {error}") from error
    if not callable(function):
        raise ConfigurationError(f"LLM_TOOL_HOOKS names {path!r}, which is no function.")
    return function if is_async(function) else _beside_the_loop(function, path)


def _beside_the_loop(function: Callable[..., Any], path: str) -> Callable[..., Any]:
    """As tools are run: a plain function may block, and use the database."""

    async def hook(*given: Any) -> Any:
        def work() -> tuple[Any, BaseException | None]:
            try:
                return function(*given), None
            except BaseException as error:
                return None, error
            finally:
                connections.close_all()

        verdict, error = await in_thread(work, name=f"hook {path}")
        if error is not None:
            raise error
        return verdict

    return hook
