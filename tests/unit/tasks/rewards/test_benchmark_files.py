"""The references of the public benchmarks, judged against themselves and against others."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

pytest.importorskip("math_verify")

from gtpo_lit.tasks import MathReward


def _references() -> list[str]:
    folder = os.environ.get("GTPO_LIT_DATA")
    if folder is None:
        pytest.skip("GTPO_LIT_DATA does not name the folder of the benchmark files")
    rows = {
        name: [
            json.loads(line) for line in (Path(folder) / f"{name}.jsonl").read_text().splitlines()
        ]
        for name in ("gsm8k_test", "math500", "aime24", "amc23")
    }
    gsm8k = [row["answer"].rpartition("####")[2].strip() for row in rows.pop("gsm8k_test")[::4]]
    return gsm8k + [str(row["answer"]) for part in rows.values() for row in part]


def test_benchmark_references() -> None:
    references = _references()
    assert len(references) == 330 + 500 + 30 + 40
    boxed = [rf"The answer is \boxed{{{text}}}." for text in references]
    assert _scored(boxed, references, 1.0) == []
    changed = [(text, _other_digit(text)) for text in references if re.search(r"\d", text)]
    assert len(changed) > 850
    boxed = [rf"\boxed{{{text}}}, no: \boxed{{{other}}}" for text, other in changed]
    assert _scored(boxed, [text for text, _ in changed], 0.0) == []
    # As a response would give them, in other signs: the judge has to read them.
    boxed = [rf"\boxed{{${text}$. }}" for text in references]
    assert _scored(boxed, references, 1.0) == []


def _scored(completions: list[str], references: list[str], wanted: float) -> list[str]:
    """The completions that score anything but `wanted`."""
    scores = MathReward().score(completions, references)
    return [text for text, score in zip(completions, scores, strict=True) if score != wanted]


def _other_digit(text: str) -> str:
    """The text with its last digit replaced by the next one."""
    place = max(index for index, sign in enumerate(text) if sign.isdigit())
    return text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :]
