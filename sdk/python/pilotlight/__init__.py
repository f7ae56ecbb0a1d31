"""Answers HTTP requests for Pilotlight over Pipe/1, without a web server and without dependencies.

    import pilotlight
    pilotlight.serve(lambda request: (200, {"content-type": "text/plain"}, "hello"))

The gateway starts the program when the first request comes. Add this to pilotlight.toml and run `pilotlight`:

    [services.NAME]
    command = ["python3", "service.py"]
    transport = "pipe"

    [[routes]]
    path = "/"
    service = "NAME"
"""

from ._pipe import __version__, serve
from ._request import Cancelled, Overloaded, Refused, Reset, TooLarge
from ._upgrade import Request
from ._wire import Headers

__all__ = ["Cancelled", "Headers", "Overloaded", "Refused", "Request", "Reset", "TooLarge", "__version__", "serve"]
