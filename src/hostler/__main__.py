"""The `hostler` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line. `--version` is answered before anything heavy is imported."""
    if sys.argv[1:] == ["--version"]:
        from hostler import __version__
        from hostler.cli.stdio import guard_output

        with guard_output():
            sys.stdout.write(f"hostler {__version__}\n")
        return
    from hostler.cli.main import run

    run()


if __name__ == "__main__":
    main()
