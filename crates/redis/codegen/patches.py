"""Changes to the servers' descriptions before they are read: options that are newer, and shapes that make poor methods."""


def leaf(name, kind="string", **more):
    return {"name": name, "type": kind, **more}


def newer_conditions(command):
    condition = next(argument for argument in command["arguments"] if argument["name"] == "condition")
    condition["arguments"][-1]["since"] = "8.4.0 (Valkey 8.1.0)"
    condition["arguments"] += [
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


def reference_policy():
    """Redis 8.2: what becomes of the references of consumer groups when entries are trimmed."""
    words = [leaf(word.lower(), "pure-token", token=word) for word in ("KEEPREF", "DELREF", "ACKED")]
    return {"name": "reference", "type": "oneof", "since": "8.2.0", "optional": True, "arguments": words}


def added(command):
    trim = next(at for at, argument in enumerate(command["arguments"]) if argument["name"] == "trim")
    command["arguments"].insert(trim, reference_policy())
    replacing("id-selector", leaf("id"))(command)


def trimmed(command):
    command["arguments"].append(reference_policy())


def newer_operations(command):
    operation = next(argument for argument in command["arguments"] if argument["name"] == "operation")
    newer = ("DIFF", "DIFF1", "ANDOR", "ONE")
    operation["arguments"] += [leaf(word.lower(), "pure-token", token=word) for word in newer]


def claims(command):
    """Redis 8.4: a group's reader may take over what others left pending."""
    at = next(at for at, argument in enumerate(command["arguments"]) if argument["name"] == "noack")
    command["arguments"].insert(at, leaf("min-idle-time", "integer", token="CLAIM", optional=True, since="8.4.0"))


def one_migration(command):
    ends = [leaf("start-slot", "integer"), leaf("end-slot", "integer")]
    slots = {"name": "range", "type": "block", "multiple": True, "arguments": ends}
    command["arguments"] = [leaf("slotsrange", "pure-token", token="SLOTSRANGE"), slots, leaf("node-id", token="NODE")]


def routed_by_cursor(command):
    # The cursor tells the slot; there is nothing to be gathered.
    del command["command_tips"]


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
    "BITOP": newer_operations,
    "CLUSTER MIGRATESLOTS": one_migration,
    "CLUSTERSCAN": routed_by_cursor,
    "CLIENT KILL": filters_only,
    "MIGRATE": replacing("key-selector", leaf("key", "key")),
    "PUBSUB NUMSUB": required,
    "PUBSUB SHARDNUMSUB": required,
    "REPLICAOF": host_and_port,
    "SET": newer_conditions,
    "SHUTDOWN": flat_shutdown,
    "SLAVEOF": host_and_port,
    "XADD": added,
    "XGROUP CREATE": replacing("id-selector", leaf("id")),
    "XGROUP SETID": replacing("id-selector", leaf("id")),
    "XREADGROUP": claims,
    "XTRIM": trimmed,
}
