"""Makes a run ready to start: the same function for the preview, the dry run and the real run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from django.contrib.auth.models import User

from llmcore import store
from llmcore.conf import settings
from llmcore.configuration import Configuration, Limits, Parameters, Route, Skill, Snippet
from llmcore.context.estimator import Estimator
from llmcore.errors import ConfigurationError
from llmcore.mcp_servers import every_tool
from llmcore.messages import JSON, Message
from llmcore.prompts.assembly import Augmentation, PromptAssembly, assemble
from llmcore.providers.base import ModelCall, Transcript, WireRequest
from llmcore.providers.registry import adapter_of
from llmcore.redaction import Redactor
from llmcore.runs.fallback import call_to
from llmcore.runs.state import RunState
from llmcore.structured.packs import site_prompts
from llmcore.structured.request import Ready, make_ready
from llmcore.tools.base import Tool, ToolContext
from llmcore.tools.gate import Gate, decide_gate
from llmcore.tools.replacement import with_replacements
from llmcore.versions import Kept, Then, VersionRef, versions_of
from llmcore.workspaces import workspace_named
from playground.forked_prompt import forked_assembly, requested_tools, used_before
from playground.services.start_run import RunRequest, cleaned, rounds_allowed
from playground.structured_run import StructuredRun

# Fields of a model that nobody chose: how its tokens are counted.
LEARNED = {"tokenizer", "token_ratio", "token_samples"}


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedRun:
    """A run before its first round: `state` is what the loop starts from, `wire` the exact request of its
    first round, `tools` what runs when the model calls one of those that the gate offers. `ready` is there where the
    prompt is one of a pack."""

    configuration: Configuration
    assembly: PromptAssembly
    gate: Gate
    state: RunState
    call: ModelCall
    wire: WireRequest
    versions: tuple[VersionRef, ...]
    tools: Mapping[str, Tool]
    ready: Ready | None = None

    def plan(self) -> dict[str, JSON]:
        """What `Run.plan` keeps; it names messages by digest, `contents()` has them."""
        return {
            "configuration": describe(self.configuration),
            "state": {**self.state.to_json(), "messages": [message.digest for message in self.state.messages]},
            "gate": self.gate.to_json(),
            "estimator": Estimator.of(self.configuration.model).to_json(),
            "segments": [segment.to_json() for segment in self.assembly.segments],
            "dropped": [dropped.to_json() for dropped in self.assembly.dropped],
            "fingerprint": self.assembly.fingerprint,
            "body_sha256": self.wire.sha256,
            "body_bytes": len(self.wire.body),
            "versions": [[ref.kind, ref.object_id, ref.number] for ref in self.versions],
            **({"structured": self.ready.manifest()} if self.ready else {}),
        }

    def contents(self) -> dict[str, JSON]:
        return {message.digest: message.json for message in self.state.messages}


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What a request names, where it was just read: its configuration, and by slug those of its forced texts that there
    are. It is as stored now, so it says nothing to a request that names versions."""

    configuration: Configuration
    skills: Mapping[str, Skill]
    snippets: Mapping[str, Snippet]

    @classmethod
    def of(cls, kept: Kept, *, read_keys: bool) -> Self:
        return cls(
            configuration=store.load_configuration(kept.configuration, read_keys=read_keys),
            skills={row.slug: store.skill_value(row) for row in kept.skills},
            snippets={row.slug: store.snippet_value(row) for row in kept.snippets},
        )


def prepare_run(
    *,
    request: RunRequest,
    user: User | None,
    draft: bool = False,
    found: Found | None = None,
    redactor: Redactor | None = None,
) -> PreparedRun:
    """ConfigurationError says what to change where a run can't start as asked. Makes no call and writes nothing.

    A dry run needs no key: where it can't be read, a placeholder stands for it (masked like the key itself). In a
    `draft` variables may still be without a value. `redactor` is one that knows this site's secrets, where they were
    just read.
    """
    request = cleaned(request, redactor or store.site_redactor())
    stored, skills, snippets = load_pieces(request, found)
    configuration, ready = as_requested(stored, request), None
    state = request.fork.state if request.fork else RunState(messages=())
    if request.fork is not None:
        assembly = forked_assembly(configuration, request.fork)
    elif request.structured is not None:
        ready = ready_of(request.structured, request, configuration)
        configuration, assembly = ready.configuration, ready.assembly
        state = replace(state, expected=ready.expected)
    else:
        assembly = assembled(configuration, request, skills, snippets, draft=draft)
    gate = gate_for(configuration, requested=requested_tools(request), assembly=assembly, user=user)
    state = replace(
        state,
        messages=assembly.messages,
        parameters=configuration.parameters,
        limits=configuration.limits,
        offered=gate.names,
        # A new run asks the first of its models first.
        route="",
        foreign=0,
    )
    specs = tuple(tool.spec for tool in gate.offered)
    call = call_to(configuration.routes[0], state.parameters, specs, state.expected)
    adapter = adapter_of(call.provider, call.model)
    wire = adapter.frame(call, Transcript(adapter, call, state.messages).encoded())
    refuse_oversized(wire)
    return PreparedRun(
        configuration=configuration,
        assembly=assembly,
        gate=gate,
        state=state,
        call=call,
        wire=wire,
        versions=versions_of(configuration, skills, snippets),
        tools=with_replacements(gate.offered, request.replacements, used=used_before(request)),
        ready=ready,
    )


def ready_of(structured: StructuredRun, request: RunRequest, configuration: Configuration) -> Ready:
    """A prompt of a pack with what it was given; a ConfigurationError of its own for each thing that is wrong."""
    asked = structured.asked(configuration=configuration.slug, variables=request.variables)
    return make_ready(asked, registry=site_prompts, configuration=configuration)


def assembled(
    configuration: Configuration,
    request: RunRequest,
    skills: tuple[Skill, ...],
    snippets: tuple[Snippet, ...],
    *,
    draft: bool = False,
    estimate: Callable[[str], int] | None = None,
) -> PromptAssembly:
    """The prompt of a run that begins at its beginning."""
    return assemble(
        configuration=configuration,
        conversation=(Message.of("user", request.prompt),),
        augmentation=Augmentation(
            skills=skills,
            snippets=snippets,
            system_override=request.system_override,
            override_mode=request.override_mode,
            dry_run=request.dry_run,
            variables=request.variables,
            fill_conversation=True,
        ),
        draft=draft,
        estimate=estimate,
    )


def refuse_unresolved(
    request: RunRequest, found: Found | None = None, redactor: Redactor | None = None
) -> tuple[str, ...]:
    """UnresolvedVariables where the run would lack a value, before a run is written; else the names of the values
    that nothing asks for. Whatever else is wrong with the request is left to the run, which says so and keeps it;
    but a prompt of a pack that can't be made of what it was given is a ConfigurationError here. `redactor`
    is one that knows this site's secrets, where they were just read."""
    if request.fork is not None:
        return ()
    request = cleaned(replace(request, dry_run=True), redactor or store.site_redactor())
    try:
        configuration, skills, snippets = load_pieces(request, found)
    except ConfigurationError:
        return ()
    if request.structured is not None:
        ready_of(request.structured, request, configuration)
        return ()
    # Nobody asks for its tokens.
    return assembled(configuration, request, skills, snippets, estimate=lambda text: 0).unused_values


def load_pieces(
    request: RunRequest, found: Found | None = None
) -> tuple[Configuration, tuple[Skill, ...], tuple[Snippet, ...]]:
    """The configuration, and what the request forces: as stored, or in the versions that it names."""
    read_keys = not request.dry_run
    if not request.versions:
        if found is None:
            stored = store.load_configuration(request.configuration, read_keys=read_keys)
            return stored, store.load_skills(request.skills), store.load_snippets(request.snippets)
        skills = store.load_skills(request.skills, found.skills)
        return found.configuration, skills, store.load_snippets(request.snippets, found.snippets)
    then = Then(VersionRef(*ref) for ref in request.versions)
    stored = then.configuration(request.configuration, read_keys=read_keys)
    return stored, then.skills(request.skills), then.snippets(request.snippets)


def as_requested(configuration: Configuration, request: RunRequest) -> Configuration:
    """The configuration with what the request asks for instead."""
    asked = {name: getattr(request, name) for name in ("temperature", "max_tokens", "thinking")}
    parameters: Parameters = replace(
        configuration.parameters, **{name: value for name, value in asked.items() if value is not None}
    )
    rounds = rounds_allowed(request.max_rounds or configuration.limits.max_rounds)
    limits: Limits = replace(configuration.limits, max_rounds=rounds)
    return replace(configuration, parameters=parameters, limits=limits)


def gate_for(
    configuration: Configuration,
    *,
    requested: tuple[str, ...] | None,
    assembly: PromptAssembly | None,
    user: User | None,
    registry: Mapping[str, Tool] | None = None,
    switches: store.Switches | None = None,
) -> Gate:
    """The gate of `user`; without an assembly (a run that goes on) its skills have narrowed `requested` before.
    `registry` (all tools) and `switches` are this site's, where they were just loaded."""

    def permitted(tool: Tool) -> bool:
        return not tool.permission or (user is not None and user.has_perm(tool.permission))

    switches = switches or store.load_switches()
    return decide_gate(
        context=context_for(configuration, user=user),
        registry=every_tool() if registry is None else registry,
        requested=requested,
        configuration=configuration,
        skills=assembly.injected_skills if assembly else (),
        disabled_tools=switches.disabled_tools,
        disabled_groups=switches.disabled_groups,
        permitted=permitted,
    )


def context_for(configuration: Configuration, *, user: User | None, run_id: int | None = None) -> ToolContext:
    """What the tools of a run get."""
    return ToolContext(
        user=user,
        run_id=run_id,
        configuration=configuration.slug,
        workspace=workspace_named(configuration.workspace),
    )


def refuse_oversized(wire: WireRequest) -> None:
    if len(wire.body) > settings.LLM_MAX_REQUEST_BYTES:
        raise ConfigurationError(
            f"The first request would have {len(wire.body):,} bytes; this site allows "
            f"{settings.LLM_MAX_REQUEST_BYTES:,}. Shorten the prompt, or attach fewer skills and snippets."
        )


def describe(configuration: Configuration) -> dict[str, Any]:
    """The configuration as it was used, without its secrets."""
    return {
        "slug": configuration.slug,
        "name": configuration.name,
        "id": configuration.id,
        "version": configuration.version,
        **describe_route(configuration.routes[0]),
        "fallbacks": [describe_route(route) for route in configuration.fallbacks],
        "tool_groups": list(configuration.tool_groups),
        "tools": None if configuration.tools is None else list(configuration.tools),
        "skills": [skill.slug for skill in configuration.skills],
        "snippets": [snippet.slug for snippet in configuration.snippets],
        "tagged_snippets": [snippet.slug for snippet in configuration.tagged_snippets],
        "tool_preset": configuration.tool_preset,
        "workspace": configuration.workspace,
        "min_skill_trust": configuration.min_skill_trust,
        "summarizer": configuration.summarizer
        and {
            "name": configuration.summarizer.name,
            **describe_route(configuration.summarizer.route),
        },
        "requires_other_decider": configuration.requires_other_decider,
    }


def describe_route(route: Route) -> dict[str, Any]:
    model = route.model
    return {
        "provider": {name: getattr(route.provider, name) for name in ("slug", "name", "adapter", "base_url")},
        "model": {
            **{f.name: getattr(model, f.name) for f in fields(model) if f.name not in LEARNED | {"prices"}},
            "prices": model.prices.to_json(),
        },
    }
