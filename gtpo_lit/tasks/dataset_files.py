"""Opens hub sets and local files through the `datasets` library."""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datasets import Dataset

BUILDERS = {".jsonl": "json", ".json": "json", ".parquet": "parquet", ".csv": "csv", ".tsv": "csv"}
"""How a local file is read, by the end of its name; `.gz` may follow."""


def local_files(path: str) -> tuple[str, list[str]] | None:
    """The builder and the files that a local path names, sorted; None for the id of a hub set.

    Raises:
        ValueError: if an environment variable in it is not set, or there is no such file.

    >>> local_files("openai/gsm8k") is None
    True
    """
    expanded = os.path.expanduser(os.path.expandvars(path))
    if unset := re.search(r"\$\{?(\w+)\}?", expanded):
        raise ValueError(f"path={path!r}: the environment variable {unset[1]} is not set")
    suffix = Path(expanded.removesuffix(".gz")).suffix.lower()
    if suffix not in BUILDERS:
        if Path(expanded).is_file():
            raise ValueError(f"path={path!r}: a local file must end in {', '.join(BUILDERS)}")
        return None
    files = [expanded] if Path(expanded).is_file() else sorted(glob.glob(expanded))
    if not files:
        raise ValueError(f"path={path!r}: no such file")
    return suffix, files


def open_dataset(
    path: str,
    *,
    split: str = "train",
    config: str | None = None,
    revision: str | None = None,
    text_columns: tuple[str, ...] = (),
) -> Dataset:
    """The rows of a hub set or of local files. No code of a hub set is ever run.

    Args:
        path: id of a hub set, or a local file or pattern of files that end as in `BUILDERS`.
        split: which split; a local file is whichever is asked for.
        config: configuration of a hub set.
        revision: branch, tag or commit of a hub set.
        text_columns: columns of a CSV file whose cells are taken letter by letter.

    Raises:
        ValueError: naming the set, for whatever keeps it from being read.
    """
    import datasets  # takes seconds, and only runs on data files need it

    local = local_files(path)
    options: dict[str, Any] = {"name": config, "revision": revision}
    builder = os.path.expanduser(os.path.expandvars(path))
    if local is not None:
        suffix, files = local
        if all(os.path.getsize(file) == 0 for file in files):
            raise ValueError(f"path={path!r}: the file is empty")
        builder, options = BUILDERS[suffix], {"data_files": {_split_name(split): files}}
        if builder == "csv":
            options["sep"] = "\t" if suffix == ".tsv" else ","
            options["converters"] = dict.fromkeys(text_columns, str)
    try:
        return datasets.load_dataset(builder, split=split, **options)
    except Exception as error:  # each builder and the hub raise what they like
        reason = error.__cause__ or error
        raise ValueError(
            f"cannot load path={path!r} with config={config!r}, split={split!r}, "
            f"revision={revision!r}: {type(reason).__name__}: {reason}"
        ) from error


def _split_name(split: str) -> str:
    """The split that an expression such as `train[:100]` slices."""
    return re.split(r"[\[+]", split, maxsplit=1)[0]
