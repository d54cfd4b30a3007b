"""The ledger of skills: what is in the prompt and how it came there, what is not and why."""

from __future__ import annotations

from llmcore.configuration import Limits
from llmcore.prompts.assembly import Augmentation
from llmcore.prompts.ledger import skill_ledger
from tests.llmcore.test_assembly import run, skill


def test_each_skill_stands_once_with_how_it_came_or_why_not() -> None:
    assembly = run(
        skills=(skill("own"), skill("off", enabled=False), skill("long", "x" * 700)),
        limits=Limits(skill_budget_bytes=600),
        augmentation=Augmentation(skills=(skill("own"), skill("off", enabled=False), skill("last"))),
    )
    ledger = skill_ledger(assembly.segments, assembly.dropped)
    assert [(entry.source_id, entry.injected, entry.forced) for entry in ledger.entries] == [
        ("own", True, False),
        ("long", False, False),
        ("off", False, True),
        ("last", False, True),
    ]
    assert ledger.entries[0].why == "in the configuration"
    assert "skill budget" in ledger.entries[1].why
    assert (ledger.injected, ledger.tokens) == (1, ledger.entries[0].tokens)
    assert all(entry.tokens > 0 for entry in ledger.entries)


def test_a_forced_one_says_so() -> None:
    assembly = run(augmentation=Augmentation(skills=(skill("a"), skill("b", enabled=False))))
    whys = [entry.why for entry in skill_ledger(assembly.segments, assembly.dropped).entries]
    assert whys == ["forced for this run", "forced although disabled"]


def test_without_skills_it_is_empty() -> None:
    assembly = run()
    assert skill_ledger(assembly.segments, assembly.dropped).entries == ()
