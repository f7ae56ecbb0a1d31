"""The workloads by name, and what they find in the cluster. Each program under lab/peers/redis knows them, too."""

TITLES = {
    "w1": "W1: 256 concurrent callers, GET of 64 bytes",
    "w1k": "W1k: 256 concurrent callers, GET of 1 KiB",
    "w2": "W2: 16 callers × batches of 64 GETs of 64 bytes (times are of a batch)",
    "w3": "W3: 256 concurrent callers, SET of 64 bytes",
    "w4": "W4: 256 concurrent callers, 80 % GET, 20 % SET of 64 bytes",
    "w5": "W5: one caller, GET of 64 bytes, all keys on one node",
}
WORKLOADS = list(TITLES)

KEYS = 100_000
# bytes of the values under PREFIX:0 … PREFIX:99999
VALUE_BYTES = {"key": 64, "kib": 1024, "{one}": 64}
