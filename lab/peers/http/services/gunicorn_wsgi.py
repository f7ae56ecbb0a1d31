"""The Python service over HTTP: gunicorn with a thread for each connection. Listens on fd 3 (LISTEN_FDS)."""
import os
import sys

from gunicorn.app.wsgiapp import run

os.environ["LISTEN_PID"] = str(os.getpid())  # or it would not look at LISTEN_FDS
here = os.path.dirname(os.path.abspath(__file__))
sys.argv[1:] = [
    "--worker-class", "gthread", "--threads", "8", "--keep-alive", "300", "--log-level", "error",
    "--chdir", here, "wsgi:application",
]
run()
