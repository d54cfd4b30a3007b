"""The runs that a new installation begins with: really made, one for each way a run can go."""

from __future__ import annotations

from dataclasses import replace

from django.contrib.auth.models import User

from demo.llm_prompts import NPCS, REFERENCES, SPELL_CATALOG, TRANSCRIPT
from playground.privacy import raw_capture_refused
from playground.services.start_run import RunRequest, start_run
from playground.structured_run import GivenInput, StructuredRun

TICKET = """\
Ticket 20931, from Amelia Braun <amelia.braun@example.com>, 29 November:

> Hello, you charged me twice for my order DJ-48213 of last week, 64.90 each time. I ordered only once, and my bank \
shows both. Please give me the second amount back. I will need a corrected invoice, too.

May we refund this, and who has to sign it off?"""

DOUBLE_CHARGE = RunRequest(
    configuration="support-triage",
    title="Double charge on order DJ-48213",
    prompt=TICKET,
    # The second one is too large for what the other skills leave of the budget.
    skills=("invoice-corrections", "shipping-carriers"),
    snippets=("no-promises",),
    capture_raw=True,
)

SPELLS = RunRequest(
    configuration="tabletop-extraction",
    title="Spells of session 12",
    prompt="",
    structured=StructuredRun(
        prompt="tabletop.spells",
        inputs=tuple(
            GivenInput(name=given.name, text=given.example, origin="example")
            for given in (REFERENCES, NPCS, SPELL_CATALOG, TRANSCRIPT)
        ),
    ),
    capture_raw=True,
)

# The list of runs shows the last one first.
DEMO_RUNS: tuple[RunRequest, ...] = (
    RunRequest(
        configuration="expired-key",
        title="Where is my order? (refused key)",
        prompt="Dario Quast asks where his order DJ-48205 is.",
        capture_raw=True,
    ),
    RunRequest(
        configuration="rush-hour",
        title="Where is order DJ-48205?",
        prompt="Dario Quast asks where his order DJ-48205 is.",
        capture_raw=True,
    ),
    RunRequest(
        configuration="endless-lookup",
        title="Orders of a.braun@example.com",
        prompt="Which orders has a.braun@example.com placed?",
    ),
    RunRequest(
        configuration="refund-notes",
        title="Refund note for DJ-48213",
        prompt="DJ-48213 was charged twice. Note on the order what is to be refunded.",
    ),
    RunRequest(
        configuration="stock-audit",
        title="Stock audit of all articles",
        prompt="Audit the stock: all categories first, then article by article.",
    ),
    RunRequest(
        configuration="checkout-files",
        title="Too little VAT for Austria",
        prompt="Our accountant says that orders to Austria carry far too little VAT since the end of November. Find "
        "out why, since when, and which orders it concerns. Leave a note for support.",
    ),
    RunRequest(
        configuration="shop-reports",
        title="Weekly report, 23–29 November",
        prompt="Write the weekly report for 23 to 29 November.",
    ),
    SPELLS,
    RunRequest(
        configuration=DOUBLE_CHARGE.configuration,
        title="Double charge, dry run",
        prompt=DOUBLE_CHARGE.prompt,
        skills=DOUBLE_CHARGE.skills,
        snippets=DOUBLE_CHARGE.snippets,
        dry_run=True,
    ),
    DOUBLE_CHARGE,
)


def start_demo_runs(*, by: User) -> int:
    """Hand all of them to the workers; how many that is."""
    capturing = not raw_capture_refused()
    for request in DEMO_RUNS:
        start_run(request=replace(request, capture_raw=request.capture_raw and capturing), by=by)
    return len(DEMO_RUNS)
