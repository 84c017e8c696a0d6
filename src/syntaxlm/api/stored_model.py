"""A model that knows its folder, and can be written to another one and to the Hugging Face hub."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from syntaxlm.core.errors import InputError
from syntaxlm.core.files import named_path, visible_entries
from syntaxlm.generation.stops import read_stops, write_stops
from syntaxlm.storage.folder import (
    CLASSIFIER,
    CONFIG,
    FORMAT,
    STOPS,
    WEIGHTS,
    ModelBundle,
    ModelSettings,
    read_config,
    write_model,
)
from syntaxlm.storage.hub import CARD, CardFacts, check_repository_name, has_card, upload, write_card


@dataclass(frozen=True, repr=False)
class StoredModel(ModelBundle):
    """A model with the folder that it was read from.

    Attributes:
        folder: the folder; None for a model that was made in memory.
    """

    folder: Path | None = None

    def save_pretrained(
        self,
        folder: str | Path,
        *,
        licence: str | None = None,
        language: str | Sequence[str] | None = None,
        data: str | None = None,
        description: str | None = None,
    ) -> None:
        """Write the model as a model folder, with a model card (README.md).

        If none of the following is given, a card in the folder is kept, and otherwise that of the folder from which the
        model was loaded is copied.

        Args:
            folder: a new or existing folder.
            licence: the licence of the model, an identifier of the Hugging Face hub, such as "mit".
            language: code, such as "en", or several.
            data: the training data and their terms.
            description: what the model is for.

        Raises:
            InputError: for the folder of a training run, of a pair classifier or of a model of another program, for a
                card that would be kept and is of a model with other settings, and if the folder cannot be written.
        """
        self._save(named_path(folder).expanduser(), None, CardFacts(licence, language, data, description))

    def push_to_hub(
        self,
        repository: str,
        *,
        licence: str | None = None,
        language: str | Sequence[str] | None = None,
        data: str | None = None,
        description: str | None = None,
        private: bool | None = None,
        revision: str | None = None,
        token: str | None = None,
        message: str | None = None,
    ) -> str:
        """Upload the model to the Hugging Face hub, with a model card. Returns the address of the repository.

        Args:
            repository: its name, "user/name"; it is created if necessary.
            private: whether a new repository is private.
            revision: a branch; None: the main branch.
            token: None: that of `hf auth login` or HF_TOKEN.
            message: the message of the commit.
            licence: see `save_pretrained`; if none is given and the model's folder has no card, a card that the
                repository already has is kept.
            language: see `save_pretrained`; if none is given and the model's folder has no card, a card that the
                repository already has is kept.
            data: see `save_pretrained`; if none is given and the model's folder has no card, a card that the repository
                already has is kept.
            description: see `save_pretrained`; if none is given and the model's folder has no card, a card that the
                repository already has is kept.

        Raises:
            InputError: if the hub refuses the model or cannot be reached, and if huggingface_hub is not installed.
        """
        check_repository_name(repository)
        facts = CardFacts(licence, language, data, description)
        with tempfile.TemporaryDirectory() as folder:
            self._save(Path(folder), repository, facts)
            return upload(
                Path(folder), repository, private=private, revision=revision, token=token, message=message,
                keep_card=not facts and not has_card(self.folder),
            )  # fmt: skip

    def to_transformers(self, folder: str | Path) -> None:
        """Write an LSTM or a Transformer as a model folder of the library transformers.

        `AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)` has the same probabilities. The
        tokenizer of the folder reads text by means of syntaxlm. A combination, such as "en", is written as its language
        model.

        Args:
            folder: a new or empty folder.

        Raises:
            InputError: for other model types, for a mixture of softmaxes, and if the folder is not empty or cannot be
                written.
        """
        from syntaxlm.storage.transformers_export import write_transformers  # which imports several model types

        path = named_path(folder).expanduser()
        if path.is_dir() and visible_entries(path):
            raise InputError(f"{folder}: the folder is not empty; expected a new or empty folder")
        write_transformers(self, path)

    def _save(self, folder: Path, repository: str | None, facts: CardFacts) -> None:
        if (folder / "recipe.yaml").exists():
            raise InputError(f"{folder}: is the folder of a training run; expected another folder")
        if (folder / CLASSIFIER).exists() or ((folder / CONFIG).exists() and not (folder / WEIGHTS).exists()):
            raise InputError(
                f"{folder}: holds a model of another program, or a pair classifier, which would be replaced; expected"
                " another folder"
            )
        keeps_card = not facts and has_card(folder) and (folder / CONFIG).exists()
        if keeps_card and read_config(ModelSettings, folder / CONFIG, FORMAT) != self.settings:
            raise InputError(
                f"{folder}: {CARD} describes a model with other settings; expected another folder, or a licence, a"
                " language, data or a description for a new card"
            )
        write_model(folder, self)
        if self.model.reads == "trees" and self.files is not None and (self.files / STOPS).exists():
            write_stops(folder, read_stops(self.files, self), self.model)
        write_card(folder, self, repository or folder.resolve().name, facts, self.files)
