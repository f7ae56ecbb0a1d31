"""The Homebrew formula and the files for Arch: their syntax, and that they fit the source archive that they name."""

import hashlib
import re
import tarfile

import pytest
from clean import PACKAGING, VERSION, one, run


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recipes")
    run("python3", "-B", PACKAGING / "recipes.py", "--out", folder)
    return folder


def test_they_name_the_archive_and_its_sum(made):
    archive = one(made, "*.tar.gz")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    for name in ("pilotlight.rb", "PKGBUILD", ".SRCINFO"):
        text = (made / name).read_text()
        assert digest in text and f"/v{VERSION}/{archive.name}" in text, name
        assert not re.search(r"@\w+@", text), f"{name}: something was not filled in"
    with tarfile.open(archive) as source:
        names = set(source.getnames())
    for path in ("Cargo.lock", "crates/pilotlight/Cargo.toml", "crates/redis-tool/Cargo.toml"):
        assert f"pilotlight-{VERSION}/{path}" in names


def test_the_formula_is_ruby(made):
    assert "Syntax OK" in run("ruby", "-wc", made / "pilotlight.rb")


def test_the_recipe_of_arch_is_shell_and_agrees_with_its_summary(made):
    recipe = made / "PKGBUILD"
    # Variables that makepkg reads and sets.
    run("shellcheck", "--shell=bash", "--exclude=SC2034,SC2154,SC2164", recipe)
    names = (
        "pkgver",
        "pkgrel",
        "pkgdesc",
        "url",
        "arch",
        "license",
        "depends",
        "makedepends",
        "options",
        "backup",
        "source",
        "sha256sums",
    )
    script = f"source {recipe}; for name in {' '.join(names)}; do declare -n list=$name; "
    script += 'printf "$name = %s\\n" "${list[@]}"; done'
    said = sorted(run("bash", "-c", script).splitlines())
    summary = [line.strip() for line in (made / ".SRCINFO").read_text().splitlines() if line.startswith("\t")]
    assert sorted(summary) == said
    used = re.findall(r"^  install -Dm\d+ ((?:packaging|LICENSE)\S*)", recipe.read_text(), re.MULTILINE)
    assert len(used) >= 5 and all((PACKAGING.parent / path).exists() for path in used)
