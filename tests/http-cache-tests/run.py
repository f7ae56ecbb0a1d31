#!/usr/bin/env python3
"""Runs the public suite of HTTP cache tests (https://cache-tests.fyi) against the real gateway.

Twice: with the cache as it is by default, and with the settings that the RFCs allow but a careful operator asks for first
("conformance"). What a test comes to is decided by the suite's own rule. Every required or optimal test that is not
passed stands in deviations.toml with our reason; a miss that is not there fails this suite, and so does a test that is
there and passes.

    run.py                      both runs and the table
    run.py --run default        one of them
    run.py --id ID [--run R]    one test, with its exchanges
    run.py --markdown           the table as docs/guide/http-conformance.md has it
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import tomllib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "sdk" / "conformance"))

from gateway import Gateway  # noqa: E402

BINARY = Path(os.environ.get("PILOTLIGHT", ROOT / "target" / "debug" / "pilotlight"))
# The suite's origin says so when it is ready. IPv6 wildcard, IPv4 wildcard, or an address.
ORIGIN_READY = re.compile(r"^Listening on http://.*:(\d+)/$")
# The whole suite takes half a minute.
RUN_LIMIT_S = 300
ORIGIN_LIMIT_S = 15

SETTINGS = {
    "default": {"top": "", "route": "cache = true\n"},
    "conformance": {
        "top": '[cache]\nmax_heuristic = "7d"\nstale_if_error = "1d"\nlanguage_order = "ignored"\n',
        "route": "cache = true\n",
    },
}
NAMES = {"default": "Pilotlight, default settings", "conformance": "Pilotlight, conformance settings"}
PASSED = ("pass", "yes")


class Origin:
    """The suite's own origin server on a free port."""

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="pilotlight-cache-tests-")
        given = {"protocol": "http", "port": "0", "pidfile": str(Path(self._folder.name) / "origin.pid")}
        self._process = subprocess.Popen(
            ["node", str(HERE / "suite" / "test-engine" / "server" / "server.mjs")],
            env=os.environ | {f"npm_config_{name}": value for name, value in given.items()},
            cwd=self._folder.name,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        watch = threading.Timer(ORIGIN_LIMIT_S, self._process.kill)
        watch.start()
        found = next(filter(None, map(ORIGIN_READY.match, self._process.stdout)), None)
        watch.cancel()
        if found is None:
            self.__exit__()
            raise RuntimeError(f"the suite's origin was not ready within {ORIGIN_LIMIT_S} s")
        # It goes on talking; nobody listens, but a full pipe would stop it.
        threading.Thread(target=lambda: [None for _ in self._process.stdout], daemon=True).start()
        self.url = f"http://localhost:{found[1]}"
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()


def config(url, settings):
    return (
        'listen = "127.0.0.1:0"\nworkers = 2\n'
        f'{settings["top"]}\n[services.origin]\nurl = "{url}"\n'
        f'[[routes]]\npath = "/"\nservice = "origin"\n{settings["route"]}'
        # What the suite tells its origin, and asks it, must not be kept.
        '[[routes]]\npath = "/config"\nservice = "origin"\ncache = false\n'
        '[[routes]]\npath = "/state"\nservice = "origin"\ncache = false\n'
    )


def client(*arguments, given=None):
    """What client.mjs prints; its remarks are shown when it fails."""
    done = subprocess.run(
        ["node", "--no-warnings", str(HERE / "client.mjs"), *arguments],
        input=given or "", capture_output=True, text=True, timeout=RUN_LIMIT_S,
    )  # fmt: skip
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
    done.check_returncode()
    return json.loads(done.stdout), done.stderr


def judged(results):
    return client("judge", given=json.dumps(results))[0]


def run(name, listed):
    """What each test comes to. What is missed and not listed is tried once more, alone: the suite has lifetimes of a second."""
    with Origin() as origin, Gateway(BINARY, config(origin.url, SETTINGS[name])) as gateway:
        host, port = gateway.address
        base = f"http://{host}:{port}"
        results, _ = client("run", base)
        found = judged(results)
        unlisted = [v for id, v in misses(found).items() if id not in listed]
        again = [v["id"] for v in unlisted if v["verdict"] != "dependency_fail"]
        if len(again) < len(unlisted):  # what they depend upon may be a check
            again += [v["id"] for v in found if v["verdict"] == "no"]
        if again:
            print(f"{NAMES[name]}: once more: {', '.join(again)}")
            results |= client("run", base, *again)[0]
            found = judged(results)
        if gateway.process.poll() is not None:
            raise RuntimeError("the gateway ended during the run; it said:\n" + gateway.output())
        return found


def show(name, id):
    """One test with its exchanges, dependencies ignored."""
    with Origin() as origin, Gateway(BINARY, config(origin.url, SETTINGS[name])) as gateway:
        results, said = client("run", "http://%s:%d" % gateway.address, id)
        print(said)
        print(name, results[id])


def misses(verdicts):
    return {v["id"]: v for v in verdicts if v["kind"] != "check" and v["verdict"] not in PASSED}


def row(name, verdicts):
    """A line of the table: of each kind, how many passed and how many there are."""
    total, passed = Counter(v["kind"] for v in verdicts), Counter(v["kind"] for v in verdicts if v["verdict"] in PASSED)
    of = Counter((v["kind"], v["verdict"]) for v in verdicts)
    cells = [f"{passed['required']}/{total['required']}"]
    cells += [str(of["required", verdict]) for verdict in ("fail", "dependency_fail")]
    others = total["required"] - passed["required"] - of["required", "fail"] - of["required", "dependency_fail"]
    return [name, *cells, str(others), f"{passed['optimal']}/{total['optimal']}", f"{passed['check']}/{total['check']}"]


def table(ours):
    header = ["cache", "required", "fail", "dependency", "setup, retry", "optimal", "check: yes"]
    rows = [row(NAMES[name], verdicts) for name, verdicts in ours.items()]
    published = [row(f"{p['name']} {p['version']} (published)", p["verdicts"]) for p in client("published")[0]]
    published.sort(key=lambda cells: -int(cells[1].split("/")[0]))
    return header, rows + published


def text(header, rows):
    widths = [max(len(line[i]) for line in [header, *rows]) for i in range(len(header))]
    for line in [header, *rows]:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())


def markdown(header, rows):
    for line in [header, ["---"] * len(header), *rows]:
        print("| " + " | ".join(line) + " |")


def judge(name, verdicts, listed):
    """Prints the misses of a run; returns what contradicts the list of deviations."""
    known = {v["id"] for v in verdicts}
    missed = misses(verdicts)
    print(f"\n{NAMES[name]}: {len(missed)} required or optimal tests are not passed")
    wrong = []
    for id, v in missed.items():
        print(f"  {v['kind']:8} {id}: {v['verdict']}. {listed.get(id, 'NOT LISTED')}")
        if id not in listed:
            wrong.append(f"{name}: {id} ({v['kind']}) is not passed and not in deviations.toml: {v['verdict']}, {v['why']}")
    wrong += [f"{name}: {id} is in deviations.toml and passes: take it out" for id in listed if id in known - missed.keys()]
    wrong += [f"{name}: deviations.toml has {id}, which is no test" for id in listed if id not in known]
    return wrong


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--run", choices=SETTINGS)
    arguments.add_argument("--id")
    arguments.add_argument("--markdown", action="store_true")
    given = arguments.parse_args()
    names = [given.run] if given.run else list(SETTINGS)
    if given.id:
        for name in names:
            show(name, given.id)
        return 0
    deviations = tomllib.loads((HERE / "deviations.toml").read_text())
    with ThreadPoolExecutor() as pool:
        ours = dict(zip(names, pool.map(lambda name: run(name, deviations.get(name, {})), names)))
    (markdown if given.markdown else text)(*table(ours))
    wrong = [line for name, verdicts in ours.items() for line in judge(name, verdicts, deviations.get(name, {}))]
    print("\n" + "\n".join(wrong or ["every miss is listed with its reason, and nothing else is"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
