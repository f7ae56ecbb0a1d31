"""The crates, packed as they would be published: whole, described, and without what is not theirs."""

import tarfile

import crates
from clean import PACKAGING, ROOT, VERSION, run


def test_all_that_people_need_is_packed():
    names = run("python3", "-B", PACKAGING / "crates.py", "--list").split()
    assert set(crates.PUBLIC) <= set(names)
    assert "pilotlight-testkit" not in names and "pilotlight-lab" not in names, "they are of use in a checkout only"
    run("python3", "-B", PACKAGING / "crates.py", "--no-verify", "--allow-dirty")
    for name in names:
        with tarfile.open(ROOT / "target" / "package" / f"{name}-{VERSION}.crate") as archive:
            inside = {member.removeprefix(f"{name}-{VERSION}/") for member in archive.getnames()}
        assert {"Cargo.toml", "README.md"} <= inside and any(path.startswith("src/") for path in inside), name
        # A key that tests sign with is no secret.
        ours = [path for path in inside if not path.startswith("tests/")]
        assert not [path for path in ours if path.startswith("target/") or path.endswith((".pem", ".key"))], name


def test_what_the_registry_would_refuse_is_found():
    packages = crates.published()
    assert list(crates.wrong(packages)) == []
    resp = packages["pilotlight-resp"]
    redis = packages["pilotlight-redis"]
    resp["description"], resp["version"] = None, "9.0.0"
    said = "\n".join(crates.wrong(packages))
    assert "pilotlight-resp has no description" in said and "pilotlight-resp has version 9.0.0" in said
    needed = next(one for one in redis["dependencies"] if one["name"] == "pilotlight-resp")
    needed["req"] = "*"
    del packages["pilotlight-cache"]
    said = "\n".join(crates.wrong(packages))
    assert "pilotlight-redis needs pilotlight-resp *" in said
    assert "pilotlight-cache is not a crate that may be published" in said
