"""Plays transcripts, several at once in processes of their own, and prints what came of each as it is known."""

import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial


def print_all(scripts, play, jobs, reruns=0):
    """`play(script)` gives None, or what went wrong, and is then called up to `reruns` times more. How many went
    wrong each time."""
    failed = 0
    with ProcessPoolExecutor(jobs) as processes:
        # The order is that of the folder, so that two runs can be compared.
        for script, tries in zip(scripts, processes.map(partial(of_tries, reruns, play), scripts)):
            failed += print_tries(f"{script.name} ({' '.join(script.rules)})", tries)
    return failed


def of_tries(reruns, play, script):
    """What came of each try, and how long it took: until one passes, or there were `reruns` more than one."""
    tries = []
    while not tries or tries[-1][0] is not None and len(tries) <= reruns:
        begin = time.monotonic()
        problem = play(script)
        tries.append((problem, time.monotonic() - begin))
    return tries


def print_tries(name, tries):
    """Whether the last one failed, too."""
    problem, took = tries[-1]
    print(f"{'ok  ' if problem is None else 'FAIL'} {name} {took:.2f} s")
    if problem is None and len(tries) > 1:
        print(f"flaky {name}")
    for found, _ in tries:
        if found:
            print(f"    {found}")
    sys.stdout.flush()
    return problem is not None


def add_without(parser):
    parser.add_argument("--without", action="append", default=[], metavar="NAME", help="not this one; several times")


def add_reruns(parser):
    parser.add_argument("--reruns", type=int, default=0, help="how often one that failed is tried again (0)")


def add_jobs(parser):
    parser.add_argument("--jobs", type=int, default=1, help="transcripts at once (1)")
