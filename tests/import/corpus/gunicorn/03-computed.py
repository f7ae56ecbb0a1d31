# named: workers
# named: if os.environ
# named: logconfig_dict
# named: on_starting
# named: raw_env
import os
import multiprocessing
from pathlib import Path

wsgi_app = "app:app"
bind = (
    "127.0.0.1:8000",
)
workers = int(os.environ.get("WEB_CONCURRENCY", 2))
if os.environ.get("DEBUG"):
    reload = True
raw_env = ["DB=" + os.environ["DB"]]
logconfig_dict = {
    "version": 1,
}
def on_starting(server):
    workers = 99
