"""A base URL is refused with what to change, or brought into its one spelling."""

from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError

from llmcore.models.base_url import clean_base_url, host_of


@pytest.mark.parametrize(
    ("typed", "clean"),
    [
        ("https://api.openai.com/v1", "https://api.openai.com/v1"),
        (" https://API.OpenAI.com:443/v1/ ", "https://api.openai.com/v1"),
        ("HTTPS://gateway.example.com:8443", "https://gateway.example.com:8443"),
        ("https://8.8.8.8/v1", "https://8.8.8.8/v1"),
        ("https://[2606:4700::1111]/v1", "https://[2606:4700::1111]/v1"),
        ("https://llm.example.com/proxy/models-of-ours", "https://llm.example.com/proxy/models-of-ours"),
    ],
)
def test_public_addresses_over_https_are_taken(typed: str, clean: str) -> None:
    assert clean_base_url(typed, allow_private_hosts=False) == clean


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:11434",
        "http://localhost:1234/v1",
        "http://ollama:11434",
        "http://10.1.2.3/v1",
        "http://192.168.1.20:8000/v1",
        "http://[::1]:8080/v1",
        "http://[fd12:3456::1]/v1",
        "http://gpu.lan:8000/v1",
        "http://llm.corp.example.com/v1",
        "https://172.16.0.9/v1",
        "https://gpu.internal/v1",
    ],
)
def test_private_addresses_need_the_permission_and_may_be_http(url: str) -> None:  # W6
    assert clean_base_url(url, allow_private_hosts=True) == url
    with pytest.raises(ValidationError, match="tick “allow a local or private address”"):
        clean_base_url(url, allow_private_hosts=False)


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest",
        "https://169.254.169.254",
        "http://169.254.10.20/v1",
        "http://[fe80::1]/v1",
        "http://[fd00:ec2::254]/latest",
        "http://[::ffff:169.254.169.254]/",
        "http://100.100.100.200/",
        "http://metadata.google.internal/v1",
        "http://metadata.google.internal./v1",
        "http://0.0.0.0:8000/v1",
        "http://[::]/v1",
        "http://224.0.0.1/v1",
    ],
)
def test_metadata_and_link_local_addresses_are_never_taken(url: str, allowed: bool) -> None:  # W6
    with pytest.raises(ValidationError, match="never called"):
        clean_base_url(url, allow_private_hosts=allowed)


@pytest.mark.parametrize("url", ["http://2130706433/v1", "http://0x7f.1/v1", "http://127.1/v1", "http://0177.0.0.1/"])
def test_addresses_in_disguise_are_not_taken(url: str) -> None:  # W6
    with pytest.raises(ValidationError, match="IP address in its usual form"):
        clean_base_url(url, allow_private_hosts=True)


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        ("", "whole URL"),
        ("api.openai.com/v1", "whole URL"),
        ("ftp://example.com", "whole URL"),
        ("javascript:alert(1)", "whole URL"),
        ("https:///v1", "whole URL"),
        ("https://example.com:port/v1", "whole URL"),
        ("https://[::1/v1", "whole URL"),
        ("https://exa mple.com/v1", "no spaces"),
        ("https://example.com\\@evil.example/v1", "no spaces"),
        ("https://user:pass@example.com/v1", "user name and password"),
        ("https://user@example.com/v1", "user name and password"),
        ("https://@example.com/v1", "user name and password"),
        ("https://example.com/v1?key=abc", "“\\?” or “#”"),
        ("https://example.com/v1?", "“\\?” or “#”"),
        ("https://example.com/v1#part", "“\\?” or “#”"),
        ("http://8.8.8.8/v1", "Use https"),
        ("https://api.openai.com/v1/chat/completions", "Leave out “/chat/completions”"),
        ("https://ollama.example.com/api/chat/", "Leave out “/api/chat”"),
        ("https://аpi.example.com/v1", "ASCII form"),
    ],
)
def test_other_urls_are_refused_with_what_to_change(url: str, advice: str) -> None:  # W6
    with pytest.raises(ValidationError, match=advice):
        clean_base_url(url, allow_private_hosts=True)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://API.example.com/v1", "api.example.com"),
        ("https://api.example.com:443", "api.example.com"),
        ("https://api.example.com:8443", "api.example.com:8443"),
        ("http://api.example.com:80", "http://api.example.com"),
        ("http://[::1]:8080/v1", "http://[::1]:8080"),
        ("nonsense", ""),
        ("https://[broken", ""),
    ],
)
def test_the_host_that_a_key_belongs_to_includes_port_and_plain_http(url: str, host: str) -> None:
    assert host_of(url) == host
