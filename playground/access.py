"""Who may see and do what, decided on each object."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser, AnonymousUser
from django.db.models import QuerySet

from llmcore.tools.registry import all_tools
from playground.models import ProposedAction, Run

User = AbstractUser | AnonymousUser
DECIDE = "playground.decide_action"


def visible_runs(user: User) -> QuerySet[Run]:
    """The runs that `user` may see: their own with `view_run`, everybody's with `view_all_runs`."""
    if user.has_perm("playground.view_all_runs"):
        return Run.objects.all()
    if user.pk is not None and user.has_perm("playground.view_run"):
        return Run.objects.filter(user_id=user.pk)
    return Run.objects.none()


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


def may_see_raw(user: User, run: Run) -> bool:
    """Raw requests and responses need `view_raw`, on top of the right to see the run."""
    return user.has_perm("playground.view_raw") and visible_runs(user).filter(pk=run.pk).exists()


def why_not_decide(user: User, run: Run, action: ProposedAction) -> str:
    """Why `user` can't approve or deny what `run` proposes, in a sentence; empty where they can."""
    if not visible_runs(user).filter(pk=run.pk).exists():
        return "You may not see this run."
    return why_not_decide_seen(user, run, action)


def why_not_decide_seen(user: User, run: Run, action: ProposedAction) -> str:
    """The same for a run that `user` may see, without a query for each action."""
    if not user.has_perm(DECIDE):
        return "You lack the permission to approve or deny proposed actions."
    if run.user_id == user.pk and other_decider_required(run):
        return "You started this run, and its configuration wants somebody else to decide."
    tool = all_tools().get(action.tool)
    if tool is not None and tool.permission and not user.has_perm(tool.permission):
        return f"You lack the permission “{tool.permission}” that this tool needs."
    return ""


def other_decider_required(run: Run) -> bool:
    """By the configuration as it was when the run began, or as it is now."""
    planned = ((run.plan or {}).get("configuration") or {}).get("requires_other_decider")
    return bool(planned or (run.configuration and run.configuration.requires_other_decider))


def decidable_actions(user: User) -> QuerySet[ProposedAction]:
    """The proposed actions that wait and that `user` may see; none without the right to decide."""
    if not user.has_perm(DECIDE):
        return ProposedAction.objects.none()
    return ProposedAction.objects.filter(decision="", run__in=visible_runs(user))
