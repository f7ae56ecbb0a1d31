"""A pipe service that says what it got: its own name (NAME), length and hash of the body, Content-Length, X-User."""

import hashlib
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "sdk" / "python"))

import pilotlight  # noqa: E402


def handle(request):
    body = request.body
    said = {
        "name": os.environ["NAME"],
        "length": len(body),
        "sha256": hashlib.sha256(body).hexdigest(),
        "content_length": request.headers.get("content-length"),
        "user": request.headers.get("x-user"),
    }
    return 200, {"content-type": "application/json"}, json.dumps(said)


if __name__ == "__main__":
    pilotlight.serve(handle)
