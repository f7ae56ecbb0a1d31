"""The Python service over HTTP: Granian with one worker. Listens on PORT, as it can take no socket."""
import os
import sys

from granian.cli import entrypoint

here = os.path.dirname(os.path.abspath(__file__))
sys.argv[1:] = [
    "--interface", "wsgi", "--port", os.environ["PORT"], "--workers", "1", "--no-ws", "--no-access-log",
    "--log-level", "error", "--working-dir", here, "wsgi:application",
]
entrypoint()
