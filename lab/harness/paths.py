"""Where things are, seen from the repository's root."""
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GATEWAY_IS_GIVEN = "LAB_GATEWAY" in os.environ
GATEWAY_BIN = Path(os.environ.get("LAB_GATEWAY", ROOT / "target/release/pilotlight")).resolve()
REDIS_PEERS = ROOT / "lab/peers/redis"
REDIS_OUTPUT = ROOT / "target/lab-peers-redis"
RESULTS = ROOT / "target/lab-results"
