"""Which skills a run uses, and the block of text they become."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from llmcore.configuration import Skill, sha256_of_text
from llmcore.prompts.candidates import Candidate, candidates
from llmcore.prompts.fences import GUARD, fence
from llmcore.prompts.provenance import Dropped, DropReason, Source

# Source: the levels of the stored skill; a site may use others, which are shown as numbers.
TRUST_NAMES = {0: "untrusted", 1: "site", 2: "reviewed"}

# Two line breaks end each piece of the block, so that it stays apart from what follows on wires without parts.
GUARD_TEXT = GUARD + "\n\n"


@dataclass(frozen=True, slots=True)
class ChosenSkill:
    """A skill that goes into the prompt, with its fenced text."""

    skill: Skill
    section: str
    forced: bool
    note: str = ""


def choose_skills(
    configured: Iterable[Skill], forced: Sequence[Skill], *, min_trust: int, budget_bytes: int
) -> tuple[list[ChosenSkill], list[Dropped]]:
    """The skills in their order with their sections, and those left out. The budget counts the whole block."""
    usable, dropped = candidates(Source.SKILL, configured, forced)
    chosen: list[ChosenSkill] = []
    for candidate in usable:
        refusal = _refusal(candidate.piece, min_trust)
        if refusal:
            dropped.append(candidate.drop(Source.SKILL, *refusal))
        else:
            section = fence(candidate.piece.name, candidate.piece.body.strip("\n")) + "\n\n"
            chosen.append(ChosenSkill(candidate.piece, section, candidate.forced, candidate.note))
    fitting, over = _within_budget(chosen, budget_bytes)
    return fitting, dropped + over


def _refusal(skill: Skill, min_trust: int) -> tuple[DropReason, str] | None:
    if sha256_of_text(skill.body) != skill.sha256:
        return (
            DropReason.CHECKSUM_MISMATCH,
            "Its text was changed outside the admin: it doesn't match the stored SHA-256. Read it and save it again.",
        )
    if skill.trust < min_trust:
        has, asked = (TRUST_NAMES.get(level, str(level)) for level in (skill.trust, min_trust))
        return DropReason.BELOW_TRUST, f"Its trust is “{has}”; the configuration asks for “{asked}” at least."
    if not skill.body.strip():
        return DropReason.EMPTY, "It has no text."
    return None


def _within_budget(chosen: Sequence[ChosenSkill], budget: int) -> tuple[list[ChosenSkill], list[Dropped]]:
    """As many skills from the first one on as fit; the rest is left out whole."""
    used = _bytes(GUARD_TEXT)
    fitting: list[ChosenSkill] = []
    dropped: list[Dropped] = []
    for item in chosen:
        size = _bytes(item.section)
        if not dropped and used + size <= budget:
            fitting.append(item)
            used += size
            continue
        if not dropped:
            free = max(budget - used, 0)
            detail = f"It needs {_kb(size)}, but only {_kb(free)} of the {_kb(budget)} skill budget are left."
        else:
            detail = f"It comes after “{dropped[0].label}”, which no longer fits the skill budget of {_kb(budget)}."
        candidate = Candidate(item.skill, item.forced)
        dropped.append(candidate.drop(Source.SKILL, DropReason.OVER_BUDGET, detail))
    return fitting, dropped


def without_user_message(chosen: Iterable[ChosenSkill]) -> list[Dropped]:
    """Skills go before the text of a user message; where there is none, they go nowhere."""
    detail = "The conversation has no user message to put it before."
    return [
        Candidate(item.skill, item.forced).drop(Source.SKILL, DropReason.NO_USER_MESSAGE, detail) for item in chosen
    ]


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _kb(size: int) -> str:
    return f"{size} B" if size < 1000 else f"{size / 1000:.1f} kB"
