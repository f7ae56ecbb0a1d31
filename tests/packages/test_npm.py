"""The packages of npm, installed without a registry into an empty folder: the command, the SDK, an application."""

import os
import signal
import subprocess

import pytest
from clean import VERSION, eventually, free_port, loaded, one, packaged, page, run

APP = """
const { serve } = require('pilotlight');
serve((req, res) => res.end(`hello from ${req.url}\\n`));
"""
EXPORTED = "export default { fetch: request => new Response(`hello from ${new URL(request.url).pathname}\\n`) };\n"
HELLO, SERVED = '["node", "hello.js"]', '["node_modules/.bin/pilotlight-serve", "exported.mjs"]'


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    built, folder = packaged("npm"), tmp_path_factory.mktemp("project")
    (folder / "package.json").write_text("{}")
    archives = [one(built, "pilotlight-linux-*.tgz"), one(built, f"pilotlight-{VERSION}.tgz")]
    settings = os.environ | {"npm_config_cache": str(tmp_path_factory.mktemp("cache"))}
    run("npm", "install", "--offline", "--no-audit", "--no-fund", *archives, cwd=folder, env=settings)
    return folder


def test_the_parts_have_one_version(project):
    main = loaded(project / "node_modules/pilotlight/package.json")
    assert main["version"] == VERSION
    assert set(main["optionalDependencies"].values()) == {VERSION}
    cpu = os.uname().machine.replace("x86_64", "x64").replace("aarch64", "arm64")
    platform = loaded(project / f"node_modules/@pilotlight/linux-{cpu}/package.json")
    assert (platform["version"], platform["os"], platform["cpu"]) == (VERSION, ["linux"], [cpu])
    assert platform["name"] in main["optionalDependencies"]


def test_the_command_is_the_gateway(project):
    # npx has warnings of its own.
    assert f"pilotlight {VERSION}" in run("npx", "--offline", "pilotlight", "--version", cwd=project).splitlines()
    assert "unexpected" in run("npx", "--offline", "pilotlight", "--nonsense", cwd=project, code=2)


@pytest.mark.parametrize(("number", "command"), [(signal.SIGTERM, HELLO), (signal.SIGINT, HELLO), (signal.SIGTERM, SERVED)])
def test_an_application_is_served_until_a_signal(project, number, command):
    port = free_port()
    (project / "hello.js").write_text(APP)
    (project / "exported.mjs").write_text(EXPORTED)
    (project / "pilotlight.toml").write_text(
        f'listen = "127.0.0.1:{port}"\n[services.hello]\ncommand = {command}\n'
        '[[routes]]\npath = "/"\nservice = "hello"\n'
    )
    gateway = subprocess.Popen(["node_modules/.bin/pilotlight"], cwd=project, stdin=subprocess.DEVNULL)
    try:
        assert eventually(lambda: page(port, path="/x"), "nobody answers") == (200, "hello from /x\n")
        gateway.send_signal(number)
        assert gateway.wait(60) == 0
    finally:
        gateway.kill()


def test_without_the_platform_s_package_it_says_so(tmp_path):
    archive = one(packaged("npm"), f"pilotlight-{VERSION}.tgz")
    (tmp_path / "package.json").write_text("{}")
    run("npm", "install", "--offline", "--omit=optional", "--no-audit", "--no-fund", archive, cwd=tmp_path)
    assert "@pilotlight/linux-" in run("node_modules/.bin/pilotlight", code=1, cwd=tmp_path)
