"""Keeps tests away from a developer's own data. A pytest plugin, so that it runs before Django's settings are read."""

import os
import tempfile

os.environ.setdefault("DATA_DIR", tempfile.mkdtemp(prefix="playground-tests-"))
