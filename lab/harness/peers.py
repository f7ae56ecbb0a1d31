"""An nginx."""
import os
import pwd

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
