"""Changes to the servers' descriptions before they are read: options that are newer, and shapes that make poor methods."""


def leaf(name, kind="string", **more):
    return {"name": name, "type": kind, **more}


def newer_conditions(command):
    condition = next(argument for argument in command["arguments"] if argument["name"] == "condition")
    condition["arguments"] += [
        leaf("comparison-value", token="IFEQ", since="8.1.0"),
        leaf("comparison-value", token="IFNE", since="8.4.0"),
        leaf("digest", token="IFDEQ", since="8.4.0"),
        leaf("digest", token="IFDNE", since="8.4.0"),
    ]


def filters_only(command):
    new_format = command["arguments"][0]["arguments"][1]
    command["arguments"] = new_format["arguments"]


def flat_shutdown(command):
    save_block, abort = command["arguments"][0]["arguments"]
    command["arguments"] = save_block["arguments"] + [{**abort, "optional": True}]


def host_and_port(command):
    # `NO ONE` is given as host and port.
    command["arguments"] = [leaf("host"), leaf("port")]


def replacing(name, argument):
    def patch(command):
        command["arguments"] = [argument if known["name"] == name else known for known in command["arguments"]]

    return patch


def required(command):
    for argument in command["arguments"]:
        argument.pop("optional", None)


PATCHES = {
    "CLIENT KILL": filters_only,
    "MIGRATE": replacing("key-selector", leaf("key", "key")),
    "PUBSUB NUMSUB": required,
    "PUBSUB SHARDNUMSUB": required,
    "REPLICAOF": host_and_port,
    "SET": newer_conditions,
    "SHUTDOWN": flat_shutdown,
    "SLAVEOF": host_and_port,
    "XADD": replacing("id-selector", leaf("id")),
    "XGROUP CREATE": replacing("id-selector", leaf("id")),
    "XGROUP SETID": replacing("id-selector", leaf("id")),
}
