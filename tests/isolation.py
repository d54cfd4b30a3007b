"""Keeps tests away from a developer's own data. A pytest plugin, so that it runs before Django's settings are read."""

import os
import tempfile

os.environ.setdefault("DATA_DIR", tempfile.mkdtemp(prefix="playground-tests-"))
# A test's database server is no production: it asks for no secrets, no HTTPS and no collected files.
os.environ.setdefault("PRODUCTION", "off")
