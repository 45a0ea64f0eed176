from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from gtpo_lit.tasks import Example, PromptTemplate, fit_prompts
from gtpo_lit.types import Problem

PROBLEM = Problem(id="0", question="2+2?", answer="4")
LLAMA_TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<hdr>{{ m['role'] }}\n{{ m['content'] | trim }}<eot>"
    "{% endfor %}{% if add_generation_prompt %}<hdr>assistant\n{% endif %}"
)
QWEN_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def _tokenizer(
    special: list[str], *, bos: str | None, adds_bos: bool, chat_template: str | None
) -> PreTrainedTokenizerFast:
    """One token a character, and one for each special text; BOS comes first in the list."""
    vocab = {text: index for index, text in enumerate(["<unk>", *special])}
    for code in [10, *range(32, 127)]:
        vocab[chr(code)] = len(vocab)
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in special])
    if adds_bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, vocab[bos])]
        )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=bos, unk_token="<unk>", eos_token=special[-1]
    )
    fast.chat_template = chat_template
    fast.name_or_path = "tiny"
    return fast


def _llama_like(chat_template: str | None = LLAMA_TEMPLATE) -> PreTrainedTokenizerFast:
    return _tokenizer(
        ["<BOS>", "<hdr>", "<eot>"], bos="<BOS>", adds_bos=True, chat_template=chat_template
    )


def _qwen_like(
    chat_template: str | None = QWEN_TEMPLATE, bos: str | None = None
) -> PreTrainedTokenizerFast:
    return _tokenizer(
        ["<|im_start|>", "<|im_end|>"], bos=bos, adds_bos=False, chat_template=chat_template
    )


def _ids(tokenizer: PreTrainedTokenizerFast, *pieces: str) -> tuple[int, ...]:
    """Ids of special texts and of plain ones, whose characters are tokens."""
    vocab = tokenizer.get_vocab()
    return tuple(
        vocab[token] for piece in pieces for token in ([piece] if piece in vocab else piece)
    )


def test_template_with_bos_gets_no_second_one() -> None:
    tokenizer = _llama_like()
    ids = PromptTemplate(chat=True).render_ids(PROBLEM, tokenizer)
    assert ids == _ids(
        tokenizer, "<BOS>", "<hdr>", "user\n", "2+2?", "<eot>", "<hdr>", "assistant\n"
    )


def test_template_without_bos_gets_the_one_that_the_tokenizer_adds() -> None:
    tokenizer = _llama_like(LLAMA_TEMPLATE.removeprefix("{{ bos_token }}"))
    ids = PromptTemplate(chat=True).render_ids(PROBLEM, tokenizer)
    assert ids[:2] == _ids(tokenizer, "<BOS>", "<hdr>")
    assert ids.count(tokenizer.bos_token_id) == 1


@pytest.mark.parametrize("template", ["{question}", "<BOS>{question}"])
def test_raw_text_gets_its_single_bos(template: str) -> None:
    tokenizer = _llama_like()
    ids = PromptTemplate(template=template).render_ids(PROBLEM, tokenizer)
    assert ids == _ids(tokenizer, "<BOS>", "2+2?")


def test_end_token_that_the_tokenizer_adds_is_left_out() -> None:
    tokenizer = _llama_like()
    vocab = tokenizer.get_vocab()
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<BOS> $A <eot>",
        special_tokens=[("<BOS>", vocab["<BOS>"]), ("<eot>", vocab["<eot>"])],
    )
    assert tokenizer("2")["input_ids"] == list(_ids(tokenizer, "<BOS>", "2", "<eot>"))
    assert PromptTemplate().render_ids(PROBLEM, tokenizer) == _ids(tokenizer, "<BOS>", "2+2?")


# A tokenizer may have a BOS token that it never adds (SmolLM2 names <|im_start|> so).
@pytest.mark.parametrize("bos", [None, "<|im_start|>"])
def test_nothing_is_added_where_the_tokenizer_adds_nothing(bos: str | None) -> None:
    tokenizer = _qwen_like(bos=bos)
    assert PromptTemplate().render_ids(PROBLEM, tokenizer) == _ids(tokenizer, "2+2?")
    chat = PromptTemplate(chat=True, system="Be brief.").render_ids(PROBLEM, tokenizer)
    assert chat == _ids(
        tokenizer,
        *("<|im_start|>", "system\n", "Be brief.", "<|im_end|>", "\n"),
        *("<|im_start|>", "user\n", "2+2?", "<|im_end|>", "\n"),
        *("<|im_start|>", "assistant\n"),
    )


@pytest.mark.parametrize("system", [None, "Be brief."])
def test_missing_chat_template_is_an_early_error_naming_tokenizer_and_option(
    system: str | None,
) -> None:
    prompt = PromptTemplate(chat=True, system=system)
    for call in (prompt.check, lambda tokenizer: prompt.render_ids(PROBLEM, tokenizer)):
        with pytest.raises(ValueError, match=r"chat=True .* 'tiny' has no chat template.*chat_t"):
            call(_qwen_like(chat_template=None))


def test_chat_template_from_a_file_or_a_text_replaces_a_missing_one(tmp_path: Path) -> None:
    file = tmp_path / "chat.jinja"
    file.write_text(QWEN_TEMPLATE)
    tokenizer = _qwen_like(chat_template=None)
    expected = "<|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n"
    for chat_template in (QWEN_TEMPLATE, str(file)):
        prompt = PromptTemplate(chat=True, chat_template=chat_template)
        prompt.check(tokenizer)
        assert prompt.render_text(PROBLEM, tokenizer) == expected
        assert tokenizer.decode(prompt.render_ids(PROBLEM, tokenizer)) == expected


def test_missing_chat_template_file_is_named() -> None:
    with pytest.raises(ValueError, match=r"chat_template: no such file.*'nowhere\.jinja'"):
        PromptTemplate(chat=True, chat_template="nowhere.jinja")


def test_check_wants_the_system_text_exactly_once() -> None:
    prompt = PromptTemplate(chat=True, system=" Be brief.\n")
    prompt.check(_llama_like())
    for chat_template, found in (
        ("{{ messages[-1]['content'] }}", 0),
        ("{% for i in [1, 2] %}{{ messages[0]['content'] }}{% endfor %}" + QWEN_TEMPLATE, 3),
    ):
        with pytest.raises(ValueError, match=f"system: .*'tiny' shows the system text {found}"):
            prompt.check(_qwen_like(chat_template))


def test_check_reports_a_template_that_fails_or_loses_the_question() -> None:
    refuses = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}"
    tokenizer = _qwen_like(refuses + "{% endif %}" + QWEN_TEMPLATE)
    PromptTemplate(chat=True).check(tokenizer)
    with pytest.raises(ValueError, match=r"'tiny' fails on \['system', 'user'\].*no system role"):
        PromptTemplate(chat=True, system="x").check(tokenizer)
    with pytest.raises(ValueError, match="'tiny' loses the question"):
        PromptTemplate(chat=True).check(_qwen_like("{{ messages[0]['role'] }}"))


def test_chat_template_kwargs_reach_the_template() -> None:
    tokenizer = _qwen_like(QWEN_TEMPLATE + "{% if not thinking %}-{% endif %}")
    prompt = PromptTemplate(chat=True, chat_template_kwargs={"thinking": False})
    assert prompt.render_text(PROBLEM, tokenizer).endswith("<|im_start|>assistant\n-")
    prompt = PromptTemplate(chat=True, chat_template_kwargs={"thinking": True})
    assert prompt.render_text(PROBLEM, tokenizer).endswith("<|im_start|>assistant\n")


@pytest.mark.parametrize(
    ("template", "content"),
    [
        ("{question}", "a{b}{{c}}"),
        ("Q: {question}\nPut it in \\boxed{}.", "Q: a{b}{{c}}\nPut it in \\boxed{}."),
        ("{question} \\boxed{{}} {{answer}}", "a{b}{{c}} \\boxed{} {answer}"),
        ("{question} {question}", "a{b}{{c}} a{b}{{c}}"),
    ],
)
def test_content_leaves_braces_alone(template: str, content: str) -> None:
    problem = Problem(id="0", question="a{b}{{c}}", answer="")
    assert PromptTemplate(template=template).content(problem) == content


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"template": "Q:"}, r"template: \{question\} is missing in 'Q:'"),
        ({"template": "{{question}}"}, r"template: \{question\} is missing"),
        ({"template": "{question} {answer}"}, r"template: unknown \{answer\}"),
        ({"system": "x"}, "system='x' has no effect with chat=False"),
        ({"chat_template": "{{ x }}"}, "chat_template=.* has no effect with chat=False"),
        ({"chat": True, "system": " "}, "system must hold text or be null, got ' '"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PromptTemplate(**options)


def test_prompt_without_tokens_is_an_error() -> None:
    with pytest.raises(ValueError, match="prompt of problem 'e' has no tokens"):
        PromptTemplate().render_ids(Problem(id="e", question="", answer=""), _llama_like())


def test_limit_keeps_ids_and_drops_whole_prompts() -> None:
    tokenizer = _qwen_like()
    prompt = PromptTemplate(chat=True)
    short = prompt.render_ids(PROBLEM, tokenizer)
    long = prompt.render_ids(Problem(id="1", question="2" * 600, answer=""), tokenizer)
    assert fit_prompts([short, long, short], None) == ([0, 1, 2], 0)
    assert fit_prompts([short, long, short], 512) == ([0, 2], 1)
    assert fit_prompts([short, long], len(long), long_prompts="error") == ([0, 1], 0)
    with pytest.raises(ValueError, match=r"1 of 2 .*max_prompt_tokens=512 .* has 619\)"):
        fit_prompts([short, long], 512, long_prompts="error")
    with pytest.raises(ValueError, match="long_prompts must be .* got 'cut'"):
        fit_prompts([short], 5, long_prompts="cut")
    with pytest.raises(ValueError, match="max_prompt_tokens must be at least 1, got 0"):
        fit_prompts([short], 0)


@given(st.lists(st.lists(st.integers(0, 9), max_size=6)), st.integers(1, 6))
def test_every_prompt_is_kept_or_counted(prompts: list[list[int]], limit: int) -> None:
    kept, dropped = fit_prompts(prompts, limit)
    assert kept == [i for i in range(len(prompts)) if len(prompts[i]) <= limit]
    assert len(kept) + dropped == len(prompts)


EXAMPLES = [Example(question="1+1?", answer=" 2"), Example(question="3+3?", answer=" 6")]


def test_examples_of_raw_text_stand_before_the_question() -> None:
    prompt = PromptTemplate(template="Q: {question}\nA:", examples=EXAMPLES)
    tokenizer = _llama_like()
    prompt.check(tokenizer)
    expected = "Q: 1+1?\nA: 2\n\nQ: 3+3?\nA: 6\n\nQ: 2+2?\nA:"
    assert prompt.render_text(PROBLEM, tokenizer) == expected
    assert prompt.render_ids(PROBLEM, tokenizer) == _ids(tokenizer, "<BOS>", expected)
    other = PromptTemplate(examples=EXAMPLES[:1], separator="|")
    assert other.render_text(PROBLEM, tokenizer) == "1+1? 2|2+2?"


def test_examples_of_a_chat_are_messages() -> None:
    prompt = PromptTemplate(chat=True, system="Be brief.", examples=EXAMPLES[:1])
    tokenizer = _llama_like()
    prompt.check(tokenizer)
    assert prompt.render_ids(PROBLEM, tokenizer) == _ids(
        tokenizer,
        *("<BOS>", "<hdr>", "system\n", "Be brief.", "<eot>"),
        *("<hdr>", "user\n", "1+1?", "<eot>", "<hdr>", "assistant\n", "2", "<eot>"),
        *("<hdr>", "user\n", "2+2?", "<eot>", "<hdr>", "assistant\n"),
    )


def test_a_template_that_loses_the_examples_is_reported() -> None:
    last = "<|im_start|>user\n{{ messages[-1]['content'] }}<|im_end|>\n<|im_start|>assistant\n"
    with pytest.raises(ValueError, match="'tiny' loses the example ' 6'"):
        PromptTemplate(chat=True, examples=EXAMPLES).check(_qwen_like(last))


@pytest.mark.parametrize("make", [_llama_like, _qwen_like])
def test_cut_prompts_keep_every_role_marker_and_the_start_of_the_answer(make: Any) -> None:
    tokenizer = make()
    prompt = PromptTemplate(
        chat=True, system="Be brief.", template="{question} In a box.", examples=EXAMPLES[:1]
    )
    question = "Start" + "2" * 600 + "end?"
    problem = Problem(id="1", question=question, answer="")
    whole = prompt.render_ids(problem, tokenizer)
    cut = prompt.cut_ids(problem, tokenizer, 200)
    assert 198 <= len(cut) <= 200
    side = (len(question) - (len(whole) - len(cut)) - len(" ... ")) // 2
    shorter = Problem(id="1", question=question[:side] + " ... " + question[-side:], answer="")
    assert cut == prompt.render_ids(shorter, tokenizer)
    special = set(tokenizer.all_special_ids)
    assert [token for token in cut if token in special] == [
        token for token in whole if token in special
    ]
    text, all_of_it = tokenizer.decode(cut), tokenizer.decode(whole)
    assert "Start2" in text
    assert all_of_it[-40:] == text[-40:]
    assert "end? In a box." in text[-60:]


def test_a_prompt_that_fits_is_not_changed_by_the_limit() -> None:
    tokenizer = _qwen_like()
    prompt = PromptTemplate(chat=True)
    ids = prompt.render_ids(PROBLEM, tokenizer)
    assert (
        prompt.cut_ids(PROBLEM, tokenizer, 512)
        == prompt.cut_ids(PROBLEM, tokenizer, len(ids))
        == ids
    )


def test_a_template_longer_than_the_limit_cannot_be_cut() -> None:
    problem = Problem(id="7", question="2" * 50, answer="")
    with pytest.raises(ValueError, match=r"problem '7' cannot be cut to 10 tokens: .* about 20;"):
        PromptTemplate(chat=True).cut_ids(problem, _qwen_like(), 10)
