"""Starts a run: writes what a person asked for and hands it to a worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Self, get_args

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone
from django.utils.text import Truncator

from llmcore import store
from llmcore.conf import settings
from llmcore.configuration import Configuration, ThinkingEffort
from llmcore.errors import ConfigurationError
from llmcore.prompts.variables import fill
from llmcore.redaction import Redactor, storable
from llmcore.runs.fork import Fork
from llmcore.tools.replacement import Replacement
from playground.models import Run
from playground.privacy import PrivacyLevel, raw_capture_refused, site_level
from playground.queue import hand_over_on_commit, patience
from playground.search import index_new_run
from playground.structured_run import StructuredRun

OverrideMode = Literal["replace", "append"]
# Of a title that the prompt has to give, and of one that a person gives.
TITLE_CHARS = 80
MAX_TITLE_CHARS = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRequest:
    """What a person asks for when starting a run; `None` means "as configured".

    `configuration`, `skills` and `snippets` are slugs; `tools` are names, an empty tuple offers none.
    `system_override` given but empty replaces the system prompt with nothing. `versions` are those of configuration,
    skills and snippets that it is to be made of (kind, row, number); empty for what is stored when it starts.
    `variables` are the values of the variables in its texts, by name. `replacements` say which tools don't simply run.
    With a `fork` the run goes on from there: prompt, override, skills and snippets are those of its state. With a
    `structured` prompt of a pack that one is all that is said, and no tools are offered.
    """

    configuration: str
    prompt: str
    skills: tuple[str, ...] = ()
    snippets: tuple[str, ...] = ()
    system_override: str | None = None
    override_mode: OverrideMode = "replace"
    tools: tuple[str, ...] | None = None
    dry_run: bool = False
    capture_raw: bool = False
    max_rounds: int | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    thinking: ThinkingEffort | None = None
    title: str = ""
    versions: tuple[tuple[str, int, int], ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    replacements: tuple[Replacement, ...] = ()
    fork: Fork | None = None
    structured: StructuredRun | None = None

    def __post_init__(self) -> None:
        if self.override_mode not in get_args(OverrideMode):
            raise ValueError(f"override_mode is {self.override_mode!r}, not one of {get_args(OverrideMode)}")
        if self.thinking is not None and self.thinking not in get_args(ThinkingEffort):
            raise ValueError(f"thinking is {self.thinking!r}, not one of {get_args(ThinkingEffort)}")

    @property
    def said(self) -> str:
        """The prompt with its values, as the model gets it. What a fork goes on from is never filled again."""
        return self.prompt if self.fork else fill(self.prompt, self.variables).text

    def to_json(self) -> dict[str, Any]:
        data = asdict(replace(self, replacements=(), fork=None, structured=None))
        for name in ("skills", "snippets", "tools"):
            if data[name] is not None:
                data[name] = list(data[name])
        data["versions"] = [list(ref) for ref in self.versions]
        data["replacements"] = [replacement.to_json() for replacement in self.replacements]
        data["fork"] = self.fork and self.fork.to_json()
        data["structured"] = self.structured and self.structured.to_json()
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        tuples = {name: tuple(data[name]) for name in ("skills", "snippets", "tools") if data.get(name) is not None}
        tuples["versions"] = tuple(tuple(ref) for ref in data.get("versions") or ())
        replacements = tuple(Replacement.from_json(item) for item in data.get("replacements") or ())
        fork = Fork.from_json(data["fork"]) if data.get("fork") else None
        structured = StructuredRun.from_json(data["structured"]) if data.get("structured") else None
        return cls(**{**data, **tuples, "replacements": replacements, "fork": fork, "structured": structured})


def start_run(
    *,
    request: RunRequest,
    by: User,
    parent: Run | None = None,
    loaded: Configuration | None = None,
    redactor: Redactor | None = None,
) -> Run:
    """Write a run and hand it to the workers once it is committed.

    An unknown or disabled configuration is a ConfigurationError; whatever else is wrong with the request (an unknown
    skill, a lost key) ends the run with a clear reason, and nothing that was typed is lost. `loaded` is the stored
    configuration that it asks for, `redactor` one that knows this site's secrets, where they were just read.
    """
    with transaction.atomic():
        run = write_run(request=request, by=by, parent=parent, loaded=loaded, redactor=redactor)
        hand_over_on_commit(run.pk)
    return run


@transaction.atomic(savepoint=False)
def write_run(
    *,
    request: RunRequest,
    by: User | None,
    parent: Run | None = None,
    loaded: Configuration | None = None,
    redactor: Redactor | None = None,
) -> Run:
    """The row of a run that waits for its driver; handing it over is the caller's part."""
    configuration = loaded or store.load_configuration(request.configuration, read_keys=False)
    if request.capture_raw and (refusal := raw_capture_refused()):
        raise ConfigurationError(f"{refusal} Start the run without raw capture.")
    redactor = redactor or store.site_redactor()
    request, level = cleaned(request, redactor), site_level()
    shown = readable(as_said(request), level, redactor, name=configuration.name)
    now = timezone.now()
    run = Run.objects.create(
        user=by,
        configuration_id=configuration.id,
        configuration_name=configuration.name,
        model_name=configuration.model.label,
        title=title_of(shown),
        prompt=shown.prompt,
        request=request.to_json(),
        dry_run=request.dry_run,
        capture_raw=request.capture_raw,
        privacy_level=level,
        parent=parent,
        forked_at_round=request.fork.round if request.fork else None,
        max_rounds=rounds_allowed(request.max_rounds or configuration.limits.max_rounds),
        queued_at=now,
        lease_until=now + patience(queued_at=now, now=now),
    )
    index_new_run(run)
    return run


def cleaned(request: RunRequest, redactor: Redactor) -> RunRequest:
    """The request without this site's secrets, which nobody means to send to a model, and as a database takes it."""
    return RunRequest.from_json(storable(redactor.deep(request.to_json())))


def readable(request: RunRequest, level: PrivacyLevel, redactor: Redactor, *, name: str) -> RunRequest:
    """What of the request is stored for people to read; `Run.request` keeps all that the run needs until its end.

    `name` is that of the configuration: a title where the prompt can't give one.
    """
    match level:
        case PrivacyLevel.METADATA:
            return replace(request, prompt="", title=request.title or name)
        case PrivacyLevel.REDACTED:
            return replace(request, prompt=redactor.patterns(request.prompt), title=redactor.patterns(request.title))
    return request


def as_said(request: RunRequest) -> RunRequest:
    """The request with its prompt as the model gets it, for people to read."""
    return replace(request, prompt=request.said, variables={})


def title_of(request: RunRequest) -> str:
    """The title as given, else the beginning of the prompt's first line, else the name of the prompt of a pack. The
    request's prompt is `as_said`."""
    if title := one_line(request.title):
        return title
    name = request.structured.prompt if request.structured else request.configuration
    lines = request.prompt.strip().splitlines() or [name]
    return Truncator(" ".join(lines[0].split())).chars(TITLE_CHARS)


def given_title(*, run: Run, request: RunRequest) -> str:
    """The title of `run` as far as a person gave it, at the start or since; empty where it came by itself."""
    own = (run.configuration_name, title_of(replace(as_said(request), title="")))
    return "" if run.title in own else run.title


def one_line(title: str) -> str:
    """A title as it is stored."""
    return Truncator(" ".join(title.split())).chars(MAX_TITLE_CHARS)


def rounds_allowed(asked: int) -> int:
    """What a run gets of the rounds that it asks for: at least one, at most the site's limit."""
    return max(1, min(asked, settings.LLM_MAX_ROUNDS, store.HIGHEST_MAX_ROUNDS))
