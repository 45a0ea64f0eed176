"""Which algorithms, under which settings: short names, class paths, YAML files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import ArgumentError

from gtpo_lit import algorithms
from gtpo_lit.algorithms import Algorithm
from gtpo_lit.recorded import RecordedStep
from gtpo_lit.strict_parser import StrictParser

OPTION = "--algorithms"
RECORDED = "recorded"
SHORT_NAMES = {
    "gtpo": "GTPO",
    "grpo_s": "GRPOS",
    "grpo": "GRPO",
    "dr_grpo": "DrGRPO",
    "dapo": "DAPO",
    "gspo": "GSPO",
    "forking_dapo": "ForkingDAPO",
}
# A comma that no bracket is open before.
_COMMA = re.compile(r",(?![^\[]*\])")


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """An algorithm, and what it was asked for by."""

    name: str
    algorithm: Algorithm


def chosen_algorithms(text: str, step: RecordedStep) -> list[Chosen]:
    """The algorithms in a list such as ``gtpo,gtpo+alpha2=0.5,configs/algorithm/dapo.yaml``.

    An item is a short name, the class path of an own algorithm, a YAML file with `model.algorithm`
    as in configs/algorithm/, or `recorded` for the algorithm of the recorded step with its
    settings; ``+option=value`` after it sets options. What a file leaves to the run (``${...}``)
    is left out, and Dr.GRPO's constant length, which moves no credit, is the longest response
    unless it is given.

    Raises:
        ValueError: naming the option and the item that is wrong.
    """
    items = [item.strip() for item in _COMMA.split(text)]
    if not all(items):
        raise ValueError(f"{OPTION} {text!r}: an algorithm between two commas is missing")
    if twice := sorted({item for item in items if items.count(item) > 1}):
        raise ValueError(f"{OPTION}: {', '.join(twice)} is listed twice")
    return [Chosen(name=item, algorithm=_build(item, step)) for item in items]


def _build(item: str, step: RecordedStep) -> Algorithm:
    name, *settings = item.split("+")
    class_path, options = _found(name, step)
    try:
        options = {**options, **dict(map(_setting, settings))}
    except ValueError as error:
        raise ValueError(f"{OPTION} {item}: {error}") from None
    kind = getattr(algorithms, class_path.rpartition(".")[2], None)
    if kind is algorithms.DrGRPO:
        options.setdefault("max_length", max(1, int(step.rollouts.length.max())))
    parser: Any = StrictParser(exit_on_error=False)
    parser.add_argument("--algorithm", type=Algorithm)
    given = {"algorithm": {"class_path": class_path, "init_args": options}}
    try:
        algorithm: Algorithm = parser.instantiate(parser.parse_object(given)).algorithm
    except (ArgumentError, TypeError, ValueError, ImportError) as error:
        raise ValueError(f"{OPTION} {item}: {_reason(error)}") from None
    return algorithm


def _found(name: str, step: RecordedStep) -> tuple[str, dict[str, Any]]:
    if name == RECORDED:
        return step.algorithm, dict(step.settings)
    if name in SHORT_NAMES:
        return f"gtpo_lit.algorithms.{SHORT_NAMES[name]}", {}
    if Path(name).suffix in (".yaml", ".yml"):
        return _of_file(Path(name))
    if "." in name:
        return name, {}
    raise ValueError(
        f"{OPTION} {name}: there are {', '.join([RECORDED, *SHORT_NAMES])}, class paths and "
        "YAML files"
    )


def _of_file(path: Path) -> tuple[str, dict[str, Any]]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        section = content["model"]["algorithm"]
        if isinstance(section, str):
            return section, {}
        class_path, options = section["class_path"], section.get("init_args") or {}
    except OSError as error:
        raise ValueError(f"{OPTION} {path}: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise ValueError(f"{OPTION} {path}: no YAML: {_reason(error)}") from None
    except (KeyError, TypeError):
        raise ValueError(f"{OPTION} {path}: it has no model.algorithm with a class_path") from None
    if not isinstance(options, Mapping):
        raise ValueError(f"{OPTION} {path}: init_args of model.algorithm must be a mapping")
    left = {name: value for name, value in options.items() if "${" not in str(value)}
    return str(class_path), left


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not name.strip() or not equals:
        raise ValueError(f"{text!r} is no option=value")
    return name.strip(), yaml.safe_load(value)


def _reason(error: Exception) -> str:
    # jsonargparse shows what it was given and what it tried; the last line says what is wrong.
    lines = [line.strip(" -") for line in str(error).splitlines() if line.strip(" -")]
    return lines[-1] if lines else type(error).__name__
