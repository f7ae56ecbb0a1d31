"""A pipe service for the tests of schedules.

It notes what it gets as a line of JSON in `$FOLDER/notes`. /slow waits for the file `go` there; /broken fails with 500.
"""

import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, os.environ["SDK"])

import pilotlight  # noqa: E402

FOLDER = Path(os.environ["FOLDER"])


def handle(request):
    fields = dict(request.headers)
    note = {
        "method": request.method, "path": request.path, "query": request.query,
        "agent": fields.get("user-agent"), "host": request.authority,
    }  # fmt: skip
    with (FOLDER / "notes").open("a") as notes:
        notes.write(json.dumps(note) + "\n")
    if request.path == "/slow":
        while not (FOLDER / "go").exists():
            time.sleep(0.02)
    if request.path == "/broken":
        return 500, [], "no such table: users"
    return 200, [], "done"


pilotlight.serve(handle)
