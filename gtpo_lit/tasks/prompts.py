"""Problem in, prompt token ids out: rendered and tokenised once, never decoded again."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gtpo_lit.tasks.prompt_limit import cut_text
from gtpo_lit.types import Problem

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# Doubled braces stand for one, as in `str.format`. Others that are no name in braces stay as they
# are, so that `\boxed{}` needs no care.
_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([A-Za-z_]\w*)\}")
_PROBE = "What is 2+2?"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Example:
    """A question that is answered in the prompt already.

    Args:
        question: as in a problem; it goes through the template, too.
        answer: what the policy should write to such a question, letter by letter.
    """

    question: str
    answer: str


class PromptTemplate:
    r"""Turns a problem into a prompt, as raw text or as a chat.

    >>> prompt = PromptTemplate(template="{question}\nPut the answer in \\boxed{}.")
    >>> prompt.content(Problem(id="0", question="2+2?", answer="4"))
    '2+2?\nPut the answer in \\boxed{}.'
    """

    def __init__(
        self,
        chat: bool = False,
        system: str | None = None,
        template: str = "{question}",
        chat_template: str | None = None,
        chat_template_kwargs: dict[str, Any] | None = None,
        examples: list[Example] | None = None,
        separator: str = "\n\n",
    ) -> None:
        """Choose how prompts look.

        Args:
            chat: whether the question is sent as a user message through a chat template, with the
                mark that starts the answer at the end. If false, the prompt is the raw text.
            system: text of the system message; needs `chat`. Without one, the chat template
                decides whether there is a default.
            template: the text of the question, in which `{question}` stands for the problem's. No
                other name in braces is known; write `{{name}}` for a literal `{name}`.
            chat_template: replaces the tokenizer's chat template: a Jinja text, or the path of a
                file that holds one.
            chat_template_kwargs: further variables for the chat template, such as
                `enable_thinking: false`.
            examples: answered questions that come first (few-shot): in a chat as messages of user
                and assistant, else as text, each followed by `separator`.
            separator: what stands between the examples of raw text.

        Raises:
            ValueError: if the template is unusable, the chat template's file is missing, or an
                option of chats is set without `chat`.
        """
        names = [match[1] for match in _PLACEHOLDER.finditer(template) if match[1]]
        if unknown := sorted(set(names) - {"question"}):
            raise ValueError(
                f"template: unknown {{{unknown[0]}}} in {template!r}; only {{question}} is known "
                f"(write {{{{{unknown[0]}}}}} for literal braces)"
            )
        if "question" not in names:
            raise ValueError(f"template: {{question}} is missing in {template!r}")
        chat_only = {
            "system": system,
            "chat_template": chat_template,
            "chat_template_kwargs": chat_template_kwargs,
        }
        for option, value in chat_only.items():
            if value is not None and not chat:
                raise ValueError(f"{option}={value!r} has no effect with chat=False; set chat=True")
        if system is not None and not system.strip():
            raise ValueError(f"system must hold text or be null, got {system!r}")
        self.chat = chat
        self.system = system
        self.template = template
        self.chat_template = None if chat_template is None else _read_template(chat_template)
        self.chat_template_kwargs = dict(chat_template_kwargs or {})
        self.examples = tuple(examples or ())
        self.separator = separator

    def check(self, tokenizer: PreTrainedTokenizerBase) -> None:
        """Try the template on a made question, to find mistakes before any weight is loaded.

        Raises:
            ValueError: naming tokenizer and option, if messages are asked for and there is no chat
                template, or if the template loses the question or does not show the system text
                exactly once.
        """
        probe = Problem(id="probe", question=_PROBE, answer="4")
        text = self.render_text(probe, tokenizer)
        # Chat templates commonly strip the messages.
        if self.content(probe).strip() not in text:
            raise ValueError(
                f"chat_template: {_name(tokenizer)} loses the question, it renders {text!r}"
            )
        for example in self.examples:
            if example.answer.strip() not in text:
                raise ValueError(
                    f"chat_template: {_name(tokenizer)} loses the example {example.answer!r}, "
                    f"it renders {text!r}"
                )
        if self.system is not None and (found := text.count(self.system.strip())) != 1:
            raise ValueError(
                f"system: the chat template of {_name(tokenizer)} shows the system text {found} "
                f"times, not once: {text!r}"
            )
        self.render_ids(probe, tokenizer)

    def content(self, problem: Problem) -> str:
        """The question inside `template`, without any chat marks."""
        return self._fill(problem.question)

    def _fill(self, question: str) -> str:
        parts = {"{{": "{", "}}": "}", "{question}": question}
        return _PLACEHOLDER.sub(lambda match: parts[match[0]], self.template)

    def render_text(self, problem: Problem, tokenizer: PreTrainedTokenizerBase) -> str:
        """The prompt as text, special tokens included that the chat template writes."""
        content = self.content(problem)
        if not self.chat:
            shots = (self._fill(shot.question) + shot.answer for shot in self.examples)
            return self.separator.join([*shots, content])
        if self.chat_template is None and not tokenizer.chat_template:
            raise ValueError(
                f"chat=True but the tokenizer {_name(tokenizer)} has no chat template: "
                "set chat_template to a template or its file, or chat=False for raw text"
            )
        messages = self._messages(content)
        try:
            return str(
                tokenizer.apply_chat_template(
                    messages,
                    chat_template=self.chat_template,
                    tokenize=False,
                    add_generation_prompt=True,
                    **self.chat_template_kwargs,
                )
            )
        except Exception as error:  # a template is a program, and may raise what it likes
            roles = [message["role"] for message in messages]
            raise ValueError(
                f"chat_template: the one of {_name(tokenizer)} fails on {roles} messages: {error}"
            ) from error

    def _messages(self, content: str) -> list[dict[str, str]]:
        turns = [("system", self.system)] if self.system is not None else []
        for shot in self.examples:
            turns += [("user", self._fill(shot.question)), ("assistant", shot.answer)]
        turns.append(("user", content))
        return [{"role": role, "content": text} for role, text in turns]

    def render_ids(self, problem: Problem, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
        """The prompt as token ids; what both sampling and training use.

        A tokenizer that starts every text with BOS gets exactly one, whether or not the template
        wrote it already; to others nothing is added.
        """
        text = self.render_text(problem, tokenizer)
        ids = _encode(tokenizer, text, special=False)
        if not ids:
            raise ValueError(f"the prompt of problem {problem.id!r} has no tokens: {text!r}")
        start = _start_ids(_encode(tokenizer, text, special=True), ids)
        return ids if ids[: len(start)] == start else start + ids

    def cut_ids(
        self, problem: Problem, tokenizer: PreTrainedTokenizerBase, limit: int
    ) -> tuple[int, ...]:
        """The prompt as at most `limit` token ids, by leaving out the middle of the question.

        It is rendered anew around the shorter question, so every role marker, the template, the
        examples and the mark that starts the answer stay as they are. A prompt that is short
        enough is what `render_ids` gives.

        Raises:
            ValueError: if what stands around the question is too long already.
        """

        def ids(question: str) -> tuple[int, ...]:
            return self.render_ids(dataclasses.replace(problem, question=question), tokenizer)

        question = cut_text(problem.question, lambda text: len(ids(text)) <= limit)
        if question is None:
            raise ValueError(
                f"the prompt of problem {problem.id!r} cannot be cut to {limit} tokens: what "
                f"stands around the question has about {len(ids(problem.question[:1]))}; raise "
                "data.max_prompt_length or shorten the template"
            )
        return ids(question)


def _name(tokenizer: PreTrainedTokenizerBase) -> str:
    return repr(tokenizer.name_or_path or type(tokenizer).__name__)


def _read_template(chat_template: str) -> str:
    if "{{" in chat_template or "{%" in chat_template:
        return chat_template
    path = Path(chat_template).expanduser()
    if not path.is_file():
        raise ValueError(f"chat_template: no such file and no Jinja text either: {chat_template!r}")
    return path.read_text(encoding="utf-8")


def _encode(tokenizer: PreTrainedTokenizerBase, text: str, *, special: bool) -> tuple[int, ...]:
    return tuple(tokenizer(text, add_special_tokens=special)["input_ids"])


def _start_ids(with_special: tuple[int, ...], plain: tuple[int, ...]) -> tuple[int, ...]:
    """What the tokenizer itself puts before a text; what it puts behind is of no use here."""
    for start in range(len(with_special) - len(plain) + 1):
        if with_special[start : start + len(plain)] == plain:
            return with_special[:start]
    return ()
