"""Plays transcripts, several at once in processes, and prints each result as soon as it is known."""

import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial


def print_all(scripts, play, jobs):
    """Runs `play(script)`, which returns None or what went wrong, for each script; returns how many failed."""
    failed = 0
    with ProcessPoolExecutor(jobs) as processes:
        # The order is that of the folder, so that two runs can be compared.
        for script, result in zip(scripts, processes.map(partial(timed, play), scripts)):
            failed += print_result(title(script), *result)
    return failed


def title(script):
    return f"{script.name} ({' '.join(script.rules)})"


def timed(play, *arguments):
    """Returns what `play(*arguments)` returns, and the seconds that it took."""
    begin = time.monotonic()
    return play(*arguments), time.monotonic() - begin


def print_result(name, problem, seconds):
    """Prints the lines of one result; returns whether it failed."""
    print(f"{'ok  ' if problem is None else 'FAIL'} {name} {seconds:.2f} s")
    if problem is not None:
        print(f"    {problem}")
    sys.stdout.flush()
    return problem is not None


def add_without(parser):
    parser.add_argument("--without", action="append", default=[], metavar="NAME", help="not this one; several times")


def add_jobs(parser):
    parser.add_argument("--jobs", type=int, default=1, help="transcripts at once (1)")
