"""The wheel, installed without an index into an environment of its own: the command, the module, the SDK, an
application.
"""

import subprocess
import sys
import zipfile

import pytest
from clean import BIN, CPU, PACKAGING, ROOT, VERSION, ended, eventually, free_port, one, packaged, page, run

APP = """
import pilotlight
pilotlight.serve(lambda request: (200, {"content-type": "text/plain"}, f"hello from {request.path}\\n"))
"""
SAY = """
pilotlight.serve(lambda request: (200, {}, "compiled" if _core.native else "in Python"))
"""


@pytest.fixture(scope="module")
def wheel():
    return one(packaged("wheel"), "*.whl")


@pytest.fixture(scope="module")
def venv(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("venv")
    run(sys.executable, "-m", "venv", folder)
    run(folder / "bin/pip", "install", "--no-index", "--quiet", "--disable-pip-version-check", wheel)
    return folder


def test_its_files_are_those_of_its_record(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert archive.testzip() is None
        assert f"pilotlight-{VERSION}.data/scripts/pilotlight" in names
        assert {f"pilotlight/{path.name}" for path in (ROOT / "sdk/python/pilotlight").glob("*.py")} <= set(names)


def test_the_tag_is_what_the_programs_need(wheel, tmp_path):
    assert wheel.name.startswith(f"pilotlight-{VERSION}-py3-none-manylinux_2_17_{CPU}."), "a static program"
    assert f"musllinux_1_1_{CPU}.whl" in wheel.name
    run(sys.executable, "-B", PACKAGING / "wheel.py", "--bin-dir", BIN, "--out", tmp_path)
    dynamic = one(tmp_path, "*.whl").name
    assert "musllinux" not in dynamic, "one that is linked with glibc runs beside no other libc"
    said = run("readelf", "--wide", "-V", BIN / "pilotlight")
    tag = dynamic.split("manylinux_2_")[1].split("_")[0]
    assert f"GLIBC_2.{tag}" in said or ("GLIBC_ABI_DT_RELR" in said and int(tag) >= 36)


def test_command_and_module_are_the_same_program(venv):
    assert run(venv / "bin/pilotlight", "--version").split() == ["pilotlight", VERSION]
    assert run(venv / "bin/python", "-m", "pilotlight", "--version").split() == ["pilotlight", VERSION]
    assert run(venv / "bin/pip", "show", "--files", "pilotlight").count("pilotlight-wsgi") == 1
    assert "usage" in run(venv / "bin/pilotlight-wsgi", "--help").lower()


def test_an_application_is_served(venv, tmp_path):
    (tmp_path / "hello.py").write_text(APP)
    port = free_port()
    (tmp_path / "pilotlight.toml").write_text(
        f'listen = "127.0.0.1:{port}"\n[services.hello]\ncommand = ["{venv}/bin/python", "hello.py"]\n'
        '[[routes]]\npath = "/"\nservice = "hello"\n'
    )
    gateway = subprocess.Popen([venv / "bin/python", "-m", "pilotlight"], cwd=tmp_path)
    try:
        assert eventually(lambda: page(port, path="/x"), "nobody answers") == (200, "hello from /x\n")
    finally:
        assert ended(gateway) == 0


def test_the_compiled_core_is_in_use_unless_the_service_says_otherwise(venv, tmp_path):
    which = "from pilotlight import _core; print(_core.native and _core.native.__file__)"
    folder = run(venv / "bin/python", "-c", "import pilotlight; print(*pilotlight.__path__)").strip()
    assert run(venv / "bin/python", "-c", which).strip() == f"{folder}/_native.abi3.so"
    source = f"import pilotlight\nfrom pilotlight import _core\n{SAY}"
    (tmp_path / "which.py").write_text(source)
    port = free_port()
    services = "".join(
        f'[services.{name}]\ncommand = ["{venv}/bin/python", "which.py"]\ntransport = "pipe"\n'
        f'env = {{ PILOTLIGHT_PURE = "{pure}" }}\n[[routes]]\npath = "/{name}"\nservice = "{name}"\n'
        for name, pure in (("compiled", 0), ("pure", 1))
    )
    (tmp_path / "pilotlight.toml").write_text(f'listen = "127.0.0.1:{port}"\n{services}')
    gateway = subprocess.Popen([venv / "bin/python", "-m", "pilotlight"], cwd=tmp_path)
    try:
        assert eventually(lambda: page(port, path="/compiled"), "nobody answers") == (200, "compiled")
        assert page(port, path="/pure") == (200, "in Python")
    finally:
        assert ended(gateway) == 0


def test_a_python_that_cannot_load_the_core_does_without(wheel, tmp_path):
    run(sys.executable, "-m", "venv", tmp_path)
    run(tmp_path / "bin/pip", "install", "--no-index", "--quiet", wheel)
    core = one(tmp_path, "lib/python*/site-packages/pilotlight/_native.abi3.so")
    core.write_bytes(b"no module")
    assert run(tmp_path / "bin/python", "-c", "from pilotlight import _core; print(_core.native)").strip() == "None"


def test_uninstalled_it_leaves_nothing(wheel, tmp_path):
    run(sys.executable, "-m", "venv", tmp_path)
    before = {path for path in tmp_path.rglob("*") if "pip" not in str(path)}
    run(tmp_path / "bin/pip", "install", "--no-index", "--quiet", wheel)
    run(tmp_path / "bin/pip", "uninstall", "--yes", "--quiet", "pilotlight")
    assert {path for path in tmp_path.rglob("*") if "pip" not in str(path)} == before


def test_the_sdk_alone_says_that_it_has_no_gateway(tmp_path):
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path)
    said = run(tmp_path / "bin/python", "-B", "-m", "pilotlight", code=1, cwd=ROOT / "sdk" / "python")
    assert "without the gateway" in said
