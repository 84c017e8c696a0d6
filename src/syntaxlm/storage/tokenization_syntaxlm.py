"""The tokens of a language model that syntaxlm trained, for AutoTokenizer of the library transformers.

Load it with `trust_remote_code=True`. Text is read by syntaxlm itself, which must be installed.
"""

from pathlib import Path
from shutil import copyfile
from typing import Any

from transformers import PreTrainedTokenizer

from syntaxlm.text.normaliser import Normaliser, as_text
from syntaxlm.text.normaliser_settings import NormaliserSettings
from syntaxlm.text.options import TextOptions
from syntaxlm.text.reader import TextReader
from syntaxlm.text.vocabulary import Vocabulary

VOCABULARY = "vocabulary.json"


class SyntaxLMTokenizer(PreTrainedTokenizer):
    """Reads text as syntaxlm does. BOS comes before a text; EOS does not follow it.

    Args:
        vocabulary_file: the vocabulary, written by syntaxlm.
        normaliser: the settings of the normaliser, see `NormaliserSettings`.
        options: see `PreTrainedTokenizer`.
    """

    vocab_files_names = {"vocabulary_file": VOCABULARY}  # noqa: RUF012  # as in the library
    model_input_names = ["input_ids", "attention_mask"]  # noqa: RUF012

    def __init__(self, vocabulary_file: str, normaliser: dict[str, Any] | None = None, **options: Any) -> None:
        self.vocabulary_file = vocabulary_file
        self.vocabulary = Vocabulary.read(vocabulary_file)
        self.normaliser = Normaliser.of(NormaliserSettings.from_dict(normaliser or {}))
        self.reader = TextReader.of(self.normaliser, self.vocabulary, TextOptions())
        self._ids = {token: number for number, token in enumerate(self.vocabulary.tokens)}
        special = {"unk_token": self.vocabulary.unknown, "bos_token": self.vocabulary.begin}
        special |= {"eos_token": self.vocabulary.end, "pad_token": self.vocabulary.end}
        super().__init__(normaliser=normaliser, **{**special, "padding_side": "right", **options})

    @property
    def vocab_size(self) -> int:
        """The number of tokens."""
        return len(self.vocabulary)

    def get_vocab(self) -> dict[str, int]:
        """Return the ids of all tokens."""
        return dict(self._ids)

    def _tokenize(self, text: str, **ignored: Any) -> list[str]:
        """Return the tokens of a text; an unknown word is the token of its class."""
        ids = self.vocabulary.encode(self.reader.tokens(text))
        return [self.vocabulary.tokens[number] for number in ids]

    def _convert_token_to_id(self, token: str) -> int:
        return self._ids.get(token, self.vocabulary.unknown_id)

    def _convert_id_to_token(self, index: int) -> str:
        return self.vocabulary.tokens[index]

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        """Return tokens as text."""
        return as_text(self.normaliser, tokens)

    def build_inputs_with_special_tokens(
        self, token_ids_0: list[int], token_ids_1: list[int] | None = None
    ) -> list[int]:
        """Return the ids of one text, or of two as one, after BOS."""
        return [self.vocabulary.begin_id, *token_ids_0, *(token_ids_1 or [])]

    def save_vocabulary(self, save_directory: str, filename_prefix: str | None = None) -> tuple[str, ...]:
        """Copy the vocabulary to a folder, and return its path there."""
        path = Path(save_directory) / VOCABULARY
        if Path(self.vocabulary_file).resolve() != path.resolve():
            copyfile(self.vocabulary_file, path)
        return (str(path),)
