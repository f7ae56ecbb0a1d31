"""The Debian package in a root of its own, made of Debian's packages alone: installed, used, upgraded, removed,
purged.
"""

import shutil
import subprocess
from pathlib import Path

import pytest
from clean import BIN, ROOT, VERSION, ended, eventually, one, packaged, page, run, trusting

CACHE = ROOT / "target" / "packages-test"
FAST = "--level=0"
CONFIG = "etc/pilotlight/pilotlight.toml"


def base():
    """A tar of a small Debian; made once, of the packages that apt has."""
    archive = CACHE / "root.tar"
    if not archive.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        release = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
        include = "--include=adduser,ca-certificates,init-system-helpers"
        unfinished = archive.with_suffix(".unfinished.tar")
        run("mmdebstrap", "--mode=root", "--variant=apt", include, release["VERSION_CODENAME"], unfinished)
        unfinished.rename(archive)
    return archive


class Root:
    """A Debian in a folder."""

    def __init__(self, folder):
        self.folder = folder
        run("tar", "--extract", "--file", base(), "--directory", folder)

    def run(self, *command, **options):
        return run("chroot", self.folder, *command, **options)

    def install(self, deb):
        shutil.copy(deb, self.folder / "new.deb")
        # As apt does for a file that was changed: it is kept.
        return self.run("dpkg", "--force-confdef", "--force-confold", "--install", "/new.deb")

    def path(self, name):
        return self.folder / name

    def everything(self):
        """All paths but those that dpkg and its helpers keep of any package."""
        kept = ("proc", "sys", "dev", "tmp", "var/lib/dpkg", "var/log", "var/cache", "var/backups", "new.deb")
        paths = (str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))
        return {name for name in paths if not name.startswith(kept)}


@pytest.fixture(scope="module")
def deb():
    return one(packaged("deb", FAST), "*.deb")


@pytest.fixture
def root(tmp_path):
    return Root(tmp_path)


def test_lintian_has_nothing_to_say(deb):
    said = run("lintian", "--no-cfg", "--allow-root", "--fail-on", "error,warning", deb)
    assert "W:" not in said and "E:" not in said, said


def test_it_is_what_it_says(deb):
    assert run("dpkg-deb", "--field", deb, "Version").strip() == VERSION
    arch = run("dpkg", "--print-architecture").strip()
    assert deb.name == f"pilotlight_{VERSION}_{arch}.deb"
    assert "root/root" in run("dpkg-deb", "--contents", deb)
    assert {line.split()[1] for line in run("dpkg-deb", "--contents", deb).splitlines()} == {"root/root"}


def test_installed_it_serves_as_its_own_user(deb, root):
    root.install(deb)
    assert root.run("pilotlight", "--version").split() == ["pilotlight", VERSION]
    assert root.run("dpkg", "--verify", "pilotlight") == ""
    for name in (
        "usr/share/man/man1/pilotlight.1.gz",
        "usr/share/bash-completion/completions/pilotlight",
        "usr/share/zsh/vendor-completions/_pilotlight",
        "usr/share/fish/vendor_completions.d/pilotlight.fish",
        "usr/lib/systemd/system/pilotlight.service",
    ):
        assert root.path(name).stat().st_size > 100, name
    assert root.run("bash", "-n", "/usr/share/bash-completion/completions/pilotlight") == ""
    enabled = root.path("etc/systemd/system/multi-user.target.wants/pilotlight.service")
    assert enabled.is_symlink(), "the unit is not enabled"
    assert root.run("getent", "passwd", "pilotlight").split(":")[5] == "/var/lib/pilotlight"
    assert root.run("stat", "--format=%U:%G %a", "/var/lib/pilotlight").strip() == "pilotlight:pilotlight 700"
    root.run("pilotlight", "check", "--config", f"/{CONFIG}")
    # What the unit does, without systemd: the user, the folders, the file.
    run("mount", "--types", "proc", "proc", root.path("proc"))
    unit = ["XDG_DATA_HOME=/var/lib", "pilotlight", "run", "--config", f"/{CONFIG}"]
    gateway = subprocess.Popen(["chroot", "--userspec=pilotlight:pilotlight", root.folder, "env", *unit])
    try:
        authority = root.path("var/lib/pilotlight/authority/root.pem")
        eventually(authority.exists, "there is no local authority")
        answer = eventually(lambda: page(8443, "pilotlight.localhost", context=trusting(authority)), "nobody answers")
        assert answer[0] == 200 and "Pilotlight runs" in answer[1]
    finally:
        code = ended(gateway)
        run("umount", root.path("proc"))
    assert code == 0


def test_the_unit_is_one_for_systemd(deb, root, tmp_path):
    root.install(deb)
    unit = root.path("usr/lib/systemd/system/pilotlight.service")
    copy = tmp_path / "pilotlight.service"
    copy.write_text(unit.read_text().replace("/usr/bin/pilotlight", f"{BIN}/pilotlight"))
    assert "pilotlight" not in run("systemd-analyze", "verify", "--man=no", copy)
    words = dict(line.split("=", 1) for line in unit.read_text().splitlines() if "=" in line and line[0] != "#")
    for key in ("ExecStart", "ExecReload"):
        program, command, *_ = words[key].split()
        assert root.path(program[1:]).exists()
        root.run(program, command, "--help")


def test_an_upgrade_keeps_what_was_changed(deb, root):
    root.install(deb)
    changed = root.path(CONFIG).read_text() + "\n# ours\n"
    root.path(CONFIG).write_text(changed)
    state = root.path("var/lib/pilotlight/kept")
    state.write_text("a key")
    owner = state.parent.stat().st_uid
    later = one(packaged("deb", FAST, "--version=9.0.0"), "*.deb")
    root.install(later)
    assert root.run("dpkg-query", "--show", "--showformat=${Version}", "pilotlight") == "9.0.0"
    assert root.path(CONFIG).read_text() == changed
    assert (state.read_text(), state.parent.stat().st_uid) == ("a key", owner)


def test_removed_it_keeps_the_configuration_and_purged_nothing(deb, root):
    before = root.everything()
    users = root.path("etc/passwd").read_text()
    root.install(deb)
    root.path("var/lib/pilotlight/key").write_text("secret")
    root.run("dpkg", "--remove", "pilotlight")
    assert root.path(CONFIG).exists() and root.path("var/lib/pilotlight/key").exists()
    assert not root.path("usr/bin/pilotlight").exists()
    root.run("dpkg", "--purge", "pilotlight")
    left = root.everything() - before
    assert not [name for name in left if "pilotlight" in name], left
    assert root.path("etc/passwd").read_text() == users


def test_a_folder_without_the_gateway_is_refused(tmp_path):
    said = run("python3", "-B", ROOT / "packaging" / "deb.py", "--bin-dir", tmp_path, code=1)
    assert "no pilotlight in" in said
