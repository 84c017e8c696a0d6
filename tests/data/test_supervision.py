"""Gold trees of the training text: the spans of a batch are its constituents, at any position."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from syntaxlm.batches import SentenceBatches, StreamBatches
from syntaxlm.core.errors import InputError
from syntaxlm.data.corpora import EncodedCorpus, count_tokens
from syntaxlm.data.supervision import Supervision, read_supervision
from syntaxlm.data.treebanks import read_treebank, write_words
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.trees.tree import Constituent, Tree, write_brackets
from tests.normalisers import normaliser_with
from tests.shared_data import DATA
from tests.trees.enumeration import spans_of_lists

VOCABULARY = Vocabulary(["<unk>", "<s>", "</s>"])
ONE_MARK = Vocabulary(["<unk>", "<eos>"], begin="<eos>", end="<eos>")

TREEBANK = """(S (NP (DT The) (JJ old) (NN cat))
  (VP (VBD ate) (NP (NP (CD 12) (NNS fish)) (PP (IN in) (NP (NN Rome))))) (. .))
(S (NP (PRP She)) (VP (VBD slept) (-LRB- -LRB-) (ADVP (RB very) (RB well)) (-RRB- -RRB-)) (. .))
(. .)
(S (VP (VB Go) (PRT (RP away))) (. !))
"""


@st.composite
def bracketings(draw, most=9):
    """A number of words and random nested spans over them, some of them twice, like unary chains; possibly none."""
    words = draw(st.integers(0, most))
    source = random.Random(draw(st.integers(0, 2**32 - 1)))
    spans, agenda = [], [(0, words)] if words else []
    while agenda:
        start, end = agenda.pop()
        spans.extend([(start, end)] * source.choice([0, 1, 1, 2]))
        if end - start > 1:
            cuts = sorted(source.sample(range(start + 1, end), source.randint(1, min(3, end - start - 1))))
            agenda.extend(zip([start, *cuts], [*cuts, end], strict=True))
    return words, spans


CORPORA = st.lists(bracketings(), min_size=1, max_size=12)


def made(drawn):
    """A corpus of sentences with these lengths and distinct words, and its spans after supervision."""
    word = iter(range(3, 10_000))
    corpus = EncodedCorpus.from_sentences([[next(word) for _ in range(length)] for length, _ in drawn])
    spans = [sorted({(start, end) for start, end in spans if 1 < end - start < length}) for length, spans in drawn]
    return corpus, spans_of_lists(spans, corpus.lengths)


def constituents(corpus, spans):
    """Returns the words of every constituent, and whether it ends its sentence."""
    for place in range(len(corpus)):
        words = corpus.sentence(place)
        for start, end in spans.sentence(place):
            yield tuple(words[start:end]), end == len(words)


@given(CORPORA, st.integers(1, 60), st.booleans(), st.booleans())
def test_spans_of_sentence_batches_are_the_words_of_the_constituents_that_a_step_follows(drawn, budget, closed, mixed):
    corpus, spans = made(drawn)
    batches = SentenceBatches(corpus, VOCABULARY, budget, True, 1, mixed=mixed, closed=closed, spans=spans)
    found = Counter()
    for batch in batches.iterate(0):
        assert batch.spans.dtype == torch.int64
        for step, column, length in batch.spans.tolist():
            assert 0 <= step - length < step < int(batch.lengths[column])
            found[tuple(batch.tokens[step - length : step, column].tolist())] += 1
    assert found == Counter(words for words, last in constituents(corpus, spans) if closed or not last)


@given(CORPORA, st.integers(1, 12), st.integers(1, 20), st.booleans(), st.sampled_from([VOCABULARY, ONE_MARK]))
def test_spans_of_stream_batches_are_the_words_of_the_constituents_inside_a_column(
    drawn, size, steps, variable_bptt, vocabulary
):
    corpus, spans = made(drawn)
    batches = StreamBatches(corpus, vocabulary, size, steps, variable_bptt=variable_bptt, seed=3, spans=spans)
    read, reported = {}, []
    for batch in batches.iterate(2):
        begins = {column: len(tokens) for column, tokens in read.items()}
        for column in range(batch.tokens.shape[1]):
            read.setdefault(column, []).extend(batch.tokens[batch.mask()[:, column], column].tolist())
        for step, column, length in batch.spans.tolist():
            assert 0 <= step < (len(batch.tokens) if batch.lengths is None else int(batch.lengths[column]))
            reported.append((begins.get(column, 0) + step, column, length))
    places = {word: (column, place) for column, tokens in read.items() for place, word in enumerate(tokens)}
    expected = Counter()
    for words, _ in constituents(corpus, spans):
        # The last token of the stream is only predicted.
        found = [places.get(word, (None, 0)) for word in words]
        together = len({column for column, _ in found}) == 1
        if together and found[-1][0] is not None and found[-1][1] + 1 < len(read[found[-1][0]]):
            expected[words] += 1
    assert min((place - length for place, _, length in reported), default=0) >= 0
    assert Counter(tuple(read[column][place - length : place]) for place, column, length in reported) == expected


@given(CORPORA, st.integers(4, 12), st.integers(1, 20), st.integers(2, 4))
def test_every_process_has_the_spans_of_its_own_columns_and_sentences(drawn, size, steps, ranks):
    corpus, spans = made([*drawn, (4, [(1, 3)])])
    whole = list(StreamBatches(corpus, VOCABULARY, size, steps, spans=spans))
    shares = [list(StreamBatches(corpus, VOCABULARY, size, steps, rank, ranks, spans=spans)) for rank in range(ranks)]
    for number, batch in enumerate(whole):
        together, columns = [], 0
        for share in shares:
            together += (share[number].spans + torch.tensor([0, columns, 0])).tolist()
            columns += share[number].tokens.shape[1]
        assert sorted(together) == sorted(batch.spans.tolist())
    every = {
        tuple(b.indices.tolist()): b for b in SentenceBatches(corpus, VOCABULARY, 9, False, 0, spans=spans).iterate(0)
    }
    for rank in range(ranks):
        for batch in SentenceBatches(corpus, VOCABULARY, 9, False, 0, rank=rank, ranks=ranks, spans=spans).iterate(0):
            assert torch.equal(batch.spans, every.pop(tuple(batch.indices.tolist())).spans)
    assert not every


@given(CORPORA, st.integers(1, 30), st.integers(0, 10), st.booleans())
def test_an_interrupted_epoch_resumes_with_the_same_spans(drawn, size, start, variable_bptt):
    corpus, spans = made(drawn)
    stream = StreamBatches(corpus, VOCABULARY, size, 5, variable_bptt=variable_bptt, spans=spans)
    sentences = SentenceBatches(corpus, VOCABULARY, size, True, 2, spans=spans)
    for again, before in (
        (stream.iterate(1, start), stream.iterate(1)),
        (sentences.iterate(1, start), sentences.iterate(1)),
    ):
        rest = list(before)[start:]
        assert [batch.spans.tolist() for batch in again] == [batch.spans.tolist() for batch in rest]


def test_batches_without_trees_have_no_spans_and_spans_of_another_corpus_are_refused():
    corpus, spans = made([(4, [(1, 3)]), (2, [])])
    assert {batch.spans for batch in StreamBatches(corpus, VOCABULARY, 2, 3)} == {None}
    assert {batch.spans for batch in SentenceBatches(corpus, VOCABULARY, 9, True, 0).iterate(0)} == {None}
    other, _ = made([(4, []), (3, [])])
    with pytest.raises(ValueError, match="do not fit the sentences"):
        StreamBatches(other, VOCABULARY, 2, 3, spans=spans)
    with pytest.raises(ValueError, match="do not fit the sentences"):
        SentenceBatches(other, VOCABULARY, 9, True, 0, spans=spans)


def read(folder: Path, text: str, trees: str, preprocessing="ptb-keep", normaliser=None, **options) -> Supervision:
    (folder / "text.txt").write_text(text, encoding="utf-8")
    (folder / "gold.mrg").write_text(trees, encoding="utf-8")
    return read_files(folder / "text.txt", folder / "gold.mrg", preprocessing, normaliser or Normaliser(), **options)[0]


def read_files(text, trees, preprocessing, normaliser, share=1.0, keep_whole=False, **limits):
    vocabulary = Vocabulary.build(count_tokens(text, normaliser), **limits)
    corpus = EncodedCorpus.encode(text, normaliser, vocabulary)
    return read_supervision(trees, preprocessing, corpus, normaliser, vocabulary, keep_whole, share), corpus


WITHOUT = "The old cat ate 12 fish in Rome\nShe slept very well\nGo away\n"
WITH = "The old cat ate 12 fish in Rome .\nShe slept ( very well ) .\n.\nGo away !\n"
SPANS_WITHOUT = [{(0, 3), (3, 8), (4, 6), (4, 8), (6, 8)}, {(1, 4), (2, 4)}, set()]
LOWER, WITH_N = normaliser_with(lower_case=True), normaliser_with(numbers="whole")
SPANS_WITH = [{(0, 3), (3, 8), (4, 6), (4, 8), (6, 8)}, {(1, 6), (3, 5)}, set(), {(0, 2)}]


@pytest.mark.parametrize(
    ("text", "preprocessing", "normaliser", "expected"),
    [
        pytest.param(WITHOUT, "ptb-keep", Normaliser(), SPANS_WITHOUT, id="dropped-by-clean-up"),
        pytest.param(WITH, "none", Normaliser(), SPANS_WITH, id="kept"),
        pytest.param(WITH, "none", normaliser_with(drop_punctuation=True), SPANS_WITHOUT, id="dropped-by-normaliser"),
        pytest.param(WITHOUT, "none", normaliser_with(drop_punctuation=True), SPANS_WITHOUT, id="not-in-the-text"),
        pytest.param(WITHOUT.lower(), "ptb-keep", LOWER, SPANS_WITHOUT, id="lower-case"),
        pytest.param(WITHOUT.replace("12", "N"), "ptb-keep", WITH_N, SPANS_WITHOUT, id="numbers"),
        pytest.param(WITH.replace("(", "-LRB-").replace(")", "-RRB-"), "none", Normaliser(), SPANS_WITH, id="escapes"),
        pytest.param(
            WITH.replace("(", "-LRB-").replace(")", "-RRB-").lower(), "none", LOWER, SPANS_WITH,
            id="escapes-in-lower-case",
        ),
        pytest.param("\n" + WITHOUT.replace("\n", "\n\n"), "ptb-keep", Normaliser(), SPANS_WITHOUT, id="empty-lines"),
    ],
)  # fmt: skip
def test_spans_are_of_the_tokens_that_the_model_reads(tmp_path, text, preprocessing, normaliser, expected):
    found = read(tmp_path, text, TREEBANK, preprocessing, normaliser)
    assert found.supervised.tolist() == [True] * len(expected)
    assert [found.spans.sentence(place) for place in range(len(expected))] == expected
    assert str(found) == f"{tmp_path}/gold.mrg: trees of {len(expected)} of {len(expected)} training sentences"


@st.composite
def trees(draw):
    words = draw(
        st.lists(
            st.sampled_from(["a", "B-c", ",", "d,", "(", "1/2", "\u00e9", "don't!", "<unk>"]), min_size=1, max_size=7
        )
    )
    cuts = draw(st.lists(st.tuples(st.integers(0, len(words)), st.integers(0, len(words))), max_size=4))
    spans: list[tuple[int, int]] = [(0, len(words))]
    for start, end in cuts:
        if start < end and all(
            end <= s or e <= start or (s <= start and end <= e) or (start <= s and e <= end) for s, e in spans
        ):
            spans.append((start, end))
    spans.sort(key=lambda span: (span[0], -span[1]))
    return Tree(tuple(words), ("NN",) * len(words), tuple(Constituent("X", *span) for span in spans))


NORMALISERS = [
    Normaliser(),
    normaliser_with(lower_case=True, numbers="whole", drop_punctuation=True),
    normaliser_with(splitting="punctuation"),
    normaliser_with(splitting="punctuation", drop_punctuation=True),
    normaliser_with(unicode_form="NFD", drop_words=("a",)),
    normaliser_with(units="characters"),
    normaliser_with(units="characters", space=None, unicode_form="NFD"),
    normaliser_with(units="characters", drop_punctuation=True),
]


@given(st.lists(trees(), min_size=1, max_size=6), st.sampled_from(NORMALISERS), st.sampled_from([1, 2]))
def test_under_every_normaliser_spans_are_the_tokens_of_the_constituents_words(
    tmp_path_factory, drawn, normaliser, minimum_count
):
    """What the words before a constituent and it itself leave, less what it leaves, is where it begins."""
    plain = Tree(("the", "cat", "sleeps"), ("NN",) * 3, (Constituent("X", 0, 3), Constituent("X", 0, 2)))
    drawn = [plain, *drawn]  # a text of which each line has one comma would be refused as a table
    expected = []
    for tree in drawn:
        count = len(normaliser.tokens(" ".join(tree.words)))
        if not count:
            continue
        expected.append(set())
        for _, start, end in tree.constituents:
            ends = len(normaliser.tokens(" ".join(tree.words[:end])))
            starts = ends - len(normaliser.tokens(" ".join(tree.words[start:end])))
            of_words = [word for word in tree.words[start:end] if normaliser.tokens(word)]
            if len(of_words) > 1 and ends - starts < count:
                expected[-1].add((starts, ends))
    folder = tmp_path_factory.mktemp("drawn")
    write_brackets(drawn, folder / "gold.mrg")
    write_words(read_treebank(folder / "gold.mrg"), folder / "text.txt")
    found, corpus = read_files(
        folder / "text.txt", folder / "gold.mrg", "none", normaliser, minimum_count=minimum_count
    )
    assert found.count == len(corpus) == len(expected)
    assert [found.spans.sentence(place) for place in range(len(expected))] == expected
    assert len(found.spans.starts) == sum(map(len, expected))


def test_words_that_the_model_does_not_know_are_equal(tmp_path):
    """Rare words are written <unk>, as in Penn Treebank text."""
    text = "The old <unk> ate 12 <unk> in Rome\nShe slept very well\nGo away\n"
    assert read(tmp_path, text, TREEBANK).count == 3
    assert read(tmp_path, WITHOUT.replace("fish", "bird"), TREEBANK, minimum_count=2).count == 3
    marks = WITHOUT.replace("She", "<s>"), TREEBANK.replace("She", "<s>")  # a text cannot write begin
    assert read(tmp_path, *marks).count == 3


def test_a_sentence_with_other_words_than_its_tree_is_reported_and_not_supervised(tmp_path):
    found = read(tmp_path, WITHOUT.replace("in Rome", "in Rome today"), TREEBANK)
    assert found.supervised.tolist() == [False, True, True]
    assert [found.spans.sentence(place) for place in range(3)] == [set(), *SPANS_WITHOUT[1:]]
    assert str(found) == (
        f"{tmp_path}/gold.mrg: trees of 2 of 3 training sentences\n"
        f"{tmp_path}/text.txt, line 1 and {tmp_path}/gold.mrg, tree 1 differ from word 9 on\n"
        "  text: ... fish in Rome today\n"
        "  tree: ... fish in Rome"
    )
    found = read(tmp_path, WITHOUT.replace("very well", "not well"), TREEBANK)
    assert found.supervised.tolist() == [True, False, True]
    assert "line 2" in str(found)
    assert "differ from word 3 on\n  text: She slept not well\n  tree: She slept very well" in str(found)
    sentences = "".join(f"go away {number}\n" for number in range(5)) + "go away now\n" * 20
    tree = "(S (VP (VB go) (RB away)) (RB now))\n" * 25
    many = read(tmp_path, sentences, tree)
    assert many.count == 20
    assert str(many).count("differ from word 3 on") == 3
    assert str(many).endswith("and 2 more sentences that differ from their trees")


def test_trees_without_constituents_are_reported(tmp_path):
    flat = "".join(f"(S {' '.join(f'(NN {word})' for word in line.split())})\n" for line in WITHOUT.splitlines())
    assert str(read(tmp_path, WITHOUT, flat)).endswith(
        "\nno constituent is smaller than its sentence, so there is nothing to learn from these trees"
    )


def test_binary_trees_branch_to_the_right_in_wide_nodes_and_flat_trees_are_left_out(tmp_path):
    trees = {
        "(S (X (N a) (N b)) (X (N c) (N d)))": {(0, 4), (0, 2), (2, 4)},
        "(S (N b) (N c))": {(0, 2)},
        "(S (N a) (N b) (N c))": set(),
        "(S (X (N d) (N c)) (N b) (N a) (N d))": {(0, 5), (0, 2), (2, 5), (3, 5)},
        "(S (N b) (X (N a) (N c)) (N d))": {(0, 4), (1, 3), (1, 4)},
        "(S (N b))": set(),
    }
    text = "a b c d\nb c\na b c\nd c b a d\nb a c d\nb\n"
    found = read(tmp_path, text, "\n".join(trees), "none", keep_whole=True).binary().spans
    assert [found.sentence(place) for place in range(len(trees))] == list(trees.values())
    assert len(found.starts) == sum(map(len, trees.values()))


def test_different_numbers_of_trees_and_sentences_are_reported_with_the_first_difference(tmp_path):
    left_out = r"gold\.mrg: found 3 trees \(1 more have no word left after preprocessing ptb-keep\) for the "
    first, second, third = WITHOUT.splitlines(True)
    for text, message in (
        (first + second, r"2 sentences of .*; expected one tree for (.|\n)*without a sentence: .*, tree 4: Go away"),
        (WITHOUT + "one more\n", r"4 sentences of (.|\n)*without a tree: .*, line 4: one more"),
        (first + third, r"2 sentences of (.|\n)*The first that differ: .*, line 2 and .*, tree 2 "),
    ):
        with pytest.raises(InputError, match=left_out + message):
            read(tmp_path, text, TREEBANK)


def test_half_of_the_sentences_must_have_the_words_of_their_trees(tmp_path):
    trees = "(S (VB go) (RB away))\n" * 4
    assert read(tmp_path, "go away\n" * 2 + "go on\n" * 2, trees).count == 2
    with pytest.raises(InputError, match="found 1 of 4 trees with the words of their sentences"):
        read(tmp_path, "go away\n" + "go on\n" * 3, trees)


@pytest.mark.parametrize(("share", "count"), [(0.07, 7), (0.29, 29), (0.071, 8), (1e-9, 1), (1, 100)])
def test_a_share_of_the_trees_is_counted_without_rounding(tmp_path, share, count):
    assert read(tmp_path, "go away\n" * 100, "(S (VB go) (RB away))\n" * 100, share=share).limit == count


def test_trees_of_another_preprocessing_and_dependency_trees_are_refused(tmp_path):
    message = r"found 1 of 4 trees with the words of their sentences(.|\n)*preprocessing none keeps"
    with pytest.raises(InputError, match=message):
        read(tmp_path, "The cat\nShe slept\n.\nGo away\n", TREEBANK, "none")
    (tmp_path / "gold.conllu").write_text("1\tGo\t_\tVB\t_\t_\t0\troot\t_\t_\n\n")
    (tmp_path / "text.txt").write_text("Go\n")
    with pytest.raises(InputError, match="dependency trees; expected constituency trees"):
        read_files(tmp_path / "text.txt", tmp_path / "gold.conllu", "none", Normaliser())


@pytest.mark.long
@pytest.mark.skipif(not (DATA / "gum").is_dir(), reason=f"GUM is not in {DATA}")
def test_every_sentence_of_gum_has_its_tree(tmp_path):
    """All 10,224 sentences match without punctuation; with punctuation, all but a sentence of nothing else."""
    gold = DATA / "gum" / "train.mrg"
    write_words(read_treebank(gold, "ptb-keep"), tmp_path / "words.txt")
    normaliser = normaliser_with(lower_case=True, numbers="whole")
    found, corpus = read_files(tmp_path / "words.txt", gold, "ptb-keep", normaliser, minimum_count=2)
    assert found.count == len(corpus) == 10_224
    assert len(found.spans.starts) == 97_320
    lengths = found.spans.ends - found.spans.starts
    assert lengths.min() == 2
    assert (lengths < corpus.lengths[found.spans.sentences()]).all()


@pytest.mark.long
@pytest.mark.skipif(not (DATA / "ptb").is_dir(), reason=f"the Penn Treebank text is not in {DATA}")
@pytest.mark.skipif(not (DATA / "wsj-sample").is_dir(), reason=f"the WSJ sample is not in {DATA}")
def test_penn_treebank_text_with_its_unknown_words_has_the_words_of_its_trees(tmp_path):
    """The text starts with a line without a tree, and lacks the 1,846th sentence of the trees."""
    normaliser = normaliser_with(lower_case=True, numbers="whole")
    whole = DATA / "ptb" / "ptb.train.txt"
    lines = whole.read_text().splitlines(True)
    (tmp_path / "head.txt").write_text("".join(lines[1 : 1 + 3914]))
    vocabulary = Vocabulary.build(count_tokens(whole, normaliser))
    corpus = EncodedCorpus.encode(tmp_path / "head.txt", normaliser, vocabulary)
    treebank = DATA / "wsj-sample" / "mrg"
    with pytest.raises(InputError, match=r"1,847 of 3,914(.|\n)*line 1846 and .*, tree 1846 differ from word 1 on"):
        read_supervision(treebank, "ptb-keep-currency", corpus, normaliser, vocabulary)
