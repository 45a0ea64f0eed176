"""The page as text: its data are the step's, and nothing in them can be anything but text."""

import base64
import dataclasses
import hashlib
import json
import re
import runpy
from pathlib import Path

import numpy
import pytest
import torch

from gtpo_lit.algorithms import DAPO, GTPO
from gtpo_lit.credit_page import credit_page, write_credit_page
from gtpo_lit.credit_page.payload import page_data

made = runpy.run_path(str(Path(__file__).parents[1] / "recorded" / "made_step.py"))
DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.S)


def array(text, kind):
    return numpy.frombuffer(base64.b64decode(text), dtype=kind)


def test_arrays_hold_the_real_tokens_in_turn():
    step = made["make_step"](GTPO(alpha2=0.3))
    data = page_data(step)
    assert [row["tokens"] for row in data["sequences"]] == [3, 4, 2, 4]
    assert array(data["ids"], "<i4").tolist() == [8, 2, 1, 3, 4, 5, 1, 6, 1, 7, 2, 2, 2]
    real = step.rollouts.attention_mask[:, 2:]
    for name, values in (
        ("entropy", step.rollouts.entropy),
        ("shaped", step.shaped),
        ("advantage", step.rollouts.advantages),
        ("logp", step.rollouts.logp_old),
        ("logp_sampler", step.rollouts.logp_sampler),
    ):
        there = array(data["numbers"][name], "<f4")
        numpy.testing.assert_array_equal(there, values[real].numpy(), err_msg=name)
    assert data["numbers"]["logp_ref"] is None
    # 12 tokens were written by the policy, of which ceil(2.4) have the highest entropies.
    flags = array(data["flags"], "u1")
    written, learned, pivotal = (flags & bit > 0 for bit in (1, 2, 4))
    assert (written.sum(), learned.sum(), pivotal.sum()) == (12, 8, 3)
    assert flags[5] == 0  # the hole
    entropy = array(data["numbers"]["entropy"], "<f4")
    assert entropy[pivotal].min() >= entropy[written & ~pivotal].max()


def test_what_stands_for_a_whole_sequence():
    step = made["make_step"](DAPO(), penalty=torch.tensor([0.0, -0.5, 0.0, float("nan")]))
    data = page_data(step)
    assert data["sequences"][1] == {
        "problem": "p/0",
        "source": "made",
        "reference": "7",
        "answer": None,
        "group": 4,
        "sample": 1,
        "prompt": 0,
        "tokens": 4,
        "reward": 0.0,
        "penalty": -0.5,
        "correct": False,
        "truncated": False,
    }
    assert data["sequences"][3]["penalty"] == "nan"
    assert data["prompts"] == ["a b", "a7", "7"]
    assert data["numbers"]["shaped"] is None
    assert data["about"]["settings"]["clip_high"] == 0.28


def test_without_entropies_nothing_is_pivotal():
    step = made["make_step"](DAPO())
    nan = torch.full_like(step.rollouts.entropy, float("nan"))
    rollouts = step.rollouts.replace(entropy=nan)
    data = page_data(dataclasses.replace(step, rollouts=rollouts))
    assert not (array(data["flags"], "u1") & 4).any()


@pytest.mark.parametrize(
    "text",
    [
        "</script><script>alert(1)</script>",
        "<!-- <script>",
        "]]>&lt;&amp;",
        "\u2028\u2029\u202e\u0000",
        "@@script@@ @@title@@ \\g<0>",
        "\U0001f600" * 3,
        "x" * 100_000,
    ],
)
def test_no_text_ends_the_element_that_holds_it(text):
    step = made["make_step"]()
    rows = list(step.sequences)
    words = {"prompt": text, "problem": text, "reference": text, "pieces": (text, text, text)}
    rows[0] = dataclasses.replace(rows[0], **words)
    page = credit_page(dataclasses.replace(step, sequences=tuple(rows)))
    found = DATA.findall(page)
    assert len(found) == 1
    assert not set("<>&") & set(found[0])
    assert found[0].isascii()
    data = json.loads(found[0])
    assert data["pieces"][0] == [text] * 3
    assert data["prompts"][0] == data["sequences"][0]["problem"] == text
    assert len(re.findall("<script", page)) == 2


def test_the_policy_lets_nothing_in_but_the_page_itself():
    page = credit_page(made["make_step"]())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    style, script = (
        re.search(f"<{name}>(.*?)</{name}>", page, re.S)[1] for name in ("style", "script")
    )
    digests = [
        base64.b64encode(hashlib.sha256(t.encode()).digest()).decode() for t in (style, script)
    ]
    assert policy.startswith("default-src 'none'; ")
    assert f"style-src 'sha256-{digests[0]}'" in policy
    assert f"script-src 'sha256-{digests[1]}'" in policy
    assert not re.search(r"https?:|url\(|@import|src=|innerHTML|eval\(|fetch\(", page)


def test_the_title_is_escaped_and_the_file_is_whole_or_not_there(tmp_path, monkeypatch):
    step = made["make_step"]()
    step = dataclasses.replace(step, algorithm="own.A<b>")
    write_credit_page(step, tmp_path / "pages" / "a.html")
    assert "<title>A&lt;b&gt;, RL step 10</title>" in (tmp_path / "pages" / "a.html").read_text()
    assert [path.name for path in (tmp_path / "pages").iterdir()] == ["a.html"]
