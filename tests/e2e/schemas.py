"""What of a document is not as its JSON Schema says. Tests of the lab use it, too; it needs nothing of the others here."""

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float), "null": type(None)}


def mismatches(value, schema, at="$", root=None):
    """What of `value` is not as the JSON Schema says; the keywords that our schemas use, and no others."""
    root = root or schema
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    unknown = schema.keys() - {"$schema", "$defs", "title", "description", "type", "properties", "required", "additionalProperties",
                               "items", "minItems", "maxItems", "enum", "const", "anyOf", "minimum", "maximum"}
    if unknown:
        yield f"{at}: the schema has {unknown}, which this test does not know"
    if "anyOf" in schema and all(any(True for _ in mismatches(value, option, at, root)) for option in schema["anyOf"]):
        yield f"{at}: {value!r:.80} is none of the alternatives"
    names = schema.get("type", [])
    wanted = [TYPES[name] for name in ([names] if isinstance(names, str) else names)]
    if wanted and (not isinstance(value, tuple(flat(wanted))) or isinstance(value, bool) and bool not in wanted):
        yield f"{at}: {value!r:.80} is no {names}"
        return
    if "const" in schema and value != schema["const"] or "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value!r:.80} is not allowed"
    if isinstance(value, (int, float)) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{at}: {value} is out of range"
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            yield f"{at}: {len(value)} items"
        for index, item in enumerate(value):
            yield from mismatches(item, schema.get("items", {}), f"{at}[{index}]", root)
    if isinstance(value, dict):
        properties, more = schema.get("properties", {}), schema.get("additionalProperties", {})
        yield from (f"{at}: no {name}" for name in schema.get("required", []) if name not in value)
        for name, item in value.items():
            if name in properties:
                yield from mismatches(item, properties[name], f"{at}.{name}", root)
            elif more is False:
                yield f"{at}: {name} is not in the schema"
            else:
                yield from mismatches(item, more, f"{at}.{name}", root)


def flat(types):
    for kind in types:
        yield from kind if isinstance(kind, tuple) else [kind]
