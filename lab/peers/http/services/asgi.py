"""The Python service over HTTP: uvicorn with a bare ASGI app, on fd 3 or on the path that is its argument."""
import os
import sys

import uvicorn
from bare_asgi import app

where = {"fd": 3} if os.environ.get("LISTEN_FDS") else {"uds": sys.argv[1]}
uvicorn.run(app, log_level="error", access_log=False, lifespan="off", timeout_keep_alive=300, **where)
