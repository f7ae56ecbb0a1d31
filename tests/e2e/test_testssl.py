"""testssl.sh against the gateway: no finding above LOW (issue 17). Debian's package `testssl.sh`."""

import json
import shutil
import subprocess
import unittest

from certificates import RSA
from harness import ORIGIN, route, service, setUpModule
from programs import find
from test_tls import Tls

__all__ = ["setUpModule"]

TESTSSL = find("testssl", "testssl.sh")
FINE = ("OK", "INFO", "LOW")

# What is above LOW, and why it says nothing about the gateway.
EXPLAINED = {
    # Its client ends its connection with the handshake, and tickets of TLS 1.3 come behind that (RFC 8446 §4.6.1), so
    # it has none to come back with. `test_resumption` counts what is resumed.
    "sessionresumption_ticket": ("WARN", "check failed because of connect problem"),
    # The client's own openssl has no GOST, which the gateway does not offer.
    "engine_problem": ("WARN", f"No engine or GOST support via engine with your {shutil.which('openssl')}"),
}

# Checks that have to have been made, of each part of the program.
REQUIRED = set(
    "SSLv2 SSLv3 TLS1 TLS1_1 TLS1_2 TLS1_3 cipherlist_NULL cipherlist_aNULL cipherlist_EXPORT PFS cipher_order "
    "TLS_session_ticket HTTP_status_code HSTS_time heartbleed CCS ticketbleed ROBOT secure_renego secure_client_renego "
    "CRIME_TLS BREACH POODLE_SSL fallback_SCSV SWEET32 FREAK DROWN LOGJAM BEAST LUCKY13 RC4".split()
)
# Those of each certificate: ECDSA and RSA.
REQUIRED |= {
    f"cert_{name} <cert#{number}>"
    for name in ("signatureAlgorithm", "trust", "chain_of_trust", "notAfter", "crlDistributionPoints")
    for number in (1, 2)
}


@unittest.skipUnless(TESTSSL, "testssl is not installed")
class Findings(Tls):
    def test_nothing_above_low(self):
        web = service("web", ORIGIN, transport="http", min_instances=1), route("/", "web", hsts="365d")
        pair = '{{ certificate = "{0}.pem", key = "{0}.key" }}'
        both = f"certificates = [{pair.format('server')}, {pair.format('rsa')}]"
        gateway = self.begin(*web, tls=both, issue=self.issue)
        self.assert_eventually(lambda: self.get(gateway, "/").status == 200, "the service does not answer")
        host, port = self.address(gateway)
        found = gateway.folder / "found.json"
        command = [TESTSSL, "--quiet", "--color", "0", "--warnings", "batch", "--nodns", "none", "--ip", host]
        command += ["--add-ca", self.authority.certificate, "--jsonfile", found, f"demo.test:{port}"]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=900)
        said = {one["id"]: (one["severity"], one["finding"]) for one in json.loads(found.read_text())}
        self.assertEqual(REQUIRED - said.keys(), set(), f"checks that were not made\n{done.stdout}")
        above = {name: it for name, it in said.items() if it[0] not in FINE and it != EXPLAINED.get(name)}
        self.assertEqual(above, {}, done.stdout)

    def issue(self, authority):
        # As public authorities issue them: for 90 days, with a list of what was revoked.
        fields = ["crlDistributionPoints=URI:http://ca.demo.test/list"]
        authority.issue("demo.test", file="server", days=90, fields=fields)
        authority.issue("demo.test", file="rsa", days=90, fields=fields, kind=RSA)


if __name__ == "__main__":
    unittest.main()
