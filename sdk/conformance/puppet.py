"""The service of the gateway's transcripts: hands its environment to the test, which then dials in for it."""

import json
import os
import socket


def main():
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    control.connect(os.environ["PUPPET_CONTROL"])
    told = {name: value for name, value in os.environ.items() if name.startswith("PILOTLIGHT_")}
    told["pid"] = str(os.getpid())
    control.sendall(json.dumps(told).encode() + b"\n")
    for line in control.makefile():
        verb, _, rest = line.strip().partition(" ")
        if verb == "exit":
            os._exit(int(rest))
        if verb == "print":
            print(rest, flush=True)


if __name__ == "__main__":
    main()
