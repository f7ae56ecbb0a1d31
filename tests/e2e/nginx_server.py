"""nginx as a server of somebody else's: with TLS or without, behind the PROXY protocol or not. It answers with what it
knows of the connection."""

import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

from http1 import eventually
from ports import free_port
from programs import program

SITE = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log info;
events {{ }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port} {listen};
    {own}
    {more}
    set $tls "$ssl_server_name $ssl_session_reused $ssl_client_s_dn";
    location / {{
      return 200 "$server_protocol $tls|$proxy_protocol_addr $proxy_protocol_port $connection";
    }}
    location = /large {{ root {folder}; }}
    location = /put {{
      client_max_body_size 100m;
      dav_methods PUT;
      root {folder}/put;
      create_full_put_path on;
    }}
  }}
}}
"""


def is_open(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


class Nginx:
    """A server with TLS, and what it has answered with."""

    def __init__(self, test, listen="ssl http2", certificate=None, key=None, more=""):
        self.test, self.process, self._program = test, None, program("nginx")
        self.folder = Path(tempfile.mkdtemp())
        self.folder.chmod(0o755)  # its workers are another user's
        test.addCleanup(shutil.rmtree, self.folder)
        self.port = free_port()
        own = f"ssl_certificate {certificate}; ssl_certificate_key {key};" if certificate else ""
        self.text = SITE.format(folder=self.folder, port=self.port, own=own, listen="{listen}", more=more)
        (self.folder / "large").write_bytes(bytes(range(256)) * 8192)
        (self.folder / "put").mkdir()
        (self.folder / "put").chmod(0o777)
        test.addCleanup(self.stop)
        self.start(listen)

    def start(self, listen):
        """Also again, listening in another way."""
        file = self.folder / "nginx.conf"
        file.write_text(self.text.replace("{listen}", listen))
        command = [self._program, "-p", str(self.folder), "-c", str(file)]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        self.test.assertTrue(eventually(lambda: is_open(self.port), 20), (self.folder / "error.log").read_text())

    def stop(self):
        self.process.terminate()
        self.process.wait()
