"""Addresses that lead past the rules: to credentials, or into networks that are not the internet."""

from __future__ import annotations

import pytest

from llmcore.providers.addresses import reach_of


@pytest.mark.parametrize(
    ("address", "reach"),
    [
        ("fd00:ec2::23", "refused"),  # hands out credentials in Amazon's clusters
        ("fd00:ec2::253", "refused"),
        ("169.254.170.23", "refused"),
        ("::ffff:169.254.169.254", "refused"),
        ("::ffff:0:169.254.169.254", "refused"),
        ("64:ff9b::a9fe:a9fe", "refused"),
        ("2002:a9fe:a9fe::1", "refused"),
        ("fec0::1", "private"),
        ("feff::1", "private"),
        ("fd12:3456::1", "private"),
        ("::ffff:127.0.0.1", "private"),
        ("100.64.0.1", "private"),
        ("2606:4700::1111", "public"),
    ],
)
def test_what_an_address_can_reach(address: str, reach: str) -> None:  # W6
    assert reach_of(address) == reach
