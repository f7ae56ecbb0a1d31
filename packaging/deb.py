#!/usr/bin/env python3
"""Writes the Debian package of the programs of a folder into target/dist.

Files get one owner and one time, in order, so that the same programs give the same bytes. What libraries are needed
says dpkg-shlibdeps.
"""

import email.utils
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

import archives
import project
from project import ROOT, VERSION, run

HERE = ROOT / "packaging"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
SHELLS = {
    "bash": "usr/share/bash-completion/completions/pilotlight",
    "zsh": "usr/share/zsh/vendor-completions/_pilotlight",
    "fish": "usr/share/fish/vendor_completions.d/pilotlight.fish",
}
CONTROL = """Package: pilotlight
Version: {version}
Architecture: {arch}
Maintainer: {maintainer}
Installed-Size: {size}
Depends: {depends}, adduser, init-system-helpers (>= 1.54~)
Recommends: ca-certificates
Suggests: libnss3-tools
Section: httpd
Priority: optional
Homepage: {homepage}
Description: gateway that starts services on their first request
 Pilotlight is a gateway for small services on one machine. It starts a service
 when the first request for it arrives, answers repeated requests from a cache,
 and stops a service that is idle.
 .
 It speaks HTTPS and HTTP/2 with certificates that it gets by itself, serves
 static files, compresses responses, and enforces access control and rate
 limits.
"""


class Stage:
    """The files of the package, in a folder."""

    def __init__(self, root):
        self.root = root

    def file(self, name, content, mode=0o644):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(mode)

    def copy(self, name, source, mode=0o644):
        self.file(name, Path(source).read_bytes(), mode)


def pages(stage, gateway):
    """What the program writes of itself: manual pages and completions."""
    with tempfile.TemporaryDirectory() as folder:
        run(gateway, "man", folder)
        for page in sorted(Path(folder).iterdir()):
            stage.file(f"usr/share/man/man1/{page.name}.gz", archives.gz(page.read_bytes()))
    for shell, name in SHELLS.items():
        stage.file(name, run(gateway, "completions", shell))


def staged(stage, programs, native):
    for program in programs:
        stage.copy(f"usr/bin/{program.name}", program, 0o755)
    pages(stage, native)
    debian = HERE / "debian"
    stage.copy("usr/lib/systemd/system/pilotlight.service", debian / "pilotlight.service")
    stage.copy("usr/lib/sysusers.d/pilotlight.conf", debian / "sysusers.conf")
    stage.copy("etc/pilotlight/pilotlight.toml", debian / "pilotlight.toml")
    stage.copy("usr/share/pilotlight/welcome/index.html", HERE / "welcome.html")
    stage.copy("usr/share/lintian/overrides/pilotlight", debian / "lintian-overrides")
    licenses = (ROOT / "LICENSE-MIT").read_text()
    expat = "".join(f" {line}\n" if line else " .\n" for line in licenses.strip().splitlines())
    apache = " On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.\n"
    texts = f"License: Expat\n{expat}\nLicense: Apache-2.0\n{apache}"
    stage.file("usr/share/doc/pilotlight/copyright", (debian / "copyright").read_text() + texts)
    stage.file("usr/share/doc/pilotlight/CHANGELOG.md.gz", archives.gz((ROOT / "CHANGELOG.md").read_bytes()))
    stage.copy("usr/share/doc/pilotlight/configuration.md", ROOT / "docs" / "configuration.md")


def needed(stage, programs):
    """The packages that the programs' libraries are in, and their versions."""
    if all(b"ld-linux" not in program.read_bytes()[:4096] for program in programs):
        return "libc6"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "debian"
        source.mkdir()
        (source / "control").write_text("Source: pilotlight\n\nPackage: pilotlight\nArchitecture: any\n")
        paths = [stage.root / "usr" / "bin" / program.name for program in programs]
        said = run("dpkg-shlibdeps", "-O", *paths, cwd=folder, stderr=subprocess.DEVNULL)
    return said.strip().removeprefix("shlibs:Depends=")


def sums(root):
    """The list that `dpkg --verify` compares with; conffiles are not in it."""
    files = sorted(path for path in (root / "usr").rglob("*") if path.is_file())
    return "".join(f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(root)}\n" for path in files)


def changelog(version, epoch):
    """In Debian's form, which knows the version of a package only."""
    when = email.utils.formatdate(epoch)
    text = f"pilotlight ({version}) unstable; urgency=medium\n\n  * What has changed: CHANGELOG.md.gz\n\n"
    return archives.gz(f"{text} -- {project.MAINTAINER}  {when}\n".encode())


def main():
    parser = project.arguments(__doc__.split("\n\n")[0])
    parser.add_argument("--version", default=VERSION, help="another version, for tests of upgrades [%(default)s]")
    parser.add_argument("--level", type=int, default=9, help="of xz; tests take the fastest [%(default)s]")
    options = project.parsed(parser)
    arch, epoch = ARCHITECTURES[options.arch], project.epoch()
    programs = project.found(options.bin_dir, "deb")
    # A program for another processor cannot write its own pages: that of this machine does.
    native = options.bin_dir
    if options.arch != os.uname().machine:
        native = project.DIST / "bin" / project.GNU.format(os.uname().machine)
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(Path(folder) / "root")
        staged(stage, programs, native / "pilotlight")
        stage.file("usr/share/doc/pilotlight/changelog.gz", changelog(options.version, epoch))
        size = sum(path.stat().st_size for path in stage.root.rglob("*") if path.is_file())
        words = {
            "version": options.version,
            "arch": arch,
            "maintainer": project.MAINTAINER,
            "homepage": project.HOMEPAGE,
        }
        control = CONTROL.format(**words, size=-(-size // 1024), depends=needed(stage, programs))
        stage.file("DEBIAN/control", control)
        stage.file("DEBIAN/conffiles", "/etc/pilotlight/pilotlight.toml\n")
        for script in ("postinst", "prerm", "postrm"):
            stage.copy(f"DEBIAN/{script}", HERE / "debian" / script, 0o755)
        stage.file("DEBIAN/md5sums", sums(stage.root))
        deb = options.out / f"pilotlight_{options.version}_{arch}.deb"
        for path in [*stage.root.rglob("*"), stage.root]:
            if path.is_dir():
                path.chmod(0o755)
            os.utime(path, (epoch, epoch))
        settings = os.environ | {"SOURCE_DATE_EPOCH": str(epoch)}
        run(
            "dpkg-deb",
            "--root-owner-group",
            "-Zxz",
            f"-z{options.level}",
            "--threads-max=1",
            "--build",
            stage.root,
            deb,
            env=settings,
        )
    print(deb)


if __name__ == "__main__":
    main()
