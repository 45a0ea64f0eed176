"""A problem as the token ids that are sampled from, and trained on."""

from __future__ import annotations

import string
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from transformers import PreTrainedTokenizerBase

from gtpo_lit.types import Problem


class PromptTemplate:
    """Renders a problem once, by a plain template or the tokenizer's chat template.

    Args:
        template: the user's text; `{question}` is replaced.
        chat: render messages by the chat template; else tokenise the text as it is.
        system: text of a system message, before the question; needs `chat`.
        chat_template: a Jinja template, or the path of a file with one, in place of the
            tokenizer's.
    """

    def __init__(
        self,
        template: str = "{question}",
        chat: bool = False,
        system: str | None = None,
        chat_template: str | None = None,
    ) -> None:
        fields = [name for _, name, _, _ in string.Formatter().parse(template) if name is not None]
        if fields != ["question"]:
            raise ValueError(
                "data.prompt.template must hold {question} once and no other field (write other "
                f"braces twice), got {template!r}"
            )
        for name, value in (("system", system), ("chat_template", chat_template)):
            if value is not None and not chat:
                raise ValueError(f"data.prompt.{name} needs data.prompt.chat: true")
        self.template = template
        self.chat = chat
        self.system = system
        self.chat_template = _read(chat_template) if chat_template is not None else None

    def check(self, tokenizer: PreTrainedTokenizerBase) -> None:
        """Refuse a tokenizer that cannot render messages.

        Raises:
            ValueError: naming the tokenizer and the option.
        """
        if self.chat and self.chat_template is None and tokenizer.chat_template is None:
            raise ValueError(
                f"data.prompt.chat is true, but the tokenizer {tokenizer.name_or_path!r} has no "
                "chat template: set data.prompt.chat_template, or data.prompt.chat: false"
            )

    def render_ids(self, problem: Problem, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
        """Token ids with the special tokens that the template or the tokenizer puts, once.

        Raises:
            ValueError: if the system text is not in the rendered prompt exactly once.
        """
        text = self.template.format(question=problem.question)
        if not self.chat:
            return tuple(tokenizer(text)["input_ids"])
        messages = [{"role": "user", "content": text}]
        if self.system is not None:
            messages.insert(0, {"role": "system", "content": self.system})
        rendered = tokenizer.apply_chat_template(
            messages,
            chat_template=self.chat_template,
            tokenize=False,
            add_generation_prompt=True,
        )
        assert isinstance(rendered, str)
        if (
            self.system is not None
            and self.system not in text
            and (rendered.count(self.system) != 1)
        ):
            raise ValueError(
                f"data.prompt.system stands {rendered.count(self.system)} times in the rendered "
                "prompt: the chat template does not support a system message"
            )
        # The template has put what special tokens there are; tokenising must add none.
        ids = tuple(tokenizer(rendered, add_special_tokens=False)["input_ids"])
        bos = tokenizer.bos_token_id
        if bos is not None and ids[:1] != (bos,) and tokenizer("")["input_ids"][:1] == [bos]:
            # A tokenizer that begins every text with this token, and a template that forgets it.
            ids = (bos, *ids)
        return ids


def fit_prompts(
    prompts: Sequence[Sequence[int]],
    *,
    max_prompt_length: int | None,
    long_prompts: Literal["drop", "error"],
) -> tuple[list[int], int]:
    """Indices of the prompts of at most `max_prompt_length` tokens, and how many are longer.

    Prompts are kept or dropped whole, so that no role marker is ever cut.

    Raises:
        ValueError: if `long_prompts` is "error" and a prompt is longer; for an unknown option.
    """
    if long_prompts not in ("drop", "error"):
        raise ValueError(f"data.long_prompts must be 'drop' or 'error', got {long_prompts!r}")
    kept = [
        index
        for index, prompt in enumerate(prompts)
        if max_prompt_length is None or len(prompt) <= max_prompt_length
    ]
    dropped = len(prompts) - len(kept)
    if dropped and long_prompts == "error":
        longest = max(len(prompt) for prompt in prompts)
        raise ValueError(
            f"{dropped} of {len(prompts)} prompts are longer than data.max_prompt_length = "
            f"{max_prompt_length} tokens (longest: {longest}); raise it or set "
            "data.long_prompts: drop"
        )
    return kept, dropped


def _read(chat_template: str) -> str:
    if "{" in chat_template:
        return chat_template
    path = Path(chat_template)
    if not path.is_file():
        raise ValueError(f"data.prompt.chat_template: no such file: {chat_template!r}")
    return path.read_text(encoding="utf-8")
