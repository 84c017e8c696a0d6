"""ARPA files: round trips without loss, files of other programs, and errors with line numbers."""

from __future__ import annotations

import gzip
import random
import re
import tracemalloc
import warnings
from pathlib import Path

import pytest
import torch

from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.core.reading import collected
from syntaxlm.models.batches import TextMode, TokenBatch
from syntaxlm.models.ngram import LOG10_NEVER, NGramConfig, NGramModel
from syntaxlm.scoring.engine import Scorer
from syntaxlm.storage.arpa import NGramSummary, read_arpa, write_arpa
from syntaxlm.storage.folder import ModelBundle, ModelSettings
from syntaxlm.text.normaliser_settings import NormaliserSettings
from syntaxlm.text.vocabulary import Vocabulary
from tests.fresh_models import fresh

KENLM = Path(__file__).parents[1] / "golden_data" / "kenlm"

SMALL = """\\data\\
ngram 1=5
ngram 2=4
ngram 3=1

\\1-grams:
-1.5\t<unk>\t0
-99\t<s>\t-0.30103
-0.5228787\t</s>
-0.30103\ta\t-0.1
-0.69897\tb\t-0.2

\\2-grams:
-0.1\t<s> a\t-0.05
-0.4\ta b
-0.2\ta </s>
-0.3\tb a\t0.01

\\3-grams:
-0.04\t<s> a b

\\end\\
"""


@pytest.fixture
def written(tmp_path):
    """Writes a file; returns its path."""

    def written(text, name="model.arpa"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8", newline="")
        return path

    return written


def estimated(mode="sentences", order=4) -> ModelBundle:
    """A model of random text, with special symbols and unusual words in its vocabulary."""
    words = ["a", "é", "友情", "x\u00a0y", "1e-3", "\\data\\", "ngram"]
    begin, end = ("<s>", "</s>") if mode == "sentences" else ("<eos>", "<eos>")
    vocabulary = Vocabulary(list(dict.fromkeys(["<unk>", begin, end])) + words, begin=begin, end=end)
    generator = torch.Generator().manual_seed(1)
    first = len(vocabulary) - len(words)
    text = torch.randint(first, len(vocabulary), (30, 4), generator=generator)
    text[0], text[-1] = vocabulary.begin_id, vocabulary.end_id
    model = NGramModel(NGramConfig(order=order), len(vocabulary))
    model.accumulate(TokenBatch(text[:-1], text[1:]))
    model.maximise()
    settings = ModelSettings(model.config, NormaliserSettings(), carry_state=mode == "stream")
    return ModelBundle(model.eval(), settings, vocabulary)


def assert_same(one: ModelBundle, other: ModelBundle) -> None:
    assert one.vocabulary == other.vocabulary
    assert one.settings == other.settings
    states = one.model.state_dict(), other.model.state_dict()
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(tensor, states[1][name]) for name, tensor in states[0].items())


@pytest.mark.parametrize("mode", ["sentences", "stream"])
@pytest.mark.parametrize("order", [1, 2, 4])
def test_a_model_written_and_read_is_the_same_bit_by_bit(tmp_path, mode, order):
    stored = estimated(mode, order)
    summary = write_arpa(stored, tmp_path / "one.arpa")
    with pytest.warns(InputWarning, match="found 1 word with white space"):
        assert_same(read_arpa(tmp_path / "one.arpa"), stored)
    assert summary.counts == tuple(len(level.keys) for level in stored.model.each_level)


@pytest.mark.parametrize("name", ["model.arpa", "pruned.arpa", "fallback.arpa"])
def test_a_file_of_another_program_is_read_and_written_unchanged(tmp_path, name):
    """Except the order of lines, the probability of `<s>`, which is never predicted, and zeros of `</s>`."""

    def lines(path):
        found = (line.split("\t") for line in path.read_text().splitlines())
        return {(LOG10_NEVER if parts[1:2] == ["<s>"] else parts[0], *parts[1:]) for parts in found}

    write_arpa(read_arpa(KENLM / name), tmp_path / "again.arpa")
    assert lines(tmp_path / "again.arpa") == lines(KENLM / name)
    write_arpa(read_arpa(tmp_path / "again.arpa"), tmp_path / "third.arpa")
    assert (tmp_path / "third.arpa").read_bytes() == (tmp_path / "again.arpa").read_bytes()


def test_probabilities_by_hand(written):
    stored = read_arpa(written(SMALL))
    assert stored.mode == TextMode(carry_state=False, predict_eos=True)
    found = Scorer.of(stored).sentences([["a", "b"], ["b", "zebra"], ["a", "a"]]) / torch.log(torch.tensor(10.0)).item()
    assert found == pytest.approx(
        [
            -0.1 - 0.04 + (-0.2 - 0.5228787),  # a | <s>; b | <s> a; </s> after b backs off
            (-0.30103 - 0.69897) + (-0.2 - 1.5) - 0.5228787,  # b after <s>, unknown after b, </s> after unknown
            -0.1 + (-0.05 - 0.1 - 0.30103) + -0.2,  # a after <s> a backs off twice; </s> | a
        ]
    )


def test_variants_of_other_programs_are_read(written):
    """Other line ends, spaces for tabs, empty lines, words before the data, no back-off where it is 0, the order."""
    plain = read_arpa(written(SMALL))
    lines = SMALL.split("\n")
    lines[9], lines[10] = lines[10], lines[9]
    odd = "made by hand\n\n" + "\n".join(lines).replace("\t", " ").replace("\\2-grams:", "\n\\2-grams: ")
    odd = odd.replace("ngram 1=5", "ngram 1 = 5").replace("</s>\n", "</s> 0\n", 1).replace("\n", "\r\n")
    assert Scorer.of(read_arpa(written(odd, "odd.arpa"))).sentences([["a", "b"]]) == Scorer.of(plain).sentences(
        [["a", "b"]]
    )
    path = written("", "model.arpa.gz")
    path.write_bytes(gzip.compress(SMALL.encode()))
    assert_same(read_arpa(path), plain)


def test_a_missing_unknown_word_is_added_and_never_predicted(written):
    text = SMALL.replace("ngram 1=5", "ngram 1=4").replace("-1.5\t<unk>\t0\n", "")
    with pytest.warns(InputWarning, match="<unk> is missing among the 1-grams"):
        stored = read_arpa(written(text))
    assert stored.vocabulary.unknown_id == len(stored.vocabulary) - 1
    assert Scorer.of(stored).sentences([["zebra"]])[0] < LOG10_NEVER * 2
    upper = read_arpa(written(SMALL.replace("<unk>", "<UNK>")))
    assert upper.vocabulary.unknown == "<UNK>"


def test_bos_is_never_predicted_whatever_its_probability_in_the_file(written):
    stored = read_arpa(written(SMALL.replace("-99\t<s>", "0\t<s>")))
    assert stored.model.each_level[0].log_probs[stored.vocabulary.begin_id] == LOG10_NEVER


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("\\data\\", "\\dat\\"), r"not an ARPA file: the line \\data\\ is missing"),
        (("ngram 1=5", "ngram 2=5"), "line 2: found 'ngram 2=5'; expected ngram 1=..."),
        (("ngram 1=5\n", ""), "line 2: found 'ngram 2=4'; expected ngram 1=..."),
        (("ngram 2=4", "ngram 2=3"), r"line 17: found '-0.3\\tb a\\t0.01'; expected \\3-grams:"),
        (("ngram 2=4", "ngram 2=5"), r"line 19: found '\\\\3-grams:'; expected 5 2-grams, not only 4, because line 3"),
        (("ngram 2=4", "ngram 2=999999999999"), "line 3: .*; expected n-grams that fit into the memory"),
        (("\\2-grams:", "\\3-grams:"), r"line 13: .*; expected \\2-grams:"),
        (("-0.4\ta b", "-0.4a b"), "line 15: found '-0.4a b'; expected log10 of a probability, 2 words, an optional"),
        (("-0.4\ta b", "nan\ta b"), "line 15: .* expected log10"),
        (("-0.4\ta b", "0.4\ta b"), "line 15: .* expected log10"),
        (("-0.4\ta b", "-inf\ta b"), "line 15: .* expected log10"),
        (("-0.4\ta b", "-0.4\ta b\tx"), "line 15: .* expected log10"),
        (("-0.4\ta b", "-0.4\ta b\tinf"), "line 15: .* expected log10"),
        (("-0.4\ta b", "-0.4\ta"), "line 15: .* expected log10"),
        (("-0.4\ta b", "-0.4\ta c"), "line 15: .* expected words that are 1-grams, which 'c' is not"),
        (("-0.4\ta b", "-0.4\t<s> a"), "line 15: .* expected each n-gram once; it is also on line 14"),
        (("-0.69897\tb", "-0.69897\ta"), "line 11: .* expected each word once; it is also on line 10"),
        (("-0.04\t<s> a b", "-0.04\t<s> b a"), "line 20: .* expected an n-gram that, without its last word, is"),
        (("-0.04\t<s> a b", "-0.04\t<s> a b\t-0.3"), "line 20: .* expected log10 of a probability, 3 words$"),
        (("\\end\\\n", ""), r"the file ends after line 21; expected \\end\\"),
        (("</s>", "</S>"), "found neither <s> and </s> nor <eos> among the 1-grams"),
    ],
)
def test_a_damaged_file_raises_an_error_with_the_line_number(written, change, message):
    text = SMALL.replace(*change)
    assert text != SMALL
    path = written(text)
    with pytest.raises(InputError, match=message) as caught:
        read_arpa(path)
    assert str(caught.value).startswith(str(path))


def test_every_truncated_file_raises_an_error(written):
    for end in range(0, len(SMALL) - 2):
        with pytest.raises(InputError, match=r"model\.arpa"):
            read_arpa(written(SMALL[:end]))


def test_binary_and_missing_files_raise_an_error(tmp_path):
    (tmp_path / "odd.arpa").write_bytes(SMALL.encode().replace(b"a b", b"a \xff"))
    with pytest.raises(InputError, match="line 15: found byte 0xff"):
        read_arpa(tmp_path / "odd.arpa")
    with pytest.raises(InputError, match="nowhere: cannot be read"):
        read_arpa(tmp_path / "nowhere")


def test_models_that_arpa_cannot_represent_raise_an_error_before_writing(tmp_path):
    with pytest.raises(InputError, match="this is a lstm model; ARPA files can only store n-gram models"):
        write_arpa(fresh("lstm"), tmp_path / "no.arpa")
    stored = estimated()
    tokens = [token if token != "é" else "é b" for token in stored.vocabulary.tokens]
    with pytest.raises(InputError, match=r"no\.arpa: the token 'é b' contains white space"):
        write_arpa(ModelBundle(stored.model, stored.settings, Vocabulary(tokens)), tmp_path / "no.arpa")
    assert not list(tmp_path.iterdir())


def test_the_order_of_lines_does_not_matter(written):
    lines = SMALL.split("\n")
    body = lines[13:17]
    random.Random(2).shuffle(body)
    assert body != lines[13:17]
    assert_same(read_arpa(written("\n".join([*lines[:13], *body, *lines[17:]]))), read_arpa(written(SMALL, "b.arpa")))


def test_the_summary_has_the_counts_of_the_file(tmp_path):
    stored = estimated(order=2)
    summary = NGramSummary.of(stored.model, tmp_path)
    assert str(summary) == f"{tmp_path}: 10 1-grams   {len(stored.model.each_level[1].keys)} 2-grams"
    assert summary.to_dict() == {"path": str(tmp_path), "counts": list(summary.counts)}


PAIRS = """\\data\\
ngram 1=6
ngram 2=5

\\1-grams:
-1.2\t<unk>\t0
-99\t<s>\t-0.30103
-0.8\t</s>\t0
-0.6\tthe\t-0.2
-0.9\tdog\t-0.1
-1.0\tran\t-0.4

\\2-grams:
-0.3\t<s> the
-0.4\tthe dog
-0.5\tdog ran
-0.2\tran </s>
-1.1\tdog </s>

\\end\\
"""
SEEN = -1.4  # log10 of "the dog ran" by KenLM
UNSEEN = -0.30103 - 1.2 - 0.9 - 1.1  # of "zz dog"


def log10(bundle: ModelBundle, *sentences: str) -> list[float]:
    values = Scorer.of(bundle).sentences([bundle.normaliser.tokens(sentence) for sentence in sentences])
    return [value / torch.log(torch.tensor(10.0)).item() for value in values]


@pytest.mark.parametrize(
    "change",
    [
        ("", ""),
        ("\n", "\r\n"),
        ("\n", "\r"),
        ("\\end\\\n", "\\end\\"),
        ("=", "=\t"),
        ("ngram ", "ngram\t"),
        ("=", " = "),
        ("ngram 2=5\n\n", "ngram 2=5\n"),
        ("the dog\n", "the dog\t0\n"),
        ("the dog\n", "the dog\t-0.0\n"),
        ("the dog\n", "the dog\t0e0\r\n"),
        ("-grams:\n", "-grams:\n\n \n"),
        ("-0.6\tthe", "\n\n-0.6\tthe"),
        ("-0.4\tthe", "\n-0.4\tthe"),
        ("\\end\\", "\n\n\\end\\\n\n"),
        ("-99\t<s>", "-inf\t<s>"),
        ("-99\t<s>", "-Infinity\t<s>"),
        ("-99\t<s>", "0\t<s>"),
        ("-0.4\tthe", "-4.0E-01\tthe"),
        ("-0.4\tthe", "-.4\tthe"),
        ("\t", " "),
        ("\t", "   "),
        ("-0.4\tthe dog", "-0.4\tthe\tdog"),
        ("-0.4\tthe dog", " -0.4\tthe  dog \t"),
        ("<unk>", "<UNK>"),
        ("\\data\\", "\ufeff\n\n\\data\\"),
        ("\\data\\", "made by hand\n\n\\data\\"),
        ("</s>\t0", "</s>"),
    ],
)
def test_what_other_programs_write_has_the_same_probabilities(written, change):
    assert log10(read_arpa(written(PAIRS.replace(*change))), "the dog ran", "zz dog") == pytest.approx([SEEN, UNSEEN])


def test_back_off_weights_of_0_in_a_file_of_1_grams(written):
    text = "\\data\\\nngram 1=4\n\n\\1-grams:\n\n-1\t<unk>\t0\n-inf\t<s>\t0\n-0.5\t</s>\n-0.7\tthe\t0.0\n\n\\end\\\n"
    assert log10(read_arpa(written(text)), "the the zz") == pytest.approx([-0.7 - 0.7 - 1 - 0.5])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("-0.5\tdog", "0.00000012\tdog"),
            "line 16: .*, where 0.00000012 is above 0, as IRSTLM may write; expected log10",
        ),
        (("-99\t<s>", "0.5\t<s>"), "line 7: .* above 0"),
        (("-0.5\tdog", "NaN\tdog"), "line 16: .*nan is not a number; expected log10"),
        (("-0.5\tdog", "-inf\tdog"), "line 16: .*-inf is possible only for <s>"),
        (("-0.8\t</s>", "-inf\t</s>"), "line 8: .*-inf is possible only for <s>"),
        (("-0.5\tdog", "inf\tdog"), "line 16: .*above 0"),
        (("-0.5\tdog", "-1e400\tdog"), "line 16: "),
        (("-0.5\tdog", "-1e10\tdog"), "line 16: .*below -1e"),
        (("-0.5\tdog", "-0_5\tdog"), "line 16: "),
        (("-0.5\tdog", "-0,5\tdog"), "line 16: "),
        (("-0.5\tdog", "-\u0661\tdog"), "line 16: "),
        (("dog ran", "dog ran\t-0.1"), "line 16: .*-0.1 is a back-off weight other than 0 in the highest order"),
        (("dog ran", "dog ran\tnan"), "line 16: .*nan is not a number"),
        (("the\t-0.2", "the\t-inf"), "line 9: .*-inf is no possible back-off weight"),
        (("the\t-0.2", "the\t100"), "line 9: .*100 is no possible back-off weight"),
        (("the\t-0.2", "the 1990\t-0.2"), "line 9: "),
        (("the\t-0.2", "the 1990"), "line 9: "),
        (("2=5", "2=6"), r"line 20: found '\\\\end\\\\'; expected 6 2-grams, not only 5, because line 3"),
        (("2=5", "2=4"), r"line 18: .*expected \\end\\, as declared in the header \(line 3 declares 4 2-grams\)"),
        (("1=6", "1=7"), r"line 13: found '\\\\2-grams:'; expected 7 1-grams, not only 6"),
        (("1=6", "1=5"), r"line 11: .*expected \\2-grams:, .* \(line 2 declares 5 1-grams\)"),
        (("1=6", "1=0"), "line 2: .*expected at least one 1-gram"),
        (("-grams", "-GRAMS"), r"line 5: .*expected \\1-grams:"),
        (("\\data\\", "iARPA\n\n\\data\\"), "line 1: found an intermediate file of IRSTLM; .* compile-lm"),
        (("\\data\\", "mmap lm http://kheafield.com/code version 5\n\0"), "zero byte|binary file of KenLM"),
        (
            ("ngram 2=5", "".join(f"ngram {order}=1\n" for order in range(2, 30))),
            "expected n-grams of at most 20 words",
        ),
        (("-0.4\tthe dog", "\n-0.4\t<s> the"), "line 16: found '<s> the'; expected each n-gram once; .* line 14"),
    ],
)
def test_what_cannot_be_right_is_named_with_its_line(written, change, message):
    path = written(PAIRS.replace(*change))
    with pytest.raises(InputError, match=message) as caught:
        read_arpa(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize("space", ["\u00a0", "\u3000", "\x85", "\u2028", "\v", "\f", "\x1c", "\r", "\u200b"])
def test_words_with_white_space_are_counted_in_a_warning(written, space):
    path = written(PAIRS.replace("dog", f"dog{space}cat"))
    what = "words? with white space" if space != "\u200b" else "words? changed by the normaliser"
    with collected() as reports, pytest.warns(InputWarning, match=rf"model\.arpa: found 1 {what}: 'dog.*' \(line 10\)"):
        stored = read_arpa(path)
    (remark,) = reports[0].remarks
    assert (remark.count, remark.lines, remark.examples) == (1, (10,), (f"dog{space}cat",))
    assert log10(stored, f"the dog{space}cat ran") == pytest.approx([-0.3 - 0.2 - 1.2 - 1.2 - 1.0 - 0.2])


def test_words_that_the_normaliser_changes_are_counted_in_a_warning(written):
    with pytest.warns(InputWarning, match=r"found 2 words changed by the normaliser: 'The', 'Ran' \(lines 9, 11\)"):
        read_arpa(written(PAIRS.replace("the", "The").replace("ran", "Ran")), NormaliserSettings(lower_case=True))
    with pytest.warns(InputWarning, match="found 1 word changed by the normaliser"):
        read_arpa(written(PAIRS.replace("dog", "de\u0301ja")))


def test_the_report_has_the_counts_and_what_is_ignored(written):
    with collected() as reports:
        read_arpa(written("by hand\n\n" + PAIRS + "more\n"))
    (report,) = reports
    assert str(report).endswith(
        "model.arpa: n-grams of order 2, ARPA, 6 1-grams, 5 2-grams; 1 line before \\data\\, ignored (line 1); 1 line"
        " after \\end\\, ignored (line 23)"
    )
    assert (report.evidence, report.sample) == ("line 3: \\data\\", ("-1.2 <unk>", "-99.0 <s>"))


@pytest.mark.parametrize("content", [b"\n" * 2**25, b" " * 2**25, b"word " * 2**22])
def test_a_compressed_file_without_a_header_takes_little_memory(tmp_path, content):
    path = tmp_path / "model.arpa.gz"
    path.write_bytes(gzip.compress(content, 1))
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"the line \\data\\ is missing|in one line"):
            read_arpa(path)
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


def test_a_file_of_many_pieces_is_read_with_its_line_numbers(written):
    words = [f"wört{number}" for number in range(40_000)]
    lines = "".join(f"-4\t{word}\n" for word in words)
    text = f"\\data\\\nngram 1=40003\n\n\\1-grams:\n-1\t<unk>\n-99\t<s>\n-1\t</s>\n{lines}\n\\end\\\n"
    assert read_arpa(written(text)).vocabulary.tokens[3:] == tuple(words)
    with pytest.raises(InputError, match="line 40007: found '4"):
        read_arpa(written(text.replace(f"-4\t{words[-1]}", f"4\t{words[-1]}")))
    path = written(text)
    path.write_bytes(text.encode().replace(words[-1].encode(), b"\xff"))
    with pytest.raises(InputError, match="line 40007: found byte 0xff"):
        read_arpa(path)


@pytest.mark.filterwarnings("ignore::syntaxlm.core.errors.InputWarning")
def test_mutated_files_are_refused_or_have_the_declared_numbers(written):
    source = random.Random(5)
    pieces = [
        "\t",
        " ",
        "\n",
        "\\",
        "0",
        "-",
        "9",
        "inf",
        "nan",
        "the",
        "\u00a0",
        "\r",
        "=",
        "\\end\\",
        "\\2-grams:",
        "ngram 3=1",
    ]
    for _ in range(400):
        lines = PAIRS.split("\n")
        for _ in range(source.randint(1, 2)):
            place = source.randrange(len(lines))
            how, at = source.random(), source.randint(0, len(lines[place]))
            if how < 0.2:
                del lines[place]
            elif how < 0.4:
                lines.insert(place, source.choice(lines))
            else:
                lines[place] = lines[place][:at] + source.choice(pieces) + lines[place][at + source.randint(0, 2) :]
        text = "\n".join(lines)
        try:
            stored = read_arpa(written(text))
        except InputError:
            continue
        declared = [
            int(line.partition("=")[2])
            for line in text.partition("\\1-grams:")[0].split("\n")
            if line.startswith("ngram ")
        ]
        counts = [len(level.keys) for level in stored.model.each_level]
        counts[0] -= stored.vocabulary.unknown_id == declared[0]  # added to a file without an unknown word
        assert counts == declared, text


@pytest.mark.parametrize(
    ("log_prob", "expected"),
    [(-0.2, "add up to 2.39"), (-1.203973, "add up to 0.1.*They are natural logarithms, it seems"), (-0.60206, None)],
)
def test_probabilities_that_do_not_add_up_to_1_are_a_warning(tmp_path, log_prob, expected):
    words = [(log_prob, "</s>"), (log_prob, "a"), (log_prob, "b"), (-0.3, "<unk>")]
    if expected is None:
        words[-1] = (log_prob, "<unk>")
    elif "natural" in expected:
        words[-1] = (-2.302585, "<unk>")
    rows = "".join(f"{value}\t{word}\n" for value, word in [(-99, "<s>"), *words])
    path = tmp_path / "m.arpa"
    path.write_text(f"\\data\\\nngram 1=5\n\n\\1-grams:\n{rows}\n\\end\\\n")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read_arpa(path)
    messages = [str(warning.message) for warning in caught]
    assert any(re.search(expected, message) for message in messages) if expected else not messages
