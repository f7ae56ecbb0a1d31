"""How many connections resume their session: at any worker, and after an upgrade to another program (issue 17)."""

import json
import os
import shutil
import signal
import ssl
import subprocess
import unittest

from harness import BINARY, setUpModule
from test_tls import WEB, SecureClient, Tls

__all__ = ["setUpModule"]

VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
CLIENTS = 10  # of each version; each goes on with its own session
BEFORE, AFTER = 15, 10  # connections of each, one after the other
WANTED = 0.95


class Resumption(Tls):
    def test_at_any_worker_and_after_an_upgrade(self):
        gateway = self.begin(*WEB, '[admin]\nsocket = "admin.sock"\n', workers=4)
        contexts = {version: self.context(version) for version in VERSIONS}
        sessions = {version: [self.connect(gateway, contexts[version])[1]] * CLIENTS for version in VERSIONS}

        def resumed(version, times):
            count, kept = 0, sessions[version]
            for _ in range(times):
                for client, session in enumerate(kept):
                    was_resumed, kept[client] = self.connect(gateway, contexts[version], session)
                    count += was_resumed
            return count

        before = {version: resumed(version, BEFORE) for version in VERSIONS}
        self.upgrade(gateway)
        after = {version: resumed(version, AFTER) for version in VERSIONS}
        for version in VERSIONS:
            print(f"{version.name}: resumed {before[version]} of {CLIENTS * BEFORE} at any worker, "
                  f"{after[version]} of {CLIENTS * AFTER} after an upgrade")  # fmt: skip
            self.assertGreaterEqual(before[version], WANTED * CLIENTS * BEFORE)
            self.assertGreaterEqual(after[version], WANTED * CLIENTS * AFTER)
        # The new process has counted the same: it had nothing but tickets of the other one to go by.
        told = json.loads(self.command(gateway, "status"))["tls"]["handshakes"]
        self.assertEqual(told["resumed"], sum(after.values()))

    def connect(self, gateway, context, session=None):
        secure = self.socket(gateway, context, session=session)
        self.assert_status(SecureClient(secure).request("GET", "/show"), 200)  # tickets of 1.3 come with the answer
        told = secure.session_reused, secure.session
        secure.close()
        return told

    def command(self, gateway, *arguments):
        command = [BINARY, *arguments, "--json", "--socket", gateway.folder / "admin.sock"]
        return subprocess.check_output(list(map(str, command)), text=True)

    def upgrade(self, gateway):
        program, old = gateway.folder / "pilotlight", gateway.process
        shutil.copy2(BINARY, program)
        told = json.loads(self.command(gateway, "upgrade", "--program", program))
        self.addCleanup(os.kill, told["pid"], signal.SIGTERM)
        self.assertEqual(old.wait(20), 0)
        self.assertEqual(os.readlink(f"/proc/{told['pid']}/exe"), str(program))


if __name__ == "__main__":
    unittest.main()
