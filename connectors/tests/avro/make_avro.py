"""Writes events.json: Avro events as fastavro encodes them, and what fastavro's reader makes of them.

    pip install fastavro && python connectors/tests/avro/make_avro.py
"""

import io
import json
import pathlib
import random

import fastavro

ITEM = {
    "type": "record",
    "name": "Item",
    "fields": [
        {"name": "price", "type": ["null", "double"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "next", "type": ["null", "Item"], "default": None},
    ],
}
FIRST = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "padding", "type": {"type": "map", "values": {"type": "array", "items": "int"}}},
        {"name": "item", "type": ITEM},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "USED"]}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 4}},
        {"name": "count", "type": "int"},
        {"name": "ok", "type": "boolean"},
        {"name": "attributes", "type": {"type": "map", "values": "string"}},
    ],
}


def changed(schema, **fields):
    """The schema with some fields replaced."""
    return {**schema, "fields": [fields.get(field["name"], field) for field in schema["fields"]]}


# `count` is promoted, `kind` is renamed with an alias, `ok` is dropped, and `colour` is new.
SECOND = changed(
    FIRST,
    count={"name": "count", "type": "double"},
    kind={"name": "sort", "aliases": ["kind"], "type": FIRST["fields"][4]["type"]},
    ok={"name": "colour", "type": "string", "default": "red"},
)
# What the daemon was made for: names of the first schema, and a default for a field that writers may drop.
READER = changed(
    FIRST,
    count={"name": "count", "type": "double"},
    kind={"name": "kind", "aliases": ["sort"], "type": FIRST["fields"][4]["type"]},
    ok={"name": "ok", "type": "boolean", "default": True},
)


def item(generator, depth=0):
    return {
        "price": generator.choice([None, generator.uniform(-5, 500)]),
        "tags": [generator.choice(["a", "bücher", "", None]) for _ in range(generator.randrange(4))],
        "next": item(generator, depth + 1) if depth < 3 and generator.random() < 0.4 else None,
    }


def order(generator, number):
    return {
        "id": f"order-{number}",
        "at": generator.randrange(-(10**15), 2 * 10**15),
        "padding": {key: [generator.randrange(-(2**31), 2**31) for _ in range(3)] for key in "xyz"[: generator.randrange(4)]},
        "item": item(generator),
        "kind": generator.choice(["NEW", "USED"]),
        "sort": generator.choice(["NEW", "USED"]),
        "hash": generator.randbytes(4),
        "count": generator.randrange(-(2**31), 2**31),
        "ok": generator.random() < 0.5,
        "colour": "blue",
        "attributes": {"origin": generator.choice(["DE", "FR"]), "x": "y"},
    }


def main():
    generator = random.Random(1)
    parsed_reader = fastavro.parse_schema(READER)
    cases = []
    for name, schema in (("first", FIRST), ("second", SECOND)):
        parsed = fastavro.parse_schema(schema)
        for number in range(40):
            record = order(generator, number)
            buffer = io.BytesIO()
            fastavro.schemaless_writer(buffer, parsed, record)
            buffer.seek(0)
            read = fastavro.schemaless_reader(buffer, parsed, parsed_reader)
            time = read["at"]
            epoch = time.replace(year=1970, month=1, day=1, hour=0, minute=0, second=0, microsecond=0)
            micros = (time - epoch).days * 86_400_000_000 + (time - epoch).seconds * 1_000_000 + (time - epoch).microseconds
            cases.append(
                {
                    "writer": name,
                    "payload": buffer.getvalue().hex(),
                    "id": read["id"],
                    "time_ms": micros // 1_000,
                    "price": read["item"]["price"],
                    "tags": [tag for tag in read["item"]["tags"] if tag is not None],
                    "kind": read["kind"],
                    "count": read["count"],
                    "ok": read["ok"],
                    "origin": read["attributes"]["origin"],
                }
            )
    events = {"schemas": {"first": FIRST, "second": SECOND, "reader": READER}, "cases": cases}
    path = pathlib.Path(__file__).with_name("events.json")
    path.write_text(json.dumps(events, indent=1, ensure_ascii=False) + "\n")


main()
