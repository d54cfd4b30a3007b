"""A Django project as somebody may have it: its own users with keys and names of another kind, its own admin site, an
app of its own, another language, no Celery, and each request in a transaction."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

FILES = {
    "accounts/models.py": """
import uuid

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.auth.models import PermissionsMixin
from django.db import models


class UserManager(BaseUserManager):
    def create_user(self, email, password, **columns):
        user = self.model(email=email, **columns)
        user.set_password(password)
        user.save()
        return user


class User(AbstractBaseUser, PermissionsMixin):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    email = models.EmailField(unique=True)
    is_active = models.BooleanField(default=True)
    is_staff = models.BooleanField(default=False)

    USERNAME_FIELD = "email"
    objects = UserManager()
""",
    "shop/models.py": """
from django.db import models


class Order(models.Model):
    number = models.CharField(max_length=20, unique=True)
    status = models.CharField(max_length=20)
""",
    "mysite/office.py": """
from django.contrib.admin.apps import AdminConfig


class OfficeConfig(AdminConfig):
    default_site = "mysite.office_site.OfficeSite"
""",
    "mysite/office_site.py": """
from django.contrib import admin


class OfficeSite(admin.AdminSite):
    site_header = "The shop's office"
""",
}
SETTINGS = """
INSTALLED_APPS[INSTALLED_APPS.index("django.contrib.admin")] = "mysite.office.OfficeConfig"
INSTALLED_APPS += ["accounts", "shop"]
AUTH_USER_MODEL = "accounts.User"
DATABASES["default"]["ATOMIC_REQUESTS"] = True
DATABASES["archive"] = {"ENGINE": "django.db.backends.sqlite3", "NAME": BASE_DIR / "archive.sqlite3"}
LANGUAGE_CODE, TIME_ZONE, USE_THOUSAND_SEPARATOR = "de", "Asia/Kolkata", True
MIDDLEWARE.insert(0, "django.middleware.gzip.GZipMiddleware")
"""
ROWS = """
from accounts.models import User
from shop.models import Order

Order.objects.create(number="A-1001", status="shipped on Monday")
User.objects.create_user("maren@example.com", "correct horse", is_staff=True)
"""


class ExistingSite:
    """The project in a folder, and the commands that somebody types there."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.environment = dict(environment)

    def create(self) -> None:
        self.folder.mkdir()
        self.run("django-admin startproject mysite .")
        for app in ("accounts", "shop"):
            self.run(f"python manage.py startapp {app}")
        for name, text in FILES.items():
            (self.folder / name).write_text(text)
        self.append("mysite/settings.py", SETTINGS)
        self.run("python manage.py makemigrations accounts shop")
        self.run("python manage.py migrate")
        self.run("python manage.py shell", ROWS)

    def append(self, name: str, text: str) -> None:
        path = self.folder / name
        path.write_text(path.read_text() + "\n" + text)

    def run(self, command: str, given: str = "") -> str:
        """What a command of a shell prints; the test fails with it where the command does."""
        done = subprocess.run(
            ["bash", "-ec", command],
            cwd=self.folder,
            env=self.environment,
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        return done.stdout

    def start(self, command: str) -> subprocess.Popen[bytes]:
        """A program that goes on; what it prints is kept in a file of its number."""
        with (self.folder / f"{command.split()[2]}.log").open("wb") as log:
            return subprocess.Popen(
                ["bash", "-ec", f"exec {command}"],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def logs(self) -> str:
        return "\n".join(f"--- {log.name}\n{log.read_text()}" for log in sorted(self.folder.glob("*.log")))


def environment_of(packages: Path, **variables: str) -> dict[str, str]:
    """An environment in which pip installs into `packages`, without a network and without what is installed already."""
    inherited = {name: value for name, value in os.environ.items() if name in ("HOME", "LANG", "TMPDIR")}
    return {
        **inherited,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": str(packages),
        "PIP_TARGET": str(packages),
        "PIP_NO_DEPS": "1",
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        **variables,
    }
