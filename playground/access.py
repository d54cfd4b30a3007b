"""Who may see and do what, decided on each object."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser, AnonymousUser
from django.db.models import QuerySet

from playground.models import Run

User = AbstractUser | AnonymousUser


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
