"""The gateway under a filter of system calls, as containers have them: `Gateway(filtered(BINARY, sendfile=EPERM), …)`.

As a program, `filtered.py call=outcome … -- command`, it installs the filter and becomes the command.
"""

import ctypes
import os
import platform
import struct
import sys
import tempfile
from pathlib import Path

KILL = -1  # in place of an errno: the process ends with SIGSYS

CALLS = {
    "x86_64": {"sendfile": 40, "openat2": 437, "preadv2": 327},
    "aarch64": {"sendfile": 71, "openat2": 437, "preadv2": 286},
}

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
RET_KILL_PROCESS, RET_ERRNO, RET_ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
LOAD_NUMBER, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06


def filtered(test, binary, **outcomes):
    """A program that is the binary under the filter; it is there as long as the test runs."""
    folder = tempfile.TemporaryDirectory(prefix="pilotlight-filtered-")
    test.addCleanup(folder.cleanup)
    program = Path(folder.name) / "filtered"
    words = [sys.executable, "-B", __file__, *(f"{call}={outcome}" for call, outcome in outcomes.items())]
    program.write_text(f"#!/bin/sh\nexec {' '.join(words)} -- {Path(binary).resolve()} \"$@\"\n")
    program.chmod(0o700)
    return program


def instruction(code, value, if_true=0, if_false=0):
    return struct.pack("=HBBI", code, if_true, if_false, value)


def install(outcomes):
    numbers = CALLS[platform.machine()]
    program = [instruction(LOAD_NUMBER, 0)]
    for call, outcome in outcomes.items():
        action = RET_KILL_PROCESS if outcome == KILL else RET_ERRNO | outcome
        program += [instruction(JUMP_IF_EQUAL, numbers[call], if_false=1), instruction(RETURN, action)]
    program.append(instruction(RETURN, RET_ALLOW))
    code = ctypes.create_string_buffer(b"".join(program))
    head = struct.pack("@HP", len(program), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    for words in (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, head, 0, 0):
        if libc.prctl(*words) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    split = sys.argv.index("--")
    install({call: int(outcome) for call, outcome in (word.split("=") for word in sys.argv[1:split])})
    os.execv(sys.argv[split + 1], sys.argv[split + 1 :])
