"""The other gateways, configured to do the same work as ours."""
import os
import pwd

# a cached answer: the 200 bytes that limit and hyperd have built in
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


def nginx_cache(folder, port, origin_port, cache_folder):
    return nginx(folder, f"""  proxy_cache_path {cache_folder} keys_zone=c:10m max_size=256m inactive=1d;
  open_file_cache max=10000 inactive=1d; open_file_cache_valid 1h;
  server {{ listen 127.0.0.1:{port};
    location / {{ proxy_pass http://127.0.0.1:{origin_port}; proxy_cache c; proxy_cache_valid 200 10h; }} }}""")


def nginx_proxy(folder, port, socket_path):
    return nginx(folder, f"""  upstream service {{ server unix:{socket_path};
    keepalive 128; keepalive_requests 1000000000; keepalive_timeout 300; }}
  server {{ listen 127.0.0.1:{port};
    location / {{ proxy_pass http://service; proxy_http_version 1.1; proxy_set_header Connection ''; }} }}""")


def haproxy(folder, frontend):
    """The command for an HAProxy with one thread and these sections."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "haproxy.cfg").write_text(f"""global
  nbthread 1
  maxconn 8000
defaults
  mode http
  timeout connect 5s
  timeout client 300s
  timeout server 300s
  http-reuse always
{frontend}
""")
    return ["haproxy", "-db", "-f", folder / "haproxy.cfg"]


def haproxy_cache(folder, port, origin_port):
    return haproxy(folder, f"""cache c
  total-max-size 64
  max-object-size 10000
  max-age 36000
frontend cached
  bind 127.0.0.1:{port}
  http-request cache-use c
  default_backend origin
backend origin
  http-response cache-store c
  server origin 127.0.0.1:{origin_port}""")


def haproxy_proxy(folder, port, socket_path):
    return haproxy(folder, f"""frontend front
  bind 127.0.0.1:{port}
  default_backend service
backend service
  server service unix@{socket_path}""")
