"""Writes the configuration reference, in Markdown, from the schema that `ostard config schema` prints."""

import json

HEAD = """# Configuration reference

All keys; `make generate` writes this page from `ostard config schema`. [CONFIGURATION.md](CONFIGURATION.md) explains how
keys are set, and [default.toml](../daemon/src/config/default.toml) shows the defaults in context.

Keys without a default are unset. A duration is a whole number with a unit: `500ms`, `10s`, `5m`, `1h`.
"""


def reference(schema):
    sections = {name: value for name, value in schema["properties"].items() if is_section(schema, value)}
    others = {name: value for name, value in schema["properties"].items() if name not in sections}
    before = section(schema, "", {"description": "Keys before the first section.", "properties": others})
    return HEAD + before.replace("## \n", "## Without a section\n").replace("`.", "`") + "".join(
        section(schema, name, value) for name, value in sections.items()
    )


def is_section(schema, value):
    return "properties" in resolve(schema, value)


def section(schema, name, value, default=None):
    """A heading and a table of keys; nested tables follow as their own sections. `default` is the section's default."""
    shape = resolve(schema, value)
    defaults = value.get("default", default) or {}
    rows, below, choices = [], [], []
    for key, field in shape["properties"].items():
        field = required(field)
        inner = resolve(schema, field)
        if "properties" in inner:
            below.append(section(schema, f"{name}.{key}", field, defaults.get(key)))
            continue
        written = "a duration" if field.get("$ref") == "#/$defs/Period" else kind(inner)
        standard = shown(field.get("default", defaults.get(key)))
        rows.append(f"| `{key}` | {written} | {standard} | {sentence(field)} |\n")
        if "oneOf" in inner:
            choices.append(choice(f"{name}.{key}", inner["oneOf"]))
    text = f"\n## {name}\n\n{sentence(value)}\n"
    if rows:
        text += "\n| key | value | default | meaning |\n|---|---|---|---|\n" + "".join(rows)
    return text + "".join(choices) + "".join(below)


def resolve(schema, value):
    """The schema that a value's `$ref` leads to, or the value itself."""
    while "$ref" in value:
        value = schema["$defs"][value["$ref"].rsplit("/", 1)[1]]
    return value


def required(field):
    """A field that may be absent, as if it had to be there."""
    others = [each for each in field.get("anyOf", []) if each != {"type": "null"}]
    return {**field, **others[0]} if len(others) == 1 else field


def kind(shape):
    """The type of a key, in words."""
    if "oneOf" in shape:
        return "a choice"
    if "enum" in shape:
        return ", ".join(f"`{word}`" for word in shape["enum"])
    kinds = shape["type"]
    kinds = [kinds] if isinstance(kinds, str) else [each for each in kinds if each != "null"]
    if kinds == ["object"]:
        return "a table of strings"
    if kinds == ["array"]:
        return f"a list of {kind(shape['items'])}s".replace("a list of a ", "a list of ")
    names = {"integer": "a whole number", "number": "a number", "string": "a string", "boolean": "`true` or `false`"}
    least = shape.get("minimum")
    return " or ".join(names[each] for each in kinds) + (f", at least {least}" if least else "")


def shown(value):
    """A default as JSON; numbers, strings and lists look the same in TOML."""
    return "" if value is None else f"`{json.dumps(value)}`"


def choice(key, options):
    """A list of the options of a choice."""
    lines = [f"\n`{key}` is one of:\n\n"]
    for option in options:
        if "const" in option:
            written = f"`{json.dumps(option['const'])}`"
        elif "enum" in option:
            written = " or ".join(f"`{json.dumps(word)}`" for word in option["enum"])
        else:
            name, inner = next(iter(option["properties"].items()))
            written = f"`{name}`"
        lines.append(f"- {written}: {sentence(option)}\n")
        if "properties" in option:
            for part, field in inner.get("properties", {}).items():
                lines.append(f"  - `{name}.{part}`: {sentence(field)}\n")
    return "".join(lines)


def sentence(value):
    """The description on one line, with `|` escaped for a table."""
    text = " ".join(value.get("description", "").split()).replace("|", "\\|").rstrip(",")
    return text[:1].upper() + text[1:]
