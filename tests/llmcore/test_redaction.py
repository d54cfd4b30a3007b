"""No secret gets through: neither a known one in any spelling, nor what looks like one."""

from __future__ import annotations

import base64
import html
import json
import re
import time
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmcore.redaction import MASK, Redactor, storable
from llmcore.redaction.patterns import PATTERNS, redact_patterns

KEY = "Zx9/Kq+7\"Lm'w€=&<pT\\v2"
PLAIN = "abc123DEF456ghi789"


# Known values


@pytest.mark.parametrize("secret", [KEY, PLAIN])
@pytest.mark.parametrize(
    "spell",
    [
        str,
        lambda s: quote(s, safe=""),
        quote,
        quote_plus,
        lambda s: re.sub("%..", lambda match: match[0].lower(), quote(s, safe="")),
        lambda s: json.dumps(s)[1:-1],
        lambda s: json.dumps(s, ensure_ascii=False)[1:-1],
        lambda s: json.dumps(json.dumps({"k": s}))[1:-1],
        lambda s: json.dumps(s)[1:-1].replace("/", "\\/"),
        lambda s: json.dumps(s)[1:-1].replace("&", "\\u0026").replace("<", "\\u003c"),
        lambda s: repr(s)[1:-1],
        html.escape,
    ],
)
def test_a_known_secret_is_removed_in_every_spelling(secret: str, spell: Any) -> None:  # R1
    redacted = Redactor([secret]).known(f"before {spell(secret)} after")
    assert MASK in redacted
    assert redacted.startswith("before ") and redacted.endswith(" after")
    assert secret[-8:] not in redacted
    assert spell(secret)[2:12] not in redacted and spell(secret)[-8:] not in redacted


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("user", ["", "u", "me", "bob:", "user:", "somebody:"])
def test_a_known_secret_is_removed_from_base64_wherever_it_begins(encode: Any, user: str) -> None:  # R1
    encoded = encode(f"{user}{PLAIN}@end".encode()).decode()
    redacted = Redactor([PLAIN]).known(f"Basic {encoded}")
    assert MASK in redacted
    left = redacted.removeprefix("Basic ").split(MASK)
    # At most the few bits at the seams, which no character can be read from, are left of it.
    assert sum(map(len, left)) <= len(encode(f"{user}@end".encode())) + 2


def test_longer_secrets_go_first_and_overlapping_ones_leave_no_rest() -> None:  # R1
    redactor = Redactor(["secret-one", "secret-one-and-more", "and-more-and-most"])
    assert redactor.known("x secret-one-and-more y") == f"x {MASK} y"
    assert redactor.known("x secret-one-and-more-and-most y") == f"x {MASK} y"
    assert redactor.known("x secret-one y") == f"x {MASK} y"


def test_a_text_without_secrets_is_returned_as_it_is() -> None:
    text = "nothing in here"
    redactor = Redactor([KEY])
    assert redactor.known(text) is text
    data = text.encode()
    assert redactor.known_bytes(data) is data


@pytest.mark.parametrize("placeholder", ["", "ollama", "none", "LM-Studio", "not-needed"])
def test_what_is_entered_where_no_key_is_needed_is_no_secret(placeholder: str) -> None:
    text = f"The adapter is ollama, lm-studio or none; a key is not-needed. {placeholder}"
    assert Redactor([placeholder]).known(text) == text


def test_bytes_are_redacted_like_texts_even_if_they_are_no_utf8() -> None:  # R1
    data = b"\xff\xfe" + PLAIN.encode() + b"\x00" + json.dumps(KEY).encode()
    redacted = Redactor([PLAIN, KEY]).known_bytes(data)
    assert PLAIN.encode() not in redacted and b"Kq+7" not in redacted
    assert redacted.startswith(b"\xff\xfe" + MASK.encode() + b"\x00")


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_a_secret_cut_by_the_pieces_of_a_body_is_found(size: int) -> None:  # R1
    body = f"data: {PLAIN}\n\ndata: x{PLAIN}".encode()
    chunks = [body[start : start + size] for start in range(0, len(body), size)]
    redacted = Redactor([PLAIN]).known_chunks(chunks)
    assert len(redacted) == len(chunks)
    joined = b"".join(redacted)
    assert joined.replace(MASK.encode(), b"") == b"data: \n\ndata: x"
    assert Redactor(["another-secret"]).known_chunks(chunks) == chunks


@given(st.text(min_size=7, max_size=40), st.text(max_size=60), st.text(max_size=60))
def test_no_known_secret_is_left_in_any_text(secret: str, before: str, after: str) -> None:  # R1
    redacted = Redactor([secret]).known(before + secret + after)
    assert secret not in redacted
    assert MASK in redacted


def test_many_secrets_in_a_large_text_are_removed_quickly() -> None:
    secrets = [f"key-{n:03}-{'x' * 20}" for n in range(50)]
    text = "The quick brown fox. " * 50_000 + secrets[7]
    redactor = Redactor(secrets)
    started = time.process_time()
    assert redactor.known(text).endswith(f" {MASK}")
    assert time.process_time() - started < 2


# Patterns

PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow+/BAAKC\nAQEAz==\n-----END RSA PRIVATE KEY-----"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"

SECRETS = {
    "Authorization: Bearer abc.DEF-123": f"Authorization: {MASK}",
    "sent Bearer abcdefghijklmnopqrstuvwx to it": f"sent Bearer {MASK} to it",
    "{'authorization': 'Bearer abc123'}": f"{{'authorization': '{MASK}'}}",
    "(b'authorization', b'Bearer abc123')": f"(b'authorization', b'{MASK}')",
    '["X-Api-Key", "abc"]': f'["X-Api-Key", "{MASK}"]',
    'curl -H "Authorization: Basic dXNlcjpwYXNz" x': f'curl -H "Authorization: {MASK}" x',
    "got basic dXNlcjpwYXNz": f"got basic {MASK}",
    "Incorrect API key provided: sk-proj-abc_DEF-1234567890.": f"Incorrect API key provided: {MASK}.",
    "Incorrect API key provided: sk-abc1***********wxyz.": f"Incorrect API key provided: {MASK}.",
    "sk-ant-api03-abcdefghijklmnop": MASK,
    "pay with sk_live_4eC39HqLyjWDarjtT1": f"pay with {MASK}",
    "AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY": MASK,
    "https://x.test/v1beta/m:run?key=abcdef&alt=sse": f"https://x.test/v1beta/m:run?key={MASK}&alt=sse",
    "https://x.test/?a=1&api-key=abc": f"https://x.test/?a=1&api-key={MASK}",
    "https://x.test/?access_token=abc&b": f"https://x.test/?access_token={MASK}&b",
    "https://x.test/?key=abc#top": f"https://x.test/?key={MASK}#top",
    "https://b.test/o?X-Amz-Signature=ab12&x=1": f"https://b.test/o?X-Amz-Signature={MASK}&x=1",
    "https://b.blob.test/c?sv=2022&sig=a%2Fb%3D": f"https://b.blob.test/c?sv=2022&sig={MASK}",
    "postgres://shop:hunter2@db:5432/shop": f"postgres://{MASK}@db:5432/shop",
    "redis://:pa55@cache/0": f"redis://{MASK}@cache/0",
    "postgres://shop@server:hunt@er2@server.test/shop": f"postgres://{MASK}@server.test/shop",
    "/login?next=%2Fapi%3Fapi_key%3Dabc": f"/login?next=%2Fapi%3Fapi_key%3D{MASK}",
    "/login?next=%2Fapi%3Fa%3D1%26token%3dabc&b=1": f"/login?next=%2Fapi%3Fa%3D1%26token%3d{MASK}&b=1",
    "h=Authorization%3A%20Bearer%20abc": f"h=Authorization%3A{MASK}",
    "v=Bearer%20abc123DEF456": f"v=Bearer%20{MASK}",
    "https://ghs16charactersormore@host/": f"https://{MASK}@host/",
    PEM: MASK,
    f"a {PEM} b": f"a {MASK} b",
    json.dumps({"key": PEM}): f'{{"key": "{MASK}"}}',
    "-----BEGIN PRIVATE KEY-----\nMIIEvQ\ncut here:": f"{MASK}:",
    "Cookie: sessionid=abc; csrftoken=def": f"Cookie: {MASK}",
    "set-cookie: sessionid=abc; Path=/\nHost: x": f"set-cookie: {MASK}\nHost: x",
    'headers: "cookie": "sessionid=abc; a=b", "n": 1': f'headers: "cookie": "{MASK}", "n": 1',
    "sessionid=abcdef; x": f"sessionid={MASK}; x",
    "x-api-key: abc": f"x-api-key: {MASK}",
    "api-key=abc, status=401": f"api-key={MASK}, status=401",
    "OPENAI_API_KEY=abc": f"OPENAI_API_KEY={MASK}",
    "x-goog-api-key: abc": f"x-goog-api-key: {MASK}",
    '{"api_key": "a\\"b", "n": 1}': f'{{"api_key": "{MASK}", "n": 1}}',
    r'{"body": "{\"api_key\": \"abc\", \"n\": 1}"}': rf'{{"body": "{{\"api_key\": \"{MASK}\", \"n\": 1}}"}}',
    '{"password": "it\'s", "n": 1}': f'{{"password": "{MASK}", "n": 1}}',
    "client_secret='x y'": f"client_secret='{MASK}'",
    "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG": f"aws_secret_access_key = {MASK}",
    "id AKIAIOSFODNN7EXAMPLE used": f"id {MASK} used",
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a": MASK,
    "github_pat_11ABCDEFG0abcdefghijkl_mnop": MASK,
    "gsk_abcdefghijklmnopqrstuv": MASK,
    f"token {JWT}!": f"token {MASK}!",
}


@pytest.mark.parametrize("text", SECRETS)
def test_what_looks_like_a_secret_is_masked(text: str) -> None:  # R1
    redacted = Redactor().patterns(text)
    assert redacted == SECRETS[text]
    assert Redactor().patterns(redacted) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "task-force-with-a-long-name, risk-assessment-2026, sk-learn",
        "Bearer authentication is required. The basic information follows; a basic understanding helps.",
        "max_tokens: 512, prompt_tokens=12, token count 5, tokens per key",
        "https://example.com/path?page=2&monkey=see#key=1",
        "http://localhost:11434/v1/chat/completions",
        "mail amelia.braun@example.com or see https://medium.com/@amelia",
        "api_key=None, password: null, secret=False",
        '{"properties": {"password": {"type": "string"}, "authorization": {"type": "string"}}}',
        "The cookie jar. An authorization, once given, stays. Keys, locks and secrets.",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "eyJ is how base64 of a JSON object begins; eyJ.eyJ is none",
        "AIzaShort AKIAshort ghp_short",
    ],
)
def test_ordinary_text_is_left_as_it_is(text: str) -> None:
    assert Redactor().patterns(text) == text


def test_patterns_remove_known_secrets_too() -> None:  # R1
    assert Redactor([PLAIN]).patterns(f"{PLAIN} and sk-abcdef1234567890") == f"{MASK} and {MASK}"


HOSTILE = [
    "eyJ", "eyJaaaaaaaa.", "sk-", "sk-a", "-----BEGIN PRIVATE KEY-----", "-----BEGIN A PRIVATE KEY-----a-", "-----",
    "://", "://a:", "://aaaaaaaa", "a.", "a", " ", "\n", '"', "'", "\\", '\\"', "=", ":", "bearer ", "basic a",
    "authorization", "authorization:", "authorization: ", "cookie=", 'cookie"', '"cookie", ', "x-api-key",
    "x-api-key: \"", "x-api-key='\\", "api_key", "api_key\\\"", "?key", "&a_key", "?key=",
    "secret", "secret_", "access", "private key ",
    "client_secret=b", "AIza", "AKIA", "ghp_", "xoxb-", "password: none", "passwd", "_", "-", "&amp;token", "x-amz-",
]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_no_text_takes_a_pattern_more_than_linear_time(piece: str) -> None:  # R1
    def seconds(length: int) -> float:
        text = (piece * (length // len(piece) + 1))[:length] + "!"
        # All patterns, whether or not the words they look for are there.
        started = time.process_time()
        for pattern in PATTERNS:
            text = pattern.regex.sub(pattern.replace, text)
        return time.process_time() - started

    assert seconds(200_000) < 2


@given(st.text())
def test_any_text_can_be_redacted_twice(text: str) -> None:
    once = redact_patterns(text)
    assert redact_patterns(once) == once


# JSON values


def test_all_texts_and_keys_of_a_value_are_redacted() -> None:  # R1
    value = {"a": [PLAIN, 1, None, {"b": f"x{PLAIN}"}], PLAIN: True, "c": (1.5, PLAIN)}
    redacted = Redactor([PLAIN]).deep(value)
    assert redacted == {"a": [MASK, 1, None, {"b": f"x{MASK}"}], MASK: True, "c": [1.5, MASK]}
    assert value["a"][0] == PLAIN  # type: ignore[index]


def test_stored_values_lose_known_secrets_only() -> None:  # R1
    value = {"text": "The docs show sk-abcdef1234567890.", "password": "example"}
    assert Redactor([PLAIN]).deep(value) is value


def test_values_under_the_name_of_a_secret_are_masked_where_patterns_apply() -> None:  # R1
    headers = {"X-Api-Key": "a", "set-cookie": ["b=c", "d=e"], "aws_secret_access_key": "f", "accept": "*/*", "n": 1}
    assert Redactor().deep(headers, patterns=True) == {
        "X-Api-Key": MASK,
        "set-cookie": [MASK, MASK],
        "aws_secret_access_key": MASK,
        "accept": "*/*",
        "n": 1,
    }


JSONS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=())),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(exclude_categories=())), inner, max_size=4)
    ),
    max_leaves=12,
)


# Storable values


@pytest.mark.parametrize("dirt", [PLAIN, f"x{PLAIN}y", "a\0b", "\ud83d"])
@given(JSONS)
def test_what_is_stored_has_neither_secrets_nor_what_a_database_refuses(dirt: str, value: Any) -> None:  # R1
    redactor = Redactor([PLAIN])
    for dirty in (value, [value, dirt], {dirt: value}, {"k": [{"n": dirt}, value]}):
        assert redactor.stored(dirty) == storable(redactor.deep(dirty))


def test_a_clean_value_is_stored_as_it_is() -> None:
    value = {"text": "The docs show sk-abcdef1234567890.", "n": [1, None, {"k": ("a", "客户")}]}
    assert Redactor([PLAIN]).stored(value) is value


@given(JSONS)
def test_every_value_becomes_storable_and_a_storable_one_stays_the_same_object(value: Any) -> None:
    cleaned = storable(value)
    encoded = json.dumps(cleaned, ensure_ascii=False)
    encoded.encode()
    assert "\\u0000" not in encoded.replace("\\\\", "")
    assert storable(cleaned) is cleaned


def test_nul_and_lone_surrogates_become_the_replacement_character() -> None:  # L10
    assert storable("a\0b") == "a\ufffdb"
    assert storable("\ud83d alone, \ude00 too") == "\ufffd alone, \ufffd too"
    assert storable({"k\0": ["\udfff", {"x": "\0"}]}) == {"k\ufffd": ["\ufffd", {"x": "\ufffd"}]}


def test_a_text_that_spells_out_an_escape_stays() -> None:
    value = {"code": "printf '\\u0000'", "regex": "[\\ud800-\\udfff]", "emoji": "😀"}
    assert storable(value) is value


def test_keys_that_become_the_same_do_not_swallow_each_other() -> None:
    assert storable({"a\0": 1, "a\ufffd": 2}) == {"a\ufffd": 1, "a\ufffd\ufffd": 2}


def test_the_order_of_keys_stays() -> None:
    assert list(storable({"z": 1, "a\0": 2, "b": 3})) == ["z", "a\ufffd", "b"]


def test_a_value_nested_deeper_than_the_stack_is_no_problem() -> None:
    value: Any = "\0"
    for _ in range(50_000):
        value = [value]
    cleaned = storable(value)
    depth = 0
    while isinstance(cleaned, list):
        cleaned, depth = cleaned[0], depth + 1
    assert (cleaned, depth) == ("\ufffd", 50_000)
    # Unwound by hand: freeing so deep a value is as much nesting again.
    while isinstance(value, list):
        value = value[0]


# Exceptions


def failing_with(message: str) -> BaseException:
    try:
        try:
            try:
                raise ConnectionError(f"refused for Bearer {message}")
            except ConnectionError as first:
                raise ValueError(f"can't read {message}") from first
        except ValueError:
            raise RuntimeError(f"api_key={message}")  # noqa: B904
    except RuntimeError as error:
        return error


def test_the_whole_chain_of_an_exception_is_rendered_without_secrets() -> None:  # R1
    rendered = Redactor([PLAIN]).render_exception(failing_with(PLAIN))
    for kind in ("ConnectionError", "ValueError", "RuntimeError"):
        assert kind in rendered
    assert "direct cause" in rendered and "another exception occurred" in rendered
    assert PLAIN not in rendered
    assert rendered.count(MASK) >= 3
    assert "test_redaction.py" in rendered


def test_secrets_nobody_knows_go_from_a_chain_by_their_looks() -> None:  # R1
    rendered = Redactor().render_exception(failing_with("sk-abcdef1234567890"))
    assert "abcdef1234567890" not in rendered


def test_a_rendered_exception_is_bounded_and_keeps_its_end() -> None:  # R1
    rendered = Redactor().render_exception(ValueError("x" * 100_000 + " the end"))
    assert len(rendered) < 21_000
    assert rendered.rstrip().endswith("the end")
    assert "characters left out" in rendered


def recursing(depth: int) -> None:
    if depth == 0:
        raise ValueError("at the bottom")
    recursing(depth - 1)


def test_a_deep_recursion_shows_its_last_frames() -> None:
    with pytest.raises(ValueError, match="bottom") as caught:
        recursing(500)
    rendered = Redactor().render_exception(caught.value)
    assert "at the bottom" in rendered
    assert len(rendered) < 21_000


def test_a_chain_that_bites_its_tail_ends() -> None:
    one, other = ValueError("one"), KeyError("other")
    one.__cause__, other.__cause__ = other, one
    rendered = Redactor().render_exception(one)
    assert "one" in rendered and "other" in rendered


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def test_exceptions_that_cannot_be_printed_or_stored_are_rendered_all_the_same() -> None:
    assert "Unprintable" in Redactor().render_exception(Unprintable())
    assert "\0" not in Redactor().render_exception(ValueError("a\0b \ud800"))
    group = ExceptionGroup("several", [ValueError(PLAIN), KeyError("x")])
    assert PLAIN not in Redactor([PLAIN]).render_exception(group)
