"""What an installation keeps in files is for nobody else on its machine."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from config.env import BASE_DIR
from config.new_secrets import new_secrets


def mode_of_new_folder(folder: Path, **variables: str) -> str:
    """The mode of the data folder that a start with `variables` makes, under the usual umask."""
    given = {"PATH": os.environ["PATH"], "DATA_DIR": str(folder), "DJANGO_SETTINGS_MODULE": "config.settings"}
    start = "import os; os.umask(0o022); import django; django.setup()"
    subprocess.run([sys.executable, "-c", start], cwd=BASE_DIR, env={**given, **variables}, check=True, timeout=120)
    return oct(stat.S_IMODE(folder.stat().st_mode))


def test_database_queue_and_logs_are_for_their_owner_only(tmp_path: Path) -> None:
    assert mode_of_new_folder(tmp_path / "deep" / "data") == "0o700"


def test_what_a_server_serves_can_be_read_by_its_own_user(tmp_path: Path) -> None:
    assert mode_of_new_folder(tmp_path / "data", PRODUCTION="on", **new_secrets()) == "0o755"


@pytest.mark.parametrize("mode", [0o700, 0o750])
def test_a_folder_that_is_there_stays_as_its_owner_has_it(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=mode)
    assert mode_of_new_folder(folder) == oct(mode)
