"""Finding runs by their words: the same on every database, whatever is typed."""

from __future__ import annotations

import random
import string
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection

from llmcore.errors import ErrorKind
from llmcore.messages import ToolCall
from llmcore.providers.scripted.scenario import Turn
from llmcore.runs.outcome import EndReason, RunStatus
from llmcore.tools.base import Effect, Tool, ToolContext
from llmcore.tools.results import FailureKind, ToolResult
from playground.models import Run, RunTag, RunTool
from playground.search import forget_runs, found_runs, index_run
from playground.search.query import MAX_CHARS, Term, terms_of
from playground.search.words import MAX_WORD_CHARS, bounded_words_of, words_of
from playground.services.cancel_run import cancel_run
from playground.services.continue_run import continue_run
from playground.services.export_run import export_run, import_run
from playground.services.start_run import write_run
from tests.factories import UserFactory
from tests.playground.driven import call, script, site_tool
from tests.playground.recorded import RecordedRun, provider_error

pytestmark = pytest.mark.django_db


def make_run(**columns: Any) -> Run:
    values = {"configuration_name": "Support", "model_name": "m-1", "title": "A run", "prompt": "", "request": {}}
    run = Run.objects.create(**{**values, **columns})
    index_run(run.pk)
    return run


def found(text: str) -> list[int]:
    return sorted(found_runs(Run.objects.all(), text).values_list("pk", flat=True))


def is_found(run: Run, text: str) -> bool:
    return found(text) == [run.pk]


# Words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Two captured payments.", ["two", "captured", "payments"]),
        ("search_orders(order=DJ-48213)", ["search", "orders", "order", "dj", "48213"]),
        ("Größe ÉTÉ Ångström ΣΊΣΥΦΟΣ", ["grosse", "ete", "angstrom", "σισυφοσ"]),
        ("退款政策 ok", ["退", "款", "政", "策", "ok"]),
        ("ﬁne ①", ["fine", "1"]),
        ("", []),
        ("?!… ☃ 🙂", []),
    ],
)
def test_text_is_split_into_plain_words(text: str, words: list[str]) -> None:
    assert list(words_of(text)) == words


def test_long_words_are_cut_and_many_words_are_bounded() -> None:
    assert list(words_of("x" * 500)) == ["x" * MAX_WORD_CHARS]
    assert bounded_words_of("aaaa bbbb cccc", max_bytes=20) == ("aaaa", "bbbb")


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("double charge", [Term(("double",)), Term(("charge",), prefix=True)]),
        ('"double charge" ref', [Term(("double", "charge")), Term(("ref",), prefix=True)]),
        ("“double charge”", [Term(("double", "charge"))]),
        ('refund "two captured', [Term(("refund",)), Term(("two", "captured"))]),
        ("search_orders", [Term(("search", "orders"), prefix=True)]),
        ('foo"bar baz"', [Term(("foo",)), Term(("bar", "baz"))]),
        ("* -- ()", []),
        ('"" x', [Term(("x",))]),
        ("route 66", [Term(("route",)), Term(("66",), prefix=True)]),
        ("  ", []),
    ],
)
def test_query_is_words_and_phrases(text: str, terms: list[Term]) -> None:
    assert terms_of(text) == tuple(terms)


def test_overlong_query_is_cut() -> None:
    assert len(terms_of("a " * 5000)) == 16
    assert terms_of("b" * 5000) == (Term(("b" * MAX_WORD_CHARS,), prefix=True),)
    assert MAX_CHARS < 5000


# What is found


def test_all_words_must_be_found_in_any_order_and_place() -> None:
    run = make_run(title="Double charge", prompt="Amelia Braun was charged twice.", answer="Refund it.")
    make_run(title="Double room", prompt="Amelia wants one.")
    assert is_found(run, "charge amelia double")
    assert is_found(run, "refund braun")
    assert is_found(run, "AMELIA Chárged")
    assert found("refund missing") == []


def test_last_word_may_be_a_beginning_and_others_not() -> None:
    run = make_run(prompt="The payments were captured.")
    assert is_found(run, "captured pay")
    assert is_found(run, "pa") and found("p") == []
    assert found("pay captured") == []
    assert found('"pay"') == []


def test_phrase_is_found_as_it_stands_and_not_across_parts() -> None:
    run = make_run(title="One two", prompt="three four", answer="five two three")
    assert is_found(run, '"three four"')
    assert is_found(run, '"two three"')
    assert found('"four three"') == []
    assert found('"one two three"') == []
    assert found('"four five"') == []


def test_numbers_addresses_and_names_of_tools_are_found_by_their_parts() -> None:
    run = make_run(prompt="Order DJ-48213 of amelia.braun@example.com")
    for text in ("DJ-48213", "48213", "dj-48", "braun@example", "amelia.braun@example.com"):
        assert is_found(run, text), text
    assert found("48213-DJ") == []


def test_text_without_spaces_is_found_by_any_part_of_it() -> None:
    run = make_run(prompt="客户说她被收取了两次费用。")
    assert is_found(run, "两次费用")
    assert found("费用两次") == []


def test_query_without_a_word_finds_nothing() -> None:
    make_run(prompt="% _ * ☃")
    for text in ("%", "*", '""', "☃", "   ", "\x00", "-"):
        assert found(text) == []


HOSTILE = [
    "' OR 1=1 --",
    "'; DROP TABLE playground_search; --",
    '"',
    '"""',
    '" AND "',
    "NEAR(a b)",
    "a AND OR NOT b",
    "words : x",
    "{words} : x",
    "^a",
    "a*b*",
    "(((((",
    "a & | ! <-> b:*A",
    "\\' \\\\ \\",
    "%s %(x)s %%",
    "\x00a\x00",
    "\ud800",
    "\ue000",
    "𝕬𝖇𝖈 ⓐ ﷺ" * 20,
    "a" * 100_000,
    "a " * 50_000,
    '"a' * 10_000,
    "\u0301" * 1000,
    "ﷺ" * 500,
    "select" + "\n\t\r" + "union",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_query_is_only_a_query(text: str) -> None:
    run = make_run(prompt="Nothing to see here")
    found(text)
    assert is_found(run, "nothing")


def test_any_text_can_be_indexed_and_looked_for() -> None:
    source = random.Random(7)
    alphabet = [*string.printable, *map(chr, source.sample(range(0x80, 0xD7FF), 3000)), "\U0001f642", "\U0002a6d6"]
    run = make_run()
    for _ in range(60):
        text = "".join(source.choices(alphabet, k=200))
        Run.objects.filter(pk=run.pk).update(prompt=text.replace("\x00", ""))
        index_run(run.pk)
        found(text)
        # Characters that only one of the databases knows may keep a word from being found, but never break anything.
        assert found("unrelated words") == []


def test_longest_and_most_hostile_texts_fit_into_the_index() -> None:
    """PostgreSQL refuses more than a megabyte of words, and words of more than two kilobytes."""
    source = random.Random(8)
    letters = [chr(0x20000 + n) for n in range(4000)]
    dense = " ".join("".join(source.choices(string.ascii_lowercase, k=3)) for _ in range(300_000))
    wide = "".join(source.choices(letters, k=300_000))
    run = make_run(title="t" * 200, prompt=dense, answer=wide, note="x" * 10_000, detail="\n" * 50_000)
    assert is_found(run, "t" * 200)
    assert is_found(run, dense[:11])


def test_phrases_are_found_far_down_in_a_long_text() -> None:
    filler = " ".join(f"w{n}" for n in range(15_000))
    run = make_run(prompt=filler, answer=f"{filler[:60_000]} the needle lies here")
    assert is_found(run, '"needle lies here"')
    assert is_found(run, '"w9999 w10000"')


# Kept up to date


def test_run_is_found_by_its_tools_and_errors_and_nothing_else_of_its_steps() -> None:
    recorded = RecordedRun(prompt="Where is it?")
    recorded.request()
    call = ToolCall(id="1", name="look_up", arguments={"secret_argument": 1})
    recorded.response("Let me see.", calls=[call])
    recorded.tool_call(call)
    recorded.tool_result(call, ToolResult.failed(FailureKind.SCHEMA, "unknown filter payment_status"))
    recorded.request()
    recorded.retry(provider_error(ErrorKind.RATE_LIMIT, "tokens per minute exhausted"))
    recorded.response(error=provider_error(message="overloaded backend"))
    run = recorded.end(EndReason.PROVIDER_FAILED, detail="The provider gave up.", error={"message": "teapot"})
    RunTool.objects.create(run=run, name="look_up")
    index_run(run.pk)
    for text in ("look_up", "payment_status", "minute exhausted", "overloaded", "gave up", "teapot"):
        assert is_found(run, text), text
    assert found("secret_argument") == []


def test_run_is_found_by_what_people_wrote_about_it() -> None:
    run = make_run(note="Remember the shipping bug")
    RunTag.objects.create(run=run, name="baseline")
    index_run(run.pk)
    assert is_found(run, "shipping bug") and is_found(run, "baseline")


def test_index_forgets_what_was_and_what_is_gone() -> None:
    # Tests with transactions of their own leave rows: no model stands for them.
    before = count_indexed()
    run = make_run(prompt="first words")
    Run.objects.filter(pk=run.pk).update(prompt="other words")
    index_run(run.pk)
    assert found("first") == [] and is_found(run, "other")
    pk = run.pk
    run.delete()
    index_run(pk)
    assert count_indexed() == before
    doomed = [make_run().pk, make_run().pk]
    forget_runs(doomed)
    assert count_indexed() == before


def test_end_that_no_driver_writes_is_found_too() -> None:
    user = UserFactory(username="ortiz")
    run = make_run(user=user, status=RunStatus.QUEUED)
    cancel_run(run=run, by=user, now=run.created_at)
    assert is_found(run, "cancelled by ortiz")


def test_continued_run_is_no_longer_found_by_its_interruption() -> None:
    recorded = RecordedRun()
    run = recorded.end(EndReason.INTERRUPTED, detail="The worker w7 was lost.")
    index_run(run.pk)
    assert is_found(run, "w7")
    continue_run(run=run, by=None)
    assert found("w7") == []


@pytest.mark.django_db(transaction=True)
def test_driven_run_is_found_by_what_happened_so_far_and_at_its_end() -> None:
    seen: list[list[int]] = []

    def book(context: ToolContext) -> str:
        seen.append(found("booking_tool"))
        raise ValueError("flooded warehouse")

    tool = Tool(
        name="booking_tool", description="Books.", parameters={"type": "object", "properties": {}}, run=book,
        group="test", effect=Effect.NON_IDEMPOTENT_WRITE, context_parameter="context",
    )  # fmt: skip
    turns = (Turn(tool_calls=(call("booking_tool"), call("imagined_tool"))), Turn(text="Nothing was booked, alas."))
    with site_tool(tool), script(*turns, tool_groups=["test"]) as model:
        waiting = write_run(request=model.request(prompt="Book the stand"), by=None)
        assert found("stand") == [waiting.pk] and found("alas") == []
        run = model.drive(waiting)
    assert seen == [[run.pk]]
    for text in ("booking_tool", "imagined_tool", "flooded warehouse", "nothing was booked", "stand alas"):
        assert is_found(run, text), text
    assert [tool.name for tool in run.tools.all()] == ["booking_tool", "imagined_tool"]


def test_imported_run_is_found() -> None:
    recorded = RecordedRun(prompt="Imported question")
    recorded.round(tool="look_up")
    run = recorded.end(answer="Imported answer")
    RunTag.objects.create(run=run, name="kept")
    copy = import_run(data=export_run(run=run), by=None)
    assert found("imported look_up kept answer") == [copy.pk]
    assert [tool.name for tool in copy.tools.all()] == ["look_up"]
    assert [tag.name for tag in copy.tags.all()] == ["kept"]


def test_index_can_be_rebuilt(capsys: pytest.CaptureFixture[str]) -> None:
    recorded = RecordedRun(prompt="Lost words")
    recorded.round(tool="refund")
    run, gone = recorded.end(), make_run(prompt="gone words")
    Run.objects.filter(pk=gone.pk).delete()
    call_command("llm_reindex_runs")
    assert is_found(run, "lost words refund") and count_indexed() == 1
    assert "1 run" in capsys.readouterr().out


def count_indexed() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM playground_search")
        return int(cursor.fetchone()[0])
