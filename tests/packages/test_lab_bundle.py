"""The lab's bundle, unpacked in an empty folder: it lists what there is, and measures from there."""

import json
import os
import shutil
import subprocess
import tarfile

import pytest
from clean import BIN, CPU, PACKAGING, ROOT, VERSION, run

NAME = f"pilotlight-lab-{VERSION}-{CPU}"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    programs = next(folder for folder in (BIN, ROOT / "target" / "debug") if (folder / "users").exists())
    out = tmp_path_factory.mktemp("out")
    run("python3", "-B", PACKAGING / "lab_bundle.py", "--bin-dir", programs, "--out", out)
    folder = tmp_path_factory.mktemp("elsewhere")
    with tarfile.open(out / f"{NAME}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / NAME


def lab(bundle, *arguments):
    """A run that has neither a checkout around it nor Rust in its path."""
    path = os.pathsep.join(part for part in os.environ["PATH"].split(os.pathsep) if "cargo" not in part)
    command = [bundle / "bin" / "pilotlight", "lab", *map(str, arguments)]
    done = subprocess.run(
        command, cwd=bundle, env=os.environ | {"PATH": path}, text=True, capture_output=True, timeout=600
    )
    return done.returncode, done.stdout + done.stderr


def test_it_finds_its_own_peers(bundle):
    code, said = lab(bundle, "rest", "--list")
    assert code == 0, said
    assert "haskell-warp" in said and str(ROOT) not in said
    assert (bundle / "lab" / "peers" / "rest" / "dotnet" / "Program.cs").exists()
    assert (bundle / "sdk" / "dotnet" / "Pilotlight" / "Pilotlight.csproj").exists()
    assert not list(bundle.rglob("*.rlib"))


def test_what_needs_dotnet_is_left_out_and_said(bundle):
    if shutil.which("dotnet"):
        pytest.skip("optional: .NET is installed here")
    _, said = lab(bundle, "rest", "--list")
    assert "there is no dotnet in the PATH" in said


def test_it_measures(bundle, tmp_path):
    brief = ("--rounds", 1, "--secs", 0.1, "--warmup", 0.05, "--noisy-anyway")
    chosen = ("--cases", "get-warm", "--services", "users", "--redis", "standalone")
    code, said = lab(bundle, "rest", *chosen, *brief, "--out", tmp_path)
    assert code == 0, said
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["experiments"][0]["groups"][0]["variants"][0]["requests"] > 0
