"""Model cards: a README.md whose front matter the Hugging Face hub reads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from syntaxlm.errors import InputError
from syntaxlm.files import read_stored_text, write_text
from syntaxlm.hub.repositories import CARD
from syntaxlm.model_io import WEIGHTS, ModelBundle, structure_name
from syntaxlm.models.abilities import Parses, PredictsNextToken, SamplesSentences, ScoresTokens

_LOAD = re.compile(r'(syntaxlm\.load\()"[^"\n]*"')
_LICENCE = re.compile(r"[a-z0-9][a-z0-9.+-]*")


@dataclass(frozen=True)
class CardFacts:
    """What only the user knows about a model.

    licence: of the model, an identifier of the hub such as "mit", "cc-by-4.0" or "other".
    language: code of its language, such as "en", or several.
    data: the training data and their terms, in Markdown.  description: what the model is for, in Markdown.
    """

    licence: str | None = None
    language: str | Sequence[str] | None = None
    data: str | None = None
    description: str | None = None

    def __post_init__(self) -> None:
        if self.licence is not None and not _LICENCE.fullmatch(self.licence):
            raise InputError(
                f"licence: found {self.licence!r}; expected an identifier of the hub in lower case, such as mit,"
                " cc-by-4.0 or other"
            )

    def __bool__(self) -> bool:
        return any(value is not None for value in vars(self).values())


def model_card(bundle: ModelBundle, name: str, facts: CardFacts, weight_bytes: int) -> str:
    """The card of a model as Markdown with a YAML front matter.

    name: the name by which `syntaxlm.load` finds the model.  weight_bytes: size of the weights.
    """
    front = {"library_name": "syntaxlm", "tags": ["syntaxlm", bundle.name, "syntax"]}
    if facts.licence is not None:
        front["license"] = facts.licence
    if facts.language is not None:
        front["language"] = [facts.language] if isinstance(facts.language, str) else list(facts.language)
    package = "'syntaxlm[hub]'" if "/" in name else "syntaxlm"
    sections = [
        f"---\n{yaml.safe_dump(front, sort_keys=False, allow_unicode=True)}---\n",
        f"# {name.rpartition('/')[2]}\n",
        *([] if facts.description is None else [facts.description.strip() + "\n"]),
        "A model of syntaxlm, a toolkit of language models that learn syntax.\n",
        "## How to use\n",
        f"Install syntaxlm: `pip install {package}`. Then:\n\n```python\n{_usage(bundle, name)}```\n",
        "## Model\n",
        _table(_model_rows(bundle, weight_bytes)),
        "## Settings\n",
        _table(_setting_rows(bundle)),
        "## Training data\n",
        (facts.data or "Not stated.").strip() + "\n",
        "## Licence\n",
        (facts.licence or "Not stated.") + "\n",
    ]
    return "\n".join(sections)


def write_card(folder: Path, bundle: ModelBundle, name: str, facts: CardFacts, own: Path | None = None) -> None:
    """Writes the card of a model folder, generated if there are facts.

    Without facts, a card in the folder is kept. If there is none, the card of the folder `own`, from which the model
    was read, is copied, or a card is generated.  name: see `model_card`.
    """
    if not facts and (folder / CARD).exists():
        return
    if not facts and has_card(own):
        assert own is not None
        text = _LOAD.sub(lambda found: f'{found[1]}"{name}"', read_stored_text(own / CARD))
    else:
        text = model_card(bundle, name, facts, (folder / WEIGHTS).stat().st_size)
    write_text(text, folder / CARD, stored=True)


def has_card(folder: Path | None) -> bool:
    """Whether a model folder has a card."""
    return folder is not None and (folder / CARD).exists()


def _usage(bundle: ModelBundle, name: str) -> str:
    lines = ["import syntaxlm", "", f'nlp = syntaxlm.load("{name}")']
    model = bundle.model
    text = '"the_DT cat_NN sleeps_VBZ"' if bundle.normaliser.units == "tags" else '"The cat sleeps."'
    if isinstance(model, Parses):
        lines.append(f"nlp.parse({text}).tree.pretty_print()")
    if isinstance(model, ScoresTokens) and model.reads != "trees":
        lines.append(f"print([(word.word, word.surprisal) for word in nlp.surprisal({text})])")
    if isinstance(model, PredictsNextToken | SamplesSentences):
        lines.append("print(nlp.generate(3, seed=1))")
    return "\n".join(lines) + "\n"


def _model_rows(bundle: ModelBundle, weight_bytes: int) -> list[tuple[str, str]]:
    return [
        ("model type", bundle.name),
        ("parameters", f"{bundle.model.parameter_count:,}"),
        ("size of the weights", f"{weight_bytes / 2**20:,.2f} MiB"),
        ("vocabulary", f"{len(bundle.vocabulary):,} tokens"),
        ("structure", structure_name(bundle.model)),
        ("text in training", bundle.trained_on),
    ]


def _setting_rows(bundle: ModelBundle) -> list[tuple[str, str]]:
    def rows(prefix: str, settings: object) -> list[tuple[str, str]]:
        return [(prefix + name, str(value)) for name, value in vars(settings).items() if name[0] != "_"]

    model = [row for row in rows("", bundle.settings.model) if row[0] != "name"]
    return model + rows("normaliser.", bundle.normaliser)


def _table(rows: Sequence[tuple[str, str]]) -> str:
    def cell(value: str) -> str:
        return f"`{value}`".replace("|", r"\|") if value else ""

    return "| | |\n|---|---|\n" + "".join(f"| {name} | {cell(value)} |\n" for name, value in rows)
