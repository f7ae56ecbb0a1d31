"""A service of a few lines. Pilotlight starts it on its first request."""

import sys

sys.path.insert(0, f"{sys.path[0]}/../../sdk/python")  # not needed once pilotlight is installed
import pilotlight


def handle(request):
    return 200, {"content-type": "text/plain"}, f"hello from python, you asked for {request.path}\n"


pilotlight.serve(handle)
