"""Where things are, seen from the repository's root."""
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / "lab/peers/http"
SERVICES = PEERS / "services"
PIPE_SERVICES = PEERS / "pipe"
PEER_BIN = PEERS / "target/release"
GATEWAY_IS_GIVEN = "LAB_GATEWAY" in os.environ
GATEWAY_BIN = Path(os.environ.get("LAB_GATEWAY", ROOT / "target/release/pilotlight")).resolve()
VENV_PYTHON = PEERS / "target/venv/bin/python"
PYTHON = "/usr/bin/python3"  # the system's: a version manager's shim in front of it would add its own start to every figure
REDIS_PEERS = ROOT / "lab/peers/redis"
REDIS_OUTPUT = ROOT / "target/lab-peers-redis"
RESULTS = ROOT / "target/lab-results"
