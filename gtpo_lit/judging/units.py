r"""The unit that stands beside a number.

A unit that is left out is forgiven; a different one is not, and none is converted.
"""

from __future__ import annotations

import re

from gtpo_lit.judging.tokens import Unreadable

PERCENT = "percent"
BASE = "base"
"""The first word of the "unit" of a numeral: "base 8"."""

_NAMES = {
    "meter": "m meter metre", "centimeter": "cm centimeter centimetre",
    "millimeter": "mm millimeter millimetre", "kilometer": "km kilometer kilometre",
    "inch": "in inch inche", "foot": "ft foot feet", "yard": "yd yard", "mile": "mi mile",
    "gram": "g gram", "kilogram": "kg kilogram", "pound": "lb lbs pound", "ounce": "oz ounce",
    "second": "s sec second", "minute": "min minute", "hour": "h hr hour", "day": "day",
    "week": "week", "month": "month", "year": "yr year", "degree": "deg degree",
    "radian": "rad radian", "dollar": "dollar usd buck", "cent": "cent", "percent": "percent",
    "liter": "l liter litre", "milliliter": "ml milliliter millilitre", "gallon": "gal gallon",
    "unit": "unit", "mph": "mph", "point": "point", "way": "way", "euro": "euro",
}  # fmt: skip
_MEANING = {alias: name for name, aliases in _NAMES.items() for alias in aliases.split()}
_POWERS = {"square": "^2", "sq": "^2", "cubic": "^3", "cu": "^3"}

_TEXT = re.compile(r"\\text\s*\{(?P<words>[^{}\\$]*)\}\s*(?:\^\s*\{?(?P<power>\d)\}?)?$")
# A bare single letter is a variable, so only longer words are units outside \text.
_WORDS = re.compile(
    r"(?<=[\d}\s])(?P<words>(?:(?:square|sq|cubic|cu)\.?\s+)?[A-Za-z]{2,})\.?"
    r"\s*(?:\^\s*\{?(?P<power>\d)\}?)?$"
)
_BASE = re.compile(
    r"(?P<open>\(?)(?P<digits>[0-9A-F]+)(?(open)\)?)\s*"
    r"(?:_\s*(?:\{\s*)?(?:\\text\s*\{)?|\\text\s*\{\s*\(?\s*base\s*(?:\}\s*)?)"
    r"\(?(?P<base>\d+|[a-z]+)\)?[\s}]*(?:\)\s*\})?"
)
_BASES = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
          "ten": 10, "twelve": 12, "sixteen": 16}  # fmt: skip
# Words that are no unit: they make another number of the one before them,
_SCALES = {"hundred": "10^2", "thousand": "10^3", "million": "10^6", "billion": "10^9",
           "trillion": "10^12", "dozen": "12"}  # fmt: skip
# or another statement.
_CLAIMS = re.compile(
    r"\b(?:or|and|not|non|no|if|to|than|more|less|fewer|least|most|over|under|above|below|between"
    r"|about|around|approximately|almost|nearly|roughly|plus|minus|times|mod|modulo|factorial|half"
    r"|halves|thirds?|quarters?|fourths|fifths|sixths|sevenths|eighths|ninths|tenths?|hundredths?"
    r"|thousandths?|negative|positive|infinite|remainder)\b|^\s*(?:squared|cubed)"
)


def split_unit(text: str) -> tuple[str, str | None]:
    r"""The number of a plain text and the unit at its end or start.

    >>> split_unit(r"864 \text{ inches}^2"), split_unit(r"\$18.90"), split_unit("4210_{5}")
    (('864', 'inch^2'), ('18.90', 'dollar'), ('4210', 'base 5'))
    >>> split_unit(r"3 \text{ million dollars}")
    ('(3)\\cdot 10^6', 'dollar')

    Raises:
        Unreadable: if the words claim something else, such as "or more".
    """
    if match := _BASE.fullmatch(text):
        base = str(_BASES.get(match["base"], match["base"]))
        if base.isdigit():
            return match["digits"], f"{BASE} {base}"
    if text.startswith("\\$"):
        return text[2:].strip(), "dollar"
    if text.endswith("\\$"):
        return text[:-2].strip(), "dollar"
    if text.endswith("%"):
        return text[:-1].strip(), PERCENT
    if text.endswith("^\\circ"):
        return text[: -len("^\\circ")].strip(), "degree"
    match = _TEXT.search(text)
    if match is None:
        match = _WORDS.search(text)
        if match is not None and not _known(match["words"]):
            match = None
    if match is None or not text[: match.start()].strip():
        return text, None
    number, words = text[: match.start()].strip(), match["words"].strip()
    first, _, rest = words.partition(" ")
    if scale := _SCALES.get(first.lower()):
        number, words = rf"({number})\cdot {scale}", rest.strip()
        if not words:
            return number, None
    if _CLAIMS.search(words.lower()):
        raise Unreadable(words)
    unit = _meaning(words) or _single(words)
    return number, unit + (f"^{match['power']}" if match["power"] else "")


def _known(words: str) -> bool:
    return words.lower() in _SCALES or _meaning(words) is not None


def _meaning(words: str) -> str | None:
    """The known unit that `words` name; None if they name no known one."""
    parts = re.findall(r"[a-z/^0-9]+", words.lower())
    power = ""
    if parts and parts[0] in _POWERS:
        power = _POWERS[parts.pop(0)]
    if len(parts) == 2 and parts[1] in ("squared", "cubed"):
        power = {"squared": "^2", "cubed": "^3"}[parts.pop()]
    if len(parts) != 1:
        return None
    name = _MEANING.get(parts[0]) or _MEANING.get(parts[0].removesuffix("s"))
    return None if name is None else name + power


def _single(words: str) -> str:
    return " ".join(word.removesuffix("s") for word in re.findall(r"\S+", words.lower()))
