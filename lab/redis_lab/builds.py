"""Builds what is to be measured, into target/lab-peers-redis, as far as its tools are installed."""
import shutil
from dataclasses import dataclass

from harness.paths import REDIS_CLIENT, REDIS_OUTPUT, REDIS_PEERS

from .variants import GO, JAVA, NODE, PILOTLIGHT, REDIS_BENCHMARK, RUST

CARGO = ["nice", "cargo", "build", "--release", "--quiet", "--target-dir", REDIS_OUTPUT / "rust"]
# the tools that a build needs, and how to get them
TOOLS = {
    RUST: (["cargo"], "https://rustup.rs"),
    PILOTLIGHT: (["cargo"], "https://rustup.rs"),
    GO: (["go"], "https://go.dev/dl, or apt-get install golang"),
    JAVA: (["java", "javac", "mvn"], "apt-get install default-jdk-headless maven"),
    NODE: (["node", "npm"], "apt-get install nodejs npm"),
    REDIS_BENCHMARK: (["redis-benchmark"], "apt-get install redis-tools"),
}


@dataclass
class Step:
    command: list
    folder: str = ""


def steps_of(build):
    java = REDIS_OUTPUT / "java"
    return {
        RUST: [Step([*CARGO, "--locked"], "rust")],
        PILOTLIGHT: [Step(CARGO, "rust/p-pilotlight")],
        GO: [Step(["go", "build", "-o", f"{REDIS_OUTPUT}/go/", "./rueidis", "./goredis"], "go")],
        JAVA: [Step(["mvn", "--quiet", "--batch-mode", f"-Doutput={java}", "compile", "dependency:copy-dependencies"], "java")],
        NODE: [Step(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", REDIS_OUTPUT / "node"], "node")],
        REDIS_BENCHMARK: [],
    }[build]


def reason_to_skip(build):
    """Why a build cannot be tried here, or None."""
    if build == PILOTLIGHT and not REDIS_CLIENT.exists():
        return "crates/redis has no client yet"
    tools, install = TOOLS[build]
    missing = [tool for tool in tools if not shutil.which(tool)]
    return f"{', '.join(missing)} not installed; install: {install}" if missing else None


def build_all(lab, variants):
    """Builds what these variants need; returns `{build: reason}` of what was skipped. Failures are in `lab.build_errors`."""
    skipped = {}
    for build in dict.fromkeys(variant.build for variant in variants):
        reason = reason_to_skip(build)
        if reason:
            skipped[build] = reason
            continue
        if build == NODE:
            copy_manifest("node/package.json")
        for step in steps_of(build):
            if build not in lab.build_errors:
                lab.build(build, step.command, REDIS_PEERS / step.folder)
    return skipped


def copy_manifest(path):
    """npm installs beside the manifest; the sources stay clean."""
    target = REDIS_OUTPUT / path
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(REDIS_PEERS / path, target)
