"""F1 of trained models on a treebank, computed once per model and stored in its folder.

A stored score is used again as long as everything it depends on is unchanged: the model, the sentences and trees of the
treebank, the preprocessing, the protocol, the decoder and the device.
"""

from __future__ import annotations

import dataclasses
import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar, cast

from syntaxlm.core.errors import InputError
from syntaxlm.core.files import open_stored, parse_json, read_stored, to_json, write_text
from syntaxlm.core.settings import Finite, Positive, read_settings
from syntaxlm.core.text_files import STANDARD_INPUT
from syntaxlm.data.treebanks import Treebank, read_treebank, treebank_files
from syntaxlm.models.abilities import ParsesSentences
from syntaxlm.parsing.evaluation import MOST_UNKNOWN_TAGS, gold_trees_of, sentences_up_to, tokens_for
from syntaxlm.parsing.options import DecodingOptions
from syntaxlm.parsing.report import GoldTrees
from syntaxlm.parsing.structure import Decoding, decodings, structure_of
from syntaxlm.storage.folder import CONFIG, LABELS, VOCABULARY, WEIGHTS, ModelBundle
from syntaxlm.training.run_folder import fingerprint
from syntaxlm.trees.preprocessing import GoldPreprocessing, find_preprocessing
from syntaxlm.trees.scoring import PROTOCOLS, Protocol, score
from syntaxlm.trees.significance import baseline_scores
from syntaxlm.trees.spans import SpanSets, concatenated

TREES, BASELINES = "trees.json", "baselines.json"
SHORT = 10  # words; F1 is also computed for sentences of up to this length
SENTENCES_AT_ONCE = 1 << 12  # sentences whose structure is in memory at the same time

_FORMAT = 1  # raised when a change of syntaxlm changes scores

Stored = TypeVar("Stored")


@dataclass(frozen=True)
class TreebankScore:
    """F1 of a model on a treebank, by its default decoder.

    f1: unlabelled F1, 0 to 1.  short_f1: that of the sentences of up to `SHORT` words; None if there are none.
    sentences, short_sentences: numbers of scored sentences.
    decoder: the decoder.  layer: the layer of the distances; None if the trees are not decoded from distances.
    device: the device that parsed.
    parsed: number of parsed sentences: all of the treebank that are not longer than the protocol's limit.
    seconds: wall-clock time of parsing, from tokens to trees, without reading, scoring and loading the model.
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
    """F1 of trees that need no model.

    name: such as "right branching".  f1, short_f1: see `TreebankScore`; for random trees the mean over seeds.
    std, short_std: sample standard deviation over seeds; None without seeds.
    seeds: number of seeds; None without seeds.
    """

    name: str
    f1: Finite
    short_f1: Finite | None
    std: Finite | None = None
    short_std: Finite | None = None
    seeds: int | None = None

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


class TreebankEvaluation:
    """The evaluation of models on one treebank.

    treebank: a file, folder or pattern.  preprocessing: the gold-tree preprocessing: a name, a YAML file or a rule.
    Raises InputError for standard input, which can be read only once, for missing files, and for an unknown
    preprocessing.
    """

    def __init__(
        self,
        treebank: str | Path,
        protocol: Protocol = PROTOCOLS["wsj-test"],
        preprocessing: GoldPreprocessing | str | Path = "ptb-keep",
    ) -> None:
        self.source, self.protocol = str(treebank), protocol
        self.preprocessing = find_preprocessing(preprocessing)
        if self.source == STANDARD_INPUT:
            raise InputError("the treebank is standard input; expected a file, because a comparison may read it again")
        treebank_files(self.source)

    @property
    def short_protocol(self) -> Protocol:
        """The protocol, for sentences of up to `SHORT` words."""
        limit = self.protocol.max_words
        return dataclasses.replace(self.protocol, max_words=SHORT if limit is None else min(limit, SHORT))

    def to_dict(self) -> dict[str, Any]:
        protocol = dataclasses.asdict(self.protocol)
        return {"source": self.source, "preprocessing": self.preprocessing.name, "protocol": protocol}

    def score(self, stored: ModelBundle, folder: Path) -> TreebankScore | None:
        """Return the score of a model, from its folder or computed and stored there; None for a model that does not
        parse.

        stored: the model, on the device that parses.
        Raises InputError if the model cannot read the treebank.
        """
        if not isinstance(stored.model, ParsesSentences):
            return None
        (decoding,) = decodings([stored], DecodingOptions())
        key = self._key | {"model": model_hashes(folder), "decoder": decoding.decoder, "layer": decoding.layer}
        key["device"] = str(stored.device)
        path = folder / TREES
        return _stored_or_computed(
            path,
            key,
            lambda: self._parse_and_score(stored, decoding),
            lambda value: read_settings(TreebankScore, value, str(path)),
        )

    def baselines(self, folder: Path) -> list[TreebankBaseline]:
        """Return left branching, right branching and random trees, from a folder or computed and stored there."""
        path = folder / BASELINES
        return _stored_or_computed(
            path,
            self._key,
            lambda: list(self._baselines()),
            lambda values: [read_settings(TreebankBaseline, value, str(path)) for value in values],
        )

    @cached_property
    def _all_sentences(self) -> Treebank:
        return read_treebank(self.source, self.preprocessing)

    @cached_property
    def _treebank(self) -> Treebank:
        """The sentences that the protocol scores; others are not parsed."""
        return sentences_up_to(self._all_sentences, self.protocol.max_words)

    @cached_property
    def _gold(self) -> GoldTrees:
        return gold_trees_of(self._treebank, self.preprocessing)

    @cached_property
    def _key(self) -> dict[str, Any]:
        """What every score depends on. Tags of the preprocessing are sorted, because sets have no order."""
        files = fingerprint({"treebank": self.source}, ["treebank"])["treebank"]
        rule = {
            name: sorted(value) if isinstance(value, frozenset) else value
            for name, value in vars(self.preprocessing).items()
        }
        return {
            "format": _FORMAT,
            "treebank": list(files.values()),
            "preprocessing": rule,
            "protocol": dataclasses.asdict(self.protocol),
        }

    def _parse_and_score(self, stored: ModelBundle, decoding: Decoding) -> TreebankScore:
        tokens = tokens_for(stored, self._treebank)
        _check_known(stored, tokens, self.source)
        spans, seconds = _timed_parse(stored, tokens, decoding)
        f1, sentences = self._f1(spans, self.protocol)
        short_f1, short_sentences = self._f1(spans, self.short_protocol)
        if f1 is None:
            raise InputError(f"{self.source}: protocol {self.protocol}: found no sentence to score")
        return TreebankScore(
            f1,
            short_f1,
            sentences,
            short_sentences,
            decoding.decoder,
            decoding.layer if stored.require(ParsesSentences, "parsing").distance_layers else None,
            str(stored.device),
            len(tokens),
            seconds,
        )

    def _f1(self, spans: SpanSets, protocol: Protocol) -> tuple[float | None, int]:
        """Return F1 and number of scored sentences; None without sentences."""
        if not protocol.scored(self._gold.spans.lengths).any():
            return None, 0
        found = score(spans, self._gold.spans, protocol, details=False)
        return found.f1, found.sentences

    def _baselines(self) -> Iterator[TreebankBaseline]:
        spans = gold_trees_of(self._all_sentences, self.preprocessing).spans  # random trees are drawn for all
        every = baseline_scores(spans, self.protocol, biased_bound=False)
        short = None
        if self.short_protocol.scored(spans.lengths).any():
            short = baseline_scores(spans, self.short_protocol, biased_bound=False)
        yield TreebankBaseline("left branching", every.left.f1, None if short is None else short.left.f1)
        yield TreebankBaseline("right branching", every.right.f1, None if short is None else short.right.f1)
        of_short = (None, None) if short is None else (short.random.mean, short.random.std)
        random = every.random
        yield TreebankBaseline("random trees", random.mean, of_short[0], random.std, of_short[1], random.count)


def _timed_parse(stored: ModelBundle, tokens: Sequence[Sequence[str]], decoding: Decoding) -> tuple[SpanSets, float]:
    """Parse sentences, some thousands at a time. Returns their trees and the seconds that this took."""
    structure_of(stored, tokens[:1], labels=False).decode(*decoding)  # what happens once per process is not timed
    parts, rest = [], iter(tokens)
    started = time.perf_counter()
    while some := list(islice(rest, SENTENCES_AT_ONCE)):
        parts.append(structure_of(stored, some, labels=False).decode(*decoding))
    seconds = time.perf_counter() - started
    return concatenated(parts), seconds


def _check_known(stored: ModelBundle, tokens: Sequence[Sequence[str]], source: str) -> None:
    """Raise InputError if most words of a treebank are unknown to a model, as they are to a character-level model."""
    counts = [stored.vocabulary.knows(token) for sentence in tokens for token in sentence]
    unknown = counts.count(False)
    if unknown > MOST_UNKNOWN_TAGS * len(counts):
        units = stored.normaliser.units
        raise InputError(
            f"{source}: {unknown:,} of {len(counts):,} words are unknown to the model, which reads {units}; expected a"
            f" treebank of such {units}"
        )


def model_hashes(folder: Path) -> dict[str, str]:
    """Return SHA-256 hashes of the files that make up the model in a folder."""
    names = [name for name in (CONFIG, VOCABULARY, LABELS, WEIGHTS) if (folder / name).exists()]
    hashes = {}
    for name in names:
        with open_stored(folder / name) as file:
            hashes[name] = hashlib.file_digest(cast(Any, file), "sha256").hexdigest()
    return hashes


def _stored_or_computed(
    path: Path, key: dict[str, Any], compute: Callable[[], Stored], read: Callable[[Any], Stored]
) -> Stored:
    """Return the value of a file if its key is the same, otherwise computes it and write the file.

    compute: returns a dataclass, or a list of them.  read: converts the JSON value of the file.
    A damaged file is replaced.
    """
    key = parse_json(to_json(key), str(path))  # as it is read back
    if path.exists():
        try:
            content = parse_json(read_stored(path), str(path))
            if isinstance(content, dict) and content.get("key") == key:
                return read(content["value"])
        except (InputError, KeyError, TypeError):
            pass
    value = compute()
    plain = [vars(one) for one in value] if isinstance(value, list) else vars(value)
    write_text(to_json({"key": key, "value": plain}, indent=2) + "\n", path, stored=True)
    return value
