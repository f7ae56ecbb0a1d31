"""A Python service over the pipe that is ready a given number of milliseconds after its start. It answers with two times of the
system's monotonic clock, in nanoseconds: when it was ready to dial, and when its handler got the request."""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../../sdk/python"))
import pilotlight

time.sleep(int(sys.argv[1]) / 1000)
READY = time.monotonic_ns()


def handle(request):
    return 200, [], f"{READY} {time.monotonic_ns()}"


pilotlight.serve(handle)
