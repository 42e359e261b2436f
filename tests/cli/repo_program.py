"""`hostler repo` under test: the command line in this process, and a settings file."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostler.cli import main

AGENT = '[agent.claude]\nkind = "claude"\n'


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


class Program:
    """Runs commands in this process: loading the libraries each time would take long."""

    def __init__(self, tmp_path: Path, environment: dict[str, str], monkeypatch: Any, capsys: Any):
        self._environment = environment
        self._patch = monkeypatch
        self._capsys = capsys
        self._folder = tmp_path / "here"
        self._folder.mkdir()

    def __call__(self, *argv: object, env: dict[str, str] | None = None) -> Done:
        with self._patch.context() as patch:
            patch.delenv("GITHUB_TOKEN", raising=False)
            for name, value in {**self._environment, **(env or {})}.items():
                patch.setenv(name, value)
            patch.chdir(self._folder)
            patch.setattr(sys, "argv", ["hostler", "repo", *map(str, argv)])
            code = 0
            try:
                main.run()
            except SystemExit as ended:
                code = int(ended.code or 0)
        said = self._capsys.readouterr()
        return Done(code, said.out, said.err)


def table(id: str, repository: str, more: str = "") -> str:
    owner, _, name = repository.partition("/")
    return f'[repo.{id}]\nowner = "{owner}"\nname = "{name}"\n{more}\n'
