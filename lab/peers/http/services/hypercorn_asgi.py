"""The Python service over HTTP: Hypercorn with a bare ASGI app. Listens on fd 3 (LISTEN_FDS)."""
import sys

from hypercorn.__main__ import main

# No workers: it serves in its own process.
sys.exit(main(["--bind", "fd://3", "--workers", "0", "--keep-alive", "300", "--log-level", "error", "bare_asgi:app"]))
