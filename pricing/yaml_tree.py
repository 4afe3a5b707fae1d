"""The node tree of a YAML text, bounded in size and depth, with lines.

PyYAML's safe loader supplies the events; the tree is put together here without recursion, so that no nesting can
exhaust the stack, and an alias counts as all that it stands for, so that none can exhaust the memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

MAX_NODES = 200_000
MAX_DEPTH = 50

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Unreadable(Exception):
    """The text is not usable YAML: nothing after ``line`` was read."""

    def __init__(self, line: int, message: str) -> None:
        self.line, self.message = line, message
        super().__init__(message)


@dataclass(slots=True)
class Node:
    """A scalar with its ``text``, or a collection; a mapping's children are key, value, key, value."""

    line: int
    tag: str | None
    text: str | None = None
    plain: bool = False
    mapping: bool = False
    children: list["Node"] = field(default_factory=list)
    anchor: str | None = None
    size: int = 1
    depth: int = 1


def compose(text: str) -> Iterator[Node]:
    """The root of each document; raises ``Unreadable`` where the text stops being YAML or passes a bound."""
    try:
        yield from _compose(text)
    except yaml.YAMLError as error:
        # The parser meets the end of the text one line below its last.
        raise _unreadable(error, text.rstrip().count("\n") + 1) from None


def _compose(text: str) -> Iterator[Node]:
    anchors: dict[str, Node | None] = {}
    around: list[Node] = []
    count = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.DocumentStartEvent):
            anchors = {}
        if isinstance(event, yaml.CollectionStartEvent):
            around.append(_opened(event, anchors, len(around)))
        elif isinstance(event, yaml.CollectionEndEvent | yaml.ScalarEvent | yaml.AliasEvent):
            node = _closed(event, anchors, around)
            # A collection was counted by its parts.
            count += node.size if isinstance(event, yaml.AliasEvent) else 1
            if count > MAX_NODES:
                raise Unreadable(_line(event), f"more than {MAX_NODES} values, aliases followed")
            if around:
                _attach(around, node, _line(event))
            else:
                yield node


def _opened(event: yaml.CollectionStartEvent, anchors: dict[str, Node | None], depth: int) -> Node:
    line = _line(event)
    if depth >= MAX_DEPTH:
        raise _too_deep(line)
    if event.anchor:
        anchors[event.anchor] = None  # known, but not to be used inside itself
    return Node(line, event.tag, mapping=isinstance(event, yaml.MappingStartEvent), anchor=event.anchor)


def _closed(event: yaml.Event, anchors: dict[str, Node | None], around: list[Node]) -> Node:
    if isinstance(event, yaml.AliasEvent):
        return _meant(event, anchors)
    if isinstance(event, yaml.ScalarEvent):
        plain = not event.style or event.style == ":"
        node = Node(_line(event), event.tag, text=event.value, plain=plain, anchor=event.anchor)
    else:
        node = around.pop()
    if node.anchor:
        anchors[node.anchor] = node
    return node


def _meant(event: yaml.AliasEvent, anchors: dict[str, Node | None]) -> Node:
    name = event.anchor or ""
    node = anchors.get(name)
    if node is None:
        why = "stands inside the value that it names" if name in anchors else "names no anchor before it"
        raise Unreadable(_line(event), f"alias *{name[:60]} {why}")
    return node


def _attach(around: list[Node], node: Node, line: int) -> None:
    if len(around) + node.depth > MAX_DEPTH + 1:  # a scalar may stand in the deepest collection
        raise _too_deep(line)
    parent = around[-1]
    parent.children.append(node)
    parent.size += node.size
    parent.depth = max(parent.depth, node.depth + 1)


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


def _too_deep(line: int) -> Unreadable:
    return Unreadable(line, f"nested more than {MAX_DEPTH} levels deep")


def _unreadable(error: yaml.YAMLError, last_line: int) -> Unreadable:
    mark, start = getattr(error, "problem_mark", None), getattr(error, "context_mark", None)
    line = min(mark.line + 1, last_line) if mark else 1
    message = getattr(error, "problem", None) or "not understood"
    if "nesting" in message:  # libyaml's own bound, met while it looks ahead
        return _too_deep(line)
    if start and start.line < line and getattr(error, "context", None):
        message = f"{message} ({error.context} that begins in line {start.line + 1})"  # type: ignore[attr-defined]
    return Unreadable(line, f"not YAML: {message}")
