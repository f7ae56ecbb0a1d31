#!/usr/bin/env python3
"""Writes what is compiled into each program into target/dist, as CycloneDX 1.5: crates, versions, licences,
checksums.
"""

import json
import tomllib
import uuid
from datetime import UTC, datetime

import project
from project import ROOT, VERSION, run

NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, project.HOMEPAGE)  # serial numbers follow from what they number


def compiled(metadata, package):
    """The packages that the program of `package` consists of, and what each of them needs."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    packages = {one["id"]: one for one in metadata["packages"]}
    root = next(one["id"] for one in metadata["packages"] if one["name"] == package and one["source"] is None)
    needs, waiting = {}, [root]
    while waiting:
        current = waiting.pop()
        if current not in needs:
            ordinary = (dep for dep in nodes[current]["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"]))
            needs[current] = sorted(dep["pkg"] for dep in ordinary)
            waiting += needs[current]
    return root, {packages[one]["id"]: packages[one] for one in needs}, needs


def component(package, checksums):
    name, version = package["name"], package["version"]
    described = {"type": "library", "bom-ref": f"pkg:cargo/{name}@{version}", "name": name, "version": version}
    described["purl"] = described["bom-ref"]
    if package["license"]:
        described["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if checksum := checksums.get((name, version)):
        described["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return described


def document(program, package, metadata, checksums):
    root, packages, needs = compiled(metadata, package)
    components = {one: component(about, checksums) for one, about in packages.items()}
    own = components.pop(root) | {"type": "application", "name": program}
    refs = {one: f"pkg:cargo/{about['name']}@{about['version']}" for one, about in packages.items()}
    graph = sorted(
        ({"ref": refs[one], "dependsOn": sorted(refs[other] for other in others)} for one, others in needs.items()),
        key=lambda entry: entry["ref"],
    )
    when = datetime.fromtimestamp(project.epoch(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    body = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"timestamp": when, "component": own},
        "components": sorted(components.values(), key=lambda one: one["bom-ref"]),
        "dependencies": graph,
    }
    return body | {"serialNumber": f"urn:uuid:{uuid.uuid5(NAMESPACE, json.dumps(body))}"}


def main():
    parser = project.arguments(__doc__.split("\n\n")[0])
    options = project.parsed(parser)
    words = ["--locked", "--format-version", "1", "--filter-platform", options.target]
    metadata = json.loads(run("cargo", "metadata", *words))
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    checksums = {(one["name"], one["version"]): one["checksum"] for one in lock if "checksum" in one}
    have = project.binaries()
    for program, package in project.programs():
        if program in have:
            path = options.out / f"{program}-{VERSION}.cdx.json"
            path.write_text(json.dumps(document(program, package, metadata, checksums), indent=1) + "\n")
            print(path)


if __name__ == "__main__":
    main()
