"""From the bytes of a terms file to text that a YAML parser may see."""

import json
import re

from core.errors import InputUnusable

MAX_BYTES = 5 * 2**20

_BINARY = {
    b"\x1f\x8b": "gzip data; unpack it first",
    b"PK\x03\x04": "a zip archive; unpack it first",
    b"\x28\xb5\x2f\xfd": "zstd data; unpack it first",
    b"\xfd7zXZ\x00": "xz data; unpack it first",
    b"BZh": "bzip2 data; unpack it first",
    b"\xff\xfe": "UTF-16, not UTF-8",
    b"\xfe\xff": "UTF-16, not UTF-8",
}
_CONTROL = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_PAIR = re.compile(r"(\\\\)|\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", re.IGNORECASE)


def terms_text(data: bytes, name: str) -> str:
    """The text of a file that is UTF-8, of sensible size and free of control characters, else ``InputUnusable``."""
    if len(data) > MAX_BYTES:
        raise InputUnusable(name, f"larger than {MAX_BYTES // 2**20} MiB")
    for magic, what in _BINARY.items():
        if data.startswith(magic):
            raise InputUnusable(name, f"is {what}")
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputUnusable(f"{name}:{line}", f"not UTF-8 (byte 0x{data[error.start]:02x})") from None
    if not text.strip():
        raise InputUnusable(name, "is empty")
    found = _CONTROL.search(text)
    if found:
        line = text.count("\n", 0, found.start()) + 1
        raise InputUnusable(f"{name}:{line}", f"control character U+{ord(found[0]):04X}")
    return _json_as_yaml(text)


def _json_as_yaml(text: str) -> str:
    """JSON's two liberties that YAML lacks, taken out: tabs between values, and surrogate pairs in escapes."""
    if text.lstrip()[:1] not in ("{", "[") or not ("\t" in text or "\\ud" in text.lower()):
        return text
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text  # not JSON: the YAML parser says what is wrong
    return _PAIR.sub(_joined, text.replace("\t", " "))


def _joined(match: re.Match[str]) -> str:
    if match[1]:
        return match[0]
    high, low = int(match[2], 16), int(match[3], 16)
    return f"\\U{0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00):08x}"
