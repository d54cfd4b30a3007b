"""Runs one tool: in a thread where it is synchronous, under its deadline, and with every failure made a result."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from llmcore.errors import ToolError
from llmcore.messages import JSON
from llmcore.tools.base import Action, Effect, Tool, ToolContext
from llmcore.tools.results import FailureKind, ToolResult, clean, result_of

logger = logging.getLogger(__name__)

# How long an async tool that is cancelled may clean up. A run must stop within a second of the click.
GRACE_S = 0.5
# Saying what a call would do reads a file or a row at most.
DESCRIBE_S = 10.0
MAX_TRACEBACK_CHARS = 20_000
INTERNAL = "The tool failed with an internal error. Go on without it, or tell the user that it failed."
UNDESCRIBED = "Not run: what this call would do could not be found out."

Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True, slots=True)
class Described:
    """What a call would do, and why the tool wants a person to agree to it (`None`: it doesn't)."""

    action: Action
    needs_approval: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolRunner:
    """Runs tools for one run.

    `cancelled` is done when the run is cancelled. `redact` cleans tracebacks. `after_tool` runs in a synchronous
    tool's thread when the tool has ended, to release what the thread holds (database connections).
    """

    context: ToolContext = field(default_factory=ToolContext)
    cancelled: asyncio.Future[Any] | None = None
    redact: Callable[[str], str] = str
    after_tool: Callable[[], None] | None = None

    async def run(self, tool: Tool, arguments: dict[str, JSON], *, approved: Action | None = None) -> ToolResult:
        """The result of the tool on arguments that fit its schema; never raises for what the tool does.

        `approved` is the action of a call that needed approval and got it, as it was shown to who approved it.
        """
        context = replace(self.context, approved=approved)
        keywords = {tool.context_parameter: context} if tool.context_parameter else {}
        call = {**arguments, **keywords}
        asynchronous = is_async(tool.run)
        if asynchronous:
            work: asyncio.Future[ToolResult] = asyncio.ensure_future(self._awaited(tool, call))
        else:
            work = in_thread(lambda: self._called(tool, call), name=f"tool {tool.name}")
        waiting = {work} if self.cancelled is None else {work, self.cancelled}
        try:
            await asyncio.wait(waiting, timeout=tool.timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return self._settled(tool, work)
            if asynchronous:
                work.cancel()
                await asyncio.wait({work}, timeout=GRACE_S)
        finally:
            work.cancel()
        # A thread can't be stopped: it may still be at it.
        return self._given_up(tool, effect_unknown=not asynchronous or tool.effect is not Effect.READ_ONLY)

    async def describe(self, tool: Tool, arguments: dict[str, JSON]) -> Described | ToolResult:
        """What the call would do, or its result where the tool says that it can't run at all, or can't say it."""
        if tool.describe_action is None and not callable(tool.requires_approval):
            return Described(
                action=tool.action(arguments, self.context),
                needs_approval=tool.needs_approval(arguments, self.context),
            )
        work = in_thread(lambda: self._described(tool, arguments), name=f"tool {tool.name}, described")
        await asyncio.wait({work}, timeout=DESCRIBE_S)
        return work.result() if work.done() else ToolResult.failed(FailureKind.TIMEOUT, UNDESCRIBED)

    def _described(self, tool: Tool, arguments: dict[str, JSON]) -> Described | ToolResult:
        try:
            needs_approval = tool.needs_approval(arguments, self.context)
            return Described(action=tool.action(arguments, self.context), needs_approval=needs_approval)
        except ToolError as error:
            return _told(error)
        except BaseException as error:
            return replace(self._raised(tool, error), text=UNDESCRIBED)
        finally:
            self._release(tool)

    def _given_up(self, tool: Tool, *, effect_unknown: bool) -> ToolResult:
        unknown = " Whether it had an effect is unknown." if effect_unknown else ""
        if self.cancelled is not None and self.cancelled.done():
            text = f"The run was cancelled while this tool was running.{unknown}"
            return ToolResult.failed(FailureKind.CANCELLED, text, effect_unknown=effect_unknown)
        text = f"The tool did not finish within {tool.timeout_s:g} seconds.{unknown}"
        return ToolResult.failed(FailureKind.TIMEOUT, text, effect_unknown=effect_unknown)

    def _settled(self, tool: Tool, work: asyncio.Future[ToolResult]) -> ToolResult:
        if work.cancelled():
            return self._raised(tool, asyncio.CancelledError("the tool cancelled itself"))
        return work.result()

    def _called(self, tool: Tool, call: dict[str, Any]) -> ToolResult:
        try:
            value = tool.run(**call)
            if inspect.iscoroutine(value):
                value.close()
                raise TypeError(f"the synchronous tool {tool.name!r} returned a coroutine: declare it async")
            return result_of(value)
        except ToolError as error:
            return _told(error)
        # Not even SystemExit may end the thread silently: the model waits for a result.
        except BaseException as error:
            return self._raised(tool, error)
        finally:
            self._release(tool)

    async def _awaited(self, tool: Tool, call: dict[str, Any]) -> ToolResult:
        try:
            return result_of(await tool.run(**call))
        except ToolError as error:
            return _told(error)
        # Those that an event loop raises again, out of the whole run. Ctrl-C is not the tool's.
        except (Exception, SystemExit, GeneratorExit) as error:
            return self._raised(tool, error)

    def _raised(self, tool: Tool, error: BaseException) -> ToolResult:
        """The model learns only that it failed: what an exception says may be nobody's business."""
        text = clean(self.redact("".join(traceback.format_exception(error))))[-MAX_TRACEBACK_CHARS:]
        logger.error("the tool %s failed\n%s", tool.name, text)
        return replace(ToolResult.failed(FailureKind.EXCEPTION, INTERNAL), traceback=text)

    def _release(self, tool: Tool) -> None:
        if self.after_tool is None:
            return
        try:
            self.after_tool()
        except Exception as error:
            logger.error("cleaning up after the tool %s failed: %s", tool.name, self.redact(repr(error)))


def is_async(function: Callable[..., Any]) -> bool:
    # The second is an instance of a class with an async `__call__`.
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def in_thread(work: Callable[[], Value], *, name: str) -> asyncio.Future[Value]:
    """The result of `work`, which must not raise, from a thread of its own.

    A daemon thread, not a pool's: a tool that hangs forever must keep neither the event loop nor the process from
    ending, nor take a place that other tools need.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Value] = loop.create_future()

    def settle(result: Value) -> None:
        if not future.done():
            future.set_result(result)

    def run() -> None:
        result = work()
        try:
            loop.call_soon_threadsafe(settle, result)
        except RuntimeError:
            logger.warning("%s ended after its run was over", name)

    threading.Thread(target=contextvars.copy_context().run, args=(run,), name=name, daemon=True).start()
    return future


def _told(error: ToolError) -> ToolResult:
    return ToolResult.failed(FailureKind.TOOL_ERROR, clean(str(error)) or "The tool failed without saying why.")
