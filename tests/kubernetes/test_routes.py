"""Ingress and Gateway API: what is asked for is served, and the status says what became of it."""

import subprocess
from collections import Counter

from conftest import HTTPS, condition, wait
from things import gateway, http, http_route, https, ingress, named, prefix, rule, service, tls_secret

GATEWAY = "gateway.networking.k8s.io/v1"


def conditions_of_gateway(space, name="gateway"):
    return space.read(GATEWAY, "gateways", name).get("status", {}).get("conditions")


def conditions_of_route(space, name="route"):
    parents = space.read(GATEWAY, "httproutes", name).get("status", {}).get("parents", [])
    return parents[0]["conditions"] if parents else None


def conditions_of_listener(space, listener, name="gateway"):
    listeners = space.read(GATEWAY, "gateways", name).get("status", {}).get("listeners", [])
    return next((one["conditions"] for one in listeners if one["name"] == listener), None)


def wait_for(read, kind, status, reason, limit=30.0):
    wait(lambda: condition(read(), kind) == (status, reason), f"{kind}={status} {reason}, not {read()}", limit)


def test_ingress_answers(installed, space):
    space.backend()
    space.apply(ingress("web", space.name, space.host, "app"))
    answer = installed.wait_for(space.host, "/a/b?c=d")
    pod, target = answer.body.decode().split("\n")[:2]
    assert pod.split()[0] in space.ready()
    assert target == "/a/b?c=d"
    other = installed.get("nobody.test")
    assert other.status == 404


def test_ingress_status_has_the_address(installed, space):
    space.backend()
    space.apply(ingress("web", space.name, space.host, "app"))

    def addresses():
        status = space.read("networking.k8s.io/v1", "ingresses", "web")["status"]
        return [one.get("ip") for one in status.get("loadBalancer", {}).get("ingress", [])]

    wait(addresses, "the ingress has an address")
    published = installed.api.get("/api/v1/namespaces/pilotlight/services/pilotlight")
    assert addresses() == [published["spec"]["clusterIP"]]
    # A cloud's controller would write this.
    given = {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}}}
    path = "/api/v1/namespaces/pilotlight/services/pilotlight/status"
    try:
        installed.api.merge(path, given)
        wait(lambda: addresses() == ["192.0.2.7"], "the ingress has the load balancer's address")
    finally:
        installed.api.merge(path, {"status": {"loadBalancer": {"ingress": None}}})


def test_longer_paths_of_an_ingress_win(installed, space):
    for name in ("app", "api"):
        space.backend(name)
    space.apply(ingress("web", space.name, space.host, "app"), ingress("deep", space.name, space.host, "api", "/v1"))
    installed.wait_for(space.host, "/v1/x", text="api-")
    installed.wait_for(space.host, "/v1", text="api-")
    installed.wait_for(space.host, "/v11", text="app-")


def test_http_route_answers(installed, space):
    space.backend()
    space.apply(gateway("gateway", space.name), http_route("route", space.name, space.host, rule("app")))
    installed.wait_for(space.host, text="app-")
    wait_for(lambda: conditions_of_gateway(space), "Programmed", "True", "Programmed")
    wait_for(lambda: conditions_of_gateway(space), "Accepted", "True", "Accepted")
    wait_for(lambda: conditions_of_route(space), "Accepted", "True", "Accepted")
    wait_for(lambda: conditions_of_route(space), "ResolvedRefs", "True", "ResolvedRefs")
    listener = space.read(GATEWAY, "gateways", "gateway")["status"]["listeners"][0]
    assert listener["attachedRoutes"] == 1
    accepted = installed.api.get("/apis/gateway.networking.k8s.io/v1/gatewayclasses/pilotlight")["status"]["conditions"]
    assert condition(accepted, "Accepted") == ("True", "Accepted")


def test_matches_filters_and_weights(installed, space):
    for name in ("app", "api"):
        space.backend(name)
    changed = {
        "type": "RequestHeaderModifier",
        "requestHeaderModifier": {"set": [{"name": "x-from", "value": "route"}], "remove": ["x-secret"]},
    }
    moved = {"type": "RequestRedirect", "requestRedirect": {"scheme": "https", "statusCode": 301}}
    by_header = {"headers": [{"name": "x-canary", "value": "yes"}]}
    space.apply(
        gateway("gateway", space.name),
        http_route(
            "route",
            space.name,
            space.host,
            rule("api", matches=[by_header]),
            {"matches": [prefix("/old")], "filters": [moved]},
            rule("app", matches=[prefix("/changed")], filters=[changed]),
            rule(("app", 3), ("api", 1), matches=[prefix("/split")]),
            rule("app"),
        ),
    )
    installed.wait_for(space.host, text="app-")
    assert b"api-" in installed.get(space.host, fields=[("x-canary", "yes")]).body
    redirect = installed.get(space.host, "/old/x")
    assert (redirect.status, redirect.get("location")) == (301, f"https://{space.host}/old/x")
    seen = installed.get(space.host, "/changed", fields=[("x-secret", "1")]).body.decode().lower()
    assert "x-from: route" in seen and "x-secret" not in seen
    counts = {"app": 0, "api": 0}
    for _ in range(200):
        counts[installed.get(space.host, "/split").body.decode().split("-")[0]] += 1
    assert 110 <= counts["app"] <= 185 and counts["api"], counts


def test_the_share_of_a_missing_backend_is_refused(installed, space):
    space.backend()
    space.apply(
        gateway("gateway", space.name),
        http_route(
            "route",
            space.name,
            space.host,
            rule(("app", 3), ("missing", 1), matches=[prefix("/split")]),
            rule("missing", matches=[prefix("/none")]),
            rule("app"),
        ),
    )
    installed.wait_for(space.host, text="app-")
    wait_for(lambda: conditions_of_route(space), "ResolvedRefs", "False", "BackendNotFound")
    counts = Counter(installed.get(space.host, "/split").status for _ in range(200))
    assert counts.keys() == {200, 500} and 20 <= counts[500] <= 85, counts
    assert {installed.get(space.host, target).status for target in ("/none", "/none/x")} == {500}
    assert {installed.get(space.host).status for _ in range(20)} == {200}


def test_listeners_of_one_port_are_kept_apart(installed, space):
    """What the listener for a host has no route for is 404, though a route of a wider one would take it."""
    for name in ("app", "api"):
        space.backend(name)
    own, other = f"own.{space.host}", f"other.{space.host}"
    listeners = http("named", hostname=own), http("wild", hostname=f"*.{space.host}")
    to_named = http_route("named", space.name, own, rule("api", matches=[prefix("/part")]))
    to_wild = http_route("wild", space.name, f"*.{space.host}", rule("app"))
    to_named["spec"]["parentRefs"][0]["sectionName"] = "named"
    to_wild["spec"]["parentRefs"][0]["sectionName"] = "wild"
    space.apply(gateway("gateway", space.name, *listeners), to_named, to_wild)
    installed.wait_for(own, "/part", text="api-")
    installed.wait_for(other, text="app-")
    assert installed.get(own, "/elsewhere").status == 404


def test_a_certificate_is_served_and_replaced(installed, space):
    """By what curl believes: only an answer under the certificate of now is one."""
    made = installed.cluster.certificates
    space.backend()
    old = made.signed(f"{space.name}-old", "/CN=old", f"DNS:{space.host}")
    space.apply(
        tls_secret("cert", space.name, *old),
        gateway("gateway", space.name, https("cert", space.host)),
        http_route("route", space.name, space.host, rule("app")),
    )

    def subject():
        address = installed.address()
        where = ["--connect-to", f"{space.host}:443:{address}:{HTTPS}", "--cacert", str(made.authority)]
        command = ["curl", "--silent", "--show-error", "--verbose", *where, f"https://{space.host}/"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
        return done.stderr if done.returncode == 0 and "app-" in done.stdout else ""

    wait(lambda: "CN=old" in subject(), "the first certificate is served")
    wait_for(lambda: conditions_of_listener(space, "https"), "ResolvedRefs", "True", "ResolvedRefs")
    space.apply(tls_secret("cert", space.name, *made.signed(f"{space.name}-new", "/CN=new", f"DNS:{space.host}")))
    wait(lambda: "CN=new" in subject(), "the new certificate is served")


def test_tls_of_an_ingress(installed, space):
    made = installed.cluster.certificates
    space.backend()
    space.apply(
        tls_secret("cert", space.name, *made.signed(space.name, "/CN=ingress", f"DNS:{space.host}")),
        ingress("web", space.name, space.host, "app", tls="cert"),
    )

    def answers():
        where = ["--connect-to", f"{space.host}:443:{installed.address()}:{HTTPS}", "--cacert", str(made.authority)]
        done = subprocess.run(["curl", "--silent", *where, f"https://{space.host}/"], capture_output=True, timeout=20)
        return done.returncode == 0 and b"app-" in done.stdout

    wait(answers, "HTTPS of the ingress answers")


def test_a_missing_service_is_said(installed, space):
    space.apply(gateway("gateway", space.name), http_route("route", space.name, space.host, rule("nothing")))
    wait_for(lambda: conditions_of_route(space), "ResolvedRefs", "False", "BackendNotFound")
    installed.wait_for(space.host, status=500)
    space.backend("nothing")
    wait_for(lambda: conditions_of_route(space), "ResolvedRefs", "True", "ResolvedRefs")
    installed.wait_for(space.host, text="nothing-")


def test_a_backend_of_an_unknown_kind_is_said(installed, space):
    backend = {"group": "example.org", "kind": "Bucket", "name": "b", "port": 80}
    space.apply(gateway("gateway", space.name), http_route("route", space.name, space.host, {"backendRefs": [backend]}))
    wait_for(lambda: conditions_of_route(space), "ResolvedRefs", "False", "InvalidKind")
    installed.wait_for(space.host, status=500)


def test_a_missing_secret_is_said(installed, space):
    space.apply(gateway("gateway", space.name, https("nothing", space.host), http()))
    wait_for(lambda: conditions_of_listener(space, "https"), "ResolvedRefs", "False", "InvalidCertificateRef")
    wait_for(lambda: conditions_of_listener(space, "http"), "Programmed", "True", "Programmed")


def test_a_secret_that_is_no_certificate_harms_nobody(installed, space):
    wrong = {"tls.crt": "bm90aGluZw==", "tls.key": "bm90aGluZw=="}
    space.backend()
    space.apply(
        named("v1", "Secret", "cert", space.name, type="kubernetes.io/tls", data=wrong),
        gateway("gateway", space.name, https("cert", space.host), http()),
        http_route("route", space.name, space.host, rule("app")),
    )
    wait_for(lambda: conditions_of_listener(space, "https"), "ResolvedRefs", "False", "InvalidCertificateRef")
    installed.wait_for(space.host, text="app-")


def test_a_route_from_elsewhere_needs_leave(installed, space):
    """Routes of the same namespace only; and a backend of another namespace without a ReferenceGrant."""
    elsewhere = f"{space.name}-2"
    space.api.apply(named("v1", "Namespace", elsewhere))
    try:
        space.apply(gateway("gateway", space.name, routes_from="Same"))
        guest = http_route("route", elsewhere, space.host, rule("app"))
        guest["spec"]["parentRefs"][0]["namespace"] = space.name
        space.apply(guest)
        path = f"/apis/{GATEWAY}/namespaces/{elsewhere}/httproutes/route"

        def said():
            parents = space.api.get(path).get("status", {}).get("parents", [])
            return parents[0]["conditions"] if parents else None

        wait_for(said, "Accepted", "False", "NotAllowedByListeners")

        space.backend()
        backend = {"name": "app", "namespace": space.name, "port": 80}
        own = gateway("gateway", elsewhere)
        guest["spec"] |= {"parentRefs": [{"name": "gateway"}], "rules": [{"backendRefs": [backend]}]}
        space.apply(own, guest)
        wait_for(said, "ResolvedRefs", "False", "RefNotPermitted")
        installed.wait_for(space.host, status=500)
        granted = {
            "from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": elsewhere}],
            "to": [{"group": "", "kind": "Service"}],
        }
        space.apply(named("gateway.networking.k8s.io/v1beta1", "ReferenceGrant", "leave", space.name, spec=granted))
        wait_for(said, "ResolvedRefs", "True", "ResolvedRefs")
        installed.wait_for(space.host, text="app-")
    finally:
        space.api.delete(f"/api/v1/namespaces/{elsewhere}")


def test_a_host_that_no_listener_has_is_said(installed, space):
    space.backend()
    space.apply(
        gateway("gateway", space.name, http(hostname="other.test")),
        http_route("route", space.name, space.host, rule("app")),
    )
    wait_for(lambda: conditions_of_route(space), "Accepted", "False", "NoMatchingListenerHostname")
    assert installed.get(space.host).status == 404


def test_a_class_of_somebody_else_is_left_alone(installed, space):
    """A Gateway that is ours is looked at in the same moment, so that there is nothing to wait for."""
    other = named("gateway.networking.k8s.io/v1", "GatewayClass", "other", spec={"controllerName": "example.org/other"})
    space.api.apply(other)
    space.apply(gateway("theirs", space.name, gateway_class="other"), gateway("gateway", space.name))
    wait_for(lambda: conditions_of_gateway(space), "Programmed", "True", "Programmed")
    waiting = condition(conditions_of_gateway(space, "theirs"), "Accepted")
    assert waiting in (None, ("Unknown", "Pending")), waiting


def test_what_is_deleted_is_no_longer_served(installed, space):
    space.backend()
    space.apply(gateway("gateway", space.name), http_route("route", space.name, space.host, rule("app")))
    installed.wait_for(space.host, text="app-")
    space.api.delete(f"/apis/{GATEWAY}/namespaces/{space.name}/httproutes/route")
    installed.wait_for(space.host, status=404)


def test_a_named_port_of_a_service(installed, space):
    space.backend(service=False)
    space.apply(service("app", space.name, "strange"))
    made = ingress("web", space.name, space.host, "app")
    made["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]["port"] = {"name": "strange"}
    space.apply(made)
    installed.wait_for(space.host, text="app-")
