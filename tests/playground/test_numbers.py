"""How numbers are spelled: exactly, and blank where they are unknown."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playground import numbers


@pytest.mark.parametrize("spell", [numbers.tokens, numbers.seconds, numbers.duration, numbers.money, numbers.data_size])
def test_unknown_is_blank(spell: object) -> None:  # T6
    assert spell(None) == ""  # type: ignore[operator]


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        ("0.0074", "$0.0074"),
        ("12.345", "$12.35"),
        ("0.00000123", "$0.0000012"),
        ("0.1234567890123456789", "$0.1235"),
        ("0", "$0"),
        ("1234.5", "$1,234.50"),
        ("-0.0038", "−$0.0038"),
        ("1E-10", "$0.00000000010"),
    ],
)
def test_money_is_spelled_from_the_exact_decimal(amount: str, shown: str) -> None:  # M2
    assert numbers.money(Decimal(amount)) == shown


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (0, "0.00 s"),
        (380, "0.38 s"),
        (18_400, "18.40 s"),
        (59_994, "59.99 s"),
        (59_996, "1 min 00 s"),
        (3_725_000, "1 h 02 min"),
    ],
)
def test_durations_grow_into_minutes_and_hours(ms: float, shown: str) -> None:
    assert numbers.duration(ms).replace(numbers.SPACE, " ") == shown


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (0, "0.00"),
        (99_994, "99.99"),
        (99_996, "1:40"),
        (1_326_600, "22:07"),
        (3_599_600, "1:00:00"),
        (3_726_000, "1:02:06"),
    ],
)
def test_columns_tell_long_times_as_a_clock_does(ms: float, shown: str) -> None:
    assert numbers.seconds(ms) == shown


@pytest.mark.parametrize(
    ("size", "shown"), [(0, "0 B"), (999, "999 B"), (1300, "1.3 kB"), (999_960, "1.0 MB"), (10**10, "10.0 GB")]
)
def test_sizes_are_in_thousands(size: int, shown: str) -> None:
    assert numbers.data_size(size).replace(numbers.SPACE, " ") == shown


@given(
    st.lists(st.floats(min_value=0, max_value=1e9), min_size=1, max_size=12), st.integers(min_value=1, max_value=10**6)
)
def test_whole_parts_add_up_exactly(values: list[float], total: int) -> None:
    parts = numbers.whole_parts(values, total)

    assert len(parts) == len(values)
    assert sum(parts) == (total if sum(values) > 0 else 0)
    assert all(part >= 0 for part in parts)
