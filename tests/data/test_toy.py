"""The built-in corpus: its grammar is proper, its samples are well formed, its probabilities are exact."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.core.files import sha256
from syntaxlm.data.toy import (
    LexicalCategory,
    ToyGrammar,
    ToySentence,
    english_fragment,
    plural,
    read_rules,
    verb_forms,
    write_corpus,
)
from syntaxlm.trees.conllu import read_conllu
from syntaxlm.trees.preprocessing import find_preprocessing, preprocess
from syntaxlm.trees.tree import DependencyTree, format_brackets, parse_brackets, read_brackets
from tests.trees.faults import dependency_faults

Construction = Callable[[ToySentence], bool]

FINITE = """
S        -> 3 NP[n]/nsubj VP[n]* | 1 VP[pl]
NP[n]    -> 2 Noun[n] | 1 the_DT/det Noun[n]* | 1 Noun[n]* PP/nmod
VP[n]    -> 2 V[n] | 1 V[n]* Noun[n]/obj PP/obl | 1 V[n]* OBJ[n]/obj
OBJ[n]   -> 3 Noun[n] | 1 Noun[n]* PP/nmod
PP       -> 1 with_IN/case Noun[n]*
"""
FINITE_LEXICON = {
    "Noun[sg]": LexicalCategory("NN", ("sheep", "dog"), (0.7, 0.3)),
    "Noun[pl]": LexicalCategory("NNS", ("sheep", "dogs"), (0.4, 0.6)),
    "V[sg]": LexicalCategory("VBZ", ("sees",), (1.0,)),
    "V[pl]": LexicalCategory("VBP", ("see", "sheep"), (0.9, 0.1)),
}
NUMBER = {"n": {"sg": 0.6, "pl": 0.4}}


def finite_grammar() -> ToyGrammar:
    return ToyGrammar(read_rules(FINITE, NUMBER, "S"), FINITE_LEXICON, {"S": "S", "NP": "NP"}, "S")


def one_letter(table: str) -> ToyGrammar:
    return ToyGrammar(read_rules(table, {}, "S"), {}, {}, "S")


def derivations(
    grammar: ToyGrammar, symbols: tuple[str, ...], words: tuple[str, ...] | None
) -> Iterator[tuple[tuple[str, ...], float]]:
    """Yields words and probability of every derivation of the symbols (with only these words, unless None)."""
    if not symbols:
        if not words:
            yield (), 1.0
        return
    if words is not None and len(symbols) > len(words):
        return
    first, *rest = symbols
    if first in grammar.lexicon:
        entry = grammar.lexicon[first]
        for word, probability in zip(entry.words, entry.probabilities, strict=True):
            if words is None or word == words[0]:
                for tail, other in derivations(grammar, tuple(rest), None if words is None else words[1:]):
                    yield (word, *tail), probability * other
        return
    for rule in grammar.rules[first]:
        for found, probability in derivations(grammar, (*rule.children, *rest), words):
            yield found, rule.probability * probability


@pytest.fixture(scope="module")
def grammar() -> ToyGrammar:
    return english_fragment()


@pytest.fixture(scope="module")
def sample(grammar: ToyGrammar) -> list[ToySentence]:
    return grammar.sample(5000, seed=1)


def test_every_category_and_word_class_is_a_distribution(grammar: ToyGrammar) -> None:
    for rules in grammar.rules.values():
        assert sum(rule.probability for rule in rules) == pytest.approx(1)
        assert len({(rule.children, rule.head, rule.relations) for rule in rules}) == len(rules)
    for entry in grammar.lexicon.values():
        assert sum(entry.probabilities) == pytest.approx(1)
        assert len(set(entry.words)) == len(entry.words)
    children = {child for rules in grammar.rules.values() for rule in rules for child in rule.children}
    assert children <= grammar.rules.keys() ^ grammar.lexicon.keys()


def test_words_are_many_and_lower_case_and_of_zipf_frequencies(grammar: ToyGrammar) -> None:
    assert len(grammar.vocabulary) >= 400
    assert all(word == word.lower() and (word.isalpha() or word == "'s") for word in grammar.vocabulary)
    probabilities = np.array(grammar.lexicon["Noun[person,sg]"].probabilities)
    np.testing.assert_allclose(probabilities[0] / probabilities, np.arange(1, len(probabilities) + 1))


@pytest.mark.parametrize(
    ("entry", "forms"),
    [
        ("try", "tries try try tried tried trying"),
        ("play", "plays play play played played playing"),
        ("agree", "agrees agree agree agreed agreed agreeing"),
        ("give:gave:given", "gives give give gave given giving"),
        ("sell:sold", "sells sell sell sold sold selling"),
    ],
)
def test_irregular_and_regular_verbs_are_inflected_by_english_spelling(entry: str, forms: str) -> None:
    assert list(verb_forms(entry).values()) == forms.split()


def test_regular_plurals_are_formed_by_english_spelling() -> None:
    nouns, plurals = "cat box church potato piano", "cats boxes churches potatoes pianos"
    assert list(map(plural, nouns.split())) == plurals.split()
    nouns, plurals = "city boy bus dish", "cities boys buses dishes"
    assert list(map(plural, nouns.split())) == plurals.split()


def test_no_word_after_the_article_a_begins_with_a_vowel(sample: list[ToySentence]) -> None:
    followers = {b[0] for s in sample for a, b in zip(s.words, s.words[1:], strict=False) if a == "a"}
    assert "b" in followers
    assert not followers & set("aeiou")


def test_mean_length_is_the_exact_expectation_and_long_sentences_are_rare(
    grammar: ToyGrammar, sample: list[ToySentence]
) -> None:
    lengths = np.array([len(sentence.words) for sentence in sample])
    assert 8 <= grammar.expected_length() <= 14
    assert abs(lengths.mean() - grammar.expected_length()) < 4 * lengths.std() / math.sqrt(len(lengths))
    assert (lengths > 60).mean() < 0.005
    assert one_letter("S -> 7 a_DT | 3 S* S/conj").expected_length() == pytest.approx(1.75)  # x = 0.7 + 0.3 * 2 x


def test_variables_only_on_the_right_share_the_weight_and_bound_ones_agree() -> None:
    table = "S -> 3 NP[n]/nsubj VP[n]* | 1 VP[sg]\nNP[n] -> 1 x_X\nVP[sg] -> 1 y_Y\nVP[n] -> 1 z_Z"
    found = {(rule.category, rule.children): rule.probability for rule in read_rules(table, NUMBER, "S")}
    assert [found["S", (f"NP[{n}]", f"VP[{n}]")] for n in ("sg", "pl")] == pytest.approx([0.45, 0.3])
    assert found["S", ("VP[sg]",)] == 0.25
    assert [found["VP[sg]", ("y_Y",)], found["VP[sg]", ("z_Z",)], found["VP[pl]", ("z_Z",)]] == [0.5, 0.5, 1]


def test_inside_equals_the_sum_over_all_derivations_and_a_finite_language_sums_to_one() -> None:
    grammar = finite_grammar()
    total: dict[tuple[str, ...], float] = defaultdict(float)
    count = Counter[tuple[str, ...]]()
    for words, probability in derivations(grammar, ("S",), None):
        total[words] += probability
        count[words] += 1
    assert max(count.values()) > 2
    inside = np.exp(grammar.inside_log_probabilities(list(total)))
    np.testing.assert_allclose(inside, list(total.values()), rtol=1e-12)
    assert inside.sum() == pytest.approx(1, abs=1e-12)


def test_inside_equals_the_sum_over_all_derivations_of_short_sentences_of_the_fragment(
    grammar: ToyGrammar, sample: list[ToySentence]
) -> None:
    sentences = list(dict.fromkeys(s.words for s in sample if len(s.words) <= 5))[:40]
    expected = [math.log(sum(p for _, p in derivations(grammar, ("TOP",), words))) for words in sentences]
    np.testing.assert_allclose(grammar.inside_log_probabilities(sentences), expected, rtol=1e-10)


@pytest.mark.parametrize("length", [1, 2, 3, 7, 60])
def test_inside_counts_every_binary_tree(length: int) -> None:
    inside = one_letter("S -> 6 a_DT | 4 S* S/conj").inside_log_probabilities([("a",) * length])
    catalan = math.comb(2 * length - 2, length - 1) // length
    assert inside[0] == pytest.approx(math.log(catalan) + (length - 1) * math.log(0.4) + length * math.log(0.6))


def test_unary_cycles_are_summed_exactly() -> None:
    grammar = one_letter("S -> 1 T | 2 a_X\nT -> 1 S | 1 b_X")
    inside = np.exp(grammar.inside_log_probabilities([("a",), ("b",), ("a", "b")]))
    np.testing.assert_allclose(inside, [0.8, 0.2, 0], rtol=1e-12)
    grammar = one_letter("S -> 1 T | 2 a_X* b_X/obj\nT -> 1 S | 1 b_X* a_X/obj c_X/obl")
    inside = np.exp(grammar.inside_log_probabilities([("a", "b"), ("b", "a", "c"), ("b", "a")]))
    np.testing.assert_allclose(inside, [0.8, 0.2, 0], rtol=1e-12)


def test_inside_is_at_least_the_probability_of_the_sampled_derivation(
    grammar: ToyGrammar, sample: list[ToySentence]
) -> None:
    some = sample[:60] + [s for s in sample[60:1000] if len(s.words) <= 20]
    assert len(some) > 800
    inside = grammar.inside_log_probabilities([s.words for s in some])
    derivation = np.array([s.log_probability for s in some])
    assert np.isfinite(inside).all()
    assert (inside >= derivation - 1e-9).all()
    assert (inside > derivation + 1e-9).mean() > 0.1
    alone = [grammar.inside_log_probabilities([s.words])[0] for s in sample[:60]]
    np.testing.assert_allclose(inside[:60], alone, rtol=1e-12)


def test_an_ambiguous_attachment_is_more_probable_than_either_derivation(grammar: ToyGrammar) -> None:
    sentence = ("mary", "saw", "a", "man", "with", "the", "telescope")
    found = [probability for _, probability in derivations(grammar, ("TOP",), sentence)]
    inside = math.exp(grammar.inside_log_probabilities([sentence])[0])
    assert len(found) == 2
    assert inside > 1.05 * max(found)
    assert inside == pytest.approx(sum(found))


def test_what_the_grammar_does_not_generate_has_probability_zero(grammar: ToyGrammar) -> None:
    texts = ["the dog sleep", "a dogs slept", "man", "dog the slept", "the xylophone slept", "", "these dogs sleep"]
    sentences = [tuple(text.split()) for text in texts]
    inside = grammar.inside_log_probabilities(sentences)
    assert np.isneginf(inside[:-1]).all()
    assert np.isfinite(inside[-1])
    assert grammar.inside_log_probabilities([]).shape == (0,)
    assert grammar.perplexity_floor(sentences) == math.inf


def test_perplexity_floor_counts_the_end_of_each_sentence(grammar: ToyGrammar, sample: list[ToySentence]) -> None:
    two = one_letter("S -> 1 a_X | 1 b_X* b_X/obj")
    assert two.perplexity_floor([("a",), ("b", "b")]) == pytest.approx(math.exp(2 * math.log(2) / 5))
    assert 15 <= grammar.perplexity_floor([s.words for s in sample[:100]]) <= 40


def test_sentences_are_sampled_as_often_as_they_are_probable() -> None:
    grammar = finite_grammar()
    count = Counter(s.words for s in grammar.sample(20_000, seed=3))
    expected = 20_000 * np.exp(grammar.inside_log_probabilities(list(count)))
    observed = np.array(list(count.values()))
    often = expected > 20
    assert often.sum() > 20
    deviation = (observed - expected)[often] / np.sqrt(expected[often])
    assert np.abs(deviation).max() < 5
    assert (deviation**2).mean() == pytest.approx(1, abs=0.6)


def test_the_same_seed_gives_the_same_sentences_and_another_seed_others(grammar: ToyGrammar) -> None:
    first = grammar.sample(20, seed=5)
    assert first == grammar.sample(20, seed=5)
    assert first[:7] == grammar.sample(7, seed=5)
    assert [s.words for s in first] != [s.words for s in grammar.sample(20, seed=6)]
    assert grammar.sample(0, seed=5) == []


def test_constituents_nest_in_pre_order_under_one_sentence_node(sample: list[ToySentence]) -> None:
    for sentence in sample:
        tree = sentence.tree
        assert tree.constituents[0] == ("S", 0, len(tree))
        assert all(tree.tags)
        assert all(a != b for a, b in zip(tree.constituents, tree.constituents[1:], strict=False))
        open_ends: list[int] = []
        last_start = 0
        for _, start, end in tree.constituents:
            assert last_start <= start < end
            last_start = start
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1]
            open_ends.append(end)


def test_labels_and_tags_are_those_of_the_treebanks(sample: list[ToySentence]) -> None:
    labels = {c.label for s in sample for c in s.tree.constituents}
    assert labels == {"S", "NP", "VP", "PP", "SBAR", "ADVP", "ADJP", "WHNP"}
    tags = {tag for s in sample for tag in s.tree.tags}
    expected = "CC CD DT IN JJ MD NN NNP NNS POS PRP PRP$ RB TO VB VBD VBG VBN VBP VBZ WDT WP"
    assert tags == set(expected.split())
    relations = {label for s in sample for label in s.dependencies.labels}
    expected = "root nsubj obj iobj obl nmod nmod:poss det amod nummod case mark aux cop advmod advcl acl:relcl"
    expected += " ccomp xcomp conj cc"
    assert relations == set(expected.split())


def test_dependencies_are_one_projective_tree_and_each_constituent_has_one_head(sample: list[ToySentence]) -> None:
    for sentence in sample:
        dependencies = sentence.dependencies
        assert (dependencies.words, dependencies.tags) == (sentence.tree.words, sentence.tree.tags)
        assert dependency_faults(dependencies) == []
        assert [head == 0 for head in dependencies.heads] == [label == "root" for label in dependencies.labels]
        for _, start, end in sentence.tree.constituents:  # exactly one word has its head outside
            assert sum(not start < head <= end for head in dependencies.heads[start:end]) == 1


def test_trees_of_a_known_derivation() -> None:
    table = """
    S  -> 1 NP/nsubj VP*
    NP -> 1 the_DT/det dog_NN*
    VP -> 1 FLAT
    FLAT -> 1 saw_VBD* VPX/ccomp
    VPX -> 1 VP2
    VP2 -> 1 it_PRP/nsubj sleep_VB*
    """
    labels = {"S": "S", "NP": "NP", "VP": "VP", "VPX": "SBAR", "VP2": "SBAR"}
    (sentence,) = ToyGrammar(read_rules(table, {}, "S"), {}, labels, "S").sample(1, seed=0)
    assert sentence.words == ("the", "dog", "saw", "it", "sleep")
    assert sentence.tree.constituents == (("S", 0, 5), ("NP", 0, 2), ("VP", 2, 5), ("SBAR", 3, 5))
    assert sentence.dependencies.heads == (2, 3, 0, 5, 3)
    assert sentence.dependencies.labels == ("det", "nsubj", "root", "nsubj", "ccomp")
    assert sentence.log_probability == 0


def dependents(sentence: ToySentence, head: int) -> list[int]:
    """Positions (from 0) of the dependents of the word at position `head`."""
    return [position for position, other in enumerate(sentence.dependencies.heads) if other == head + 1]


def number_of(sentence: ToySentence, position: int) -> str:
    """Returns the grammatical number of a subject; that of a relative pronoun is the number of its noun."""
    labels, tags = sentence.dependencies.labels, sentence.tree.tags
    if any(labels[d] == "conj" for d in dependents(sentence, position)):
        return "pl"
    if tags[position] in ("WP", "WDT"):
        verb = sentence.dependencies.heads[position] - 1
        while labels[verb] == "conj":
            verb = sentence.dependencies.heads[verb] - 1
        return number_of(sentence, sentence.dependencies.heads[verb] - 1)
    singular = sentence.words[position] in ("he", "she", "it")
    return "sg" if singular or tags[position] in ("NN", "NNP") else "pl"


def test_verbs_agree_with_their_subjects_and_determiners_with_their_nouns(sample: list[ToySentence]) -> None:
    checked = Counter[str]()
    forms = {"VBZ": "sg", "VBP": "pl", "was": "sg", "were": "pl"}
    numbers = {"a": "NN", "this": "NN", "every": "NN", "these": "NNS", "those": "NNS", "some": "NNS", "all": "NNS"}
    for sentence in sample:
        labels, tags, words = sentence.dependencies.labels, sentence.tree.tags, sentence.words
        for position, label in enumerate(labels):
            head = sentence.dependencies.heads[position] - 1
            if label == "nsubj":
                group = [d for d in dependents(sentence, head) if labels[d] in ("aux", "cop")] or [head]
                form = forms.get(tags[group[0]]) or forms.get(words[group[0]])
                assert form in (None, number_of(sentence, position)), " ".join(words)
                checked[f"subject {tags[position]}"] += form is not None
            if label == "det" and words[position] in numbers:
                assert tags[head] == numbers[words[position]], " ".join(words)
                checked["determiner"] += 1
            if label == "nummod":
                assert tags[head] == "NNS"
    assert min(checked[f"subject {tag}"] for tag in ("NN", "NNS", "NNP", "PRP", "WP", "WDT")) > 30
    assert checked["determiner"] > 1000


def object_relatives(sentence: ToySentence) -> list[int]:
    """Positions of the verbs of object relatives: their subject is not a relative pronoun."""
    labels, tags = sentence.dependencies.labels, sentence.tree.tags
    verbs = [position for position, label in enumerate(labels) if label == "acl:relcl"]
    subjects = [next(d for d in dependents(sentence, verb) if labels[d] == "nsubj") for verb in verbs]
    return [verb for verb, subject in zip(verbs, subjects, strict=True) if tags[subject] not in ("WP", "WDT")]


def conjunction_parents(sentence: ToySentence) -> set[str]:
    """Labels of the smallest constituents around coordinating conjunctions."""
    places = [position for position, tag in enumerate(sentence.tree.tags) if tag == "CC"]
    spans = sentence.tree.constituents
    return {min((c for c in spans if c.start <= p < c.end), key=lambda c: c.end - c.start).label for p in places}


def has(relation: str, tag: str = "", head_tag: str = "", word: str = "", after: bool | None = None) -> Construction:
    """Whether a word has this relation, these prefixes of its tag and its head's tag, and this position to its head."""

    def found(s: ToySentence) -> bool:
        return any(
            label == relation
            and s.tree.tags[i].startswith(tag)
            and s.tree.tags[s.dependencies.heads[i] - 1].startswith(head_tag)
            and word in ("", s.words[i])
            and after in (None, i >= s.dependencies.heads[i])
            for i, label in enumerate(s.dependencies.labels)
        )

    return found


def reduced_relative(s: ToySentence) -> bool:
    return any(not any(s.tree.tags[d][0] == "W" for d in dependents(s, verb)) for verb in object_relatives(s))


def centre_embedding(s: ToySentence, depth: int) -> bool:
    """`depth` object relatives, each on the subject of the next outer clause."""
    relatives = object_relatives(s)
    for verb in relatives:
        level, place = 0, verb
        while place in relatives and s.dependencies.labels[noun := s.dependencies.heads[place] - 1] == "nsubj":
            level, place = level + 1, s.dependencies.heads[noun] - 1
        if level >= depth:
            return True
    return False


def dative(s: ToySentence) -> bool:
    """A verb with an object and a phrase with "to"."""
    heads, labels = (0, *s.dependencies.heads), s.dependencies.labels
    verbs = [heads[heads[i]] - 1 for i, word in enumerate(s.words, 1) if (word, labels[i - 1]) == ("to", "case")]
    return any(labels[d] == "obj" for verb in verbs for d in dependents(s, verb))


CONSTRUCTIONS: dict[str, Construction] = {
    "phrase on a noun": has("nmod", "NN", "NN"),
    "phrase on a verb": has("obl", "NN", "VB"),
    "subject relative": has("nsubj", "W"),
    "object relative with a relative pronoun": has("obj", "W"),
    "object relative without": reduced_relative,
    "centre embedding": lambda s: centre_embedding(s, 1),
    "centre embedding, twice": lambda s: centre_embedding(s, 2),
    "coordinated noun phrases": lambda s: "NP" in conjunction_parents(s),
    "coordinated verb phrases": lambda s: "VP" in conjunction_parents(s),
    "coordinated clauses": lambda s: "S" in conjunction_parents(s),
    "sentential complement": has("ccomp"),
    "complementiser": has("mark", "IN", word="that"),
    "infinitival complement": has("xcomp", "VB"),
    "intransitive": lambda s: len(s.words) == 2 and s.tree.tags[1] in ("VBD", "VBZ", "VBP"),
    "transitive": has("obj", "NN", "VB"),
    "ditransitive": has("iobj", "NN", "VB"),
    "dative phrase": dative,
    "adjective": has("amod", "JJ", "NN"),
    "predicative adjective": has("cop", "VB", "JJ"),
    "predicative phrase": has("cop", "VB", "NN"),
    "adverb before the verb": has("advmod", "RB", "VB", after=False),
    "adverb after the verb": has("advmod", "RB", "VB", after=True),
    "proper noun": has("nsubj", "NNP"),
    "subject pronoun": has("nsubj", "PRP"),
    "object pronoun": has("obj", "PRP"),
    "possessive pronoun": has("nmod:poss", "PRP$"),
    "possessive": has("case", "POS"),
    "numeral": has("nummod", "CD"),
    "modal": has("aux", "MD", "VB"),
    "perfect": has("aux", "VB", "VBN"),
    "progressive": has("aux", "VB", "VBG"),
    "negation": has("advmod", "RB", "VB", word="not"),
    "fronted phrase": lambda s: s.tree.constituents[1][:2] == ("PP", 0),
    "fronted clause": lambda s: s.tree.constituents[1][:2] == ("SBAR", 0),
    "later adverbial clause": has("advcl", after=True),
}


@pytest.mark.parametrize("construction", CONSTRUCTIONS)
def test_every_construction_occurs(construction: str, sample: list[ToySentence]) -> None:
    assert any(CONSTRUCTIONS[construction](sentence) for sentence in sample)


def test_verbs_prefer_the_nouns_that_suit_them(sample: list[ToySentence]) -> None:
    objects = Counter(
        s.words[i]
        for s in sample
        for i, label in enumerate(s.dependencies.labels)
        if label == "obj" and s.words[s.dependencies.heads[i] - 1] in ("ate", "eaten", "eating")
    )
    assert objects["cake"] > 5
    assert objects["man"] == objects["letter"] == objects["house"] == 0


def baseline_f1(sentence: ToySentence, side: str) -> float:
    """Unlabelled F1 of right or left branching in percent, without the whole-sentence span and single words."""
    size = len(sentence.words)
    gold = {(start, end) for _, start, end in sentence.tree.constituents if 1 < end - start < size}
    if not gold:
        return 100.0 if size == 2 else 0.0
    guess = {(start, size) for start in range(1, size - 1)} if side == "right" else {(0, end) for end in range(2, size)}
    return 200 * len(gold & guess) / (len(gold) + len(guess))


def test_right_branching_is_far_from_perfect_and_left_branching_poor(sample: list[ToySentence]) -> None:
    several = [s for s in sample[:2000] if len(s.words) > 1]
    assert 38 < np.mean([baseline_f1(s, "right") for s in several]) < 52
    assert np.mean([baseline_f1(s, "left") for s in several]) < 22


def test_the_corpus_is_written_in_three_forms_with_its_floor(tmp_path: Path, grammar: ToyGrammar) -> None:
    summary = write_corpus(tmp_path / "toy", sentences=300, seed=7)
    names = [f"{split}.{form}" for split in ("train", "valid", "test") for form in ("txt", "mrg", "conllu")]
    assert sorted(path.name for path in (tmp_path / "toy").iterdir()) == sorted([*names, "floor.json"])
    stored = json.loads((tmp_path / "toy" / "floor.json").read_text())
    assert (stored["seed"], stored["vocabulary"]) == (7, len(grammar.vocabulary))
    texts = {}
    for split, count in {"train": 300, "valid": 15, "test": 15}.items():
        lines = (tmp_path / "toy" / f"{split}.txt").read_text().splitlines()
        texts[split] = [tuple(line.split()) for line in lines]
        assert len(lines) == count == stored[split]["sentences"]
        sample = grammar.sample(count, stored[split]["seed"])
        assert texts[split] == [sentence.words for sentence in sample]
        assert stored[split]["mean_length"] == pytest.approx(np.mean([len(words) for words in texts[split]]))
        assert read_brackets(tmp_path / "toy" / f"{split}.mrg") == [sentence.tree for sentence in sample]
        dependencies = read_conllu(tmp_path / "toy" / f"{split}.conllu")
        assert [tree.heads for tree in dependencies] == [sentence.dependencies.heads for sentence in sample]
        assert [tree.labels for tree in dependencies] == [sentence.dependencies.labels for sentence in sample]
        assert dependencies[0].name == f"toy-{split}-1"
    assert stored["test"]["floor"] == summary.test.floor == pytest.approx(grammar.perplexity_floor(texts["test"]))
    assert summary.train.floor is None
    assert texts["valid"] != texts["test"]
    assert texts["valid"] != texts["train"][:15]


def test_punctuation_adds_marks_to_the_same_words_and_trees(tmp_path: Path) -> None:
    plain = write_corpus(tmp_path / "plain", sentences=300, seed=7)
    assert write_corpus(tmp_path / "marks", sentences=300, seed=7, punctuated=True).train == plain.train
    lines = [(tmp_path / name / "train.txt").read_text().splitlines() for name in ("plain", "marks")]
    assert [line.replace(" ,", "").removesuffix(" .") for line in lines[1]] == lines[0]
    assert all(line.endswith(" .") for line in lines[1])
    assert 60 < sum("," in line for line in lines[1]) < 120
    trees = read_brackets(tmp_path / "marks" / "train.mrg")
    assert [" ".join(tree.words) for tree in trees] == lines[1]
    preprocessed = preprocess(trees, find_preprocessing("ptb-keep"), "train.mrg")
    assert preprocessed.trees == read_brackets(tmp_path / "plain" / "train.mrg")
    assert (tmp_path / "marks" / "train.conllu").read_bytes() == (tmp_path / "plain" / "train.conllu").read_bytes()


@pytest.mark.parametrize(
    ("commas", "expected"),
    [
        ((), "(S (NP (X a) (X b)) (VP (X c) (NP (X d) (X e))) (. .))"),
        ((2,), "(S (NP (X a) (X b)) (, ,) (VP (X c) (NP (X d) (X e))) (. .))"),
        ((1, 3), "(S (NP (X a) (, ,) (X b)) (VP (X c) (, ,) (NP (X d) (X e))) (. .))"),
    ],
)
def test_a_comma_belongs_to_the_smallest_constituent_on_both_its_sides(commas, expected) -> None:
    (tree,) = parse_brackets("(S (NP (X a) (X b)) (VP (X c) (NP (X d) (X e))))")
    dependencies = DependencyTree(tree.words, tree.tags, (0, 1, 1, 1, 1), ("",) * 5)
    assert format_brackets(ToySentence(tree, dependencies, 0.0, commas).with_punctuation()) == expected


def test_the_corpus_of_a_seed_never_changes(tmp_path: Path) -> None:
    """Published figures and recorded models depend on it."""
    for seed in (7, 8):
        write_corpus(tmp_path / str(seed), sentences=200, seed=seed)
    names = ("train.txt", "train.mrg", "train.conllu", "valid.txt")
    first, other = ([(tmp_path / seed / name).read_bytes() for name in names] for seed in ("7", "8"))
    assert sha256(first) == "1e3594ca54f4279717423411edc1420371f3ea1950448a77a07e1285d321f703"
    assert all(map(bytes.__ne__, first, other))


@pytest.mark.parametrize(
    ("count", "seed", "message"),
    [
        (0, 0, "sentences: found 0; expected 1 to 5,000,000"),
        (10**12, 0, r"sentences: found 1e\+12; expected 1 to 5,000,000"),
        (5, -1, "seed: found -1; expected 0 to 4,294,967,295"),
    ],
)
def test_numbers_out_of_range_are_refused_before_anything_is_written(count, seed, message, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        write_corpus(tmp_path / "toy", count, seed)
    assert not (tmp_path / "toy").exists()
