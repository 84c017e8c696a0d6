"""F1 of the models of a comparison on a treebank, computed once per model and stored in its folder.

A stored score is used again as long as everything it depends on is unchanged: the model, the sentences and trees of the
treebank, the preprocessing, the protocol, the decoder and the device.
"""

from __future__ import annotations

import dataclasses
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from io import BufferedReader
from pathlib import Path
from typing import Any, TypeVar, cast

from syntaxlm.core.errors import InputError
from syntaxlm.core.files import open_stored, parse_json, read_stored, to_json, write_text
from syntaxlm.core.settings import Finite, Positive, read_settings
from syntaxlm.core.text_files import STANDARD_INPUT
from syntaxlm.data.treebank_files import treebank_files
from syntaxlm.data.treebanks import Treebank, read_treebank
from syntaxlm.evaluation.trees import gold_trees_of, known_tokens_for, sentences_up_to
from syntaxlm.models.abilities import ParsesSentences
from syntaxlm.parsing.options import DecodingOptions
from syntaxlm.parsing.structure import Decoding, decodings, structure_of
from syntaxlm.storage.folder import CONFIG, LABELS, VOCABULARY, WEIGHTS, ModelBundle
from syntaxlm.training.run import fingerprint
from syntaxlm.trees.baselines import baseline_scores
from syntaxlm.trees.f1 import PROTOCOLS, Protocol, score
from syntaxlm.trees.preprocessing import GoldPreprocessing, find_preprocessing
from syntaxlm.trees.spans import concatenate

TREES, BASELINES = "trees.json", "baselines.json"
SHORT = 10  # words; F1 is also computed for sentences of up to this length
SENTENCES_AT_ONCE = 1 << 12  # sentences whose structure is in memory at the same time
_FORMAT = 1  # raised when a change of syntaxlm changes scores

Score = TypeVar("Score")


@dataclass(frozen=True)
class TreebankScore:
    """F1 of a model on a treebank, by its default decoder.

    Attributes:
        f1: unlabelled F1, 0 to 1.
        short_f1: the same of the sentences of up to `SHORT` words; None if there are none.
        sentences: number of scored sentences.
        short_sentences: number of scored sentences of up to `SHORT` words.
        layer: the layer of the distances; None if the trees are not decoded from distances.
        device: that parsed.
        parsed: number of parsed sentences: all of the treebank that are not longer than the protocol's limit.
        seconds: wall-clock time from tokens to trees, without reading, scoring and loading the model.
    """

    f1: Finite
    short_f1: Finite | None
    sentences: int
    short_sentences: int
    decoder: str
    layer: int | None
    device: str
    parsed: int
    seconds: Positive

    @property
    def sentences_per_second(self) -> float:
        return self.parsed / self.seconds

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self) | {"sentences_per_second": self.sentences_per_second}


@dataclass(frozen=True)
class TreebankBaseline:
    """F1 of trees that need no model; for random trees the mean over seeds.

    Attributes:
        name: such as "right branching".
        short_f1: see `TreebankScore`.
        std: sample standard deviation over seeds; None without seeds and for one.
        seeds: number of seeds; None without seeds.
    """

    name: str
    f1: Finite
    short_f1: Finite | None
    std: Finite | None = None
    short_std: Finite | None = None
    seeds: int | None = None


class TreebankEvaluation:
    """The evaluation of models on one treebank.

    Args:
        treebank: a file, folder or pattern.
        preprocessing: the gold-tree preprocessing: a name, a YAML file or a rule.

    Raises:
        InputError: for standard input, which can be read only once, for missing files, and for an unknown
            preprocessing.
    """

    def __init__(
        self,
        treebank: str | Path,
        protocol: Protocol = PROTOCOLS["wsj-test"],
        preprocessing: GoldPreprocessing | str | Path = "ptb-keep",
    ) -> None:
        self.source, self.protocol = str(treebank), protocol
        limit = protocol.max_words
        self._protocol_of_short = dataclasses.replace(protocol, max_words=SHORT if limit is None else min(limit, SHORT))
        self.preprocessing = find_preprocessing(preprocessing)
        if self.source == STANDARD_INPUT:
            raise InputError("the treebank is standard input; expected a file, because a comparison may read it again")
        treebank_files(self.source)

    def to_dict(self) -> dict[str, Any]:
        protocol = dataclasses.asdict(self.protocol)
        return {"source": self.source, "preprocessing": self.preprocessing.name, "protocol": protocol}

    def score(self, bundle: ModelBundle, folder: Path) -> TreebankScore | None:
        """Return the score of a model, from its folder or computed and stored there; None for a model that does not
        parse.

        Args:
            bundle: the model, on the device that parses.

        Raises:
            InputError: if the model cannot read the treebank.
        """
        if not isinstance(bundle.model, ParsesSentences):
            return None
        (decoding,) = decodings([bundle], DecodingOptions())
        model = {"model": model_hashes(folder), "decoder": decoding.decoder, "layer": decoding.layer}
        key = self._key | model | {"device": str(bundle.device)}
        (model_score,) = stored_scores(
            folder / TREES, key, TreebankScore, lambda: [self._parse_and_score(bundle, decoding)]
        )
        return model_score

    def baselines(self, folder: Path) -> list[TreebankBaseline]:
        """Return left branching, right branching and random trees, from a folder or computed and stored there."""

        def compute() -> list[TreebankBaseline]:
            spans = gold_trees_of(self._all_sentences, self.preprocessing).spans  # random trees are drawn for all
            every = baseline_scores(spans, self.protocol, biased_bound=False)
            has_short = self._protocol_of_short.scored(spans.lengths).any()
            short = baseline_scores(spans, self._protocol_of_short, biased_bound=False) if has_short else None
            random = every.random
            short_figures = (short.random.mean, short.random.std) if short else (None, None)
            return [
                TreebankBaseline("left branching", every.left.f1, short.left.f1 if short else None),
                TreebankBaseline("right branching", every.right.f1, short.right.f1 if short else None),
                TreebankBaseline(
                    "random trees", random.mean, short_figures[0], random.std, short_figures[1], random.count
                ),
            ]

        return stored_scores(folder / BASELINES, self._key, TreebankBaseline, compute)

    @cached_property
    def _all_sentences(self) -> Treebank:
        return read_treebank(self.source, self.preprocessing)

    @cached_property
    def _key(self) -> dict[str, Any]:
        """What every score depends on. Tags of the preprocessing are sorted, because sets have no order."""
        files = fingerprint({"treebank": self.source}, ["treebank"])["treebank"]
        settings = dataclasses.asdict(self.preprocessing)
        rule = {name: sorted(value) if isinstance(value, frozenset) else value for name, value in settings.items()}
        protocol = dataclasses.asdict(self.protocol)
        return {"format": _FORMAT, "treebank": list(files.values()), "preprocessing": rule, "protocol": protocol}

    def _parse_and_score(self, bundle: ModelBundle, decoding: Decoding) -> TreebankScore:
        """Parse the sentences that the protocol scores, and score their trees.

        Raises:
            InputError: if most words are unknown to the model, as they are to a character-level model.
        """
        treebank = sentences_up_to(self._all_sentences, self.protocol.max_words)
        gold = gold_trees_of(treebank, self.preprocessing).spans
        tokens = known_tokens_for(bundle, treebank)
        structure_of(bundle, tokens[:1], labels=False).decode(*decoding)  # what happens once per process is not timed
        started = time.perf_counter()
        parts = [
            structure_of(bundle, tokens[start : start + SENTENCES_AT_ONCE], labels=False).decode(*decoding)
            for start in range(0, len(tokens), SENTENCES_AT_ONCE)
        ]
        seconds = time.perf_counter() - started
        spans = concatenate(parts)
        every, short = (
            score(spans, gold, protocol, details=False) if protocol.scored(gold.lengths).any() else None
            for protocol in (self.protocol, self._protocol_of_short)
        )
        if every is None:
            raise InputError(
                f"{self.source}: protocol {self.protocol}: found no sentence to score; expected one or more. Choose"
                " another protocol, or raise its limit of words"
            )
        return TreebankScore(
            f1=every.f1,
            short_f1=None if short is None else short.f1,
            sentences=every.sentences,
            short_sentences=0 if short is None else short.sentences,
            decoder=decoding.decoder,
            layer=decoding.layer if bundle.require(ParsesSentences, "parsing").distance_layers else None,
            device=str(bundle.device),
            parsed=len(tokens),
            seconds=seconds,
        )


def model_hashes(folder: Path) -> dict[str, str]:
    """Return SHA-256 hashes of the files that make up the model in a folder."""
    hashes = {}
    for name in (CONFIG, VOCABULARY, LABELS, WEIGHTS):
        if (folder / name).exists():
            with open_stored(folder / name) as file:
                hashes[name] = hashlib.file_digest(cast(BufferedReader, file), "sha256").hexdigest()
    return hashes


def stored_scores(
    path: Path, key: dict[str, Any], score_type: type[Score], compute: Callable[[], list[Score]]
) -> list[Score]:
    """Return the scores in a file if its key is the same; otherwise compute them and write the file.

    A damaged file is replaced.
    """
    key = parse_json(to_json(key), str(path))  # as it is read back
    if path.exists():
        try:
            content = parse_json(read_stored(path), str(path))
            if isinstance(content, dict) and content.get("key") == key:
                return [read_settings(score_type, value, str(path)) for value in content["scores"]]
        except (InputError, KeyError, TypeError):
            pass
    scores = compute()
    write_text(to_json({"key": key, "scores": list(map(vars, scores))}, indent=2) + "\n", path, stored=True)
    return scores
