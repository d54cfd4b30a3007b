"""Milliseconds for what is done to every large text of a run, per million characters: `python -m bench.text`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from llmcore.context.tokens import estimate_tokens
from llmcore.redaction import Redactor, storable

SIZE = 1_000_000
TEXTS = {
    "prose": "word ",
    "Chinese": "客户",
    "JSON": '{"a":[1,2,{"b":null}]}',
    "base64": "A7f/",
    "blanks": "\n \t",
}
REDACTOR = Redactor([f"key-{number:03}-{'x' * 20}" for number in range(20)])
WORK: dict[str, Callable[[str], object]] = {
    "estimate_tokens": estimate_tokens,
    "known secrets": REDACTOR.known,
    "patterns": REDACTOR.patterns,
    "storable": storable,
}


def milliseconds(work: Callable[[str], object], text: str) -> float:
    times = []
    for _ in range(5):
        started = time.process_time()
        work(text)
        times.append((time.process_time() - started) * 1000)
    return statistics.median(times)


def main() -> None:
    print(f"{'':10}" + "".join(f"{name:>18}" for name in WORK))
    for name, piece in TEXTS.items():
        text = (piece * (SIZE // len(piece) + 1))[:SIZE]
        print(f"{name:10}" + "".join(f"{milliseconds(work, text):18.1f}" for work in WORK.values()))


if __name__ == "__main__":
    main()
