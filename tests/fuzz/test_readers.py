"""Fuzzing of all readers of files: they return a result, or raise an InputError with the name of the file.

A few examples run with the other tests; `make test-all` gives all readers, and the JSON interface of the page
(`test_api`), together over two hundred thousand. The seeds are fixed.
"""

from __future__ import annotations

import gzip
import json
import lzma
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from syntaxlm.core.errors import InputError
from syntaxlm.core.files import read_text, split_lines
from syntaxlm.core.settings import override
from syntaxlm.data.corpora import EncodedCorpus, count_tokens, read_lines, read_sentences
from syntaxlm.data.pairs import read_pairs
from syntaxlm.data.running_text import read_paragraphs
from syntaxlm.data.sentence_splitter import Splitter
from syntaxlm.data.suites import read_suites
from syntaxlm.data.tables import read_table
from syntaxlm.data.treebanks import read_treebank, treebank_tokens, write_words
from syntaxlm.storage.arpa import read_arpa, write_arpa
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.treebank_style import TreebankStyle
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.training.recipe import read_recipe
from syntaxlm.training.recipe_files import bundled_recipes
from syntaxlm.trees.bounds import right
from syntaxlm.trees.conllu import NO_HEAD, iterate_dependencies, read_conllu, write_conllu
from syntaxlm.trees.f1 import PROTOCOLS, score
from syntaxlm.trees.preprocessing import PREPROCESSINGS, find_preprocessing, plain_label, preprocess
from syntaxlm.trees.spans import SpanSets
from syntaxlm.trees.tree import format_brackets, from_nltk, parse_brackets, read_brackets
from tests.fuzz.mutation import mutated, near_valid
from tests.normalisers import normaliser_with

FEW, MANY = 60, 16_500

BRACKETS = [
    "( (S (NP-SBJ-1 (DT The) (NN cat)) (VP (VBD sat) (NP (-NONE- *-1))) (. .)) )\n(S (NP (PRP It)) (VP (VBD slept)))\n",
    "((the cat) (sat (on mats)))\n(word)\n",
    "(X the (X old cat))\n(ROOT (S (-LRB- -LRB-) (A a\\/b) (NN=2 é)))\n",
    "(STA+fcl (SUBJ+np (>N+art O) (H+n rato)) (P+v-fin é) (. .))\n\n(S (N (友 情)\n   (A b)))\n",
]
CONLLU = [
    "# sent_id = one\n# text = The cat\n1\tThe\tthe\tDET\tDT\t_\t2\tdet\t_\t_\n2-3\tcat's\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "2\tcat\tcat\tNOUN\tNN\t_\t4\tnsubj\t_\t_\n3\t's\tbe\tAUX\tVBZ\t_\t4\taux\t_\t_\n"
    "4\tgone\tgo\tVERB\tVBN\t_\t0\troot\t_\t_\n4.1\tnull\t_\t_\t_\t_\t_\t_\t_\t_\n\n1\tGo\tgo\t_\tVB\t_\t0\troot\t_\t_\n\n",
]  # fmt: skip
DP = ["The\tDT\t2\ncat\tNN\t3\nsat\tVBD\t0\n\nGo\tVB\t0\troot\n!\t.\t1\tpunct\n"]
RECIPES = [
    "model: {name: prpn, layers: 2, tied: true, dropout: 0.1}\ntext:\n  train: a.txt\n  valid: b.txt\n"
    "  normaliser: {lower_case: true, drop_words: [$, '#']}\nschedule: {epochs: 4}\n",
    "# a comment\nmodel: &m {name: lstm}\ntext: {train: a, valid: b, test: null}\noptimiser: {learning_rate: 1e-3}\n",
]
RULES = ["drop_tags: [PU, 'NO']\ndrop_words: ['*0*']\npunctuation: unicode\nfunction_before: +\n", "keep_tags: [NN]\n"]
TEXTS = [
    "the old cat sleeps\n\n  on a  red chair .\r\nna\u00efve 3\\/4 1,000 «don't!» <unk> Mr.\n",
    "友情 是 鄰居\n👩\u200d👩\u200d👧 e\u0301 x\u200by\u2028z\x85w\x1cv\n\ttab\u00a0space\u3000wide\n",
]
VOCABULARY = [json.dumps({"format": "syntaxlm vocabulary 1", **Vocabulary.build({"a": 3, "é": 1}).to_dict()}, indent=0)]

ARPA = [
    "\\data\\\nngram 1=4\nngram 2=3\nngram 3=1\n\n"
    "\\1-grams:\n-1.5\t<unk>\n-99\t<s>\t-0.3\n-0.5\t</s>\n-0.3\té\t-1e-3\n\n"
    "\\2-grams:\n-0.1\t<s> é\t0\n-0.4\té é\t0.01\n-0.2\té </s>\n\n\\3-grams:\n-0.04\t<s> é </s>\n\n\\end\\\n",
    "\\data\\\nngram 1=2\n\\1-grams:\n-0.3 <unk>\n-0.3 <eos>\n\\end\\\n",
]
ARPA_PIECES = [
    "\\",
    "\\2-grams:",
    "\\end\\",
    "ngram 3=",
    "9",
    "0",
    "nan",
    "inf",
    "-",
    "1e999",
    "<s>",
    "é",
    "\t\t",
    "  ",
]
BRACKET_PIECES = [
    "(",
    ")",
    "()",
    "( ",
    ")(",
    "(X ",
    "((",
    "))",
    "-LRB-",
    "\\/",
    "(-NONE- *)",
    "(a)",
    "(a b)",
    "(a b c)",
]
COLUMN_PIECES = [
    "\t", "_", "0", "1", "99", "999999999999", "-1", "1-2", "1.1", "#", "# sent_id =", "٣", "²", "\t\t", "+1",
]  # fmt: skip
YAML_PIECES = [
    "[", "]", "{", "}", ": ", "- ", "? ", "&a ", "*a", "<<: ", "!!int ''", "!!float ''", "!!bool x", "!!timestamp x",
    "!!map [a]", "!!set [a]", "!!omap [a]", "!!binary '$'", "!x ", "2024-99-99", "190:99", "0b", "0x", ".nan", "-.inf",
    "1e999", "9" * 5000, "null", "~", "NO", '"\\ud800"', "'", '"', "|", ">\n", "---\n", "%YAML 9\n---\n", "name: 3",
    "name: {a: b}", "name: [a]", "model: [1]", "text: {}", "&a [*a]", "? [a]\n: b", "? {a: b}\n",
]  # fmt: skip
JSON_PIECES = ["[", "]", "{", "}", '"', ",", ":", "null", "NaN", "1e999", '"\\ud800"', '""', '"tokens"', "0", "true"]

# Words and characters, every Unicode form, both ways of splitting, both rules of numbers.
NORMALISERS = [
    Normaliser(),
    normaliser_with(units="characters", unicode_form="NFD", numbers="runs"),
    normaliser_with(
        splitting="punctuation", unicode_form="NFKC", lower_case=True, numbers="whole", drop_punctuation=True
    ),
    normaliser_with(units="characters", splitting="punctuation", unicode_form="NFKD", lower_case=True, numbers="whole"),
    normaliser_with(unicode_form="keep", numbers="runs", drop_words=("the", "N")),
]
TAGS = normaliser_with(units="tags", drop_punctuation=True)
TABLES = ['item\tsentence\tnote\n1\tthe "old" cat\t\n2\t"a\tb ""c"""\tx\n', "sentence\na cat\n"]
TABLE_PIECES = ['"', '""', '"\t', '\t"', '"\n', "\t", "sentence", ",", "\r"]
PAIRS = ['{"sentence_good": "A cat sees.", "sentence_bad": "A cat see.", "UID": "a", "field": "syntax"}\n' * 2]
SUITES = [(Path(__file__).parents[1] / "stored_models" / "inputs" / "suite.json").read_text(encoding="utf-8")]
SUITE_PIECES = [*JSON_PIECES, "(", ")", "[[", "(2;%match%)", "(*;%match%)", "<", "+", "&", "=", "|", "%", "9" * 5000]
BOOKS = [
    "Mr. B. went to the U.S. (He left the U.S.).\n\n'Where?' he asked... It rained -- _so_ much; don't!\n"
    "\n1. A [12] :-)\n"
]
TAGGED = ["The_DT old_cat_NN sat_VBD ._.\n\n_PRP 3\\/4_CD -LRB-_-LRB- naïve_JJ\r\n", "友情_N 是_V\u3000鄰居_N\n"]
TAGGED_PIECES = ["_", "__", " _", "_ ", "_A", "a_", "a_B|C", "_\u200b"]


@contextmanager
def refusal(saying: object) -> Iterator[None]:
    """The block succeeds, or raises an InputError with this text."""
    message = str(saying)
    try:
        yield
    except InputError as error:
        message = str(error)
    assert str(saying) in message


def brackets(path: Path) -> None:
    trees = read_brackets(path)
    text = "".join(format_brackets(tree) + "\n" for tree in trees)
    assert [tree.words for tree in parse_brackets(text, labelled=True)] == [tree.words for tree in trees]
    for tree in trees:
        assert from_nltk(tree.to_nltk()).words == tree.words
    for rule in PREPROCESSINGS.values():
        with refusal(path):
            spans = SpanSets.of(preprocess(trees, rule, str(path)).trees)
            if max(spans.lengths) > 1:
                assert 0 <= score(right(spans.lengths), spans, PROTOCOLS["wsj-test"]).f1 <= 1
    treebank = read_treebank(path, "letters")
    assert write_words(treebank, path.with_name("words.txt")).words <= sum(map(len, treebank))


def conllu(path: Path) -> None:
    trees = read_conllu(path)
    for tree in trees:
        assert len(tree.words) == len(tree.tags) == len(tree.heads) == len(tree.labels) > 0
        assert all(head == NO_HEAD or 0 <= head <= len(tree.words) for head in tree.heads)
    again = path.with_name("again.conllu")
    with refusal("expected no tabs or line ends"):  # of a carriage return within a word
        write_conllu(trees, again)
        assert read_conllu(again) == trees
    treebank = read_treebank(path, "ud")
    assert [len(tokens) for tokens in treebank_tokens(treebank, NORMALISERS[1])] == [len(one) for one in treebank]


def dp(path: Path) -> None:
    for tree in iterate_dependencies(path, ".dp"):
        assert len(tree.words) == len(tree.tags) == len(tree.heads) == len(tree.labels) > 0


def recipe(path: Path) -> None:
    assert read_recipe(path).model.name


def clean_up(path: Path) -> None:
    rule = find_preprocessing(path)
    assert isinstance(rule.keeps("a", "A"), bool)
    assert isinstance(plain_label("NP-SBJ+np", rule.function_after, rule.function_before), str)


def vocabulary(path: Path) -> None:
    read = Vocabulary.read(path)
    assert read.decode(range(len(read))) == list(read.tokens)


def text(path: Path) -> None:
    lines = [line for _, line in read_lines(path)]
    assert lines == split_lines(read_text(path)), "two readers do not agree on what a line is"
    for normaliser in NORMALISERS:
        for line in lines:
            tokens = normaliser.tokens(line)
            aligned = normaliser.align(line)
            assert tokens == [one.token for one in aligned if one.token is not None]
            assert all(one.written == line[one.start : one.end] for one in aligned)
            assert [token for part in normaliser.token_parts(line) for token in part] == tokens
            assert all(tokens)
        with refusal("found no sentence"):
            counts = count_tokens(path, normaliser)
            corpus = EncodedCorpus.encode(path, normaliser, Vocabulary.build(counts))
            assert corpus.word_count == sum(counts.values())


def arpa(path: Path) -> None:
    again = path.with_name("again.arpa")
    stored = read_arpa(path)
    with refusal("contain white space"):  # of a carriage return within a word
        write_arpa(stored, again)
        assert read_arpa(again).vocabulary == stored.vocabulary
        assert again.read_text(encoding="utf-8").count("\n") > stored.model.parameter_count / 2


def tagged(path: Path) -> None:
    """Reads a text as tagged text, by its name, and as compressed text."""
    for name, compress in ((".gz", gzip.compress), (".xz", lzma.compress)):
        path.with_name(path.name + name).write_bytes(compress(path.read_bytes()))
    with refusal(path):
        treebank = read_treebank(path, "letters")
        assert treebank_tokens(treebank, TAGS) == [list(one.tags) for one in treebank]
        assert write_words(treebank, path.with_name("words.txt")).words <= sum(map(len, treebank))
        with refusal("expected a part-of-speech tag"):
            write_words(treebank, path.with_name("again.tagged.txt"), with_tags=True)
            again = read_treebank(path.with_name("again.tagged.txt"))
            assert [one.tags for one in again] == [one.tags for one in treebank]
    lines = [line for _, line in read_sentences(path, TAGS)]
    for line in lines:
        tokens, aligned = TAGS.tokens(line), TAGS.align(line)
        assert tokens == [one.token for one in aligned if one.token is not None]
        assert all(one.written == line[one.start : one.end] for one in aligned)
    for name in (".gz", ".xz"):
        assert [line for _, line in read_sentences(path.with_name(path.name + name), TAGS)] == lines


def table(path: Path) -> None:
    with refusal(path):
        names, rows = read_table(path, "sentence")
        assert all(len(row.others) == len(names) for row in rows)


def pairs(path: Path) -> None:
    assert all(pair.better and pair.worse for pair in read_pairs([path]))


def suites(path: Path) -> None:
    for suite in read_suites([path]):
        for prediction in suite.predictions:
            prediction.holds(lambda region: np.ones(1))


def book(path: Path) -> None:
    for encoding in ("utf-8", "utf-16"):
        with refusal(path):
            paragraphs = read_paragraphs(path, encoding=encoding).paragraphs
            split = TreebankStyle("split", "split")
            for sentence in Splitter.learn([paragraphs])(paragraphs[0]):
                assert split(sentence).strip()


READERS = [
    pytest.param(table, ".tsv", (TABLES, TABLE_PIECES), id="table"),
    pytest.param(pairs, ".jsonl", (PAIRS, JSON_PIECES), id="pairs"),
    pytest.param(suites, ".json", (SUITES, SUITE_PIECES), id="suites"),
    pytest.param(book, ".txt", (BOOKS,), id="book"),
    pytest.param(tagged, ".tagged.txt", (TAGGED, TAGGED_PIECES), id="tagged"),
    pytest.param(brackets, ".mrg", (BRACKETS, BRACKET_PIECES), id="brackets"),
    pytest.param(conllu, ".conllu", (CONLLU, COLUMN_PIECES), id="conllu"),
    pytest.param(dp, ".dp", (DP, COLUMN_PIECES), id="dp"),
    pytest.param(recipe, ".yaml", (RECIPES, YAML_PIECES), id="recipe"),
    pytest.param(clean_up, ".yaml", (RULES, YAML_PIECES), id="clean-up"),
    pytest.param(vocabulary, ".json", (VOCABULARY, JSON_PIECES), id="vocabulary"),
    pytest.param(text, ".txt", (TEXTS,), id="text"),
    pytest.param(arpa, ".arpa", (ARPA, ARPA_PIECES), id="arpa"),
]


def read_all(reader: Callable[[Path], None], path: Path, contents: st.SearchStrategy[bytes], examples: int) -> None:
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(contents)
    def read(content: bytes) -> None:
        path.write_bytes(content)
        with refusal(path):
            reader(path)

    read()


@pytest.mark.parametrize(("reader", "suffix", "contents"), READERS)
def test_near_valid_files_are_read_or_reported_by_name(tmp_path, reader, suffix, contents):
    read_all(reader, tmp_path / f"file{suffix}", mutated(*contents), FEW)


@pytest.mark.long
@pytest.mark.parametrize(("reader", "suffix", "contents"), READERS)
def test_many_thousand_near_valid_files_are_read_or_reported_by_name(tmp_path, reader, suffix, contents):
    """The seed of a failure is in its message."""
    path = tmp_path / f"file{suffix}"
    for seed in range(MANY):
        path.write_bytes(near_valid(seed, *contents))
        try:
            with refusal(path):
                reader(path)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error


@settings(max_examples=FEW, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(mutated(["1e-3", "[a, b]", "{a: 3}"], YAML_PIECES), st.lists(st.sampled_from(["model", "a", ""]), min_size=1))
def test_settings_on_the_command_line_are_accepted_or_refused(content, path):
    data = {"model": {"name": "prpn"}, "a": 3}
    with refusal(f"--{'.'.join(path)}"):
        override(data, [(".".join(path), content.decode("utf-8", "replace"))])


def is_smaller_twin(path: Path) -> bool:
    """Whether two recipes differ in their sizes."""
    return path.stem.endswith("-small") and path.with_stem(path.stem.removesuffix("-small")).exists()


RECIPE_FILES = [
    pytest.param(path, id=path.stem, marks=pytest.mark.long if is_smaller_twin(path) else ())
    for path in sorted(bundled_recipes().glob("*.yaml"))
]


@pytest.mark.parametrize("step", [79, pytest.param(17, marks=pytest.mark.long)])
@pytest.mark.parametrize("path", RECIPE_FILES)
def test_truncations_of_a_shipped_recipe_are_read_or_reported_by_name(path, step, tmp_path):
    cut, content = tmp_path / "cut.yaml", path.read_bytes()
    cut.write_bytes(content)
    for end in reversed(range(0, len(content), step)):
        os.truncate(cut, end)
        with refusal(cut):
            recipe(cut)


@pytest.mark.parametrize("reader", [read_brackets, read_conllu], ids=["brackets", "conllu"])
@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_damaged_compressed_files_are_reported_by_name(tmp_path, reader, suffix, compress):
    content = compress((BRACKETS[0] if reader is read_brackets else CONLLU[0]).encode() * 9)
    path = tmp_path / f"file{suffix}"
    for place in range(len(content)):
        for damaged in (content[:place], content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :]):
            path.write_bytes(damaged)
            with refusal(path):
                reader(path)
