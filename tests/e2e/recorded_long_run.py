"""Records a run of 1,000 rounds in the started product: `python -m tests.e2e.recorded_long_run USERNAME`."""

from __future__ import annotations

import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()

from django.contrib.auth.models import User  # noqa: E402
from django.db import transaction  # noqa: E402

from tests.playground.recorded import long_run  # noqa: E402

ROUNDS = 1_000
FAILED = (3, 500, 501)

if __name__ == "__main__":
    with transaction.atomic():
        run = long_run(
            User.objects.get(username=sys.argv[1]),
            rounds=ROUNDS,
            failed=FAILED,
            title="A thousand rounds",
            max_rounds=ROUNDS,
        )
    print(run.pk)
