"""YAML (and JSON, which is YAML) as plain values that remember their lines.

Stricter than YAML 1.1: tags, doubled keys and empty values are refused, and a scalar that YAML reads as something
other than it looks is kept as a ``Trap`` for the field to judge.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

from pricing.yaml_tree import Node, compose

MAX_DIGITS = 40

Path = tuple[str | int, ...]

_READS_AS = {
    "float": "a float",
    "bool": "a boolean",
    "timestamp": "a date",
    "int": "an octal, hexadecimal, base-60 or underscored number",
}
_PLAIN_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_OTHER_BASE = re.compile(r"0[oOxXbB][0-9a-fA-F_]+")
_STRING_TAGS = (None, "!", "tag:yaml.org,2002:str")
_MAPPING_TAGS = (None, "!", "tag:yaml.org,2002:map")
_LIST_TAGS = (None, "!", "tag:yaml.org,2002:seq")
_RESOLVERS = yaml.SafeLoader.yaml_implicit_resolvers


@dataclass(frozen=True, slots=True)
class Trap:
    """A scalar without quotes that YAML reads as what was hardly meant: a float, a date, ``no`` as a boolean."""

    text: str
    reads_as: str


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong at a place of a document; ``line`` is given where the path does not tell it."""

    path: Path
    message: str
    line: int | None = None


@dataclass(slots=True)
class Document:
    """One YAML document: its plain value, the line of every key and item by path, and what was refused."""

    line: int
    value: object = None
    lines: dict[Path, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def line_of(self, path: Path) -> int:
        """The line of a path, or of the nearest thing around it that the text has."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, self.line)


def read_documents(text: str) -> Iterator[Document]:
    """The documents of a text that are not empty; raises ``Unreadable`` where the text stops being YAML."""
    for root in compose(text):
        document = Document(root.line)
        if root.text is None or _scalar(root) is not None:
            document.value = _value(document, root, ())
            yield document


def _value(document: Document, node: Node, path: Path) -> object:
    """The plain value of a node; recursion is bounded by the depth of the tree."""
    if node.text is not None:
        _check_tag(document, node, path, _STRING_TAGS)
        value = _scalar(node)
        if value is None:
            document.problems.append(Problem(path, "has no value; a key left out has its default", node.line))
        return value
    if not node.mapping:
        _check_tag(document, node, path, _LIST_TAGS)
        document.lines.update(((*path, i), child.line) for i, child in enumerate(node.children))
        return [_value(document, child, (*path, i)) for i, child in enumerate(node.children)]
    entries = _entries(document, node, path)
    document.lines.update(((*path, key), line) for key, (line, _) in entries.items())
    return {key: _value(document, child, (*path, key)) for key, (_, child) in entries.items()}


def _entries(document: Document, node: Node, path: Path) -> dict[str, tuple[int, Node]]:
    """A mapping's values by key with the key's line; what it merges in gives way to its own keys."""
    _check_tag(document, node, path, _MAPPING_TAGS)
    own: dict[str, tuple[int, Node]] = {}
    merged: dict[str, tuple[int, Node]] = {}
    seen: set[tuple[str, bool]] = set()
    for key, child in zip(node.children[::2], node.children[1::2], strict=True):
        name, merges = _key(key), key.plain and key.text == "<<"
        if name is None:
            document.problems.append(Problem(path, _key_fault(key), key.line))
        elif (name, merges) in seen:
            document.problems.append(Problem((*path, name), "the key stands twice", key.line))
        elif merges:
            _merge(document, child, path, merged)
        else:
            own[name] = (key.line, child)
        seen.add((name or "", merges))
    return {**merged, **own}


def _merge(document: Document, node: Node, path: Path, merged: dict[str, tuple[int, Node]]) -> None:
    for source in [node] if node.mapping or node.text is not None else node.children:
        if not source.mapping:
            document.problems.append(Problem(path, "<< merges mappings only", source.line))
            continue
        for name, entry in _entries(document, source, path).items():
            merged.setdefault(name, entry)


def _key(node: Node) -> str | None:
    """The name that a key is, or None where it is no string."""
    if node.plain and node.tag is None and node.text == "<<":
        return node.text
    value = _scalar(node) if node.text and node.tag in _STRING_TAGS else None
    return value if isinstance(value, str) else None


def _key_fault(node: Node) -> str:
    if not node.text:
        return "a key is empty" if node.text == "" else "a key must be a string"
    if node.tag not in _STRING_TAGS:
        return _tag_fault(node)
    return f"the key {_short(node.text)} must be in quotes to be a string"


def _scalar(node: Node) -> object:
    """None, a boolean, an integer or a string where all YAML versions agree, else a ``Trap``."""
    text = node.text or ""
    if not node.plain or node.tag is not None:
        return text
    kind = _resolved(text)
    if kind == "null":
        return None
    if kind == "bool" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if kind == "int" and _PLAIN_INT.fullmatch(text):
        return int(text) if len(text) <= MAX_DIGITS else Trap(text, f"a number of more than {MAX_DIGITS} digits")
    return text if kind == "str" else Trap(text, _READS_AS.get(kind, "a sign of YAML's own"))


def _resolved(text: str) -> str:
    """What YAML 1.1, or else 1.2, takes an unquoted scalar for."""
    for tag, pattern in _RESOLVERS.get(text[:1], []):
        if pattern.match(text):
            return str(tag).rpartition(":")[2]
    if _FLOAT.fullmatch(text):
        return "float"
    return "int" if _OTHER_BASE.fullmatch(text) else "str"


def _check_tag(document: Document, node: Node, path: Path, allowed: tuple[str | None, ...]) -> None:
    if node.tag not in allowed:
        document.problems.append(Problem(path, _tag_fault(node), node.line))


def _tag_fault(node: Node) -> str:
    tag = (node.tag or "").replace("tag:yaml.org,2002:", "!!")
    return f"the tag {_short(tag)} is not allowed"


def _short(text: str | None) -> str:
    return ascii((text or "")[:60])[1:-1]
