"""An origin, and what services answer."""
import os
import pwd

# a cached answer of 200 bytes
CACHED_PATH = "/users/42"
_START = '{"id":42,"name":"Mallory Rodriguez","email":"user42@example.com","createdAt":"2025-01-15T18:42:00","bio":"'
CACHED_JSON = (_START + "x" * (198 - len(_START)) + '"}').encode()
# what every service of peers/http/services and peers/http/pipe answers, 200 bytes as well
SERVICE_JSON = ('{"id":42,"pad":"' + "x" * 182 + '"}').encode()

TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def nginx(folder, http):
    """The command for an nginx with one worker and this inside its `http` block."""
    folder.mkdir(parents=True, exist_ok=True)
    # as root its worker would otherwise become another user and be kept from the sockets and folders made here
    user = f"user {pwd.getpwuid(0).pw_name};" if os.geteuid() == 0 else ""
    temporary = "\n".join(f"  {name}_temp_path {folder}/{name};" for name in TEMPORARY)
    (folder / "nginx.conf").write_text(f"""{user}
worker_processes 1; daemon off; pid {folder}/pid; error_log {folder}/error.log warn;
events {{ worker_connections 4096; }}
http {{
  access_log off; tcp_nodelay on; sendfile on;
  keepalive_timeout 300; keepalive_requests 1000000000;
{temporary}
  default_type application/json;
{http}
}}
""")
    return ["nginx", "-e", f"{folder}/error.log", "-c", f"{folder}/nginx.conf"]


def nginx_origin(folder, port):
    return nginx(folder, f"""  server {{ listen 127.0.0.1:{port};
    location / {{ add_header Cache-Control "public, max-age=36000"; return 200 '{CACHED_JSON.decode()}'; }} }}""")
