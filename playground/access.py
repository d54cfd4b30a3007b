"""Who may see and do what, decided on each object."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser, AnonymousUser
from django.db.models import QuerySet

from llmcore.tools.registry import all_tools
from playground.models import EngineAction, ProposedAction, Run

User = AbstractUser | AnonymousUser
DECIDE = "playground.decide_action"
LACKS_DECIDE = "You lack the permission to approve or deny proposed actions."


def visible_runs(user: User) -> QuerySet[Run]:
    """The runs that `user` may see: their own with `view_run`, everybody's with `view_all_runs`."""
    if user.has_perm("playground.view_all_runs"):
        return Run.objects.all()
    if user.pk is not None and user.has_perm("playground.view_run"):
        return Run.objects.filter(user_id=user.pk)
    return Run.objects.none()


def visible_engine_actions(user: User) -> QuerySet[EngineAction]:
    """Those of engines that act for `user`, as if they were their own runs, and everybody's."""
    if user.has_perm("playground.view_all_runs"):
        return EngineAction.objects.all()
    if user.pk is not None and user.has_perm("playground.view_run"):
        return EngineAction.objects.filter(user_id=user.pk)
    return EngineAction.objects.none()


def may_cancel(user: User, run: Run) -> bool:
    """Own runs with the right to start them, others' with `cancel_all_runs`."""
    if user.has_perm("playground.cancel_all_runs"):
        return True
    return run.user_id == user.pk and user.has_perm("playground.add_run")


def may_continue(user: User, run: Run) -> bool:
    """Own runs only, with the right to start them: what goes on acts with the rights of the run's user."""
    return run.user_id == user.pk and user.has_perm("playground.add_run")


def may_delete(user: User, run: Run) -> bool:
    """Own runs, and others' with `delete_run`."""
    own = user.pk is not None and run.user_id == user.pk
    return own or user.has_perm("playground.delete_run")


def may_annotate(user: User, run: Run) -> bool:
    """Title, tags and note: of own runs, and of others' with `annotate_all_runs`."""
    return run.user_id == user.pk or user.has_perm("playground.annotate_all_runs")


def may_see(user: User, run: Run) -> bool:
    """Whether `run` is one of `visible_runs`, without a query."""
    own = user.pk is not None and run.user_id == user.pk
    return user.has_perm("playground.view_all_runs") or (own and user.has_perm("playground.view_run"))


def may_see_raw(user: User, run: Run) -> bool:
    """Raw requests and responses need `view_raw`, on top of the right to see the run."""
    return user.has_perm("playground.view_raw") and may_see(user, run)


def why_not_decide(user: User, run: Run, action: ProposedAction) -> str:
    """Why `user` can't approve or deny what `run` proposes, in a sentence; empty where they can."""
    if not may_see(user, run):
        return "You may not see this run."
    return why_not_decide_seen(user, run, action)


def why_not_decide_seen(user: User, run: Run, action: ProposedAction) -> str:
    """The same for a run that `user` may see, without a query for each action."""
    if not user.has_perm(DECIDE):
        return LACKS_DECIDE
    if run.user_id == user.pk and other_decider_required(run):
        return "You started this run, and its configuration wants somebody else to decide."
    return _why_not_use(user, action.tool)


def why_not_decide_engine(user: User, action: EngineAction) -> str:
    """The same for an action of another engine that `user` may see."""
    if not user.has_perm(DECIDE):
        return LACKS_DECIDE
    row = action.configuration
    if action.user_id == user.pk and (action.other_decider or (row is not None and row.requires_other_decider)):
        return "This is done for you, and its configuration wants somebody else to decide."
    return _why_not_use(user, action.tool)


def _why_not_use(user: User, name: str) -> str:
    tool = all_tools().get(name)
    if tool is not None and tool.permission and not user.has_perm(tool.permission):
        return f"You lack the permission “{tool.permission}” that this tool needs."
    return ""


def other_decider_required(run: Run) -> bool:
    """By the configuration as it was when the run began, or as it is now."""
    planned = ((run.plan or {}).get("configuration") or {}).get("requires_other_decider")
    return bool(planned or (run.configuration and run.configuration.requires_other_decider))


def decidable_count(user: User) -> int:
    """How many proposed actions wait that `user` may see; none without the right to decide."""
    if not user.has_perm(DECIDE):
        return 0
    of_runs = ProposedAction.objects.filter(decision="", run__in=visible_runs(user)).order_by().values("pk")
    of_engines = visible_engine_actions(user).filter(decision="").order_by().values("pk")
    # Every page with the admin's menu asks: one question for both.
    return of_runs.union(of_engines, all=True).count()
