"""Keys, signed tokens (RFC 7515) and a server of key sets, for tests. Signatures are made by openssl.

    issuer = Issuer(folder, "RS256", "a")
    issuer.token(sub="ann")                       # signed, of ten minutes
    with KeyServer(issuer) as server: server.url  # gives its public keys
"""

import base64
import functools
import hashlib
import hmac
import http.server
import json
import subprocess
import threading
import time
from pathlib import Path

from programs import program

KINDS = {
    "RS256": ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
    "ES256": ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
    "EdDSA": ["-algorithm", "ED25519"],
}
PSS = ["-sigopt", "rsa_padding_mode:pss", "-sigopt", "rsa_pss_saltlen:digest"]


def encode(data):
    """base64url without padding (RFC 7515 §2)."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def openssl(*arguments, given=None):
    command = [program("openssl"), *map(str, arguments)]
    return subprocess.run(command, input=given, capture_output=True, check=True).stdout


class Issuer:
    """A private key, and the tokens that it signs."""

    def __init__(self, folder, kind="RS256", kid="a"):
        self.kind, self.kid = kind, kid
        self.file = Path(folder) / f"{kind}-{kid}.pem"
        openssl("genpkey", *KINDS[kind if kind != "PS256" else "RS256"], "-out", self.file)
        self.public = openssl("pkey", "-in", self.file, "-pubout")

    def jwk(self, **more):
        return self._public_key() | {"kid": self.kid, "use": "sig"} | more

    @functools.cache
    def _public_key(self):
        der = openssl("pkey", "-in", self.file, "-pubout", "-outform", "DER")
        if self.kind == "ES256":
            return {"kty": "EC", "crv": "P-256", "x": encode(der[-64:-32]), "y": encode(der[-32:])}
        if self.kind == "EdDSA":
            return {"kty": "OKP", "crv": "Ed25519", "x": encode(der[-32:])}
        modulus = openssl("rsa", "-in", self.file, "-modulus", "-noout").decode().strip().removeprefix("Modulus=")
        return {"kty": "RSA", "n": encode(bytes.fromhex(modulus)), "e": "AQAB"}

    def token(self, header=None, expires=600, **claims):
        """`header` replaces members of it; `expires=None`: there is no `exp`."""
        header = {"alg": self.kind, "typ": "JWT", "kid": self.kid} | (header or {})
        end = {} if expires is None else {"exp": int(time.time()) + expires}
        signed = ".".join(encode(json.dumps(part).encode()) for part in (header, end | claims))
        return f"{signed}.{encode(self.sign(signed.encode()))}"

    def sign(self, data):
        if self.kind == "EdDSA":
            file = self.file.with_suffix(".signed")
            file.write_bytes(data)
            return openssl("pkeyutl", "-sign", "-rawin", "-inkey", self.file, "-in", file)
        padding = PSS if self.kind == "PS256" else []
        signature = openssl("dgst", "-sha256", *padding, "-sign", self.file, given=data)
        return self.fixed(signature) if self.kind == "ES256" else signature

    @staticmethod
    def fixed(der):
        """R and S one after the other (RFC 7518 §3.4), from the DER of openssl."""
        numbers, at = [], 2
        for _ in range(2):
            length = der[at + 1]
            numbers.append(int.from_bytes(der[at + 2 : at + 2 + length], "big").to_bytes(32, "big"))
            at += 2 + length
        return b"".join(numbers)

    def confused(self, **claims):
        """HS256 with the public key as its secret (RFC 8725 §2.1)."""
        claims = {"exp": int(time.time()) + 600} | claims
        header = {"alg": "HS256", "kid": self.kid}
        signed = ".".join(encode(json.dumps(part).encode()) for part in (header, claims))
        return f"{signed}.{encode(hmac.digest(self.public, signed.encode(), hashlib.sha256))}"


class KeyServer(http.server.ThreadingHTTPServer):
    """Gives the public keys of its issuers, and counts how often it was asked."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, *issuers, port=0, context=None):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                """Quiet."""

            def do_GET(self):
                self.server.asked += 1
                body = json.dumps({"keys": [issuer.jwk() for issuer in self.server.issuers]}).encode()
                body = self.server.body or body
                self.send_response(self.server.status)
                for field in [("Content-Length", str(len(body))), *self.server.fields]:
                    self.send_header(*field)
                self.end_headers()
                self.wfile.write(body)

        super().__init__(("127.0.0.1", port), Handler)
        self.issuers, self.fields, self.status, self.body, self.asked = list(issuers), [], 200, None, 0
        self.scheme = "https" if context else "http"
        if context:
            self.socket = context.wrap_socket(self.socket, server_side=True)

    @property
    def url(self):
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}/jwks.json"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=[0.05], daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()
