"""Where a model's window goes, as a bar with its legend: the same before a run and for each of its rounds."""

from __future__ import annotations

from dataclasses import dataclass

from llmcore.context.budget import WindowUse
from llmcore.context.tokens import Share
from playground.numbers import SPACE, tokens

LABELS = {
    Share.TOOLDEF: "Tool definitions",
    Share.CONFIG: "Configuration",
    Share.OVERRIDE: "Override",
    Share.SNIPPET: "Snippets",
    Share.SKILL: "Skills",
    Share.USER: "User",
    Share.ASSISTANT: "Model",
    Share.THINKING: "Thinking",
    Share.ARGUMENTS: "Tool arguments",
    Share.TOOL: "Tool results",
    Share.FRAME: "Framing",
}
# Those that share the color of something else.
CSS = {Share.FRAME: "over"}


@dataclass(frozen=True, kw_only=True, slots=True)
class BarPart:
    """A part of the window. `css` is the color."""

    css: str
    label: str
    value: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """A figure under the bar, at `x` percent of it."""

    x: str
    text: str
    anchor: str = ""


@dataclass(frozen=True, slots=True)
class WindowBar:
    """A use of the window as the pages draw it."""

    use: WindowUse

    @property
    def total(self) -> int:
        return self.use.used

    @property
    def size(self) -> int | None:
        return self.use.window

    @property
    def shares(self) -> list[BarPart]:
        """What the prompt is made of, the largest sources of a prompt in the order in which they stand in it."""
        return [
            BarPart(css=CSS.get(share, share.value), label=label, value=self.use.shares[share])
            for share, label in LABELS.items()
            if self.use.shares.get(share)
        ]

    @property
    def kept(self) -> list[BarPart]:
        """What the prompt may not take."""
        parts = [
            BarPart(css="margin", label="Margin", value=self.use.margin or 0),
            BarPart(css="reserve", label="Reserved for the answer", value=self.use.reserve or 0),
        ]
        return [part for part in parts if part.value]

    @property
    def legend(self) -> list[BarPart]:
        free = self.use.free
        rest = [BarPart(css="skel", label="Free", value=free)] if free is not None and free > 0 else []
        return [*self.shares, *self.kept, *rest]

    @property
    def segments(self) -> list[BarPart]:
        """Of the bar: the shares, what is free, and what is kept at the end."""
        return [*self.shares, BarPart(css="skel", label="Free", value=max(self.use.free or 0, 0)), *self.kept]

    @property
    def over(self) -> int:
        """By how much prompt, margin and reserve are more than the window."""
        return max(-(self.use.free or 0), 0)

    @property
    def percent(self) -> str:
        """How full the window is; empty where it is unknown."""
        if not self.use.window:
            return ""
        whole = round(100 * self.use.used / self.use.window)
        return f"{whole}{SPACE}%" if whole or not self.use.used else f"<{SPACE}1{SPACE}%"

    @property
    def x(self) -> str:
        """The same as the width of a bar, without its unit."""
        return f"{min(100 * self.use.used / self.use.window, 100):.1f}" if self.use.window else ""

    @property
    def marks(self) -> list[Mark]:
        """Where the prompt ends and where the window does; those too close to an end of the bar are left out."""
        whole = sum(segment.value for segment in self.segments)
        if not whole:
            return []
        marks = [Mark(x="0", text="0"), Mark(x="100", text=tokens(whole), anchor="end")]
        inner = [(self.total, tokens(self.total))]
        if self.size is not None and self.size < whole:
            inner.append((self.size, f"window {tokens(self.size)}"))
        places = [(100 * value / whole, text) for value, text in inner]
        return marks + [Mark(x=f"{x:.1f}", text=text, anchor="middle") for x, text in places if 8 < x < 85]

    @property
    def label(self) -> str:
        """What a screen reader says of the bar; the figures stand beside it."""
        window = f" of {tokens(self.size)}" if self.size else ""
        kept = f", {tokens(self.use.reserve)} reserved for the answer" if self.use.reserve else ""
        return f"{tokens(self.total)}{window} tokens taken by the prompt{kept}"
