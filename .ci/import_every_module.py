"""Import every module of the installed packages, away from the checkout."""

import importlib
import pkgutil
import sys
from importlib.resources import files
from pathlib import Path

# Data that the wheel must carry.
DATA = (
    ("gtpo_lit", "py.typed"),
    ("gtpo_lit", "embedded/chains/model.safetensors"),
    ("gtpo_lit", "embedded/chains/tokenizer.json"),
    ("callbacks", "py.typed"),
)


def main() -> None:
    """Import all, and say how many; an import that fails, or comes from elsewhere, stops it."""
    count = 0
    for root in ("gtpo_lit", "callbacks"):
        package = importlib.import_module(root)
        place = Path(package.__path__[0]).resolve()
        if not place.is_relative_to(Path(sys.prefix).resolve()):
            raise SystemExit(f"{root} comes from {place}, not from {sys.prefix}")
        for module in pkgutil.walk_packages(package.__path__, f"{root}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
                count += 1
    for root, name in DATA:
        if not (files(root) / name).is_file():
            raise SystemExit(f"{root}/{name} is not in the wheel")
    print(f"imported {count} modules")


if __name__ == "__main__":
    main()
