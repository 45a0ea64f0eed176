"""A parser that lets nothing pass in silence: full names only, and one way to say a thing."""

from __future__ import annotations

import difflib
import os
import sys
from contextvars import ContextVar
from typing import Any, NoReturn, get_args

import jsonargparse._typehints
from jsonargparse import ArgumentError, Namespace, set_parsing_settings
from jsonargparse._common import parent_parser
from jsonargparse._link_arguments import apply_config_skip, get_link_actions
from jsonargparse._util import import_object
from lightning.pytorch.cli import LightningArgumentParser
from omegaconf.errors import OmegaConfBaseException

_reading: ContextVar[str | None] = ContextVar("config file being read", default=None)


class StrictParser(LightningArgumentParser):
    """Takes no prefixes of options, and says each mistake in one line.

    * `${...}` resolves after every file and flag was read, so that the last one wins. In a file, a
      key may be relative (``${.group_size}`` stands beside) or start at the top of the file.
    * When a `class_path` changes, no argument of the former class is kept.
    * An option that is decided by another one may not be given, unless as that one's value.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        # Parsers of nested classes are made here too, by jsonargparse, which passes only a few
        # options on.
        strict: dict[str, Any] = {"parser_mode": "omegaconf+", "allow_abbrev": False}
        super().__init__(*args, **(strict | options))

    def parse_path(self, path: Any, *args: Any, **options: Any) -> Namespace:
        """Read a config file; errors name it."""
        token = _reading.set(str(path))
        try:
            config: Namespace = super().parse_path(path, *args, **options)
            return config
        except (TypeError, KeyError, ValueError, ArgumentError) as error:
            raise TypeError(f"{path}: {_text(error)}") from error
        finally:
            _reading.reset(token)

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """End with one line and exit code 2; parsers of nested classes raise instead."""
        if not self.exit_on_error or traceback_wanted():
            raise ArgumentError(None, message) from ex
        file = _reading.get()
        report(f"{file}: {message}" if file else message + self._suggestion(message))
        sys.exit(2)

    def _parse_common(self, cfg: Namespace, *args: Any, **options: Any) -> Namespace:
        # Until links are applied a target has a value only if one was given.
        given = {link: cfg.get(link.target[0]) for link in get_link_actions(self, "parse")}
        try:
            for link, value in given.items():
                # What can be told now is: a config that is only printed gets no links.
                if link.compute_fn is None and link.source[0][0] in cfg:
                    self._refuse_decided(link, value, cfg[link.source[0][0]])
            parsed = super()._parse_common(cfg, *args, **options)
            for link, value in given.items():
                self._refuse_decided(link, value, parsed.get(link.target[0]))
            self._refuse_null(parsed)
            return parsed
        except OmegaConfBaseException as error:
            reason = str(error).splitlines()[0]
            self.error(f"{reason} (where ${{...}} is used; on the command line, keys are relative)")

    def _refuse_decided(self, link: Any, given: Any, decided: Any) -> None:
        # While files are read, what decides may still change.
        if given is None or given == decided or apply_config_skip.get():
            return
        # A class that is there by default brings its own defaults, which nobody gave.
        if given == self.get_defaults(skip_validation=True).get(link.target[0]):
            return
        sources = ", ".join(name for name, _ in link.source)
        self.error(
            f"{link.target[0]} = {given!r} must be given as {sources}, which decides it "
            f"(now {decided!r})"
        )

    def _refuse_null(self, parsed: Namespace) -> None:
        # jsonargparse takes null for "not given" whatever the type, and hands None on.
        subcommands = self._subcommands_action
        for name, parser in subcommands.choices.items() if subcommands else ():
            if isinstance(parsed.get(name), Namespace):
                parser._refuse_null(parsed[name])
        decided = {link.target[0] for link in get_link_actions(self, "parse")}
        for action in self._actions:
            name, hint = action.dest, getattr(action, "_typehint", None)
            if hint is None or action.default is None or name in decided or name not in parsed:
                continue
            if parsed[name] is None and not _takes_none(hint):
                self.error(f"{name} = null: leave it out for its default, {action.default!r}")

    def _suggestion(self, message: str) -> str:
        start = "unrecognized arguments: "
        if not message.startswith(start):
            return ""
        name = message.removeprefix(start).split()[0].split("=")[0]
        known = [option for option in self._all_options() if not option.endswith("+")]
        near = [option for option in known if option.startswith(name)]
        near = near or difflib.get_close_matches(name, known, n=1, cutoff=0.8)
        return f" (did you mean {near[0]}?)" if len(near) == 1 else ""

    def _all_options(self) -> list[str]:
        subcommands = self._subcommands_action
        parsers = [self, *(subcommands.choices.values() if subcommands else ())]
        return sorted({option for parser in parsers for option in parser._option_string_actions})


def traceback_wanted() -> bool:
    """Whether errors show where they come from: GTPO_LIT_TRACEBACK=1."""
    return os.environ.get("GTPO_LIT_TRACEBACK", "0") not in ("", "0")


def report(message: str) -> None:
    """Print one line that says what is wrong with what was asked for."""
    print("gtpo-lit: error:", " ".join(message.split()), file=sys.stderr)


def _takes_none(hint: Any) -> bool:
    return hint in (Any, None, type(None)) or type(None) in get_args(hint)


def _text(error: Exception) -> str:
    return str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)


def _class_of(path: str) -> Any:
    try:
        return import_object(path)
    except (ImportError, AttributeError, ValueError):
        return path


def _forget_arguments_of_other_class(parser_or_action: Any, previous: Any, value: Any) -> None:
    """Drop every argument of the former class when a `class_path` changes.

    jsonargparse keeps those whose names the new class happens to share, so that a clip bound given
    for one algorithm would become another's.
    """
    if not isinstance(parser_or_action, StrictParser) and not _is_strict():
        _jsonargparse_rule(parser_or_action, previous, value)
    elif previous and _class_of(previous["class_path"]) is not _class_of(value["class_path"]):
        for name in ("init_args", "dict_kwargs"):
            if name in previous:
                previous[name] = Namespace() if name == "init_args" else {}


def _adapt_lists_whole(val: Any, typehint: Any, **options: Any) -> Any:
    """Let a list replace the one before it, instead of merging elements that share an index."""
    if isinstance(val, list) and not options.get("append") and _is_strict():
        options.pop("prev_val", None)
    return _jsonargparse_adapt(val, typehint, **options)


def _is_strict() -> bool:
    return isinstance(parent_parser.get(), StrictParser)


# jsonargparse has no switch for these two rules; other parsers keep its own.
_rules: Any = jsonargparse._typehints
_jsonargparse_rule = _rules.discard_init_args_on_class_path_change
_rules.discard_init_args_on_class_path_change = _forget_arguments_of_other_class
_jsonargparse_adapt = _rules.adapt_typehints
_rules.adapt_typehints = _adapt_lists_whole
# Keys from the top of a file are found below a subcommand, too.
set_parsing_settings(omegaconf_absolute_to_relative_paths=True)
