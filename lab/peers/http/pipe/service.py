"""The Python service over the pipe."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../../sdk/python"))
import pilotlight

JSON = ('{"id":42,"pad":"' + "x" * 182 + '"}').encode()
HEADERS = [("content-type", "application/json")]


def handle(request):
    return 200, HEADERS, JSON


pilotlight.serve(handle)
