#!/usr/bin/env python3
"""Writes the container image into target/dist, as an archive of the OCI image layout: `podman load`, `skopeo copy
oci-archive:…`.

With --kubernetes that for clusters, which has `pilotlight-kubernetes` as well: the other one stays small.

It is made of nothing but the static programs, its configuration, the certificates of authorities and a user. No daemon
is needed, and the same program gives the same bytes.
"""

import json
from datetime import UTC, datetime
from pathlib import Path

import archives
import project
from archives import Entry
from project import ROOT, VERSION

HERE = ROOT / "packaging"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
NOBODY = 65534
# Of the archive and of what it unpacks to, in bytes; wanted are 15 MiB (docs/figures.md).
MAX_SIZE = {"pilotlight": 20 << 20, "pilotlight-kubernetes": 48 << 20}
CONFIG = "/etc/pilotlight/pilotlight.toml"
ROOTS = Path("/etc/ssl/certs/ca-certificates.crt")  # of the system that builds, so that they are as new as that is


def files(programs):
    for name in ("etc", "etc/pilotlight", "etc/ssl", "etc/ssl/certs", "usr", "usr/bin"):
        yield Entry(name, mode=0o755)
    for name in ("usr/share", "usr/share/pilotlight", "usr/share/pilotlight/welcome"):
        yield Entry(name, mode=0o755)
    yield Entry("etc/group", f"root:x:0:\nnogroup:x:{NOBODY}:\n".encode())
    yield Entry("etc/passwd", f"root:x:0:0:root:/:/none\nnobody:x:{NOBODY}:{NOBODY}:nobody:/var/lib:/none\n".encode())
    yield Entry(CONFIG[1:], (HERE / "image" / "pilotlight.toml").read_bytes())
    yield Entry(str(ROOTS)[1:], ROOTS.read_bytes())
    yield Entry("run", mode=0o755)
    yield Entry("run/pilotlight", mode=0o700, owner=NOBODY)
    yield Entry("tmp", mode=0o1777)
    for path in programs:
        yield Entry(f"usr/bin/{path.name}", path.read_bytes(), 0o755)
    yield Entry("usr/share/pilotlight/welcome/index.html", (HERE / "welcome.html").read_bytes())
    yield Entry("usr/share/pilotlight/LICENSE-MIT", (ROOT / "LICENSE-MIT").read_bytes())
    yield Entry("var", mode=0o755)
    yield Entry("var/lib", mode=0o755)
    yield Entry("var/lib/pilotlight", mode=0o700, owner=NOBODY)


def configuration(name, layer, arch, created):
    labels = {
        "title": name,
        "description": project.DESCRIPTION,
        "version": VERSION,
        "licenses": project.LICENSE,
    }
    run = {
        "User": f"{NOBODY}:{NOBODY}",
        "ExposedPorts": {"8080/tcp": {}},
        "Env": ["PATH=/usr/bin", "XDG_DATA_HOME=/var/lib", "RUNTIME_DIRECTORY=/run/pilotlight"],
        "Entrypoint": ["/usr/bin/pilotlight"],
        "Cmd": ["run", "--config", CONFIG],
        "WorkingDir": "/etc/pilotlight",
        "StopSignal": "SIGTERM",
        "Labels": {f"org.opencontainers.image.{name}": text for name, text in labels.items()},
        # Not of OCI's: Docker heeds it, podman does not.
        "Healthcheck": {"Test": ["CMD", "/usr/bin/pilotlight", "status", "--config", CONFIG], "Interval": 30 * 10**9},
    }
    return {
        "created": created,
        "architecture": arch,
        "os": "linux",
        "config": run,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{archives.sha256(layer)}"]},
        "history": [{"created": created, "created_by": "packaging/image.py"}],
    }


def layout(name, layer, arch, epoch):
    """The files of the archive: blobs by their sums, and the index that names the manifest."""
    created = datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    blobs = []

    def blob(kind, data):
        blobs.append(data)
        return {
            "mediaType": f"application/vnd.oci.image.{kind}",
            "digest": f"sha256:{archives.sha256(data)}",
            "size": len(data),
        }

    config = blob("config.v1+json", json.dumps(configuration(name, layer, arch, created)).encode())
    layers = [blob("layer.v1.tar+gzip", archives.gz(layer))]
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config,
        "layers": layers,
    }
    index = blob("manifest.v1+json", json.dumps(manifest).encode())
    index |= {"annotations": {"org.opencontainers.image.ref.name": f"localhost/{name}:{VERSION}"}}
    yield Entry("blobs", mode=0o755)
    yield Entry("blobs/sha256", mode=0o755)
    yield from (Entry(f"blobs/sha256/{archives.sha256(data)}", data) for data in blobs)
    yield Entry("index.json", json.dumps({"schemaVersion": 2, "manifests": [index]}).encode())
    yield Entry("oci-layout", b'{"imageLayoutVersion":"1.0.0"}')


def main():
    parser = project.arguments(__doc__.split("\n\n")[0], static=True)
    parser.add_argument(
        "--any-size",
        action="store_true",
        help="also if it is larger than an image may be, as one of a debug build is",
    )
    parser.add_argument("--kubernetes", action="store_true", help="the image for clusters")
    options = project.parsed(parser)
    epoch, arch = project.epoch(), ARCHITECTURES[options.arch]
    name, kind = ("pilotlight-kubernetes", "image-kubernetes") if options.kubernetes else ("pilotlight", "image")
    layer = archives.tar(files(project.found(options.bin_dir, kind)), epoch)
    archive = archives.tar(layout(name, layer, arch, epoch), epoch)
    if max(len(layer), len(archive)) > MAX_SIZE[name] and not options.any_size:
        project.die(f"the image has {len(layer) / 2**20:.1f} MiB, {MAX_SIZE[name] >> 20} are allowed")
    path = options.out / f"{name}-{VERSION}-{arch}.oci.tar"
    path.write_bytes(archive)
    print(f"{path}: {len(archive) / 2**20:.1f} MiB, unpacked {len(layer) / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
