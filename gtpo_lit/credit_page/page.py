"""One HTML file that needs nothing else: no network, no server, no tokenizer."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
from importlib.resources import files
from pathlib import Path

from gtpo_lit.credit_page.payload import page_data
from gtpo_lit.recorded import RecordedStep

# In the order in which they stand on the page; later ones use names of earlier ones.
SCRIPTS = ("data", "scale", "tokens", "inspector", "board", "pivotal", "controls")
_PLACE = re.compile(r"@@([a-z_]+)@@")


def credit_page(step: RecordedStep) -> str:
    """The page as text.

    Whatever stands in prompts and responses is shown as text: data are JSON in which no character
    can end the element that holds them, scripts put them on the page as text nodes only, and the
    page's content security policy runs no script and asks no server but for what is in it.
    """
    style = _asset("page.css")
    script = '"use strict";\n(() => {\n' + "\n".join(_asset(f"{n}.js") for n in SCRIPTS) + "})();\n"
    name = step.algorithm.rpartition(".")[2]
    parts = {
        "title": html.escape(f"{name}, RL step {step.step}"),
        "style": style,
        "script": script,
        "style_hash": _digest(style),
        "script_hash": _digest(script),
        "data": _inside_script(json.dumps(page_data(step), allow_nan=False, default=str)),
    }
    # In one pass, so that a placeholder inside the data stays what it is.
    return _PLACE.sub(lambda match: parts[match[1]], _asset("page.html"))


def write_credit_page(step: RecordedStep, path: str | os.PathLike[str]) -> None:
    """Write the page; it appears when it is whole, and replaces a file of that name."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.partial")
    partial.write_text(credit_page(step), encoding="utf-8")
    partial.replace(target)


def _asset(name: str) -> str:
    return files("gtpo_lit.credit_page").joinpath("assets", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _inside_script(text: str) -> str:
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
