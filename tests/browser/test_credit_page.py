"""The page in headless Chromium: switches, hover, filter and keys, against the parquet."""

import dataclasses
import re
import runpy
from pathlib import Path

import pyarrow.parquet
import pytest

from callbacks.credit_viewer.__main__ import main
from gtpo_lit.algorithms import DAPO
from gtpo_lit.recorded import write_rollouts

pytestmark = pytest.mark.browser
HERE = Path(__file__)
make_step = runpy.run_path(str(HERE.parents[1] / "unit" / "recorded" / "made_step.py"))["make_step"]
big_step = runpy.run_path(str(HERE.with_name("big_step.py")))["big_step"]


def written(folder, step):
    """The parquet's rows, and the page that the command line makes of it."""
    file = folder / "step_000010.parquet"
    write_rollouts(step, file)
    assert main([str(file)]) == 0
    return pyarrow.parquet.read_table(file).to_pylist(), file.with_suffix(".html")


@pytest.fixture(scope="module")
def big(tmp_path_factory):
    return written(tmp_path_factory.mktemp("big"), big_step())


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return written(tmp_path_factory.mktemp("small"), big_step(rows=8, columns=40, groups=2))


def choose(page, name):
    page.locator(f"input[name=measure][value={name}]").check(force=True)


def show_side(page, side):
    page.locator(f"input[name=side][value={side}]").check(force=True)


def tokens(page, row):
    return page.locator(f".text[data-s='{row}'] > span")


def number(page, name):
    return page.locator(f"#numbers [data-number={name}]").inner_text()


def test_a_step_of_128_by_512_tokens_opens_within_two_seconds(big, opened):
    seconds = []
    while not seconds or (seconds[-1] >= 2.0 and len(seconds) < 5):
        # Other work on the machine only adds to it.
        page = opened(big[1])
        assert page.locator(".text > span").count() > 512
        # The browser's own clock, from the navigation to the first tokens on the screen.
        seconds.append(float(page.locator("html").get_attribute("data-ready")) / 1000)
    print(f"opened in {min(seconds):.2f} s")
    assert seconds[-1] < 2.0, seconds
    assert page.locator(".card").count() == 128
    # Far below, nothing is drawn until it comes near.
    assert tokens(page, 15).count() == 0
    page.locator(".card .text[data-s='15']").scroll_into_view_if_needed()
    # Not wait_for_function: it evaluates a string each time it looks, which the page forbids.
    tokens(page, 15).nth(511).wait_for(state="attached")
    assert tokens(page, 15).count() == 512


def test_the_facts_are_the_step_s(big, opened):
    rows, page = big[0], opened(big[1])
    right = sum(row["correct"] for row in rows)
    assert page.locator("h1").inner_text() == "GTPO, RL step 10"
    assert page.locator("#summary").inner_text() == (
        f"8 groups, 128 responses ({right} right), 65536 tokens, temperature 1"
    )
    cards = page.locator(".group").nth(2).locator(".card")
    assert cards.count() == 16
    wanted = [row["correct"] for row in rows[32:48]]
    assert [("right" in name.split()) for name in classes(cards)] == wanted
    texts = cards.locator("h3").all_inner_texts()
    words = {True: "\u2713 right", False: "\u2717 wrong"}
    assert texts == [f"{words[r]}, sample {k}" for k, r in enumerate(wanted)]


def classes(locator):
    return locator.evaluate_all("all => all.map(one => one.className)")


@pytest.mark.parametrize("name", ["entropy", "shaped", "advantage", "sampler"])
def test_each_switch_colours_by_its_column(small, opened, name):
    rows, page = small[0], opened(small[1])
    choose(page, name)
    values = [
        [a - b for a, b in zip(row["logp_old"], row["logp_sampler"], strict=True)]
        if name == "sampler"
        else row[{"entropy": "entropy", "shaped": "shaped", "advantage": "advantage"}[name]]
        for row in rows
    ]
    found = []
    for place, numbers in enumerate(values):
        drawn = classes(tokens(page, place))
        assert len(drawn) == len(numbers) == 40
        found += [(value, name.split()[0]) for value, name in zip(numbers, drawn, strict=True)]
    for value, colour in found:
        if name == "entropy":
            assert re.fullmatch("s[0-8]", colour)
        else:
            assert colour[0] == ("p" if value > 0 else "n" if value < 0 else "z"), (value, colour)
    # Depth rises with size, and both ends of the scale are used.
    for sign in {colour[0] for _, colour in found}:
        depths = [int(c[1:]) for _, c in sorted((abs(v), c) for v, c in found if c[0] == sign)]
        assert depths == sorted(depths)
        assert depths[-1] == 8
    assert page.locator("#legend").get_attribute("aria-label").startswith("Colours by ")
    checked = page.locator("input[name=measure]:checked").get_attribute("value")
    assert checked == name


def test_signs_are_told_by_underlines_too(small, opened):
    page = opened(small[1])
    choose(page, "advantage")
    styles = page.locator(".text > span").evaluate_all(
        "all => all.map(s => [s.className[0], getComputedStyle(s).textDecorationStyle,"
        " getComputedStyle(s).textDecorationLine])"
    )
    assert {tuple(style) for style in styles} == {
        ("p", "solid", "underline"),
        ("n", "dotted", "underline"),
    }
    samples = page.locator("#legend .step i").all_inner_texts()
    assert samples == ["\u2212ab"] * 4 + ["ab"] + ["+ab"] * 4 + ["ab"]


def test_the_legend_has_the_numbers_of_its_scale(small, opened):
    rows, page = small[0], opened(small[1])
    every = sorted(value for row in rows for value in row["entropy"])
    high = every[round(0.99 * (len(every) - 1))]
    labels = page.locator("#legend .step").evaluate_all("all => all.map(s => s.lastChild.data)")
    assert labels[0] == "0"
    assert [float(text) for text in labels[1:5]] == pytest.approx(
        [high / 4, high / 2, high * 0.75, high], rel=5e-3
    )
    # Shaped rewards are far from 0, so each sign's colours are spread over its own values.
    choose(page, "shaped")
    above = sorted(value for row in rows for value in row["shaped"] if value > 0)
    low, high = (above[round(q * (len(above) - 1))] for q in (0.01, 0.99))
    labels = page.locator("#legend .step").evaluate_all("all => all.map(s => s.lastChild.data)")
    assert float(labels[5]) == pytest.approx(low + (high - low) / 4, rel=5e-3)
    page.locator("#stretch").uncheck()
    labels = page.locator("#legend .step").evaluate_all("all => all.map(s => s.lastChild.data)")
    both = sorted(abs(value) for row in rows for value in row["shaped"])
    assert float(labels[8]) == pytest.approx(both[round(0.99 * (len(both) - 1))], rel=5e-3)


def test_hovering_shows_the_numbers_of_the_parquet(small, opened):
    rows, page = small[0], opened(small[1])
    for row, place in ((0, 0), (1, 7), (4, 39)):
        tokens(page, row).nth(place).hover()
        there = rows[row]
        gap = there["logp_old"][place] - there["logp_sampler"][place]
        for name, value, unit in (
            ("entropy", there["entropy"][place], " nats"),
            ("shaped", there["shaped"][place], ""),
            ("advantage", there["advantage"][place], ""),
            ("sampler", gap, " nats"),
            ("logp", there["logp_old"][place], " nats"),
            ("logp_sampler", there["logp_sampler"][place], " nats"),
            ("reward", there["reward"], ""),
        ):
            shown = number(page, name)
            assert shown.endswith(unit), name
            assert float(shown.removesuffix(" nats")) == pytest.approx(value, abs=6e-5, rel=1e-3)
        assert number(page, "reference") == "not recorded"
        text = page.locator("#token").inner_text()
        assert f"id {there['token_ids'][place]}, token {place + 1} of 40" in text
        assert f"{there['problem']}, group {there['group']}, sample {there['sample']}" in text


def test_the_filter_shows_right_or_wrong_or_one_group(big, opened):
    rows, page = big[0], opened(big[1])
    right = sum(row["correct"] for row in rows)
    for side, count in (("right", right), ("wrong", 128 - right), ("all", 128)):
        show_side(page, side)
        assert page.locator(".card:visible").count() == count
        assert page.locator("#shown").inner_text() == f"{count} of 128 responses shown"
        if side != "all":
            assert page.locator(f".card.{side}:visible").count() == count
    page.locator("#group").select_option("3")
    assert page.locator(".group:visible").count() == 1
    assert page.locator(".card:visible").count() == 16
    show_side(page, "right")
    assert page.locator(".card:visible").count() == sum(row["correct"] for row in rows[48:64])


def test_pivotal_tokens_are_the_top_fifth_by_entropy(small, opened):
    rows, page = small[0], opened(small[1])
    order = sorted(
        ((value, row, t) for row, r in enumerate(rows) for t, value in enumerate(r["entropy"])),
        key=lambda item: (-item[0], item[1], item[2]),
    )
    wanted = sorted((row, t) for _, row, t in order[: 8 * 40 // 5])
    found = page.locator(".text > .pivotal").evaluate_all(
        "all => all.map(s => [Number(s.parentElement.dataset.s), Number(s.dataset.t)])"
    )
    assert sorted(map(tuple, found)) == wanted
    for row, t in wanted[:3]:
        page.locator("#next").click()
        assert "pivotal" in page.locator("#token").inner_text()
        cursor = page.locator(".cursor").evaluate("s => [s.parentElement.dataset.s, s.dataset.t]")
        assert [int(n) for n in cursor] == [row, t]
    page.locator("#previous").click()
    cursor = page.locator(".cursor").evaluate("s => [s.parentElement.dataset.s, s.dataset.t]")
    assert [int(n) for n in cursor] == list(wanted[1])
    page.locator("#mark").uncheck()
    weight = "s => getComputedStyle(s).outlineStyle"
    assert page.locator(".pivotal").first.evaluate(weight) == "none"
    page.locator("#frequent").click()
    counts = {}
    for row, t in wanted:
        piece = rows[row]["pieces"][t]
        counts[piece] = counts.get(piece, 0) + 1
    cells = page.locator("#table tbody tr td:nth-child(2)").all_inner_texts()
    assert [int(cell) for cell in cells] == sorted(counts.values(), reverse=True)


def test_everything_can_be_reached_by_keys(small, opened):
    rows, page = small[0], opened(small[1])
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.className") == "text":
            break
    assert page.evaluate("document.activeElement.dataset.s") == "0"
    entropy = rows[0]["entropy"]

    def at():
        return float(number(page, "entropy").removesuffix(" nats"))

    assert at() == pytest.approx(entropy[0], abs=6e-5, rel=1e-3)
    place = 0
    for key, move in (("ArrowRight", 1), ("ArrowDown", 10), ("ArrowLeft", -1), ("ArrowUp", -10)):
        page.keyboard.press(key)
        place = max(0, place + move)
        assert at() == pytest.approx(entropy[place], abs=6e-5, rel=1e-3)
    page.keyboard.press("End")
    assert at() == pytest.approx(entropy[39], abs=6e-5, rel=1e-3)
    page.keyboard.press("Home")
    page.keyboard.press("n")
    assert "pivotal" in page.locator("#token").inner_text()
    page.locator("input[name=measure][value=entropy]").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("input[name=measure]:checked").get_attribute("value") == "shaped"


def test_what_was_not_recorded_cannot_be_chosen(tmp_path, opened):
    _, path = written(tmp_path, make_step(DAPO(), sampler=False))
    page = opened(path)
    disabled = page.locator("input[name=measure]:disabled").evaluate_all(
        "all => all.map(i => i.value)"
    )
    assert disabled == ["shaped", "sampler", "reference"]


def test_responses_are_text_whatever_they_hold(tmp_path, opened):
    step = make_step()
    evil = "</script><img src=x onerror=alert(1)><script>alert(2)</script>"
    pieces = (evil, "\u202e\u2066\u200b", "\n\t\u0007", "x" * 100_000)
    rows = [
        dataclasses.replace(row, prompt=evil, problem=evil, reference=evil)
        for row in step.sequences
    ]
    rows[1] = dataclasses.replace(rows[1], pieces=pieces)
    _, path = written(tmp_path, dataclasses.replace(step, sequences=tuple(rows)))
    page = opened(path)
    shown = tokens(page, 1).evaluate_all("all => all.map(s => s.textContent)")
    assert shown[0] == evil
    assert shown[1] == "[U+202E][U+2066][U+200B]"
    assert shown[2] == "\u21b5\n\u21e5\t\u2407"
    assert shown[3] == "x" * 2000 + "\u2026 [98000 more characters]"
    page.locator(".group summary").first.click()
    assert page.locator(".group pre").first.inner_text() == evil
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2
    # A hole of the mask is no token of the policy, and a long one does not widen its card.
    assert classes(tokens(page, 1))[2].split()[0] == "x"
    assert page.locator(".card").nth(1).bounding_box()["width"] < 450


CONTRAST = """
names => names.map(name => {
  const span = document.querySelector(".text > span");
  span.className = name;
  const style = getComputedStyle(span);
  const light = text => {
    const part = text.match(/[0-9.]+/g).slice(0, 3).map(Number).map(value => value / 255)
      .map(value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
  };
  return [light(style.backgroundColor), light(style.color)];
})
"""


def test_colours_are_readable_and_ordered_by_lightness(small, opened):
    """So that they can be told apart in grey, too; contrasts are WCAG's."""
    page = opened(small[1])
    for letter, first in (("s", 0), ("p", 1), ("n", 1)):
        pairs = page.evaluate(CONTRAST, [f"{letter}{k}" for k in range(first, 9)])
        grounds = [ground for ground, _ in pairs]
        assert grounds == sorted(grounds, reverse=True)
        assert len(set(grounds)) == len(grounds)
        for pair in pairs:
            high, low = max(pair), min(pair)
            assert (high + 0.05) / (low + 0.05) >= 4.5
