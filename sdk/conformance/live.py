"""Drives an SDK's demo service through the real gateway, as clients would.

    live.py --pilotlight target/debug/pilotlight --service '/usr/bin/python3 sdk/python/demo.py' --name python
            [--only NAME] [--without NAME] [--megabytes 64]
"""

import argparse
import hashlib
import json
import os
import shlex
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import results
from gateway import Gateway, command, quote
from http1 import Cut, eventually
from notation import pattern

BLOCK = 251 * 1024
SLEEP_LIMIT = 1.0
CHECKS = []
CONFIG = """
listen = "127.0.0.1:0"
workers = 2
[services.demo]
command = {command}
dir = {dir}
transport = "pipe"
start_timeout = "20s"
stop_grace = "2s"
[[routes]]
path = "/"
service = "demo"
cache = false
timeout = "120s"
[[routes]]
path = "/deadline"
service = "demo"
cache = false
timeout = "30s"
[[routes]]
host = "short.test"
path = "/sleep"
service = "demo"
cache = false
timeout = "1s"
"""


class Check(NamedTuple):
    """A check, and when it runs.

    - `first`: alone; it starts the service.
    - `waiting`: waits most of the time; together with all others of this kind and with the quick ones.
    - `quick`: one after the other.
    - `heavy`: one after the other when the waiting ones have ended, some of which compare times.
    - `last`: alone; it ends the service.
    """

    function: object
    when: str

    @property
    def name(self):
        return self.function.__name__


def check(when="quick"):
    def register(function):
        CHECKS.append(Check(function, when))
        return function

    return register


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


def equal(actual, expected, what):
    expect(actual == expected, f"{what}: got {actual!r}, expected {expected!r}")


def in_threads(count, function):
    """Calls function(index) in threads; raises the first error; returns the results."""
    results, errors = [None] * count, []

    def run(index):
        try:
            results[index] = function(index)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(index,), daemon=True) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
        expect(not thread.is_alive(), "a client did not end within 90 s")
    if errors:
        raise errors[0]
    return results


def shown(gateway, target, **named):
    answer = gateway.get(target, **named)
    equal(answer.status, 200, f"status of {target}")
    return json.loads(answer.body)


@check("first")
def echo(gateway, _size):
    """Body, method, target, fields: all as sent, values of one name in order, duplicates kept."""
    fields = [("X-Echo-B", "1"), ("x-echo-a", "2"), ("X-ECHO-B", "3"), ("Content-Type", "text/x-test")]
    answer = gateway.request("PUT", "/echo/%7Euser/a%2Fb?b=2&a=1&a=%20&q", fields, b"hi\0\xff")
    equal(answer.status, 200, "status")
    equal(answer.body, b"hi\0\xff", "body")
    equal(answer.get("x-method"), "PUT", "method")
    equal(answer.get("x-target"), "/echo/%7Euser/a%2Fb?b=2&a=1&a=%20&q", "target")
    equal(answer.get("content-type"), "text/x-test", "content-type")
    echoed = [(name.lower(), value) for name, value in answer.fields if name.lower().startswith("x-echo-")]
    # RFC 9110 §5.3: the order that means something is that of one name's values.
    equal(sorted(echoed), [("x-echo-a", "2"), ("x-echo-b", "1"), ("x-echo-b", "3")], "fields")
    equal([value for name, value in echoed if name == "x-echo-b"], ["1", "3"], "order of x-echo-b")


@check()
def every_method(gateway, _size):
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"):
        answer = gateway.request(method, "/echo")
        equal((answer.status, answer.get("x-method")), (200, method), "status and method")


@check()
def cookies(gateway, _size):
    """Both set-cookie fields arrive, apart and in order."""
    values = [value.partition(";")[0] for value in gateway.get("/cookies").all("set-cookie")]
    equal(values, ["a=1", "b=2"], "set-cookie")


@check()
def statuses(gateway, _size):
    for code in (200, 201, 204, 301, 304, 404, 418, 500, 503):
        equal(gateway.get(f"/status?code={code}").status, code, "status")
    equal(gateway.get("/nowhere").status, 404, "status of an unknown path")


@check()
def head(gateway, _size):
    """HEAD has no body on the wire: the next answer on the connection is where it should be."""
    with gateway.client() as client:
        answer = client.request("HEAD", "/echo")
        equal((answer.status, answer.get("x-method"), answer.body), (200, "HEAD", b""), "answer to HEAD")
        equal(client.request("GET", "/status?code=202").status, 202, "the next answer")


@check()
def keep_alive(gateway, _size):
    with gateway.client() as client:
        for index in range(20):
            body = b"%d" % index * (index * 100)
            equal(client.request("POST", "/echo", body=body).body, body, f"body {index}")


@check("heavy")
def upload(gateway, size):
    """A large body with a length, and one in chunks."""
    blocks, total = size // BLOCK, size // BLOCK * BLOCK
    block = pattern(BLOCK)
    wanted = hashlib.sha256(block * blocks).hexdigest()
    for chunked in (False, True):
        with gateway.client(timeout=60) as client:
            length = ("Transfer-Encoding", "chunked") if chunked else ("Content-Length", str(total))
            client.send_head("POST", "/upload", [length])
            for _ in range(blocks):
                client.send_chunk(block) if chunked else client.send(block)
            if chunked:
                client.end_chunks()
            answer = client.answer("POST")
            equal(answer.status, 200, "status")
            equal(json.loads(answer.body), {"bytes": total, "sha256": wanted}, "what the service read")


@check("heavy")
def download(gateway, size):
    with gateway.client(timeout=60) as client:
        client.send_head("GET", f"/download?bytes={size}")
        answer = client.head()
        equal((answer.status, answer.get("content-length")), (200, str(size)), "head")
        got, doubled = 0, pattern(251 * 2048)
        for piece in client.body(answer):
            start = got % 251
            expect(piece == doubled[start : start + len(piece)], f"bytes from {got} on are not the pattern")
            got += len(piece)
        equal(got, size, "bytes")


@check("waiting")
def slow_stream(gateway, _size):
    """The first chunk is there long before the last is produced."""
    with gateway.client() as client:
        client.send_head("GET", "/slow?chunks=4&ms=400")
        answer = client.head()
        pieces = [(time.monotonic(), piece) for piece in client.body(answer)]
    equal(b"".join(piece for _, piece in pieces), b"chunk 0\nchunk 1\nchunk 2\nchunk 3\n", "body")
    spread = pieces[-1][0] - pieces[0][0]
    expect(spread > 0.7, f"first and last chunk came {spread:.2f} s apart, 1.2 s were between their making")


@check()
def cancel(gateway, _size):
    """A client that goes away cancels the exchange, on the way of every connection kind."""
    for number in range(3):
        client = gateway.client()
        client.send_head("GET", f"/wait?id=live{number}")
        answer = client.head()
        equal(next(client.body(answer))[:5], b"tick\n", "first chunk")
        client.close()
        done = eventually(lambda: shown(gateway, f"/cancelled?id=live{number}")["cancelled"])
        expect(done, "10 s after the client had gone the handler still had not noticed")


@check()
def cancel_upload(gateway, _size):
    """A client that goes away in the middle of its body leaves the service usable."""
    for _ in range(3):
        client = gateway.client()
        client.send_head("POST", "/upload", [("Content-Length", "1000000")])
        client.send(b"half")
        client.close()
    equal(gateway.get("/status?code=200").status, 200, "status of the next request")


@check()
def early_answer(gateway, size):
    """413 arrives although the body was not read; the connection is either usable or closed, never stuck."""
    with gateway.client() as client:
        client.send_head("POST", "/early", [("Content-Length", str(size))])
        client.send(bytes(65_536))
        equal(client.answer("POST").status, 413, "status")
    equal(gateway.get("/status?code=200").status, 200, "status of the next request")


@check()
def trailers(gateway, _size):
    with gateway.client() as client:
        answer = client.request("GET", "/trailers", [("TE", "trailers")])
    equal(answer.body, b"body", "body")
    found = [value for name, value in answer.trailers if name.lower() == "x-trailer"]
    equal(found, ["yes"], "x-trailer")


@check("waiting")
def deadline(gateway, _size):
    """The route's timeout reaches the handler; when it is over the client gets 504."""
    left = shown(gateway, "/deadline")["deadline_ms"]
    expect(0 < left <= 30_000, f"deadline_ms is {left}, the route allows 30 s")
    begin = time.monotonic()
    answer = gateway.get("/sleep?ms=20000", host="short.test")
    took = time.monotonic() - begin
    equal(answer.status, 504, "status")
    expect(SLEEP_LIMIT - 0.1 < took < SLEEP_LIMIT + 4, f"504 came after {took:.1f} s, the limit is {SLEEP_LIMIT} s")
    equal(gateway.get("/status?code=200").status, 200, "status of the next request")


@check()
def refuse(gateway, _size):
    """REFUSED is 503 with Retry-After when no other instance takes it; the next try succeeds."""
    first = gateway.get("/refuse", [("X-Once", "live")])
    if first.status != 200:
        equal(first.status, 503, "status of the first try")
        expect(first.get("retry-after"), "503 has no Retry-After")
    equal(gateway.get("/refuse", [("X-Once", "live")]).status, 200, "status of the second try")


@check()
def error(gateway, _size):
    answer = gateway.get("/error")
    equal(answer.status, 502, "status")
    equal(answer.get("content-type"), "application/problem+json", "content-type")
    equal(json.loads(answer.body)["status"], 502, "the problem's status")
    equal(gateway.get("/status?code=200").status, 200, "status of the next request")


@check()
def big_header(gateway, _size):
    answer = gateway.get("/big-header?bytes=20000")
    equal((answer.status, len(answer.get("x-big"))), (200, 20_000), "status and length of x-big")


@check("heavy")
def many_small(gateway, _size):
    """64 clients at once, each answer is the asker's."""

    def one(index):
        with gateway.client() as client:
            for turn in range(10):
                body = b"%d/%d" % (index, turn)
                answer = client.request("POST", f"/echo?i={index}", body=body)
                equal((answer.status, answer.body), (200, body), f"client {index}")
                equal(answer.get("x-target"), f"/echo?i={index}", "target")

    in_threads(64, one)


@check("waiting")
def sleepers_do_not_stall(gateway, _size):
    """Handlers that sleep do not keep quick ones waiting."""

    def one(index):
        begin = time.monotonic()
        target = "/sleep?ms=1500" if index < 6 else "/status?code=200"
        equal(gateway.get(target).status, 200, f"status of {target}")
        return time.monotonic() - begin

    took = in_threads(16, one)
    quick = max(took[6:])
    expect(quick < 1.2, f"a quick request took {quick:.2f} s beside six sleepers of 1.5 s")


@check("heavy")
def stdout_flood(gateway, size):
    """What a service prints never blocks it."""
    wanted = size * 3
    with gateway.client(timeout=90) as client:
        answer = client.request("GET", f"/flood?bytes={wanted}")
    equal(answer.status, 200, "status")
    flooded = json.loads(answer.body)["flooded"]
    expect(wanted - 100 < flooded < wanted + 200, f"flooded is {flooded}, asked for {wanted}")


@check("last")
def crash(gateway, _size):
    """A service that dies costs its client 502, cuts a begun answer visibly, and is started again."""
    before = shown(gateway, "/pid")["pid"]
    stream = gateway.client()
    stream.send_head("GET", "/wait?id=crash")
    answer = stream.head()
    pieces = stream.body(answer)
    next(pieces)
    equal(gateway.get("/crash").status, 502, "status of the request that crashed the service")
    try:
        for _ in pieces:
            pass
    except Cut:
        pass
    else:
        raise AssertionError("an answer that the crash cut in two looks complete")
    stream.close()

    def again():
        result = gateway.get("/pid")
        if result.status == 503:
            expect(result.get("retry-after"), "503 has no Retry-After")
            return None
        if result.status == 502:  # §11: alone at a dying instance, so it is suspect: not sent again
            return None
        return json.loads(result.body)["pid"]

    after = eventually(again)
    expect(after and after != before, f"pid was {before}, 10 s after the crash it is {after}")


def problem_of(gateway, size, check):
    """Runs a check; returns `None`, or what went wrong."""
    try:
        check.function(gateway, size)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
    return None


def results_of(gateway, size, checks):
    """Runs the checks; yields each with its problem and its seconds."""

    def of(*kinds):
        return [check for kind in kinds for check in checks if check.when == kind]

    play = partial(results.timed, problem_of, gateway, size)
    for check in of("first"):
        yield check, play(check)
    with ThreadPoolExecutor(len(CHECKS)) as threads:
        waiting = [(check, threads.submit(play, check)) for check in of("waiting")]
        for check in of("quick"):
            yield check, play(check)
        for check, result in waiting:
            yield check, result.result()
    for check in of("heavy", "last"):
        yield check, play(check)


def run(name, binary, service, checks, size):
    config = CONFIG.format(command=command(shlex.split(service)), dir=quote(os.getcwd()))
    failed = 0
    with Gateway(binary, config) as gateway:
        for check, result in results_of(gateway, size, checks):
            failed += results.print_result(f"{name} {check.name}", *result)
        if failed:
            said = [line[:300] for line in gateway.output().splitlines() if not line.startswith("demo#")]
            print("\n    | ".join(["the gateway's last words:", *said[-20:]]))
        status = gateway.stop()
    if status != 0:
        failed += 1
        print(f"FAIL {name} stop: the gateway ended with status {status}, expected 0")
    else:
        print(f"ok   {name} stop")
    print(f"{len(checks) + 1 - failed} passed, {failed} failed")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pilotlight", required=True, help="the gateway's binary")
    parser.add_argument("--service", required=True, help="the demo service's command line")
    parser.add_argument("--name", default="service", help="what to call it in the report")
    parser.add_argument("--only", help="checks whose name contains this")
    results.add_without(parser)
    parser.add_argument("--megabytes", type=int, default=64, help="size of the large bodies")
    options = parser.parse_args()
    checks = [one for one in CHECKS if (options.only or "") in one.name and one.name not in options.without]
    size = options.megabytes * 1024 * 1024
    return run(options.name, options.pilotlight, options.service, checks, size)


if __name__ == "__main__":
    sys.exit(main())
