#!/usr/bin/env python3
"""PHP behind the gateway and behind nginx: CPU of a page, cold starts, memory of idle sites.

    lab/php.py warm --rounds 12       # WordPress's front page, and a script that says one word
    lab/php.py cold --rounds 10       # the first request to a service without a process, until its first byte
    lab/php.py sites --sites 500      # as many services, each with a user of its own

`PILOTLIGHT` names the binary. It runs as root on Debian, with what `scripts/setup.sh test` installs and with nginx.
The web servers have two workers each and a php-fpm of their own with the same pool; the database is shared, and its
time is not counted. CPU is that of the web server and of PHP together, from /proc. In each round every variant is asked
for the same number of pages, and each round begins with another one; ratios are those of a round. The gateway's cache
is off. `--json FILE` keeps every sample.
"""

import argparse
import contextlib
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

from fastcgi import first_byte, spawned, variables  # noqa: E402
from harness import BINARY, Gateway, config, descendants, eventually, route, service  # noqa: E402
from ports import free_port  # noqa: E402
from test_php import CGI as PHP_CGI  # noqa: E402
from test_php import FPM as PHP_FPM  # noqa: E402
from wordpress import ANSWERS, CGI, FORM, Site  # noqa: E402

USER = "www-data"
WORD = "word.php"
POOL = """[global]
daemonize = no
error_log = /dev/null
[www]
listen = ${PILOTLIGHT_LISTEN}
listen.mode = 0666
pm = static
pm.max_children = 3
clear_env = no
"""
NGINX = """daemon off; user www-data; pid @FOLDER@/nginx.pid; error_log @FOLDER@/nginx.log; worker_processes 2;
events {}
http {
  include /etc/nginx/mime.types; access_log off; sendfile on; keepalive_requests 1000000;
  server {
    listen 127.0.0.1:@PORT@; root @ROOT@; index index.php;
    location / { try_files $uri $uri/ /index.php?$args; }
    location ~ \\.php$ { include /etc/nginx/fastcgi.conf; fastcgi_pass unix:@FOLDER@/fpm.sock; }
  }
}
"""
# The address of the request is the site's, so that one database serves both web servers.
ANY_HOST = "define('WP_HOME', 'http://' . $_SERVER['HTTP_HOST']); define('WP_SITEURL', WP_HOME);\n"
# Opcodes on the disk, which outlive the processes.
FILE_CACHE = ["-d", "opcache.file_cache={}"]
# What php-fpm calls its processes begins so as well.
PHP = (PHP_CGI or "php-cgi", PHP_FPM or "php-fpm", "php-fpm:")
FIRST_UID = 20_001
WAIT_SECONDS = 60
CLIENTS = 4
WORDS = 4_000


def pages(folder):
    """WordPress, installed, and a script beside it that says one word."""
    site = Site(folder)
    (site.files / WORD).write_text("<?php echo 'word';")
    conf = site.files / "wp-config.php"
    conf.write_text(conf.read_text().replace("<?php\n", "<?php\n" + ANY_HOST, 1))
    subprocess.run(["chown", "-R", USER, site.files], check=True)
    return site.start()


def install(gateway):
    body = urllib.parse.urlencode(ANSWERS).encode()
    host = "{}:{}".format(*gateway.address)
    answer = gateway.request("POST", "/wp-admin/install.php?step=2", FORM, body, timeout=WAIT_SECONDS, host=host)
    if b"Success" not in answer.body:
        raise RuntimeError(f"WordPress is not installed: {answer.status}")


def blog(site, argv, **settings):
    settings = {"transport": "fastcgi", "dir": str(site.files)} | settings
    scripts = CGI.replace('"wp-*.php"', f'"wp-*.php", "{WORD}"')
    return config(service("wp", argv, **settings) + scripts, route("/", "wp"))


def fpm(site, *more):
    conf = site.folder / "fpm.conf"
    conf.write_text(POOL + f"user = {USER}\ngroup = {USER}\n")
    return [PHP_FPM, "-F", "-O", "-y", str(conf), *more]


@contextlib.contextmanager
def nginx(site):
    """A port, and the processes behind it."""
    path, port = site.folder / "fpm.sock", free_port()
    conf = site.folder / "nginx.conf"
    names = {"FOLDER": site.folder, "PORT": port, "ROOT": site.files}
    conf.write_text(re.sub(r"@([A-Z]+)@", lambda name: str(names[name[1]]), NGINX))
    with spawned(fpm(site), path, {}) as php:
        server = subprocess.Popen(["/usr/sbin/nginx", "-c", str(conf)], start_new_session=True)
        try:
            if not eventually(lambda: not socket.socket().connect_ex(("127.0.0.1", port)), WAIT_SECONDS):
                raise TimeoutError("nginx does not listen")
            yield port, [php.pid, server.pid]
        finally:
            server.terminate()
            server.wait()


def cpu_seconds(roots):
    """CPU time so far of these processes and those below them."""
    pids = set(roots) | {pid for root in roots for pid, _ in descendants(root)}
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                total += int((thread / "schedstat").read_text().split()[0])
    return total / 1e9


def load(port, target, count):
    argv = ["h2load", "--h1", "-t1", f"-c{CLIENTS}", f"-n{count}", f"http://127.0.0.1:{port}{target}"]
    said = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=600).stdout
    if f"{count} 2xx" not in said:
        raise RuntimeError(said)


def spread(values, digits=2):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def warm(options):
    samples = {}
    with tempfile.TemporaryDirectory(prefix="pilotlight-php-") as folder:
        site = pages(folder)
        try:
            with Gateway(BINARY, blog(site, fpm(site))) as gateway, nginx(site) as (port, roots):
                install(gateway)
                variants = {"Pilotlight": (gateway.address[1], [gateway.process.pid]), "nginx": (port, roots)}
                for target, count in [("/", options.pages), (f"/{WORD}", WORDS)]:
                    samples[target] = {name: [] for name in variants}
                    for number in range(options.rounds + 1):
                        turn(variants, target, count, number, samples[target])
        finally:
            site.stop()
    for target, values in samples.items():
        print(f"{target}: CPU of the web server and PHP for a request, ms")
        for name, own in values.items():
            print(f"  {name:<12}{spread([1000 * value for value in own], 3)}")
        ratios = [ours / theirs for ours, theirs in zip(values["Pilotlight"], values["nginx"])]
        print(f"  Pilotlight / nginx: {spread(ratios, 3)}")
    return samples


def turn(variants, target, count, number, samples):
    """A round; the first one only warms up."""
    names = list(variants)
    for name in names[number % len(names) :] + names[: number % len(names)]:
        port, roots = variants[name]
        before = cpu_seconds(roots)
        load(port, target, count if number else max(CLIENTS, count // 4))
        if number:
            samples[name].append((cpu_seconds(roots) - before) / count)


def php_of(gateway):
    return [pid for (pid, _), line in descendants(gateway.process.pid).items() if line.startswith(PHP)]


def cold(options):
    samples = {}
    with tempfile.TemporaryDirectory(prefix="pilotlight-php-") as folder:
        site = pages(folder)
        opcodes = site.folder / "opcodes"
        opcodes.mkdir()
        subprocess.run(["chown", USER, opcodes], check=True)
        on_disk = [part.format(opcodes) for part in FILE_CACHE]
        by_fpm, by_cgi = {"argv": fpm(site)}, {"argv": [PHP_CGI], "concurrency": 1, "user": USER}
        by_fpm_on_disk = by_fpm | {"argv": [*by_fpm["argv"], *on_disk]}
        by_cgi_on_disk = by_cgi | {"argv": [PHP_CGI, *on_disk]}
        variants = {
            "a word, php-fpm": (WORD, by_fpm),
            "a word, php-cgi": (WORD, by_cgi),
            "front page, php-fpm": ("index.php", by_fpm),
            "front page, php-cgi": ("index.php", by_cgi),
            "front page, php-fpm, opcodes on disk": ("index.php", by_fpm_on_disk),
            "front page, php-cgi, opcodes on disk": ("index.php", by_cgi_on_disk),
        }
        try:
            with contextlib.ExitStack() as running:
                started = {}
                for name, (script, settings) in variants.items():
                    text = blog(site, idle_timeout=f"{options.idle}ms", **settings)
                    started[name] = running.enter_context(Gateway(BINARY, text))
                install(started["front page, php-fpm"])
                for name, (script, settings) in variants.items():
                    samples[name] = {"Pilotlight": [], "by hand": []}
                for number in range(options.rounds + 1):
                    for name, (script, settings) in variants.items():
                        gateway = started[name]
                        if not eventually(lambda one=gateway: not php_of(one), WAIT_SECONDS):
                            raise TimeoutError("it is not stopped")
                        both = {
                            "Pilotlight": asked(gateway, script),
                            "by hand": by_hand(site, settings["argv"], script, gateway),
                        }
                        for which, sample in both.items() if number else ():
                            samples[name][which].append(sample)
        finally:
            site.stop()
    for name, values in samples.items():
        for what in ("first byte", "CPU"):
            ours, theirs = ([1000 * one[what] for one in values[which]] for which in ("Pilotlight", "by hand"))
            more = [one - other for one, other in zip(ours, theirs)]
            print(f"{name}: {what}, ms: {spread(ours, 1)}, by hand {spread(theirs, 1)}, more {spread(more, 1)}")
    return samples


def asked(gateway, script):
    """Seconds from the request to the first byte, and CPU time of the gateway and PHP until the last one."""
    host, port = gateway.address
    target = "/" if script == "index.php" else f"/{script}"
    with socket.create_connection((host, port), WAIT_SECONDS) as client:
        before, began = cpu_seconds([gateway.process.pid]), time.monotonic()
        client.sendall(f"GET {target} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
        first = client.recv(65536)
        took = time.monotonic() - began
        while client.recv(65536):
            pass
    if b" 200 " not in first[:20]:
        raise RuntimeError(first[:500])
    return {"first byte": took, "CPU": cpu_seconds([gateway.process.pid]) - before}


def by_hand(site, argv, script, gateway):
    """The same program, started by hand on a socket, until its first byte."""
    told = variables(site.files, script, "{}:{}".format(*gateway.address))
    path = site.folder / "hand.sock"
    began = time.monotonic()
    with spawned(argv, path, {"PHP_FCGI_MAX_REQUESTS": "0"}) as process:
        took = first_byte(path, told) - began
        return {"first byte": took, "CPU": cpu_seconds([process.pid])}


def sites(options):
    """Memory of a gateway with one site and with many: before a request, and when each has run once and is idle."""
    samples = {"never asked": [], "asked": []}
    with tempfile.TemporaryDirectory(prefix="pilotlight-php-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        for number in range(options.sites):
            public = root / f"site{number}" / "public"
            public.mkdir(parents=True)
            (public / "index.php").write_text("<?php echo posix_geteuid();")
        for _ in range(options.rounds):
            few, many = memory(root, 1, options), memory(root, options.sites, options)
            for when, own in samples.items():
                own.append({name: (many[when][name] - few[when][name]) / (options.sites - 1) for name in few[when]})
    for when, own in samples.items():
        for name in own[0]:
            print(f"{when}: {name} of a site, KiB: {spread([one[name] for one in own])}")
    return samples


def memory(root, count, options):
    blocks = []
    for number in range(count):
        name = f"site{number}"
        own = {"transport": "fastcgi", "dir": str(root / name), "user": FIRST_UID + number, "group": FIRST_UID + number}
        blocks.append(service(name, [PHP_CGI], idle_timeout=f"{options.idle}ms", concurrency=1, **own))
        blocks.append('cgi = { root = "public" }\n')
        blocks.append(route("/", name, host=f"{name}.test"))
    with Gateway(BINARY, config(*blocks)) as gateway:
        before = settled(gateway)
        for number in range(count):
            for _ in range(options.requests):
                answer = gateway.request("GET", "/", host=f"site{number}.test", timeout=WAIT_SECONDS)
                if answer.body != str(FIRST_UID + number).encode():
                    raise RuntimeError(f"site {number} was run by {answer.body!r}")
        if not eventually(lambda: not php_of(gateway), WAIT_SECONDS):
            raise TimeoutError("processes are left")
        return {"never asked": before, "asked": settled(gateway)}


def settled(gateway):
    """Memory of the gateway's processes that does not grow any more."""
    time.sleep(2)
    pids = [gateway.process.pid, *(pid for pid, _ in descendants(gateway.process.pid))]
    lines = [line for pid in pids for line in Path(f"/proc/{pid}/status").read_text().splitlines()]

    def sum_of(name):
        return sum(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))

    return {name: sum_of(name) for name in ("VmRSS", "RssAnon")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["warm", "cold", "sites"])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--pages", type=int, default=100, help="front pages of a round")
    parser.add_argument("--sites", type=int, default=500)
    parser.add_argument("--requests", type=int, default=1, help="of each site")
    parser.add_argument("--idle", type=int, default=500, help="milliseconds until an idle service is stopped")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("it starts services as other users: run it as root")
    samples = {"warm": warm, "cold": cold, "sites": sites}[options.part](options)
    if options.json:
        options.json.write_text(json.dumps(samples, indent=1))


if __name__ == "__main__":
    main()
