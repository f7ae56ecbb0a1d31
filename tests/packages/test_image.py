"""The container image, loaded and run by podman: nothing in it but the gateway, which is nobody, process 1, and
healthy.
"""

import json
import os
import tarfile
import uuid

import pytest
from clean import STATIC, eventually, free_port, one, packaged, page, run

NOBODY = 65534
SMALL = 15 << 20
LIMITS = ["--ulimit", "nofile=4096:4096", "--ulimit", "nproc=4096:4096"]  # of a machine that allows no more
STATUS = ["/usr/bin/pilotlight", "status", "--config", "/etc/pilotlight/pilotlight.toml"]

# Started by the gateway, it leaves a grandchild behind, and one that has ended before anybody could wait for it.
C = """
#include <unistd.h>
int main(void) {
    if (fork() == 0) {
        if (fork() == 0) { sleep(1); _exit(0); }
        _exit(0);
    }
    pause();
}
"""


@pytest.fixture(scope="module")
def archive():
    small = (STATIC / "pilotlight").stat().st_size < SMALL
    return one(packaged("image", *([] if small else ["--any-size"])), "*.oci.tar")


@pytest.fixture(scope="module")
def image(archive):
    said = run("podman", "load", "--input", archive)
    return said.split()[-1]


class Container:
    """A container of the image with a configuration, on the machine's network."""

    def __init__(self, image, folder, config, *options):
        self.name = f"pilotlight-test-{uuid.uuid4().hex[:8]}"
        file = folder / "pilotlight.toml"
        file.write_text(config + '\n[admin]\nsocket = "/run/pilotlight/admin.sock"\n')
        file.chmod(0o644)
        mounted = f"{file}:/etc/pilotlight/pilotlight.toml:ro"
        run(
            "podman",
            "create",
            "--runtime",
            "runc",
            "--network",
            "host",
            *LIMITS,
            "--volume",
            mounted,
            "--name",
            self.name,
            *options,
            image,
        )
        run("podman", "start", self.name)

    def run(self, *command, **options):
        return run("podman", "exec", self.name, *command, **options)

    def pid(self):
        return int(run("podman", "inspect", "--format", "{{.State.Pid}}", self.name))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        run("podman", "stop", "--time", "30", self.name)
        code = run("podman", "inspect", "--format", "{{.State.ExitCode}}", self.name).strip()
        logs = run("podman", "logs", self.name)
        run("podman", "rm", "--force", self.name)
        assert code == "0", logs


def config(port, more=""):
    return f'listen = "127.0.0.1:{port}"\n{more}\n[[routes]]\npath = "/"\nfiles = "/usr/share/pilotlight/welcome"\n'


def children(pid):
    """State and command of each child of a process."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            text = open(f"/proc/{entry}/stat").read()
        except (FileNotFoundError, ProcessLookupError):
            continue
        state, parent = text.rpartition(")")[2].split()[:2]
        if int(parent) == pid:
            found.append((state, text.partition("(")[2].rpartition(")")[0]))
    return found


def test_nothing_else_is_in_it(archive):
    with tarfile.open(archive) as outer:
        index = json.load(outer.extractfile("index.json"))
        manifest = json.load(outer.extractfile("blobs/" + index["manifests"][0]["digest"].replace(":", "/")))
        layer = outer.extractfile("blobs/" + manifest["layers"][0]["digest"].replace(":", "/"))
        with tarfile.open(fileobj=layer) as inner:
            executable = [name.name for name in inner.getmembers() if name.isfile() and name.mode & 0o111]
            setuid = [name.name for name in inner.getmembers() if name.mode & 0o6000]
        config = json.load(outer.extractfile("blobs/" + manifest["config"]["digest"].replace(":", "/")))
    assert config["config"]["Healthcheck"]["Test"] == ["CMD", *STATUS]
    assert (executable, setuid) == (["usr/bin/pilotlight"], [])
    assert "INTERP" not in run("readelf", "--wide", "--program-headers", STATIC / "pilotlight")


def test_what_is_in_it_is_a_configuration_that_serves(image, tmp_path):
    said = run(
        "podman",
        "run",
        "--runtime",
        "runc",
        "--rm",
        "--network",
        "host",
        *LIMITS,
        image,
        "check",
        "--config",
        "/etc/pilotlight/pilotlight.toml",
    )
    assert "error" not in said, said


def test_it_runs_as_nobody_and_is_healthy(image, tmp_path):
    port = free_port()
    with Container(image, tmp_path, config(port), "--read-only", "--cap-drop", "all") as container:
        assert eventually(lambda: page(port), "nobody answers")[0] == 200
        status = open(f"/proc/{container.pid()}/status").read()
        assert f"\nUid:\t{NOBODY}\t{NOBODY}\t{NOBODY}\t{NOBODY}\n" in status
        assert status.partition("\nNSpid:")[2].split("\n")[0].split()[-1] == "1"
        assert "\nCapEff:\t0000000000000000\n" in status
        assert "pilotlight" in container.run(*STATUS)


def test_orphans_are_buried(image, tmp_path):
    port, program = free_port(), tmp_path / "orphans"
    program.with_suffix(".c").write_text(C)
    run("musl-gcc", "-static", "-o", program, program.with_suffix(".c"))
    program.chmod(0o755)
    service = '[services.orphans]\ncommand = ["/orphans"]\ntransport = "http"\nsocket = "port"\nmin_instances = 1'
    route = '[[routes]]\npath = "/orphans"\nservice = "orphans"\n'
    with Container(
        image, tmp_path, config(port, f"{service}\n{route}"), "--volume", f"{program}:/orphans:ro"
    ) as container:
        eventually(lambda: page(port), "nobody answers")
        first = container.pid()
        # What a command in the container leaves goes to process 1.
        run("podman", "exec", "--detach", container.name, "/orphans")
        eventually(lambda: any(name == "orphans" for _, name in children(first)), "the orphan was not adopted")
        eventually(lambda: not any(name == "orphans" for _, name in children(first)), "nobody buries the orphan")
        assert not [name for state, name in children(first) if state == "Z"]
        assert page(port)[0] == 200
