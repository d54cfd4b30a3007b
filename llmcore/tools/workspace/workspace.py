"""The folder that a run's tools work in, and what they may do there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Workspace:
    """A folder on the server's disk that a configuration names: its tools read there, and write if the site says so.

    `root` is absolute. `write` and `terminal` switch on the tools of those names. `write_freely` are patterns of
    relative paths that `write_file` changes without asking anyone; `**` stands for any number of folders.
    `environment` are variables for commands, beside the few that each gets; none comes from this process.
    """

    name: str
    root: str
    write: bool = False
    terminal: bool = False
    write_freely: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
