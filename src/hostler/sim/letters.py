"""Letters of three by five dots, for drawings without a font."""

from __future__ import annotations

# Five rows of three dots each, top first, as octal digits.
_ROWS = {
    "0": "75557",
    "1": "26227",
    "2": "71747",
    "3": "71717",
    "4": "55711",
    "5": "74717",
    "6": "74757",
    "7": "71122",
    "8": "75757",
    "9": "75717",
    "A": "25755",
    "B": "65656",
    "C": "34443",
    "D": "65556",
    "E": "74647",
    "F": "74644",
    "G": "34553",
    "H": "55755",
    "I": "72227",
    "J": "11152",
    "K": "55655",
    "L": "44447",
    "M": "57755",
    "N": "65555",
    "O": "25552",
    "P": "65644",
    "Q": "25563",
    "R": "65655",
    "S": "34216",
    "T": "72222",
    "U": "55557",
    "V": "55552",
    "W": "55775",
    "X": "55255",
    "Y": "55222",
    "Z": "71247",
    "_": "00007",
    "-": "00700",
    ",": "00024",
    ".": "00002",
    ":": "02020",
    "=": "07070",
    "/": "11244",
    " ": "00000",
}
_UNKNOWN = "77777"
SIZE = 2
ADVANCE, ASCENT = 4 * SIZE, 5 * SIZE


def dots(text: str) -> list[tuple[int, int]]:
    """The dots of a text, right and down from the upper left corner of its first letter."""
    return [
        (place * ADVANCE + column * SIZE + right, row * SIZE + down)
        for place, letter in enumerate(text.upper())
        for row, bits in enumerate(_ROWS.get(letter, _UNKNOWN))
        for column in range(3)
        if int(bits, 8) & (4 >> column)
        for right in range(SIZE)
        for down in range(SIZE)
    ]


def width(text: str) -> int:
    """How wide a text is."""
    return len(text) * ADVANCE
