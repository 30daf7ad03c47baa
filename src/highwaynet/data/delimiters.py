"""Finds the sign that separates the cells of a text table."""

import re

SIGNS = "\t;,|"
LINES = 100
"""This many lines are compared."""


def delimiter_of(content: bytes, *, header: bool) -> str:
    r"""Return the delimiter of a table: tab, semicolon, comma, vertical bar, or a space, which stands for one or several.

    With a header, it is the most frequent sign in it. Without one, it is the first of tab, semicolon, bar and comma that all lines have
    equally often, because numbers may have decimal commas. If the first line has none of them, and white space divides all lines into
    the same number of cells, it is a space. Signs in quotes do not count.

    >>> delimiter_of(b"a;b\n1,5;2,5\n", header=True), delimiter_of(b"1,5;2,5\n1,0;3\n", header=False)
    (';', ';')
    >>> delimiter_of(b"a  b\n 1  2\n", header=True)
    ' '
    """
    # A mebibyte is enough: it has a whole header, and its last line may be cut only if it is not the first.
    start = re.sub(rb'"[^"]*"', b'""', content[: 2**20]).strip(b"\r\n")
    lines = [line for line in start.splitlines()[:LINES] if line.strip()]
    if len(content) > 2**20 and len(lines) > 1:
        lines.pop()
    first = lines[0] if lines else b""
    counts = {sign: first.count(sign.encode()) for sign in SIGNS}
    if any(counts.values()):
        equal = [sign for sign in "\t;|," if counts[sign] and all(line.count(sign.encode()) == counts[sign] for line in lines)]
        return equal[0] if equal and not header else max(SIGNS, key=counts.__getitem__)
    widths = {len(line.split()) for line in lines}
    return " " if len(widths) == 1 and widths.pop() > 1 else "\t"
