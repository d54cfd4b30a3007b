"""The names of the fallback models that runs were served by, as the list of runs names models."""

from __future__ import annotations

from llmcore.models import LanguageModel
from playground.models import Run

# More of them nobody set up.
MOST = 500


def served_models() -> dict[str, str]:
    """The name of each by what a run keeps of it (`provider/model`): its label, where the site still has it."""
    served = Run.objects.exclude(served_by="").order_by("served_by")
    paths = list(served.values_list("served_by", flat=True).distinct()[:MOST])
    if not paths:
        return {}
    models = LanguageModel.objects.select_related("provider").filter(name__in=[_name(path) for path in paths])
    labels = {model.path: model.label for model in models}
    return {path: labels.get(path) or _name(path) for path in paths}


def _name(path: str) -> str:
    return path.partition("/")[2] or path
