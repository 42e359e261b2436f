"""Parameters of commands read once per process: tests call the same commands many times."""

from __future__ import annotations

import functools

import typer.main


def share_parameters() -> None:
    """From now on, read the signature of each command once in this process and in its forks."""
    typer.main.get_params_from_function = functools.cache(typer.main.get_params_from_function)
