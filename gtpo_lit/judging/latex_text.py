r"""One spelling for what LaTeX can spell in many ways.

>>> plain(r"$\dfrac{1}{2}\,\mathrm{cm}$.")
'\\frac{1}{2} \\text{cm}'
"""

from __future__ import annotations

import re

NEW_ROW = r"\newrow "

_UNICODE = {
    "\u2212": "-", "\u2013": "-", "\u00d7": r"\cdot ", "\u00b7": r"\cdot ", "\u00f7": "/",
    "\u03c0": r"\pi ", "\u221e": r"\infty ", "\u2264": r"\le ", "\u2265": r"\ge ",
    "\u2260": r"\ne ", "\u00b0": r"^\circ ", "\u222a": r"\cup ", "\u00b1": r"\pm ",
    "\u2208": r"\in ", "\u00b2": "^2", "\u00b3": "^3", "\u00a0": " ", "\u221a": r"\sqrt ",
    "\u00a2": r"\text{ cents}",
}  # fmt: skip

_REWRITES = [
    # Thousands separators that LaTeX typesets tightly: 10,\!080 and 10{,}080 and 10\,080.
    (r",\s*\\!\s*", ","),
    (r"(?<=\d)\{([,.])\}(?=\d)", r"\1"),
    (r"(\\newrow )\s*\[[\d.]+\s*(?:pt|ex|em|mm)\]", r"\1"),
    (r"(?<=\d)(?:\\,|\\ |~)(?=\d{3}(?!\d))", ","),
    # Space and size that mean nothing.
    (r"\\(?:left|right)\s*\.(?!\d)", " "),
    (r"\\(?:left|right|[bB]igg?[lr]?|displaystyle|textstyle|limits|mathstrut)(?![A-Za-z])", ""),
    (r"\\!", ""),
    (r"\\[,;: >]|~|\\q?quad(?![A-Za-z])|\\(?:thin|en)space(?![A-Za-z])|[\n\t\r]", " "),
    (r"\\\(|\\\)|\\\[|\\\]|(?<!\\)\$", " "),
    # One name each.
    (r"\\[dtc]frac(?![A-Za-z])", r"\\frac"),
    (r"\\[dt]binom(?![A-Za-z])", r"\\binom"),
    (r"\\leqq?(?![A-Za-z])|\\leqslant|<=", r"\\le "),
    (r"\\geqq?(?![A-Za-z])|\\geqslant|>=", r"\\ge "),
    (r"\\neq(?![A-Za-z])|!=", r"\\ne "),
    (r"\\lt(?![A-Za-z])", "<"),
    (r"\\gt(?![A-Za-z])", ">"),
    (r"\\(?:times|ast)(?![A-Za-z])|\*", r"\\cdot "),
    (r"\\div(?![A-Za-z])", "/"),
    (r"\\colon(?![A-Za-z])", ":"),
    (r"\\(?:lbrace|\{)", r"\\{"),
    (r"\\(?:rbrace|\})", r"\\}"),
    (r"\\lbrack(?![A-Za-z])", "["),
    (r"\\rbrack(?![A-Za-z])", "]"),
    (r"\\langle(?![A-Za-z])", "("),
    (r"\\rangle(?![A-Za-z])", ")"),
    (r"\\[lr]?[vV]ert(?![A-Za-z])", "|"),
    (r"\\infin(?![A-Za-z])|\\infty|(?<![A-Za-z\\])(?:infinity|inf)(?![A-Za-z])", r"\\infty "),
    (r"\+\s*\\infty", r"\\infty"),
    (r"\^\s*\{\s*\\circ\s*\}|\^\s*\\circ(?![A-Za-z])|\\degrees?(?![A-Za-z])", r"^\\circ "),
    (r"\\math(?:rm|bf|it|sf)\s*\{\s*([a-zA-Z])\s*\}(?<![ghlms]\})", r" \1"),
    (r"\\(?:mbox|textrm|textbf|textit|textnormal|mathrm|mathbf|mathit|mathsf|rm|operatorname)"
     r"\s*\{", r"\\text{"),
    (r"\\text\s*\{\s*(?:and|or)\s*\}|(?<=\s)(?:and|or)(?=\s)", ","),
    (r"\\text\s*\{\s*(%|\\%)\s*\}", "%"),
    (r"\\text\s*\{\s*(\^\\circ)\s*\}", r"\1 "),
    (r"\\%", "%"),
    (r"\\text\{([^A-Za-z{}\\]*)\}", r" \1 "),
    # A matrix inside brackets of its own.
    (r"\\begin\{array\}\s*\{[clr| ]*\}(.*?)\\end\{array\}", r"\\begin{matrix}\1\\end{matrix}"),
    *((rf"^\s*{opening}\s*\\begin\{{matrix\}}((?:(?!\\end).)*)\\end\{{matrix\}}\s*{closing}(?=[\s.]*$)",
       rf"\\begin{{{name}}}\1\\end{{{name}}}")
      for opening, closing, name in ((r"\(", r"\)", "pmatrix"), (r"\[", r"\]", "bmatrix"),
                                     (r"\|", r"\|", "vmatrix"), (r"\\\{", r"\\\}", "Bmatrix"))),
]  # fmt: skip
_COMPILED = [(re.compile(pattern), replacement) for pattern, replacement in _REWRITES]


def plain(text: str) -> str:
    """`text` with one spelling for spaces, sizes, fractions, signs, units and thousands."""
    for symbol, spelling in _UNICODE.items():
        text = text.replace(symbol, spelling)
    # Two backslashes end a row of a matrix; elsewhere they are one that was escaped.
    text = text.replace("\\\\", NEW_ROW if "\\begin" in text else "\\")
    for pattern, replacement in _COMPILED:
        text = pattern.sub(replacement, text)
    text = re.sub(r"(?<![\w.])(\d+)\s+(\d+)/(\d+)(?![\w.])", r"\1\\frac{\2}{\3}", text)
    text = re.sub(r" {2,}", " ", text).strip()
    # One stop inside dollars and one behind them.
    return re.sub(r"\s*[.,;](?:\s+[.,;])?$", "", text)


def same_text(first: str, second: str) -> bool:
    """Whether two plain texts differ by nothing but spaces that separate nothing."""
    return _tight(first) == _tight(second) != ""


def _tight(text: str) -> str:
    text = re.sub(r"\^\{(\w)\}", r"^\1", text)
    return re.sub(r"(?<![A-Za-z0-9])\s+|\s+(?![A-Za-z0-9])", "", text)
