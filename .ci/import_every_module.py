"""Import every module of the installed packages, away from the checkout."""

import importlib
import pkgutil

count = 0
for root in ("gtpo_lit", "callbacks"):
    package = importlib.import_module(root)
    for module in pkgutil.walk_packages(package.__path__, f"{root}."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
            count += 1
print(f"imported {count} modules")
