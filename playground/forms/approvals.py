"""The form of a decision about a proposed action."""

from __future__ import annotations

from django import forms

from llmcore.actions.proposals import DecisionKind

MAX_REASON_CHARS = 4_000


class DecisionForm(forms.Form):
    """Approve or deny. `digest` says what the decider was shown, `reason` goes to the model with a denial."""

    decision = forms.ChoiceField(
        choices=[(kind.value, kind.value) for kind in (DecisionKind.APPROVE, DecisionKind.DENY)]
    )
    digest = forms.CharField(max_length=64)
    reason = forms.CharField(required=False, max_length=MAX_REASON_CHARS)
    again = forms.BooleanField(required=False)
