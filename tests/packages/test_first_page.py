"""From a clean place to a page by HTTPS that is trusted: the commands of docs/guide/install.md, one after the other.
Seconds are printed (`pytest -s`), not judged.
"""

import subprocess
import sys
import time

import pytest
from clean import VERSION, ended, eventually, free_port, one, packaged, page, run, trusting

CONFIG = """
listen = "https://first.localhost:{port}"

[[routes]]
path = "/"
files = "site"
"""


def npm(folder):
    built = packaged("npm")
    archives = [one(built, "pilotlight-linux-*.tgz"), one(built, f"pilotlight-{VERSION}.tgz")]
    (folder / "package.json").write_text("{}")
    run("npm", "install", "--offline", "--no-audit", "--no-fund", *archives, cwd=folder)
    return folder / "node_modules/.bin/pilotlight"


def wheel(folder):
    run(sys.executable, "-m", "venv", folder / "venv")
    run(folder / "venv/bin/pip", "install", "--no-index", "--quiet", one(packaged("wheel"), "*.whl"))
    return folder / "venv/bin/pilotlight"


def deb(folder):
    # Without root's database of packages: the files alone, as test_deb installs it in a root of its own.
    run("dpkg-deb", "--extract", one(packaged("deb", "--level=0"), "*.deb"), folder / "root")
    return folder / "root/usr/bin/pilotlight"


@pytest.mark.parametrize("install", [npm, wheel, deb])
def test_the_first_page(install, tmp_path):
    packaged("deb", "--level=0"), packaged("wheel"), packaged("npm")  # made before the clock runs
    port, home = free_port(), tmp_path / "home"
    (tmp_path / "site").mkdir()
    (tmp_path / "site/index.html").write_text("the first page")
    (tmp_path / "pilotlight.toml").write_text(CONFIG.format(port=port))
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home)}
    begin = time.monotonic()
    program = install(tmp_path)
    run(program, "trust", "--only", "system", "--bundle", tmp_path / "roots.pem", env=environment)
    gateway = subprocess.Popen([program, "run"], cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL)
    try:
        answer = eventually(
            lambda: page(port, "first.localhost", context=trusting(tmp_path / "roots.pem")), "nobody answers"
        )
        seconds = time.monotonic() - begin
        assert answer == (200, "the first page")
    finally:
        assert ended(gateway) == 0
    print(f"\n{install.__name__}: {seconds:.1f} s from clean to a trusted page: install, trust, run")
