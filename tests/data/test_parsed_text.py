"""Parsing of raw text with a spaCy pipeline, whose parser is trained on two sentences."""

from __future__ import annotations

import builtins

import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.data.parsed_text import load_pipeline, parse_text
from syntaxlm.trees.dependencies import steps_of

LESSONS = (
    ("the old cat sleeps .", (2, 2, 3, 3, 3), ("det", "amod", "nsubj", "ROOT", "punct")),
    ("dogs bark", (1, 1), ("nsubj", "ROOT")),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A saved spaCy pipeline whose parser is overfitted to the training sentences."""
    spacy = pytest.importorskip("spacy", reason="spaCy is not installed")
    from spacy.training import Example

    spacy.util.fix_random_seed(0)
    pipeline = spacy.blank("en")
    pipeline.add_pipe("parser", config={"min_action_freq": 1})  # rarer labels are left out
    examples = [
        Example.from_dict(pipeline.make_doc(text), {"heads": list(heads), "deps": list(labels)})
        for text, heads, labels in LESSONS
    ]
    optimiser = pipeline.initialize(lambda: examples)
    for _ in range(40):
        pipeline.update(examples, sgd=optimiser)
    path = tmp_path_factory.mktemp("pipeline")
    pipeline.to_disk(path)
    return path


@pytest.fixture(scope="module")
def pipeline(folder):
    return load_pipeline(folder)


def test_each_line_is_the_tree_that_the_pipeline_finds(pipeline, tmp_path):
    (tmp_path / "text.txt").write_text("the old cat sleeps .\n\n  \ndogs bark\n")
    first, second = parse_text(tmp_path / "text.txt", pipeline)
    assert first.words == ("the", "old", "cat", "sleeps", ".")
    assert first.heads == (3, 3, 4, 0, 4)
    assert first.labels == ("det", "amod", "nsubj", "ROOT", "punct")
    assert (second.words, second.heads, second.name) == (("dogs", "bark"), (2, 0), "4")


def test_white_space_is_no_word_and_passes_its_head_on(pipeline):
    from spacy.tokens import Doc

    from syntaxlm.data.parsed_text import _tree

    words, heads = ["dogs", "\n", "\t", "bark", "\u3000"], [1, 2, 3, 3, 3]
    doc = Doc(pipeline.vocab, words=words, heads=heads, deps=["nsubj", "dep", "dep", "ROOT", "dep"])
    assert (_tree(doc, "").words, _tree(doc, "").heads) == (("dogs", "bark"), (2, 0))


def with_heads(heads):
    """A pipeline that assigns these heads to every document."""
    import spacy
    from spacy.language import Language
    from spacy.tokens import Doc

    def component(doc):
        return Doc(doc.vocab, words=[token.text for token in doc], heads=heads, deps=["dep"] * len(doc))

    Language.component(f"heads {heads}", func=component)
    pipeline = spacy.blank("en")
    pipeline.add_pipe(f"heads {heads}")
    return pipeline


def test_a_line_of_several_sentences_is_one_tree_or_is_cut(tmp_path):
    pytest.importorskip("spacy", reason="spaCy is not installed")
    pipeline = with_heads([1, 1, 3, 3])
    (tmp_path / "text.txt").write_text("dogs bark they sleep\n")
    (whole,) = parse_text(tmp_path / "text.txt", pipeline)
    assert whole.heads == (2, 0, 4, 0)
    assert len(steps_of(whole)) == 4
    parts = list(parse_text(tmp_path / "text.txt", pipeline, split=True))
    assert [(part.name, part.words, part.heads) for part in parts] == [
        ("1.1", ("dogs", "bark"), (2, 0)),
        ("1.2", ("they", "sleep"), (2, 0)),
    ]


def test_what_cannot_be_parsed_is_refused(pipeline, tmp_path):
    import spacy

    text = tmp_path / "text.txt"
    text.write_text("dogs bark\n")
    without, short = spacy.blank("en"), spacy.blank("en")
    without.add_pipe("sentencizer")
    short.max_length = 5
    with pytest.raises(
        InputError, match="the spaCy pipeline en_pipeline has no parser; its components are sentencizer"
    ):
        list(parse_text(text, without))
    with pytest.raises(InputError, match="en_no_such_pipeline: the spaCy pipeline cannot be loaded"):
        load_pipeline("en_no_such_pipeline")
    with pytest.raises(InputError, match=r"text\.txt, line 1: 9 characters; expected at most 5"):
        list(parse_text(text, short))
    text.write_text(" \n\n")
    with pytest.raises(InputError, match=r"text\.txt: found no sentence"):
        list(parse_text(text, pipeline))


def test_without_spacy_the_extra_is_reported(monkeypatch):
    real = builtins.__import__

    def without(name, *more):
        if name == "spacy":
            raise ImportError(name)
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=r"pip install 'syntaxlm\[spacy\]'"):
        load_pipeline("en_core_web_sm")
