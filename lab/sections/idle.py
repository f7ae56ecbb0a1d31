"""Figure 6: memory of a gateway that has nothing to do, its helper process included; with many services, and with many clients."""
import contextlib
import functools
import subprocess
import time

from harness.gateway import Gateway, one_service, route_table, service_table
from harness.load import cbench
from harness.paths import PEER_BIN
from harness.procfs import memory_mb
from harness.program import Failed, dial
from harness.report import Column

TITLE = "Memory of a gateway that has nothing to do"
HYPOTHESIS = "A gateway needs little memory, and little more for services that are stopped and for clients that are silent"
PROGRAMS = []
LIMIT_MB = 15
TLS_LIMIT_MB = 18
SERVICES, SERVICES_LIMIT_MB = 1000, 5
CLIENTS, CLIENTS_LIMIT_MB = 10_000, 100
# no route leads there
NOT_FOUND = b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n"
MORE_CLIENTS = "[limits]\nconnections = 20000\nkeepalive_timeout = \"10m\"\n"
SETTLE_SECONDS = 2
# A gateway looks every 5 s whether clients have become quiet, and gives their memory back 1 s later.
GIVEN_BACK_SECONDS = 8
WITH_SERVICES = f"{SERVICES:,} configured, stopped services"
WITH_TLS = "with TLS"
WITH_CLIENTS = f"{CLIENTS:,} idle keep-alive clients"
COLUMNS = [Column("rss", "RSS", "MiB", 1), Column("pss", "PSS", "MiB", 1), Column("rss_after", "RSS after load", "MiB", 1), Column("processes", "processes")]


def run(lab):
    variants = {"pilotlight": measured, WITH_TLS: with_tls, WITH_SERVICES: with_services, WITH_CLIENTS: with_clients}
    samples = lab.run_rounds("idle", {name: functools.partial(variant, lab) for name, variant in variants.items()})
    lab.table("idle", "Idle memory", "gateway and helper; RSS counts the pages that they share twice, PSS once", samples, COLUMNS)
    lab.figure("idle memory, RSS", LIMIT_MB, " MiB", samples.values("pilotlight", "rss"))
    lab.figure("idle memory with TLS, RSS", TLS_LIMIT_MB, " MiB", samples.values(WITH_TLS, "rss"))
    both = zip(samples.values(WITH_SERVICES, "pss"), samples.values("pilotlight", "pss"))
    lab.figure(f"{WITH_SERVICES}: more than without, PSS", SERVICES_LIMIT_MB, " MiB", [more - less for more, less in both])
    lab.figure(f"{WITH_CLIENTS}, RSS", CLIENTS_LIMIT_MB, " MiB", samples.values(WITH_CLIENTS, "rss"))


def measured(lab):
    # an HTTP service that is not started before the load: what is idle first is the gateway alone
    with Gateway(lab, "idle", one_service(lab, "http", [PEER_BIN / "svchyper"])) as gateway:
        time.sleep(SETTLE_SECONDS)
        own = gateway.own_pids
        result = {"rss": memory_mb(own, "VmRSS"), "pss": memory_mb(own, "Pss"), "processes": len(own)}
        cbench(gateway.target, 64, 1, 1)
        time.sleep(SETTLE_SECONDS)
        return {**result, "rss_after": memory_mb(own, "VmRSS")}


def with_tls(lab):
    """A second listener with TLS and a certificate. After load: when curl has been answered there."""
    tls = "[tls]\ncertificates = { certificate = \"tls.pem\", key = \"tls.key\" }\n"
    with Gateway(lab, "idle", [tls, *one_service(lab, "http", [PEER_BIN / "svchyper"])], is_secure=True) as gateway:
        time.sleep(SETTLE_SECONDS)
        result = usage(gateway)
        command = ["curl", "--silent", "--show-error", "--fail", "--output", "/dev/null"]
        subprocess.run([*command, "--cacert", gateway.certificate, f"https://localhost:{gateway.secure_port}/"], check=True)
        time.sleep(SETTLE_SECONDS)
        return {**result, "rss_after": memory_mb(gateway.own_pids, "VmRSS")}


def with_services(lab):
    tables = [*one_service(lab, "http", [PEER_BIN / "svchyper"]), *stopped_services(SERVICES - 1)]
    with Gateway(lab, "idle", tables) as gateway:
        time.sleep(SETTLE_SECONDS)
        return usage(gateway)


def with_clients(lab):
    """Each has had an answer, and stays."""
    with Gateway(lab, "idle", [MORE_CLIENTS, *stopped_services(1)]) as gateway, contextlib.ExitStack() as open_now:
        for _ in range(CLIENTS):
            client = open_now.enter_context(dial(gateway.port))
            client.sendall(NOT_FOUND)
            if not client.recv(4096).startswith(b"HTTP/1.1 404"):
                raise Failed("a client was not answered")
        time.sleep(GIVEN_BACK_SECONDS)
        return usage(gateway)


def usage(gateway):
    own = gateway.own_pids
    return {"rss": memory_mb(own, "VmRSS"), "pss": memory_mb(own, "Pss"), "processes": len(own)}


def stopped_services(count):
    """So many services that nobody asks for, each with a route."""
    names = [f"other-{number}" for number in range(count)]
    return [table for name in names for table in (service_table(name, command=["/bin/false"]), route_table(f"/{name}", name))]
