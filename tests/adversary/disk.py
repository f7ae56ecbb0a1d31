"""Disks that are full or read-only: the users database, the access log, the folder of the gateway's sockets.

Each on a small file system of its own (tmpfs; that needs root, otherwise the part says so and does nothing).
"""

import contextlib
import os
import random
import shutil
import sqlite3
import subprocess
import tempfile
import time
from pathlib import Path

from harness import BINARY, Cut, Gateway, config, eventually, route, service
from users_service import Users, send

from .numbered import COMMAND, check

MIB = 1 << 20
START_LIMIT = 60.0
NOBODY = 65534  # a user without rights


def run(seed, seconds, report):
    if os.geteuid() != 0:
        report.note("no root here: nothing can be mounted, so disks were not tried")
        return
    chance = random.Random(seed)
    deadline = time.monotonic() + seconds
    turn = 0
    while turn == 0 or time.monotonic() < deadline:
        turn += 1
        for attack in (full_database, read_only_database, full_access_log, unusable_runtime_folder):
            report.count("cases")
            attack(chance, report, turn)
            report.progress(f"{report.counts['cases']} disks, {report.counts['requests']} requests")


@contextlib.contextmanager
def small_disk(size):
    """A file system of so many bytes."""
    folder = Path(tempfile.mkdtemp(prefix="pilotlight-disk-"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
        folder.rmdir()


def fill(folder):
    """Takes all that is free; returns what gives it back."""
    ballast = folder / "ballast"
    with open(ballast, "wb", buffering=0) as file:
        for size in (MIB, 4096):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)) == size:
                    pass
    return ballast.unlink


def full_database(chance, report, step):
    """Rows that do not fit are refused with 507, those that were acknowledged are there, also after a kill."""
    with small_disk(12 * MIB) as disk:
        users, acknowledged = Users(disk / "users.db").start(), {}
        try:
            count = chance.randrange(5, 40)
            post(users, report, step, acknowledged, count, "before", {201})
            free = fill(disk)
            # The log of the database may have room for some.
            if not post(users, report, step, acknowledged, 20_000, "full", {201, 507}, bio="x" * 1_900):
                report.wrong("unexplained", step, "a full disk refused no row")
            expect(report, step, users.request("GET", "/users/1"), {200}, "a read while the disk is full")
            if chance.random() < 0.5:
                users.kill()
                report.count("kills")
                free()
                users.start()
            else:
                free()
            post(users, report, step, acknowledged, 10, "after", {201})
            for email, number in acknowledged.items():
                if (answer := users.request("GET", f"/users/{number}")).status != 200 or answer.json["email"] != email:
                    report.wrong("lost", step, f"acknowledged as {number}, {email}: {answer}")
        finally:
            users.stop()
        with contextlib.closing(sqlite3.connect(disk / "users.db")) as database:
            if (state := database.execute("PRAGMA integrity_check").fetchall()) != [("ok",)]:
                report.wrong("lost", step, f"the database is damaged: {state}")


def post(users, report, step, acknowledged, count, word, statuses, **more):
    """Posts as many rows, or until a few were refused; how many were."""
    refused = 0
    with users.client(60.0) as client:
        for number in range(count):
            email = f"{word}-{number}@test.example"
            try:
                answer = send(client, "POST", "/users", {"name": "A", "email": email, **more})
            except (OSError, Cut) as error:
                report.wrong("unexplained", step, f"POST {email}: {error!r}; {users.said()[-500:]}")
                return refused
            expect(report, step, answer, statuses, f"POST {email}")
            if answer.status == 201:
                acknowledged[email] = answer.json["id"]
            refused += answer.status == 507
            if refused == 5:
                break
    return refused


def expect(report, step, answer, statuses, what):
    report.count("requests")
    if answer.status not in statuses:
        report.wrong("unexplained", step, f"{what}: {answer}")


def read_only_database(_, report, step):
    """One clear error when it starts; reads and honest refusals when it becomes so while it runs."""
    with small_disk(12 * MIB) as disk:
        users = Users(disk / "users.db").start()
        users.stop()
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        done = subprocess.run(users.command, capture_output=True, text=True, timeout=START_LIMIT, stdin=subprocess.DEVNULL) if not starts(users) else None
        if done is not None:
            errors = [line for line in done.stderr.splitlines() if line.strip()]
            if done.returncode != 1 or len(errors) != 1 or "read-only" not in done.stderr.lower():
                report.wrong("unexplained", step, f"on a read-only file system it ends with {done.returncode} and says {done.stderr!r}")
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)


def starts(users):
    """Whether it serves: then it must answer reads and refuse writes."""
    try:
        users.start()
    except (AssertionError, OSError):
        return False
    try:
        read, write = users.request("GET", "/users/1"), users.request("POST", "/users", {"name": "A", "email": "ro@test.example"})
        return read.status == 200 and write.status == 503
    finally:
        users.stop()


def full_access_log(_, report, step):
    """Requests go on; what could not be written is counted; lines come again when there is room."""
    with small_disk(MIB) as disk:
        log = f'[access_log]\npath = "{disk}/access.log"\n'
        blocks = config(service("numbered", COMMAND), route("/", "numbered"), log, '[admin]\nsocket = "@FOLDER@/admin.sock"\n')
        gateway = Gateway(BINARY, blocks, start_limit=START_LIMIT, stop_limit=START_LIMIT).start()
        try:
            numbers(gateway, report, step, range(20))
            free = fill(disk)
            numbers(gateway, report, step, range(20, 120))
            free()
            before = (disk / "access.log").stat().st_size
            wrote = lambda: numbers(gateway, report, step, range(5)) or (disk / "access.log").stat().st_size > before  # noqa: E731
            if not eventually(wrote, 30, 0.1):
                report.wrong("unexplained", step, "there is room again, and no line is written")
        finally:
            gateway.stop()


def numbers(gateway, report, step, those):
    for number in those:
        answer = gateway.get(f"/n/{number}/300")
        report.count("requests")
        if answer.status != 200 or (fault := check(number, 300, answer.body)):
            report.wrong("wrong", step, f"{answer}" if answer.status != 200 else fault)


def unusable_runtime_folder(_, report, step):
    """A gateway of another user that can make its sockets nowhere says so and ends with 1; nothing hangs."""
    with small_disk(MIB) as disk:
        folder = disk / "run"
        folder.mkdir(mode=0o700)
        os.chown(folder, NOBODY, NOBODY)
        project = Path(tempfile.mkdtemp(prefix="pilotlight-project-"))
        project.chmod(0o755)
        (project / "pilotlight.toml").write_text(config(service("web", url="http://127.0.0.1:9"), route("/", "web")))
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        environment = {"PATH": os.environ["PATH"], "RUNTIME_DIRECTORY": str(folder), "XDG_RUNTIME_DIR": str(folder), "TMPDIR": str(folder)}
        command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", str(BINARY), "run"]
        try:
            done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=START_LIMIT)
            text = done.stdout + done.stderr
            if done.returncode not in (1, 2) or "panicked" in text or str(folder) not in text or "ead-only" not in text:
                report.wrong("unexplained", step, f"with a read-only runtime folder `run` ends with {done.returncode} and says {text[-800:]!r}")
        except subprocess.TimeoutExpired as late:
            report.wrong("unexplained", step, f"with a read-only runtime folder `run` does not end: {late.stdout!r} {late.stderr!r}")
        finally:
            subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
            shutil.rmtree(project, ignore_errors=True)
