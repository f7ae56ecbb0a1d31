"""Plays transcripts, several at once in processes of their own, and prints what came of each as it is known."""

import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial


def print_all(scripts, play, jobs):
    """`play(script)` gives None, or what went wrong. How many went wrong."""
    failed = 0
    with ProcessPoolExecutor(jobs) as processes:
        # The order is that of the folder, so that two runs can be compared.
        for script, (problem, took) in zip(scripts, processes.map(partial(_timed, play), scripts)):
            failed += problem is not None
            mark = "ok  " if problem is None else "FAIL"
            print(f"{mark} {script.name} ({' '.join(script.rules)}) {took:.2f} s", flush=True)
            if problem:
                print(f"    {problem}", flush=True)
    return failed


def add_without(parser):
    parser.add_argument("--without", action="append", default=[], metavar="NAME", help="not this one; several times")


def add_jobs(parser):
    parser.add_argument("--jobs", type=int, default=1, help="transcripts at once (1)")


def _timed(play, script):
    begin = time.monotonic()
    problem = play(script)
    return problem, time.monotonic() - begin
