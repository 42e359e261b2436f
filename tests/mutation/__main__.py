"""Mutation testing of the rules: change one thing at a time, and see whether a test fails.

    python tests/mutation                      every mutant of every module
    python tests/mutation --module aimd        modules whose name ends so
    python tests/mutation --sample 200 --seed 7
    python tests/mutation --list-survivors     the mutants that no test notices

`mutation_targets.py` names the modules and their tests. `explained.toml` names the mutants that no
test can notice (they change nothing that can be seen), and why. The command ends with 1 if fewer
than `--min-score` percent of the other mutants were noticed, or if an entry of that list names a
mutant that does not exist or that a test has killed.

See docs/internals/mutation-testing.md.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryFile

from mutation_operators import Mutant
from mutation_report import EXPLAINED, Record, is_good, read_explained, report
from mutation_targets import GROUPS, Group

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
MIN_SCORE = 95.0


def main() -> int:
    given = _arguments()
    os.chdir(ROOT)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    explained = read_explained(EXPLAINED.read_text())
    records = [
        one for group in _groups(given.group, given.module) for one in _run_group(group, given)
    ]
    if given.json:
        given.json.write_text(json.dumps(records, indent=1) + "\n")
    whole = not (given.sample or given.module or given.group)
    print("\n".join(report(records, explained, whole=whole, every=given.list_survivors)))
    return 0 if is_good(records, explained, given.min_score, whole=whole) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python tests/mutation", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--module", action="append", default=[], help="a module, by its end")
    parser.add_argument("--group", action="append", default=[], help="a group of modules")
    parser.add_argument("--sample", type=int, default=0, help="so many mutants of each group")
    parser.add_argument("--seed", type=int, default=0, help="which ones")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--json", type=Path, help="write every outcome to this file")
    parser.add_argument("--list-survivors", action="store_true")
    parser.add_argument("--min-score", type=float, default=MIN_SCORE)
    return parser.parse_args()


def _groups(names: list[str], wanted: list[str]) -> Iterator[Group]:
    for group in GROUPS:
        targets = tuple(
            one
            for one in group.targets
            if not wanted or any(f".{one.module}".endswith(f".{end}") for end in wanted)
        )
        if targets and (not names or group.name in names):
            yield replace(group, targets=targets)


def _run_group(group: Group, given: argparse.Namespace) -> list[Record]:
    """Run a group in a process of its own, with its output in a file that is shown on failure."""
    print(f"{group.name}: loading", file=sys.stderr)
    with TemporaryFile() as log:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
            os._exit(_be_group(group, given, writing))
        os.close(writing)
        records = []
        with os.fdopen(reading) as lines:
            for line in lines:
                records.append(json.loads(line))
                _show_progress(group.name, records, every=given.list_survivors)
        _, status = os.waitpid(pid, 0)
        if status:
            log.seek(0)
            sys.stderr.write(log.read().decode(errors="replace")[-20000:])
            raise SystemExit(f"The group {group.name} could not be run.")
    return records


def _show_progress(name: str, records: list[Record], *, every: bool) -> None:
    if every and records[-1]["status"] in ("survived", "uncovered"):
        print(f"{records[-1]['status']}: {records[-1]['id']}", file=sys.stderr, flush=True)
    if len(records) % 50 == 0:
        counts = Counter(str(one["status"]) for one in records)
        words = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
        print(f"{name}: {words}", file=sys.stderr, flush=True)


def _be_group(group: Group, given: argparse.Namespace, pipe: int) -> int:
    # Only here: the parent must not load what it does not need before it forks.
    from mutation_worker import Campaign, Outcome, run_campaign

    try:
        with os.fdopen(pipe, "w") as out:

            def tell(outcome: Outcome) -> None:
                print(json.dumps(asdict(outcome)), file=out, flush=True)

            modules = [one.module for one in group.targets]
            choose = chooser(group, given.sample, given.seed)
            run_campaign(Campaign(modules, given.jobs, choose, tell), group.tests, group.left_out)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", flush=True)
        return 1
    return 0


def chooser(group: Group, sample: int, seed: int) -> Callable[[list[Mutant]], list[Mutant]]:
    """Return what selects the mutants of a group: its rules, and a sample of them if wanted."""
    targets = {one.module: one for one in group.targets}

    def choose(mutants: list[Mutant]) -> list[Mutant]:
        wanted = [one for one in mutants if targets[one.module].includes(one.place.qualname)]
        if not sample or sample >= len(wanted):
            return wanted
        chosen = {id(one) for one in random.Random(f"{seed} {group.name}").sample(wanted, sample)}
        return [one for one in wanted if id(one) in chosen]

    return choose


if __name__ == "__main__":
    sys.exit(main())
