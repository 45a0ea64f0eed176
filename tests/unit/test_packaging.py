"""The repository keeps its own rules: names, versions, sizes, start-up, documents."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions, version
from pathlib import Path

import pytest
import yaml

import gtpo_lit

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
ROOMS = ("gtpo_lit", "callbacks", "benchmarks")
SOURCES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
LONGEST_FILE = 260
HEAVY = ("torch", "lightning", "transformers", "numpy", "matplotlib", "jsonargparse")

# A path with a machine's or a person's folder in front.
MACHINE_PATH = re.compile(r"(?<![\w.~})/])/(?:work|root|home|Users|mnt|opt)/\w")
METRIC = re.compile(r"(?:train/)?(?:[a-z]+/)+[a-z_@0-9]+")
FAMILIES = ("train", "ratio", "kl", "groups", "shaping", "val")


def tracked_files():
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0 or not listed.stdout:
        pytest.skip("not a git checkout")
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [path for path in files if path.is_file()]


def texts():
    """Every tracked text file but this one, by its name."""
    found = {}
    for path in tracked_files():
        if path != Path(__file__) and b"\0" not in (data := path.read_bytes()):
            found[str(path.relative_to(ROOT))] = data.decode("utf-8")
    return found


def documented_metrics():
    """Names in the first column of the tables in docs/metrics.md."""
    lines = (ROOT / "docs" / "metrics.md").read_text().splitlines()
    rows = [line.split("|")[1] for line in lines if line.startswith("| `")]
    return {name for cell in rows for name in re.findall(r"`([^`]+)`", cell)}


def logged_names(path):
    """Metric names that stand as whole strings in a source file, docstrings left out."""
    tree = ast.parse(path.read_text())
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)
              for part in node.values}  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            name = node.value
            if id(node) not in inside and METRIC.fullmatch(name) and name.startswith(
                tuple(f"{family}/" for family in FAMILIES)
            ):  # fmt: skip
                yield name if name.startswith(("train/", "val/")) else f"train/{name}"


def test_callbacks_belongs_to_this_distribution_alone():
    # A distribution of that name is on the public index.
    found = packages_distributions()
    assert set(found["callbacks"]) == {"gtpo-lit"}
    assert set(found["gtpo_lit"]) == {"gtpo-lit"}


def test_it_cannot_be_uploaded_by_mistake():
    assert "Private :: Do Not Upload" in PROJECT["project"]["classifiers"]


def test_one_version_everywhere():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    newest = re.search(r"^## (\S+?),? ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    stated = {
        "pyproject.toml": PROJECT["project"]["version"],
        "installed": version("gtpo-lit"),
        "gtpo_lit.__version__": gtpo_lit.__version__,
        "CITATION.cff": citation["version"],
        "CHANGELOG.md": newest[1],
    }
    assert set(stated.values()) == {"0.1.0"}, stated


def test_the_licence_is_the_one_that_is_named():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    text = (ROOT / "LICENSE").read_text()
    assert PROJECT["project"]["license"] == citation["license"] == "Apache-2.0"
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_importing_the_package_is_quick_and_pulls_in_nothing_heavy():
    program = (
        "import sys, time; start = time.perf_counter(); import gtpo_lit; "
        "print(time.perf_counter() - start, *sorted(set(sys.argv[1:]) & set(sys.modules)))"
    )
    seconds = []
    for _ in range(3):
        took, *heavy = subprocess.run(
            [sys.executable, "-c", program, *HEAVY],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        assert heavy == []
        seconds.append(float(took))
    assert min(seconds) < 0.2


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_are_short(path):
    lines = len(path.read_text().splitlines())
    assert lines <= LONGEST_FILE, f"{path.name} has {lines} lines: one idea a file, please"


def test_every_make_target_says_what_it_does():
    text = (ROOT / "Makefile").read_text()
    (phony,) = re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    described = re.findall(r"^([a-z0-9-]+):[^=\n]*## \S", text, re.MULTILINE)
    # Targets that are no names for people are files, behind a variable.
    written = re.findall(r"^([A-Za-z0-9_./-]+)(?: [^:=\n]*)?:(?!=)", text, re.MULTILINE)
    named = {name for name in written if not name.startswith(".")}
    assert set(phony.split()) == set(described) == named
    assert {"setup", "quickstart", "smollm2", "test", "lint", "help"} <= named


def test_make_help_lists_every_target():
    shown = subprocess.run(
        ["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    (phony,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert [line.split()[0] for line in shown.splitlines()] == phony.split()


def test_no_path_of_a_machine_is_tracked():
    found = {
        name: match[0] for name, text in texts().items() if (match := MACHINE_PATH.search(text))
    }
    assert found == {}
    outside = {name for name, text in texts().items() if re.search(r"\.\./shared", text)}
    assert outside <= {".ci/run"}


def test_sources_and_documents_are_ascii():
    assert [name for name, text in texts().items() if not text.isascii()] == []


def test_every_metric_that_the_code_names_is_documented():
    named = {name: path.name for path in SOURCES for name in logged_names(path)}
    assert {"train/reward/mean", "train/ratio/clipped_fraction"} <= set(named)
    assert {name: file for name, file in named.items() if name not in documented_metrics()} == {}


def test_links_in_the_documents_lead_somewhere():
    missing = []
    for name, text in texts().items():
        if name.endswith(".md"):
            for target in re.findall(r"\]\(([^)#:\s]+)\)", text):
                if not (ROOT / name).parent.joinpath(target).exists():
                    missing.append((name, target))
    assert missing == []
