"""What secrets look like, for texts whose secrets are not known one by one: errors, logs, headers, exports.

No pattern repeats a repetition or looks further than its own run of characters, so each takes linear time on any
text. Words before a pattern are what a text must contain (in lower case) for it to be worth a try.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

MASK = "•••"

_LINE_HEADERS = r"(?:proxy-)?authorization|(?:set-)?cookie2?"
_KEY_HEADERS = (
    r"(?:x-|x-goog-|x-functions-|ocp-apim-subscription-)(?:api-)?key"
    r"|x-(?:auth|access|amz-security|csrf|xsrf|vault|gitlab)-token|x-csrftoken"
)
_FIELDS = (
    r"passw(?:or)?d|passphrase|(?:(?:client|app|consumer)[-_]?)?secret(?:[-_]?(?:access[-_]?)?key)?"
    r"|(?:api|access|private)[-_]?key|(?:access|refresh|auth|id|session|bearer|service)[-_]?token"
    r"|sessionid|csrftoken|csrfmiddlewaretoken"
)
_PARAMETERS = (
    r"(?:[a-z]{1,20}[-_])?(?:api[-_]?)?key|(?:[a-z]{1,20}[-_])?token|sig|signature|(?:client[-_]?)?secret|passw(?:or)?d"
    r"|pwd|x-amz-(?:signature|credential|security-token)"
)

# A value in quotes ends at its own quote. Where the opening quote is escaped (JSON inside JSON), so is the closing one.
_QUOTED = (
    r"""b?"(?:[^"\\\r\n]|\\[^\r\n])*|b?'(?:[^'\\\r\n]|\\[^\r\n])*"""
    r"""|\\"(?:[^"\\\r\n]|\\[^"\r\n])*|\\'(?:[^'\\\r\n]|\\[^'\r\n])*"""
)
_OPENING = re.compile(r"""b?\\?["']""")
# Also where an address has another one as a parameter, which is encoded: %3Fapi_key%3D….
_NAME_START = r"(?:(?<![A-Za-z0-9])|(?<=%[0-9A-Fa-f][0-9A-Fa-f]))"
_SETS = r"(?:[:=]|%3[AaDd])"
_EMPTY = r"(?!(?:none|null|true|false|undefined)\b)"


@dataclass(frozen=True)
class Pattern:
    """A kind of secret: how to find it, and what to put in its place."""

    words: tuple[str, ...]
    source: str
    replace: Callable[[re.Match[str]], str]
    flags: re.RegexFlag

    # Made when the first text needs it: all of them take as long as all else that the runtime does when it is imported.
    @cached_property
    def regex(self) -> re.Pattern[str]:
        return re.compile(self.source, self.flags)


def redact_patterns(text: str) -> str:
    """`text` with everything masked that looks like a secret."""
    lowered = text.lower()
    for pattern in PATTERNS:
        if any(word in lowered for word in pattern.words):
            text = pattern.regex.sub(pattern.replace, text)
    return text


def is_secret_name(name: str) -> bool:
    """Whether a header or field of this name holds a secret."""
    return _SECRET_NAME.fullmatch(name) is not None


_SECRET_NAME = re.compile(rf"(?:.*[^A-Za-z0-9])?(?:{_LINE_HEADERS}|{_KEY_HEADERS}|{_FIELDS})", re.IGNORECASE)


_RANDOM = re.compile(r"[0-9=+*]|[a-z][A-Z]")


def _whole(match: re.Match[str]) -> str:
    return MASK


def _after_name(match: re.Match[str]) -> str:
    opening = _OPENING.match(match["value"])
    return match["name"] + (opening[0] if opening else "") + MASK


def _if_random(match: re.Match[str]) -> str:
    """Keys are long, or have digits or capitals in the midst; `sk-learn` and `bearer authentication` are words."""
    value = match["value"]
    if len(value) >= 20 or _RANDOM.search(value):
        return match["name"] + MASK
    return match[0]


def _pattern(
    words: str, source: str, replace: Callable[[re.Match[str]], str] = _whole, flags: re.RegexFlag = re.NOFLAG
) -> Pattern:
    return Pattern(tuple(words.split()), source, replace, flags)


PATTERNS = (
    _pattern(
        "private",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:[^-]*(?:-(?!----)[^-]*)*-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|[A-Za-z0-9+/=\s\\]*)",
    ),
    # Header lines; their values have blanks, so they go to the end of the line.
    _pattern(
        "authorization cookie",
        rf"""(?P<name>{_NAME_START}(?:{_LINE_HEADERS})(?:\\?["'])?\s{{0,4}}{_SETS}\s{{0,4}})"""
        rf"""(?P<value>{_QUOTED}|[^\s"'\\{{\[][^\r\n"'\\]*)""",
        _after_name,
        re.IGNORECASE,
    ),
    # Pairs, as libraries keep their headers.
    _pattern(
        "authorization cookie key token",
        rf"""(?P<name>{_NAME_START}(?:{_LINE_HEADERS}|{_KEY_HEADERS})\\?["']\s{{0,4}},\s{{0,4}})(?P<value>{_QUOTED})""",
        _after_name,
        re.IGNORECASE,
    ),
    _pattern(
        "key token pass secret sessionid csrf",
        rf"""(?P<name>{_NAME_START}(?:{_KEY_HEADERS}|{_FIELDS})(?:\\?["'])?\s{{0,4}}{_SETS}\s{{0,4}})"""
        rf"""{_EMPTY}(?P<value>{_QUOTED}|[^\s"'\\,;&(){{}}<>\[\]]+)""",
        _after_name,
        re.IGNORECASE,
    ),
    _pattern(
        "bearer basic",
        rf"(?P<name>{_NAME_START}(?:bearer|basic)(?:\s{{1,4}}|%20))(?P<value>[A-Za-z0-9._~+/=*-]{{6,}})",
        _if_random,
        re.IGNORECASE,
    ),
    # The last @ is the one before the host: users of some services have one in their name, passwords may have more.
    _pattern(
        "://", r"""://[^\s/:"'<>]{0,256}:[^\s/"'<>]{1,1024}@|://[^\s/@:"'<>]{16,1024}@""", lambda _: f"://{MASK}@"
    ),
    _pattern(
        "key token sig secret pass pwd x-amz",
        rf"""(?P<name>(?:[?&]|%3[Ff]|%26)(?:amp;)?(?:{_PARAMETERS})(?:=|%3[Dd]))(?P<value>[^&\s"'#<>]+)""",
        _after_name,
        re.IGNORECASE,
    ),
    _pattern("sk- sk_ rk_", r"(?<![A-Za-z0-9])(?P<name>)(?P<value>(?:sk-|[sr]k_)[A-Za-z0-9_*-]{8,})", _if_random),
    _pattern("aiza", r"(?<![A-Za-z0-9])AIza[0-9A-Za-z_-]{20,}"),
    _pattern("akia asia", r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _pattern(
        "gh github_ glpat- xox hf_ gsk_ xai- pplx-",
        r"(?<![A-Za-z0-9])(?:gh[pousr]_|github_pat_|glpat-|xox[abeoprs]-|hf_|gsk_|xai-|pplx-)[A-Za-z0-9_-]{16,}",
    ),
    _pattern("eyj", r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){0,3}"),
)
