"""What a release is held to: one version, the same bytes again, a list of what is in it, a workflow that does all of
that.
"""

import json
import re
import shutil
import tomllib

import check
import pytest
from clean import BIN, PACKAGING, ROOT, STATIC, VERSION, run

PLACES = (
    "Cargo.toml",
    "Cargo.lock",
    "CHANGELOG.md",
    "sdk/python/pyproject.toml",
    "sdk/node/package.json",
    "sdk/node/package-lock.json",
    *check.SDKS,
)


@pytest.fixture
def agreed(tmp_path):
    """A copy of all that names the version, in which everything agrees."""
    for place in PLACES:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / place, tmp_path / place)
    changelog = tmp_path / "CHANGELOG.md"
    changelog.write_text(
        changelog.read_text().replace("## [Unreleased]", f"## [Unreleased]\n\n## [{VERSION}] - 2026-01-01")
    )
    (tmp_path / "dist").mkdir()
    assert list(check.problems(tmp_path, tmp_path / "dist")) == []
    return tmp_path


@pytest.mark.parametrize("place", PLACES)
def test_a_part_that_disagrees_is_named(agreed, place):
    path = agreed / place
    text = path.read_text()
    if place == "Cargo.lock":
        text = text.replace(
            f'name = "pilotlight-resp"\nversion = "{VERSION}"', 'name = "pilotlight-resp"\nversion = "9.9.9"'
        )
    else:
        text = text.replace(VERSION, "9.9.9", 1)
    assert text != path.read_text()
    path.write_text(text)
    found = list(check.problems(agreed, agreed / "dist"))
    assert found
    # Where it is the one place, all others disagree with it.
    assert (
        all(line.endswith("Cargo.toml has 9.9.9") for line in found)
        if place == "Cargo.toml"
        else found[0].startswith(place)
    )


def test_packages_of_another_version_are_named(agreed):
    dist = agreed / "dist"
    for name in (
        "pilotlight_9.9.9_amd64.deb",
        f"pilotlight-{VERSION}-amd64.oci.tar",
        f"pilotlight-{VERSION}-py3-none-any.whl",
    ):
        (dist / name).write_text("")
    (dist / "pilotlight.rb").write_text('version "9.9.9"')
    (dist / "bin" / "this").mkdir(parents=True)
    shutil.copy(BIN / "pilotlight", dist / "bin" / "this" / "pilotlight")
    found = list(check.problems(agreed, dist))
    assert [line.split(":")[0] for line in found] == ["pilotlight.rb", "pilotlight_9.9.9_amd64.deb"]


def test_the_command_refuses_the_wrong_tag():
    said = run("python3", "-B", PACKAGING / "check.py", "--tag", "v9.9.9", code=1)
    assert "the tag is v9.9.9" in said


def test_stand_ins_are_not_published(agreed):
    cargo = agreed / "Cargo.toml"
    text = re.sub(
        r"^(repository|homepage) = .*$", r'\1 = "https://stand-in.example/x"', cargo.read_text(), flags=re.MULTILINE
    )
    cargo.write_text(text)
    assert len(list(check.unpublished(agreed))) == 2
    cargo.write_text(text.replace("stand-in.example", "project.test"))
    assert list(check.unpublished(agreed)) == []


@pytest.mark.parametrize(("kind", "programs"), [("deb", BIN), ("image", STATIC), ("wheel", STATIC), ("npm", STATIC)])
def test_the_same_programs_give_the_same_bytes(kind, programs, tmp_path):
    options = {"deb": ["--level=0"], "image": ["--any-size"]}.get(kind, [])
    for name in ("one", "other"):
        shutil.copytree(programs, tmp_path / f"programs-{name}")  # other times, another folder
        run(
            "python3",
            "-B",
            PACKAGING / f"{kind}.py",
            "--bin-dir",
            tmp_path / f"programs-{name}",
            "--out",
            tmp_path / name,
            *options,
        )
    one, other = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("one", "other"))
    assert one and one == other


def test_the_list_of_what_is_compiled_in(tmp_path):
    for name in ("one", "other"):
        run("python3", "-B", PACKAGING / "sbom.py", "--out", tmp_path / name)
    text = (tmp_path / "one" / f"pilotlight-{VERSION}.cdx.json").read_text()
    assert text == (tmp_path / "other" / f"pilotlight-{VERSION}.cdx.json").read_text()
    document = json.loads(text)
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.5")
    names = {one["name"]: one for one in document["components"]}
    assert {"rustls", "ring", "tokio", "pilotlight-gateway"} <= set(names)
    assert not {"proptest", "pilotlight-testkit"} & set(names), "what tests alone need is not in the program"
    assert re.fullmatch("[0-9a-f]{64}", names["rustls"]["hashes"][0]["content"])
    assert all("licenses" in one for one in names.values())
    refs = set(names[name]["bom-ref"] for name in names) | {document["metadata"]["component"]["bom-ref"]}
    assert {entry["ref"] for entry in document["dependencies"]} >= refs


def test_the_workflow_calls_what_there_is():
    text = (ROOT / ".github/workflows/release.yml").read_text()
    makefile = (PACKAGING / "targets.mk").read_text()
    wanted = re.findall(r"\bmake ([\w-]+)", text)
    assert {"packages", "test-packages", "release-check"} <= set(wanted)
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in wanted)
    assert not re.findall(r"uses: (?!\S+@[0-9a-f]{40}\b)\S+", text), "an action without a digest can become another one"


def test_cargo_binstall_finds_what_the_workflow_attaches():
    package = tomllib.loads((ROOT / "crates/pilotlight/Cargo.toml").read_text())["package"]
    about = package["metadata"]["binstall"]
    places = {"{ repo }": check.project.REPOSITORY, "{ version }": VERSION, "{ name }": package["name"]}
    url = about["pkg-url"].replace("{ target }", "x86_64-unknown-linux-gnu")
    for place, value in places.items():
        url = url.replace(place, value)
    assert about["pkg-fmt"] == "bin"
    assert url == f"{check.project.REPOSITORY}/releases/download/v{VERSION}/pilotlight-x86_64-unknown-linux-gnu"
    attached = 'for program in bin/*/*; do cp "$program" "$(basename "$program")-$(basename "$(dirname "$program")")"'
    assert attached in (ROOT / ".github/workflows/release.yml").read_text()
