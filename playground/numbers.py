"""How the pages spell numbers. Unknown is blank, never 0; money never becomes a float."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal

SPACE = "\u00a0"  # a number is not torn from its unit


def tokens(count: int | None) -> str:
    """Thousands separated: 28,248."""
    return "" if count is None else f"{count:,}".replace("-", "−")


def seconds(ms: float | None) -> str:
    """As in the columns of the step list: seconds without their unit, 0.38, 12.41, then as a clock, 5:12, 1:02:06."""
    if ms is None:
        return ""
    if ms < 99_995:
        return f"{ms / 1000:.2f}"
    minutes, rest = divmod(round(ms / 1000), 60)
    return f"{minutes}:{rest:02}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def duration(ms: float | None) -> str:
    """18.40 s below a minute, then 2 min 05 s and 1 h 02 min."""
    if ms is None:
        return ""
    if ms < 59_995:
        return f"{ms / 1000:.2f}{SPACE}s"
    whole = round(ms / 1000)
    if whole < 3600:
        return f"{whole // 60}{SPACE}min {whole % 60:02}{SPACE}s"
    return f"{whole // 3600}{SPACE}h {whole % 3600 // 60:02}{SPACE}min"


def money(amount: Decimal | str | None) -> str:
    """US dollars: $12.34, $0.0074; below that as many digits as it takes to show two."""
    if amount is None or amount == "":
        return ""
    value = Decimal(amount)
    if value == 0:
        return "$0"
    places = 2 if abs(value) >= 1 else max(4, 1 - value.adjusted())
    rounded = value.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP)
    return f"{'−' if rounded < 0 else ''}${abs(rounded):,f}"


def price(amount: Decimal | None) -> str:
    """US dollars per million tokens, exactly as set: $2.00, $0.25, $0.0375."""
    if amount is None:
        return ""
    digits = amount.normalize().as_tuple()
    exponent = digits.exponent if isinstance(digits.exponent, int) else 0
    return f"${amount:,.{max(2, -exponent)}f}"


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 11th, 22nd."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"


def data_size(size: int | None) -> str:
    """412 B, 1.3 kB, 2.6 MB (of 1,000 each)."""
    if size is None:
        return ""
    if size < 1000:
        return f"{size}{SPACE}B"
    for unit, factor in (("kB", 1_000), ("MB", 1_000_000)):
        if size < factor * 1000 - factor / 20:
            return f"{size / factor:.1f}{SPACE}{unit}"
    return f"{size / 1e9:.1f}{SPACE}GB"


def percent(part: float | None, whole: float | None) -> str:
    if part is None or not whole:
        return ""
    return f"{round(100 * part / whole)}{SPACE}%"


def off_by(share: float | None) -> str:
    """How far an estimate was off: +3.2 %, −0.4 %, exact."""
    if share is None:
        return ""
    if abs(share) < 0.0005:
        return "exact"
    return f"{share * 100:+.1f}{SPACE}%".replace("-", "−")


def plural(count: int, one: str, many: str = "") -> str:
    """1 message, 3 messages."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def whole_parts(values: Sequence[float], total: int = 100) -> list[int]:
    """Whole numbers in the proportion of `values` that add up to exactly `total` (largest remainder)."""
    whole = sum(values)
    if whole <= 0:
        return [0] * len(values)
    exact = [value * total / whole for value in values]
    parts = [int(value) for value in exact]
    by_remainder = sorted(range(len(values)), key=lambda i: exact[i] - parts[i], reverse=True)
    for index in by_remainder[: total - sum(parts)]:
        parts[index] += 1
    return parts
