"""The detail of a step: every tab, what it shows, what it fetches on demand, and that nothing in it is markup."""

from __future__ import annotations

import hashlib
import html as html_module
import re
from base64 import b64encode
from collections.abc import Sequence

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils.formats import date_format

from llmcore.errors import ErrorKind, ProviderError
from llmcore.messages import CallProblem, FinishReason, Message, Part, ToolCall
from llmcore.providers.price_list import shipped_prices
from llmcore.providers.scripted.scenario import Turn
from llmcore.runs.outcome import EndReason
from llmcore.tools.base import Artifact, Tool
from llmcore.tools.results import FailureKind, ToolResult
from llmcore.trace import WireExchange
from llmcore.usage import Prices, Usage
from playground.models import Run, RunContent
from playground.services.start_run import write_run
from tests.factories import ConfigurationFactory, UserFactory
from tests.playground.driven import script, site_tool
from tests.playground.recorded import RecordedRun, finished_run, lookup, provider_error
from tests.playground.shown import text_of

pytestmark = [pytest.mark.django_db, pytest.mark.htmx]

HOSTILE = "<img src=x onerror=alert(1)>\"'</pre></script><script>alert(2)</script>"


def url_of(run: Run, sequence: int) -> str:
    return reverse("playground:run_step", args=[run.pk, sequence])


def open_step(client: Client, run: Run, sequence: int, tab: str = "", **query: object) -> str:
    response = client.get(url_of(run, sequence), {**({"tab": tab} if tab else {}), **query})
    assert response.status_code == 200, response.content[:300]
    return response.content.decode()


def tabs_of(html: str) -> list[str]:
    return re.findall(r'role="tab"[^>]+data-tab="([\w-]+)"', html)


# --- the pane ---


def test_a_model_call_has_its_eight_tabs_and_its_facts(client: Client, user: User) -> None:
    html = open_step(client, finished_run(user), 1)

    assert tabs_of(html) == ["messages", "response", "thinking", "tools", "request", "raw", "tokens", "cache"]
    text = text_of(html)
    for fact in (
        "0.20 s",
        "(0.10 s to first token)",
        "1,000 in, 60 % cached",
        "100 out, 40 reasoning",
        "finish tool_calls",
    ):
        assert fact in text, fact


def test_a_tab_that_the_step_has_not_opens_its_first_one(client: Client, user: User) -> None:
    html = open_step(client, finished_run(user), 3, "messages")

    assert 'data-step="3" data-round="1" data-tab="result"' in html


def test_any_step_of_a_line_leads_to_the_line(client: Client, user: User) -> None:
    assert 'data-step="3"' in open_step(client, finished_run(user), 4)


@pytest.mark.parametrize("sequence", [99, 10**8])
def test_a_step_that_is_not_there_is_404(client: Client, user: User, sequence: int) -> None:
    assert client.get(url_of(finished_run(user), sequence)).status_code == 404


def test_a_failed_call_opens_on_its_failure(client: Client, user: User) -> None:
    recorded = RecordedRun(user)
    recorded.request()
    recorded.response(error=provider_error(), usage=None, finish_reason=None)
    run = recorded.end(EndReason.PROVIDER_FAILED)

    html = open_step(client, run, 1)

    assert 'data-tab="response"' in html
    assert "429 rate limit : slow down" in text_of(html)
    assert "limits the rate of requests" in html


def test_a_step_costs_the_same_in_a_long_run(client: Client, user: User) -> None:
    short, long = finished_run(user, rounds=3), finished_run(user, rounds=60)
    for tab in ("messages", "response", "tools", "request", "raw", "tokens"):
        counts = []
        for run in (short, long):
            open_step(client, run, 9, tab)
            with CaptureQueriesContext(connection) as captured:
                open_step(client, run, 9, tab)
            counts.append(len(captured))
        assert counts[0] == counts[1] <= 11, tab


# --- messages ---


def test_the_first_round_shows_its_messages_by_their_sources(client: Client, user: User) -> None:
    configuration = ConfigurationFactory()
    recorded = RecordedRun(user, system="You are kind.", prompt="Where is it?")
    plan = recorded.run.plan
    plan["segments"][0].update(object_id=configuration.pk, note="forced although disabled", version=3)
    plan["dropped"] = [
        {"source": "skill", "source_id": "s", "label": "Shipping", "reason": "over_budget", "detail": "It needs 6 kB."}
    ]
    recorded.run.save(update_fields=["plan"])
    recorded.answer("There.")
    run = recorded.end()

    html = open_step(client, run, 1, "messages")

    assert "2 messages" in text_of(html) and "all new" in html
    assert "D Tool definitions" in text_of(html) and 'href="#step-1/tools" data-jump' in html
    assert re.search(
        r'p-config"><span class="pg-src__k" aria-hidden="true">C</span>.*Configuration prompt</span></span>'
        r"<a [^>]*>version 3",
        html,
    )
    assert "forced although disabled" in html
    assert f"/admin/llmcore/configuration/{configuration.pk}/change/" in html
    assert "You are kind." in html and "Where is it?" in html
    assert "It needs 6 kB." in html


def test_sources_are_not_linked_for_those_who_may_not_edit_them() -> None:
    reader = UserFactory(permissions=["playground.view_all_runs"])
    client = Client(headers={"HX-Request": "true"})
    client.force_login(reader)
    recorded = RecordedRun(None)
    recorded.run.plan["segments"][0].update(object_id=1)
    recorded.run.save(update_fields=["plan"])
    recorded.answer("There.")

    assert "/admin/llmcore/" not in open_step(client, recorded.end(), 1, "messages")


def test_a_later_round_shows_only_what_is_new(client: Client, user: User) -> None:
    recorded = RecordedRun(user, system="The system text.")
    recorded.round(result="first result", text="I look.")
    recorded.answer("Done.")
    run = recorded.end()

    html = open_step(client, run, 5, "messages")

    assert "4 messages : 2 new, 2 unchanged" in text_of(html)
    assert "A Model" in text_of(html) and "T look_up" in text_of(html), "they came from somewhere too"
    assert html.count('href="#step-3" data-jump') == 2, "the call and its result lead to what ran it"
    assert "Tool definitions" not in html
    assert "2 earlier messages unchanged" in html
    assert "The system text." not in html
    assert "I look." in html and "first result" in html
    assert 'href="#step-3" data-jump' in html


def test_unchanged_messages_are_listed_and_opened_on_demand(client: Client, user: User) -> None:
    recorded = RecordedRun(user, system="The system text.")
    recorded.round()
    recorded.answer("Done.")
    run = recorded.end()

    listed = open_step(client, run, 5, "messages", kept=1)
    opened = open_step(client, run, 5, "messages", message=0)

    assert "The system text." in listed and "Hello?" in listed and "look_up" not in listed
    assert "tab=messages&amp;message=0" in listed
    assert "Configuration prompt" in opened and "The system text." in opened


def test_a_long_conversation_is_opened_in_parts(client: Client, user: User) -> None:
    recorded = RecordedRun(user)
    recorded.messages += [Message.of("user", f"message number {number}.") for number in range(3, 131)]
    recorded.answer("Done.")
    run = recorded.end()
    seen: list[str] = []
    html = open_step(client, run, 1, "messages")

    while True:
        seen += re.findall(r"message number (\d+)\.", html)
        more = re.search(r"tab=messages&amp;offset=(\d+)", html)
        if more is None:
            break
        html = open_step(client, run, 1, "messages", offset=more.group(1))
        assert "pg-tabs" not in html

    assert seen == [str(number) for number in range(3, 131)]


@pytest.mark.parametrize("message", ["77", "-1", "x", "9" * 30])
def test_a_message_that_is_not_there_is_404_or_ignored(client: Client, user: User, message: str) -> None:
    response = client.get(url_of(finished_run(user), 1), {"tab": "messages", "message": message})

    assert response.status_code == (404 if message == "77" else 200)


def test_a_message_with_pictures_and_provider_blocks_names_them(client: Client, user: User) -> None:
    recorded = RecordedRun(user)
    parts = (
        Part(text="See:"),
        Part(kind="image", media_type="image/png", data="AAAA"),
        Part(kind="thinking", text="", extra={"signature": "abc"}),
        Part(kind="provider", extra={"type": "server_tool_use"}),
    )
    recorded.messages.append(Message(role="assistant", parts=parts))
    recorded.answer("Done.")

    html = open_step(client, recorded.end(), 1, "messages")

    assert "PNG picture, 3\N{NO-BREAK SPACE}B" in html
    assert "thinking that the provider keeps to itself" in html
    assert "server_tool_use" in html
    assert "<img" not in html


@pytest.mark.parametrize(
    ("media_type", "data"),
    [
        ("image/png", b"<script>alert(1)</script>"),
        ("image/svg+xml", b"<svg xmlns='http://www.w3.org/2000/svg'/>"),
        ("text/html", b"GIF89a<script>alert(1)</script>"),
    ],
)
def test_what_is_no_picture_is_never_served_as_one(client: Client, user: User, media_type: str, data: bytes) -> None:
    recorded = RecordedRun(user)
    part = Part(kind="image", media_type=media_type, data=b64encode(data).decode())
    message = Message(role="user", parts=(part,))
    recorded.messages.append(message)
    recorded.answer("Done.")
    run = recorded.end()

    html = open_step(client, run, 1, "messages")
    response = client.get(reverse("playground:run_picture", args=[run.pk, message.digest, 0]))

    assert "<img" not in html and f", {len(data)}\N{NO-BREAK SPACE}B]" in html
    assert response.status_code == 404 and data not in response.content


# --- response, thinking, tools ---


def test_a_response_shows_text_both_ways_and_its_calls(client: Client, user: User) -> None:
    recorded = RecordedRun(user)
    recorded.request()
    broken = ToolCall(id="b", name="refund", arguments=None, arguments_raw="{broken", problem=CallProblem.UNDECODABLE)
    recorded.response(
        "I **look**.",
        calls=[lookup(1), broken],
        finish_reason=FinishReason.TOOL_CALLS,
        served_model="demo-1-0613",
        response_id="resp-1",
    )
    recorded.tool_call(lookup(1))
    recorded.tool_result(lookup(1))
    run = recorded.end()

    html = open_step(client, run, 1, "response")

    assert "<strong>look</strong>" in html and "I **look**." in html
    assert 'href="#step-3" data-jump' in html
    assert "{broken" in html and "undecodable" in html
    assert "demo-1-0613" in html and "resp-1" in html


def test_a_response_that_is_streaming_shows_what_came_so_far(client: Client, user: User) -> None:
    recorded = RecordedRun(user)
    recorded.request()
    recorded.partial(text="So <far>", thinking="Hm.", tool_call='{"n":')
    recorded.run.refresh_from_db()

    html = open_step(client, recorded.run, 1)

    assert "data-running" in html and 'data-tab="response"' in html
    assert "So &lt;far&gt;" in html and "{&quot;n&quot;:" in html
    assert "Hm." in open_step(client, recorded.run, 1, "thinking")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"refusal": "I can't."}, "The model refused."),
        ({"cancelled": True, "finish_reason": None}, "The stream was closed by the cancel."),
        ({"text": ""}, "No visible text."),
    ],
)
def test_a_response_says_what_was_special(
    client: Client, user: User, changes: dict[str, object], expected: str
) -> None:
    recorded = RecordedRun(user)
    recorded.request()
    recorded.response(**changes)  # type: ignore[arg-type]

    assert expected in open_step(client, recorded.end(), 1, "response")


def test_a_call_whose_worker_was_lost_says_so(client: Client, user: User) -> None:
    recorded = RecordedRun(user)
    recorded.request()

    assert "No response was recorded." in open_step(client, recorded.end(EndReason.INTERRUPTED), 1, "response")


def test_thinking_is_shown_with_what_was_billed(client: Client, user: User) -> None:
    recorded = RecordedRun(user)
    recorded.request()
    recorded.response("Done.", thinking="First the order, then the payment.")
    run = recorded.end()

    html = open_step(client, run, 1, "thinking")

    assert "First the order, then the payment." in html
    assert "40 tokens billed" in text_of(html)


def test_tools_are_shown_with_their_use_and_those_left_out_with_the_reason(client: Client, user: User) -> None:
    run = finished_run(user, rounds=1)

    html = text_of(open_step(client, run, 1, "tools"))

    assert re.search(r"look_up Look up an order\. called in this round", html)
    assert re.search(r"refund Refund an order\. never called", html)
    assert "format_disk the tool is disabled on this site" in html
    assert "called in another round" in text_of(open_step(client, run, 5, "tools"))


# --- request, raw, tokens ---


def test_a_request_shows_address_parameters_and_hash(client: Client, user: User) -> None:
    html = open_step(client, finished_run(user), 1, "request")

    assert "POST http://127.0.0.1:1/v1/chat/completions" in html
    assert "temperature: 0.5" in html
    assert re.search(r"<code class=\"pg-hash\">[0-9a-f]{64}</code>", html)
    assert "The exact body is kept by dry runs and with raw capture" in html


def test_a_dry_run_shows_the_exact_body_and_a_later_run_says_whether_it_matches(
    client: Client, user: User
) -> None:  # A5
    dry = RecordedRun(user, dry_run=True)
    dry.assembled(b'{"model": "demo-1", "n": 1.50}')
    parent = dry.end(EndReason.DRY_RUN)
    same, other = RecordedRun(user, parent=parent), RecordedRun(user, parent=parent)
    same.request(body=b'{"model": "demo-1", "n": 1.50}')
    other.request(body=b'{"model": "demo-1", "n": 2}')

    html = open_step(client, parent, 1, "request")

    assert tabs_of(html) == ["messages", "tools", "request", "cache"]
    assert ">1.50<" in html
    assert client.get(url_of(parent, 1), {"tab": "request", "box": "body", "as": "text"}).content == (
        b'{"model": "demo-1", "n": 1.50}'
    )
    assert '\'{"model": "demo-1", "n": 1.50}\'' in copied(client, parent, "request", "curl")
    assert "user-agent: llmcore" in copied(client, parent, "request", "curl")
    assert "Matches the dry run, byte for byte." in open_step(client, same.run, 1, "request")
    assert "Differs from the dry run." in open_step(client, other.run, 1, "request")


CHUNKS = ((12.0, b"data: one\n\n"), (30.0, b"data: \xff<two>\n\n"))


def copied(client: Client, run: Run, tab: str, box: str) -> str:
    return client.get(url_of(run, 1), {"tab": tab, "box": box, "as": "text"}).content.decode()


def captured_run(user: User | None, *, chunks: Sequence[tuple[float, bytes]] = CHUNKS) -> Run:
    recorded = RecordedRun(user, capture_raw=True)
    sequence = recorded.request(body=b'{"the": "body"}', headers={"authorization": "Bearer •••"})
    for attempt, status in ((1, 503), (2, 200)):
        recorded.exchange(
            sequence,
            WireExchange(
                attempt=attempt,
                method="POST",
                url="http://127.0.0.1:1/v1/chat/completions",
                request_headers={"authorization": "Bearer •••"},
                request_body=b'{"the": "body"}',
                status=status,
                response_headers={"content-type": "text/event-stream"},
                chunks=tuple(chunks),
            ),
        )
    recorded.response("Done.")
    return recorded.end()


def test_raw_capture_shows_every_attempt_with_masked_headers_and_times(client: Client, user: User) -> None:  # T5
    run = captured_run(user)

    html = open_step(client, run, 1, "raw")
    text = text_of(html)

    assert "Attempt 1" in text and "503 Service Unavailable" in text and "200 OK" in text
    assert "Bearer ••• masked" in text
    assert "data: one" in text and "&lt;two&gt;" in html
    assert "first byte 12 ms · 2 pieces" in text
    assert "12.0 +12.0 11 data: one 30.0 +18.0 14 data: �<two>" in text
    assert "Request line POST http://127.0.0.1:1/v1/chat/completions" in text
    assert hashlib.sha256(b'{"the": "body"}').hexdigest() in text
    assert "the" in open_step(client, run, 1, "request")


def test_the_arrivals_of_a_long_stream_are_listed_in_parts(client: Client, user: User) -> None:
    chunks = tuple((float(number), f"data: {number}\n\n".encode()) for number in range(1, 451))
    run = captured_run(user, chunks=chunks)

    first = text_of(open_step(client, run, 1, "raw"))
    more = text_of(open_step(client, run, 1, "raw", part="arrivals-2", offset=200))
    last = text_of(open_step(client, run, 1, "raw", part="arrivals-2", offset=400))

    assert "Show more (250)" in first and "data: 200 " in first and "201.0" not in first
    assert more.split()[:5] == ["201.0", "+1.0", "11", "data:", "201"] and "Show more (50)" in more
    assert last.split()[-5:] == ["450.0", "+1.0", "11", "data:", "450"]
    assert client.get(url_of(run, 1), {"tab": "raw", "part": "arrivals-9"}).status_code == 404


def command_of(client: Client, run: Run, sequence: int) -> str:
    """Where the head of the page copies the command from while this step is open."""
    [found] = re.findall(r'data-curl="([^"]+)"', open_step(client, run, sequence))
    return html_module.unescape(found)


def test_a_captured_request_can_be_copied_as_code(client: Client, user: User) -> None:
    run = captured_run(user)

    html = open_step(client, run, 1, "request")
    curl, code = (copied(client, run, "request", box) for box in ("curl", "httpx"))

    assert "Copy as cURL" in html and "Copy as httpx code" in html and "DEMO_API_KEY" in html
    assert client.get(command_of(client, run, 1)).content.decode() == curl
    assert "data-curl" not in open_step(client, run, 0)
    assert "accept-encoding: identity" in curl and '"${DEMO_API_KEY:?}"' in curl and '\'{"the": "body"}\'' in curl
    assert "os.environ['DEMO_API_KEY']" in code and '\'{"the": "body"}\'' in code


def test_a_request_that_was_masked_is_not_copied_as_code(client: Client, user: User) -> None:
    run = captured_run(user)
    run.exchanges.update(request_body=b'{"the": "\xe2\x80\xa2\xe2\x80\xa2\xe2\x80\xa2"}')

    html = open_step(client, run, 1, "request")

    assert client.get(command_of(client, run, 1)).status_code == 404
    assert "Copy as cURL" not in html and "Parts of the request were masked" in html
    assert client.get(url_of(run, 1), {"tab": "request", "box": "curl"}).status_code == 404


@pytest.mark.django_db(transaction=True)
def test_the_exact_body_is_built_again_where_it_was_not_kept(client: Client, user: User) -> None:
    turns = (Turn(tool_calls=({"name": "greet", "arguments": {"n": 3, "to": "Köln"}},)), Turn(text="Grüße aus Köln 🙂"))
    greet = Tool(
        name="greet",
        description="Greets.",
        parameters={"type": "object"},
        run=lambda n, to: f"{n} times {to}",
        group="test",
    )
    with site_tool(greet), script(*turns, key="sk-secret-key", tool_groups=["test"]) as site:
        run = site.drive(write_run(request=site.request(prompt='Say "hi"\nnow'), by=user))
        sent = [received.body for received in site.model.requests]
    requests = list(run.steps.filter(kind="request").order_by("sequence").values_list("sequence", flat=True))
    assert len(requests) == len(sent) == 2

    for sequence, body in zip(requests, sent, strict=True):
        offered = open_step(client, run, sequence, "request")
        built = open_step(client, run, sequence, "request", part="built")
        query = {"tab": "request", "as": "text"}
        assert "Build the exact body" in offered and "with the hash of what was sent" in built
        assert client.get(url_of(run, sequence), {**query, "box": "built-body"}).content == body
        curl = client.get(url_of(run, sequence), {**query, "box": "built-curl"}).content.decode()
        assert "--data-raw" in curl and "sk-secret-key" not in curl
        # Each line of a round leads to the command of its request, for the head of the page.
        for line in run.steps.filter(round=1 if sequence == 1 else 2).values_list("sequence", flat=True):
            assert client.get(command_of(client, run, line)).content.decode() == curl


def test_a_body_that_comes_out_otherwise_is_not_passed_off_as_the_one_sent(client: Client, user: User) -> None:
    html = open_step(client, finished_run(user), 1, "request", part="built")

    assert "can't be built" in html and "Copy as cURL" not in html


def test_raw_contents_need_their_own_right() -> None:
    reader = UserFactory(permissions=["playground.view_run"])
    client = Client(headers={"HX-Request": "true"})
    client.force_login(reader)
    run = captured_run(reader)

    raw, request = open_step(client, run, 1, "raw"), open_step(client, run, 1, "request")

    assert "data: one" not in raw and "Bearer" not in raw
    assert "need the permission" in raw
    assert "&quot;the&quot;" not in request and "Seeing it needs the permission" in request
    for tab, box in (("raw", "response-2"), ("request", "body")):
        assert client.get(url_of(run, 1), {"tab": tab, "box": box, "as": "text"}).status_code == 404


def test_raw_capture_that_was_off_is_said(client: Client, user: User) -> None:
    run = finished_run(user)

    html = open_step(client, run, 1, "raw")

    assert "Raw capture was off" in html
    assert f"?from={run.pk}" in html


def test_tokens_show_the_formula_that_gives_the_cost(client: Client, user: User) -> None:  # M1, M2
    html = open_step(client, finished_run(user), 1, "tokens")
    rows = [text_of(row).split() for row in re.findall(r"<tr>.*?</tr>", html, re.DOTALL)]

    # 400 fresh at 0.25, 600 cached at 0.025, 60 visible and 40 reasoning at 2 dollars per million.
    assert ["Cached", "prompt", "600", "55", "%", "$0.025", "$0.000015"] in rows
    assert ["Fresh", "prompt", "400", "36", "%", "$0.25", "$0.0001"] in rows or (
        ["Fresh", "prompt", "400", "36", "%", "$0.25", "$0.00010"] in rows
    )
    assert any(row[0] == "Together" and row[1] == "1,100" and row[2].startswith("$0.0003") for row in rows)
    assert "prompt_tokens" in html


def test_tokens_show_where_each_count_comes_from_and_how_far_the_estimate_was_off(client: Client, user: User) -> None:
    html = text_of(open_step(client, finished_run(user), 1, "tokens"))

    assert "Prompt prompt_tokens 1,000 1,000" in html
    assert "includes cached tokens" in html
    assert "= $0.000315 exactly" in html and "The prices are those that this site had for" in html
    assert "Estimated before sending" in html and "The estimate was off by" in html
    assert "They were entered on this site." in html


def test_prices_of_a_shipped_list_name_it_with_its_date(client: Client, user: User) -> None:  # M2
    run = finished_run(user)
    provider = {"slug": "openai", "adapter": "openai_chat", "base_url": "https://api.openai.com/v1"}
    listed = shipped_prices(provider["adapter"], provider["base_url"], "gpt-5.6-terra")
    assert listed and run.plan
    run.plan["configuration"]["provider"] = provider
    run.save(update_fields=["plan"])
    for step in run.steps.filter(sequence__lte=2):
        changed = {"model": "gpt-5.6-terra"} if step.kind == "request" else {"prices": listed.prices.to_json()}
        step.data |= changed
        step.save(update_fields=["data"])

    html = open_step(client, run, 1, "tokens")

    assert f'href="{listed.source}"' in html and date_format(listed.as_of, "j M Y") in html


@pytest.mark.parametrize(
    ("above", "tier", "price", "said"),
    [
        (999, {"input": "0.5", "output": "4"}, "$0.50", "They are those for prompts of more than 999 tokens."),
        (1_000, {"input": "0.5", "output": "4"}, "$0.25", "They are those for prompts of up to 1,000 tokens."),
        (999, {}, "%", "The model has no price for prompts of more than 999 tokens. So the cost is unknown."),
    ],
)
def test_the_formula_names_the_prices_of_the_prompts_length(  # M2
    client: Client, user: User, above: int, tier: dict[str, str], price: str, said: str
) -> None:
    run = finished_run(user)
    step = run.steps.get(sequence=2)
    prices = Prices.from_json({**step.data["prices"], "tiers": [{"above": above, **tier}]})
    cost = prices.cost(Usage.from_json(step.data["usage"]))
    step.data |= {"prices": prices.to_json(), "cost": None if cost is None else str(cost)}
    step.save(update_fields=["data"])

    html = open_step(client, run, 1, "tokens")

    (fresh,) = [row for row in re.findall(r"<tr>.*?</tr>", html, re.DOTALL) if "Fresh prompt" in row]
    assert price in text_of(fresh).split() and said in text_of(html)


def test_usage_that_was_not_reported_is_not_zero(client: Client, user: User) -> None:
    recorded = RecordedRun(user)
    recorded.request()
    recorded.response("Done.", usage=None)

    html = open_step(client, recorded.end(), 1, "tokens")

    assert "No usage was reported" in html
    assert "$" not in html


# --- tools ---


def test_a_tool_run_shows_arguments_and_result(client: Client, user: User) -> None:
    recorded = RecordedRun(user)
    recorded.round(result='{"number": "DJ-1", "total": 64.90}')
    run = recorded.end()

    html = open_step(client, run, 3)

    assert tabs_of(html) == ["result", "arguments", "raw"]
    assert ">64.90<" in html and "&quot;n&quot;" in html
    assert "call_id" in open_step(client, run, 3, "raw")
    assert "call-1" in open_step(client, run, 3, "arguments")


def test_a_failed_tool_shows_error_and_traceback(client: Client, user: User) -> None:
    recorded = RecordedRun(user)
    result = ToolResult(
        text="It broke.", failure=FailureKind.EXCEPTION, traceback="Traceback: <boom>", effect_unknown=True
    )
    recorded.round(result=result)
    run = recorded.end()

    html = open_step(client, run, 3)

    assert "The tool failed with an exception." in html and "It broke." in html
    assert "What it did before that is unknown." in html
    assert "Traceback: &lt;boom&gt;" in open_step(client, run, 3, "traceback")


def test_a_shortened_result_and_its_artifacts_are_kept_for_the_reader(client: Client, user: User) -> None:  # L10
    recorded = RecordedRun(user)
    result = ToolResult(
        text="short",
        size=90_000,
        full="the whole " * 9_000,
        artifacts=(Artifact(type="table", payload={"title": "T"}),),
    )
    recorded.round(result=result)

    html = open_step(client, recorded.end(), 3)

    assert "The model got a shortened result. The whole one has 90.0\u00a0kB." in html
    assert "Handed over" in html and "<b>table</b>" in html and "&quot;T&quot;" in html


def test_arguments_that_were_no_object_are_shown_as_they_came(client: Client, user: User) -> None:  # L6
    recorded = RecordedRun(user)
    call = ToolCall(id="x", name="look_up", arguments=None, arguments_raw="{n: 1", problem=CallProblem.UNDECODABLE)
    recorded.request()
    recorded.response(calls=[call])
    recorded.tool_call(call)
    recorded.tool_result(call, ToolResult.failed(FailureKind.PARSE, "no JSON"))
    run = recorded.end()

    assert "{n: 1" in open_step(client, run, 3, "arguments")
    assert "The arguments are not a JSON object." in open_step(client, run, 3, "result")


def test_a_tool_that_left_no_result_says_so(client: Client, user: User) -> None:  # D3
    recorded = RecordedRun(user)
    recorded.request()
    recorded.response(calls=[lookup()])
    recorded.tool_call(lookup())

    html = open_step(client, recorded.end(EndReason.INTERRUPTED), 3)

    assert "The tool had started; no result was recorded." in html


def test_retries_and_failures_of_the_runtime_are_steps_with_advice(client: Client, user: User) -> None:
    recorded = RecordedRun(user)
    recorded.request()
    recorded.retry(ProviderError(kind=ErrorKind.OVERLOADED, message="try later", status=529))
    try:
        raise RuntimeError("boom <b>")
    except RuntimeError as error:
        recorded.error(error)
    run = recorded.end(EndReason.INTERNAL_ERROR)

    retry, failure = open_step(client, run, 2), open_step(client, run, 3)

    assert "529 Overloaded" in retry and "try later" in retry and "Waited 0.5 s" in retry
    assert "boom &lt;b&gt;" in failure and "Traceback" in failure


def test_the_start_shows_what_was_asked_for(client: Client, user: User) -> None:
    html = open_step(client, finished_run(user, worker="host:1"), 0)

    assert tabs_of(html) == ["start"]
    assert "Hello?" in html and "context_window" in html and "host:1" in html


# --- boxes ---


def test_a_long_result_is_fetched_chunk_by_chunk(client: Client, user: User) -> None:
    text = "".join(f"line {number} <b>\n" for number in range(20_000))
    recorded = RecordedRun(user)
    recorded.round(result=text)
    run = recorded.end()
    html = open_step(client, run, 3)
    assert len(html) < 60_000
    seen = re.findall(r"line (\d+) &lt;b&gt;", html)
    tail = [number for number in seen if int(number) > 10_000]
    seen = [number for number in seen if int(number) <= 10_000]

    while more := re.search(r'hx-get="([^"]+box=result[^"]+offset=\d+)"', html):
        response = client.get(html_module.unescape(more.group(1)))
        assert response.status_code == 200
        html = response.content.decode()
        seen += re.findall(r"line (\d+) &lt;b&gt;", html)

    assert seen + tail == [str(number) for number in range(20_000)]
    whole = client.get(url_of(run, 3), {"tab": "result", "box": "result", "as": "text"})
    assert whole.content.decode() == text
    assert whole.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert whole.headers["X-Content-Type-Options"] == "nosniff"


def test_a_part_of_a_tree_is_fetched_when_it_is_opened(client: Client, user: User) -> None:
    recorded = RecordedRun(user)
    recorded.round(result='{"rows": [' + ",".join(str(n) for n in range(250)) + "]}")
    run = recorded.end()
    html = open_step(client, run, 3)
    more = re.search(r'hx-get="([^"]+pointer=%2Frows[^"]+)"', html)
    assert more is not None

    rest = client.get(html_module.unescape(more.group(1))).content.decode()

    assert ">100</span>" in rest and ">199</span>" in rest and ">200</span>" not in rest
    wrong = {"tab": "result", "box": "result", "pointer": "/nowhere", "offset": "0"}
    assert client.get(url_of(run, 3), wrong).status_code == 404


@pytest.mark.parametrize("query", [{"box": "nothing"}, {"box": "result", "tab": "arguments"}])
def test_a_box_that_is_not_there_is_404(client: Client, user: User, query: dict[str, str]) -> None:
    assert client.get(url_of(finished_run(user), 3), query).status_code == 404


def test_contents_that_have_expired_break_no_tab(client: Client, user: User) -> None:  # T5
    run = captured_run(user)
    finished = finished_run(user)
    RunContent.objects.all().delete()

    for of, sequence in ((run, 1), (finished, 1), (finished, 3)):
        for tab in tabs_of(open_step(client, of, sequence)):
            open_step(client, of, sequence, tab)


# --- hostile contents ---


def hostile_run(user: User) -> Run:
    """Everything that a model, a tool or a provider can say is markup."""
    recorded = RecordedRun(
        user, title=HOSTILE[:200], system=HOSTILE, prompt=HOSTILE, capture_raw=True, worker=HOSTILE[:200]
    )
    plan = recorded.run.plan
    plan["segments"][0].update(label=HOSTILE, note=HOSTILE)
    plan["dropped"] = [{"source": "skill", "source_id": "s", "label": HOSTILE, "reason": "empty", "detail": HOSTILE}]
    plan["gate"].update(left_out=[{"name": HOSTILE, "reason": "unknown", "detail": HOSTILE}], warnings=[HOSTILE])
    plan["configuration"][HOSTILE] = HOSTILE
    recorded.run.save(update_fields=["plan"])
    sequence = recorded.request(body=f'{{"{"a" * 5}": "<script>"}}'.encode())
    recorded.exchange(
        sequence,
        WireExchange(
            attempt=1,
            method="POST",
            url=HOSTILE,
            request_headers={HOSTILE: HOSTILE},
            request_body=HOSTILE.encode(),
            status=200,
            response_headers={HOSTILE: HOSTILE},
            chunks=((1.0, HOSTILE.encode()),),
            error=HOSTILE,
        ),
    )
    recorded.retry(ProviderError(kind=ErrorKind.SERVER, message=HOSTILE, status=500, code=HOSTILE, param=HOSTILE))
    calls = [
        ToolCall(id=HOSTILE, name=HOSTILE, arguments={HOSTILE: [HOSTILE, {HOSTILE: HOSTILE}]}),
        ToolCall(id="2", name="x", arguments=None, arguments_raw=HOSTILE, problem=CallProblem.UNDECODABLE),
        ToolCall(id="3", name="y", arguments={}),
    ]
    recorded.response(
        HOSTILE,
        thinking=HOSTILE,
        calls=calls,
        finish_reason=FinishReason.TOOL_CALLS,
        finish_reason_raw=HOSTILE,
        refusal=HOSTILE,
        served_model=HOSTILE,
        response_id=HOSTILE,
        error=ProviderError(kind=ErrorKind.SERVER, message=HOSTILE, status=500, code=HOSTILE, param=HOSTILE),
    )
    results = [
        ToolResult(
            text=HOSTILE, size=10, full=HOSTILE, artifacts=(Artifact(type=HOSTILE, payload={HOSTILE: HOSTILE}),)
        ),
        ToolResult(text=HOSTILE, failure=FailureKind.EXCEPTION, traceback=HOSTILE),
        ToolResult(text=f'{{"{"k"}": {len(HOSTILE)}, "v": "<script>"}}'),
    ]
    for call, result in zip(calls, results, strict=True):
        recorded.tool_call(call)
        recorded.tool_result(call, result)
    recorded.answer(HOSTILE)
    recorded.error(RuntimeError(HOSTILE))
    return recorded.end(EndReason.INTERNAL_ERROR)


def test_nothing_in_any_tab_is_markup(client: Client, user: User) -> None:
    run = hostile_run(user)
    looked_at = 0

    for sequence in range(run.last_sequence + 1):
        for tab in tabs_of(open_step(client, run, sequence)):
            html = open_step(client, run, sequence, tab)
            assert "<script" not in html, (sequence, tab)
            assert "<img" not in html, (sequence, tab)
            assert "</pre></script>" not in html, (sequence, tab)
            assert not re.search(r"<[^>]+\sstyle=", html), (sequence, tab)
            looked_at += 1
        for message in range(3):
            response = client.get(url_of(run, sequence), {"tab": "messages", "message": message})
            assert response.status_code == 404 or "<script" not in response.content.decode()

    assert looked_at > 30
