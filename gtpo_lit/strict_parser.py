"""What the command line must not let pass in silence."""

from __future__ import annotations

from typing import Any

import jsonargparse._typehints as typehints
import yaml
from jsonargparse import Namespace
from jsonargparse._util import import_object


def forget_arguments_of_other_class(_: Any, previous: Any, value: Any) -> None:
    """Drop every argument of the former class when a `class_path` changes.

    jsonargparse keeps those whose names the new class happens to share, so that a clip bound given
    for one algorithm would become another's.
    """
    if not previous or "init_args" not in previous:
        return
    if _class_of(previous["class_path"]) is not _class_of(value["class_path"]):
        previous["init_args"] = Namespace()


def install_class_path_rule() -> None:
    """Put the rule in place of jsonargparse's own, which has no switch for it."""
    assert hasattr(typehints, "discard_init_args_on_class_path_change")
    typehints.discard_init_args_on_class_path_change = forget_arguments_of_other_class


def refuse_decided_keys(config: Namespace, decided: dict[str, str]) -> None:
    """Refuse config files that set an option which another option decides.

    On the command line jsonargparse refuses them; from a file it would drop the value in silence.

    Args:
        config: the parsed config of a subcommand, links applied.
        decided: target option -> the option that decides it.

    Raises:
        ValueError: naming both options and the file.
    """
    for path in config.get("config") or []:
        content = yaml.safe_load(path.read_text()) or {}
        for target, source in decided.items():
            found: Any = content
            for part in target.split("."):
                found = found.get(part) if isinstance(found, dict) else None
            if found is not None and found != config.get(target):
                raise ValueError(
                    f"{target} = {found} in {path} must be given as {source}, which decides it "
                    f"(now {config.get(target)})"
                )


def _class_of(path: str) -> Any:
    try:
        return import_object(path)
    except (ImportError, AttributeError, ValueError):
        return path
