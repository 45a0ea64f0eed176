r"""References of more forms: benchmark numbers set into points, sets, formulas, equations, ...

The benchmark files hold few answers of some forms (three unions, one set), so that changes and
rewrites of these would be the same ones over and over.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import gcd

FORMS = (
    "({a},{b})", r"\left( {a}, \frac{{{p}}}{{{q}}} \right)", "({a}, {b}, {c})", "[{low},{high})",
    "({low}, {high}]", r"[{low},\infty)", r"\left(\frac{{{p}}}{{{q}}},{high}\right]",
    r"(-\infty, {low}) \cup ({high}, \infty)", r"[{low},{mid}) \cup ({mid},{high}]", "{a}, -{n}",
    "{n}, {d}, {q}", r"\{{{a}, {b}, \frac{{{p}}}{{{q}}}\}}", r"{a} \pm {b}\sqrt{{{d}}}",
    r"{a}\sqrt{{{d}}}", r"{a} + {b}\sqrt{{{d}}}", r"\frac{{{a}\sqrt{{{d}}}}}{{{q}}}",
    r"\frac{{{a}+{b}\sqrt{{{d}}}}}{{{q}}}", r"{a}\pi", r"\frac{{{p}\pi}}{{{q}}}", "{a} - {b}i",
    "{a}x^2 + {b}x - {c}", "{a}x - {b}y", r"\frac{{{a}x + {b}}}{{{q}}}", "x^3 - {a}x + {b}",
    "y = {a}x + {b}", "{a}x + {b}y = {c}", "(x - {a})^2 + (y + {b})^2 = {c}", "x = {a}",
    r"\frac{{{p}}}{{{q}}}", r"-\frac{{{p}}}{{{q}}}", "{a}.{b}", "{a}^{{{n}}}",
    r"\frac{{1}}{{{a}^{{{n}}}}}",
    r"\begin{{pmatrix}} {a} & -{b} \\ {c} & {d} \end{{pmatrix}}",
    r"\begin{{pmatrix}} {a} \\ -{b} \\ {c} \end{{pmatrix}}", r"{a}^\circ", r"{n}\%",
    r"{a} \text{{ cm}}^2", r"\${a}.50", r"{a}e^{{{n}x}}", r"{a}\sin x + {b}\cos x",
    r"\log_{{{q}}} {a}",
    r"(2,{b}) \text{{ and }} ({a},7)", "{a}(x+{b})(x-{c})", r"{a}!", r"\binom{{{high}}}{{{q}}}",
)  # fmt: skip


def composed(numbers: Sequence[int], count: int, *, seed: int = 0) -> list[str]:
    """`count` different references made of numbers of 2 to 999."""
    draw = random.Random(seed)
    usable = sorted({number for number in numbers if 2 <= number <= 999})
    found: dict[str, None] = {}
    while len(found) < count:
        a, b, c = draw.sample(usable, 3)
        low, mid, high = sorted(draw.sample(usable, 3))
        p, q = draw.choice(usable), draw.randint(3, 40)
        while gcd(p, q) > 1:
            q += 1
        form = FORMS[len(found) % len(FORMS)]
        d = draw.choice((2, 3, 5, 6, 7, 10, 11, 13, 15, 17, 21))
        n = draw.randint(2, 99)
        found[form.format(a=a, b=b, c=c, d=d, p=p, q=q, n=n, low=low, mid=mid, high=high)] = None
    return list(found)
