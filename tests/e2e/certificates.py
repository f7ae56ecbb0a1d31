"""Certificates of tests, made by openssl: an authority, and what it issues."""

import os
import subprocess
from pathlib import Path

from programs import program

EC = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
RSA = ["-newkey", "rsa:2048"]


class Authority:
    """`Authority(folder).issue("a.example", "*.b.example")`: (certificate, key), files of the folder."""

    def __init__(self, folder, name="ca"):
        self.folder = Path(folder)
        self.certificate, self.key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        self._openssl("req", "-x509", *EC, "-nodes", "-days", "30", "-subj", f"/CN={name}", "-keyout", self.key, "-out",
                      self.certificate, "-addext", "basicConstraints=critical,CA:TRUE")  # fmt: skip
        self._count = 0

    def issue(self, *names, file=None, kind=EC, days=30, usage="serverAuth", fields=()):
        """A certificate for hosts and addresses. `file` names both files, in place of what was there; `fields` are
        extensions as openssl writes them."""
        self._count += 1
        stem = file or f"{self.certificate.stem}-{self._count}"
        certificate, key = self.folder / f"{stem}.pem", self.folder / f"{stem}.key"
        new = [self.folder / f"{stem}.new.pem", self.folder / f"{stem}.new.key"]
        alternatives = ",".join(f"IP:{name}" if name[0].isdigit() else f"DNS:{name}" for name in names)
        self._openssl("req", "-x509", *kind, "-nodes", "-days", str(days), "-subj", f"/CN={names[0]}", "-CA",
                      self.certificate, "-CAkey", self.key, "-keyout", new[1], "-out", new[0],
                      "-addext", f"subjectAltName={alternatives}", "-addext", "basicConstraints=critical,CA:FALSE",
                      "-addext", f"extendedKeyUsage={usage}",
                      *(word for field in fields for word in ("-addext", field)))  # fmt: skip
        os.chmod(new[1], 0o600)
        new[1].rename(key)
        new[0].rename(certificate)
        return certificate, key

    def issue_expired(self, *names):
        """The same, of a time that was over yesterday."""
        certificate, key = self.issue(*names, file="expired")
        request = self.folder / "expired.csr"
        self._openssl("req", "-new", "-key", key, "-subj", f"/CN={names[0]}", "-out", request, "-addext",
                      f"subjectAltName=DNS:{names[0]}")  # fmt: skip
        self._openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key, "-days", "-1",
                      "-copy_extensions", "copy", "-out", certificate)  # fmt: skip
        return certificate, key

    def _openssl(self, *arguments):
        subprocess.run([program("openssl"), *map(str, arguments)], cwd=self.folder, check=True, capture_output=True)
