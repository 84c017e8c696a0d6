"""Word frequencies: lists of every usual form, texts, the package wordfreq, and what is refused."""

from __future__ import annotations

import gzip
import math
from collections import Counter

import pandas as pd
import pytest

from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.core.reading import collected
from syntaxlm.data.frequencies import Frequencies, bare_word, is_frequency_list

COUNTS = {"the": 22_000_000, "dog": 90_000, "slept": 7_000, "quietly": 5_000, "zebra": 800}


@pytest.fixture
def read(tmp_path):
    def read(content: str | bytes, name: str = "list.tsv", column: str | None = None) -> Frequencies:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return Frequencies.read(path, column)

    return read


def rows(form: str, header: str = "") -> str:
    """Return the list of COUNTS, one row per word in the given form."""
    lines = [form.format(w=word, c=count, r=rank) for rank, (word, count) in enumerate(COUNTS.items(), 1)]
    return "\n".join([*([header] if header else []), *lines, ""])


@pytest.mark.parametrize(
    "content",
    [
        rows("{w}\t{c}"),
        rows("{w}\t{c}", "word\tcount"),
        rows("{w}\t{c}", "Wort\tAnzahl"),
        rows("{w} {c}"),
        rows("{w}  {c}  "),
        rows("{c}\t{w}"),
        rows("{c:>10} {w}"),
        rows("{r} {w} {c}"),
        rows("{r}\t{w}\t{c}", "rank\tword\tfreq"),
        rows("{r}\t{w}\t{c}"),
        rows("{w},{c}"),
        rows("{w};{c}", "word;count"),
        rows('"{w}","{c}"', '"word","count"'),
        rows('"{w}", "{c:,}"', '"word", "count"'),
        rows("{w}\t{c:,}"),
        rows("{w}\t{c:_}").replace("_", "\u202f"),
        rows("{w}\t{c:_}").replace("_", "'"),
        rows("{w}\t{c}\t12\t6.1", "Word\tFREQcount\tCDcount\tLg10WF"),
        rows("{w},{c},1.5,2.5", "Spelling,FreqCount,LogFreq(Zipf),CD"),
        rows("{w}\tNoun\t{c}", "word\tPoS\tfreq"),
        rows("{w}\t{c}.0"),
        rows("{w}\t{c}").replace("\n", "\r\n"),
        "\ufeff" + rows("{w}\t{c}", "word\tcount"),
        rows("{w}\t{c}") + "\n\n",
        rows("{w}\t{c}").replace("dog\t90000", "dog\t80000\nDog\t10000"),
    ],
)
def test_a_list_of_every_usual_form_is_read_alike(read, content):
    frequencies = read(content)
    assert dict(frequencies.counts) == COUNTS
    assert [round(frequencies.zipf(word), 2) for word in ("The", "dog", "slept,", "quietly")] == [
        9.00,
        6.61,
        5.50,
        5.35,
    ]


def test_a_compressed_list_is_read(read):
    assert dict(read(gzip.compress(rows("{w} {c}").encode()), "list.txt.gz").counts) == COUNTS


@pytest.mark.parametrize("missing", ["", "NA", "NaN"])
def test_a_row_without_a_count_is_left_out_and_counted(read, missing):
    with collected() as readings:
        frequencies = read(rows("{w}\t{c}").replace("800", missing))
    assert dict(frequencies.counts) == {word: count for word, count in COUNTS.items() if word != "zebra"}
    expected = "separated by tabs, 4 rows, 4 different words; 1 row without a count, left out: 'zebra' (line 5)"
    assert str(readings[0]).endswith(f"frequency list, {expected}")


def test_words_that_are_like_missing_values_or_numbers_stay_words(read):
    frequencies = read("the\t50\nnull\t4\nNA\t3\n1989\t2\n42\t1\n")
    assert [frequencies.count(word) for word in ("null", "NA", "1989.", "42")] == [4, 3, 2, 1]


def test_decimal_commas_and_frequencies_per_million_are_read(read):
    frequencies = read("the;50000,25\ndog;150,5\nzebra;0,25\n")
    assert frequencies.counts == {"the": 50_000.25, "dog": 150.5, "zebra": 0.25}
    # One occurrence is the smallest value of the list, not one in a million.
    assert frequencies.zipf("unseen") == pytest.approx(math.log10(0.25 / (50_151 + 3 * 0.25) * 1e9))
    assert frequencies.zipf("zebra") == pytest.approx(frequencies.zipf("unseen") + math.log10(2))


@pytest.mark.parametrize(
    ("content", "counts"),
    [
        ("the\t12,345\ndog\t0,567\nzebra\t0,012\n", [12.345, 0.567, 0.012]),
        ("the\t1.234,5\ndog\t2.000.000\nzebra\t7,25\n", [1234.5, 2e6, 7.25]),
        ("the\t1.234.567\ndog\t90.000\nzebra\t12\n", [1_234_567, 90_000, 12]),
        ("the\t1,234,567.5\ndog\t90,000\nzebra\t0.125\n", [1_234_567.5, 90_000, 0.125]),
        ("the\t51234.5\ndog\t1.234\nzebra\t1e-3\n", [51234.5, 1.234, 0.001]),
    ],
)
def test_points_and_commas_have_one_meaning_in_a_list(read, content, counts):
    assert read(content).counts == dict(zip(["the", "dog", "zebra"], counts, strict=True))


def test_a_column_with_an_unknown_name_is_a_warning(read):
    with pytest.warns(InputWarning, match="the column 'xyz' is taken as counts"):
        assert read("word\txyz\nthe\t10\nold\t2\n").counts == {"the": 10, "old": 2}


def test_the_column_of_counts_can_be_chosen(read):
    table = "word\ta\tb\nthe\t10\t100\ndog\t5\t20\n"
    assert read(table, column="b").counts == {"the": 100, "dog": 20}
    with pytest.raises(
        InputError,
        match=r"several columns of numbers: a, b; .* Choose one with frequencies=syntaxlm\.Frequencies\.read\(file,",
    ):
        read(table)
    with pytest.raises(InputError, match=r"no column 'c'; found word, a, b"):
        read(table, column="c")
    with pytest.raises(InputError, match="the column 'word' has text"):
        read(table, column="word")
    assert read("word\tCD\tfreq\nthe\t10\t100\n", column="CD").counts == {"the": 10}
    with pytest.raises(InputError, match="the column 'Zipf' has logarithms"):
        read("word\tZipf\tfreq\nthe\t7.1\t100\n", column="Zipf")


@pytest.mark.parametrize(
    ("content", "reported"),
    [
        ("", "found no word"),
        ("the\t3\n" * 200 + "cat\tmany\n", "line 201: found the count 'many' of 'cat'; expected a number of 0 or more"),
        ("the\t3\n" * 2000 + "cat\tmany\n", "line 2001: found the count 'many' of 'cat'"),
        ("the\t3\n" * 2000 + "cat\n", "line 2001: found 'cat'; expected 2 cells separated by tabs"),
        ("the\t3\ndog\t-2\ncat\t3\n", "line 2: found the count '-2' of 'dog'"),
        ("the\t3\n" * 2000 + "cat\t1.234\n", "line 2001: found the count '1.234' of 'cat'"),
        ("the\t3,100\n" * 2000 + "cat\t0,5\n", "line 2001: found the count '0,5' of 'cat'"),
        ("the\t3,100\n" * 2000 + "cat\t5200\n", "line 2001: found the count '5200' of 'cat'"),
        ("the\t3,5\ndog\t0.125\ncat\t12.5\n", "line 2: found the count '0.125' of 'dog'"),
        ("the\t1,234,567\ndog\t1.234.567\n", "line 2: found the count '1.234.567' of 'dog'"),
        ("word\tzipf\nthe\t7.7\ndog\t5.1\n", "only ranks or other numbers, but no counts: zipf"),
        ("the\t7.7\ndog\t5.1\n", "look like logarithms"),
        ("word\tLg10WF\tCDcount\nthe\t6.1\t2\n", "only ranks or other numbers, but no counts: Lg10WF, CDcount"),
        ("item\tsentence\n1\tthe dog slept\n2\tthe cat ran\n", "found several words in 2 of 2 rows"),
        ("item\tcondition\na\tb\nc\td\n", "none of them numbers"),
        ("word\tzone\titem\nIf\t1\t1\nyou\t2\t1\n", "only ranks or other numbers, but no counts: zone, item"),
        ("1\tthe\n2\tof\n3\told\n", "only ranks or other numbers, but no counts: column 1"),
        ("Wort;Rang\nthe;1\nold;204\ncat;1803\n", "only ranks or other numbers, but no counts: Rang"),
        ("the;900.000\nold;90.500\ncat;4.100\nran;500\n", "whose point may separate thousands or decimals"),
        ("word,Freq_HAL\nthe,16.925\nold,12.5\ncat,10.1\n", "fractions from 10.1 to 16.925: these look like log"),
        ("word\tAoA\nthe\t3\nold\t3\n", "only ranks or other numbers, but no counts: AoA"),
        ('{"the": 1000, "old": 90}', "the start of JSON"),
        ('[\n  ["the", 1000],\n  ["old", 90]\n]\n', "found '[', the start of JSON; expected a list"),
        ("condition,sentence\na,the cat ran\nb,the old dog ran\n", "a table with the columns condition, sentence"),
        ('"Var1" "Freq"\n"1" "the" 1000\n"2" "old" 90\n', "as R writes them"),
        ("the old 100\nold cat 30\ncat sleeps 3\n", "several columns of text"),
        ("1\t2\n3\t4\n", "all of them numbers"),
        (
            "lemma1\tpos\tgloss\tn\nthe\tDT\tx\t5\n",
            "several columns of text: lemma1, pos, gloss",
        ),
        ("the\t7,000\ndog\t90000\n", "comma may separate thousands or decimals"),
        ("the 3\nof 2\nand 5\nit was\n", "line 1: found a word and a number, as in 3 of 4 lines"),
        ("\n".join(f"word{chr(97 + n)}" for n in range(26)), "found one word per line, and each word once"),
    ],
)
def test_what_is_no_list_and_no_text_is_refused(read, content, reported):
    with pytest.raises(InputError) as error:
        read(content)
    assert reported in str(error.value)


def test_a_treebank_is_refused_by_its_name(read):
    with pytest.raises(InputError, match=r"ends in \.mrg, a treebank.*syntaxlm data words"):
        read("(S (NN dog))", "trees.mrg")


@pytest.mark.parametrize(
    "text",
    [
        "I have 2 cats\nHe has 3 dogs\n",
        "Yes, he said.\nNo, she said.\n",
        "the dog\nthe cat\n",
        "Chapter 1\nIt was late.\nHe slept.\nShe ran.\nThey left.\nAll went.\n",
    ],
)
def test_a_text_is_counted(read, text):
    frequencies = read(text, "text.txt")
    assert frequencies.total == len(text.split())


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("<s> the cat sat </s>\n<s> the dog ran </s>\n", "text.txt"),
        ("the cat sat <eos>\nthe dog ran <eos>\n", "text.txt"),
        ("the_DT cat_NN sat_VBD\nthe_DT dog_NN ran_VBD\n", "text.tagged.txt"),
    ],
)
def test_sentence_marks_and_tags_of_a_text_are_not_counted(read, content, name):
    with collected() as reports:
        assert read(content, name).counts == {"the": 2, "cat": 1, "sat": 1, "dog": 1, "ran": 1}
    (report,) = reports
    assert "without tags" in str(report) if "tagged" in name else "2 lines with sentence marks" in str(report)


@pytest.mark.parametrize("line", ["the dog\rran", "the dog ran" + " the" * 40_000])
def test_a_text_with_carriage_returns_or_very_long_lines_is_counted(read, line):
    frequencies = read(f"{line}\nthe cat, it slept\n", "text.txt")
    assert frequencies.total == len(line.split()) + 4
    assert not is_frequency_list(frequencies.source)


def test_lists_and_texts_give_the_same_frequencies(read):
    text = read("The cat does n't sleep -- \"the\" cat's\nbed--time .\n", "text.txt")
    listed = read("word\tcount\nthe\t2\ncat\t1\ndoesn't\t1\nsleep\t1\ncat's\t1\nbed\t1\nTime\t1\n")
    assert text.counts == listed.counts
    assert text.total == 8
    assert text.zipf("The") == pytest.approx(math.log10(3 / (8 + 7) * 1e9))
    assert text.zipf("unseen") == text.zipf("cat—unseen,") == pytest.approx(math.log10(1 / (8 + 7) * 1e9))
    assert [text.count(word) for word in ("the", "bed--time.", "bed--unseen.", "--")] == [2, 1, 0, 0]


@pytest.mark.parametrize(
    ("written", "word"),
    [
        ("word,", "word"), ("'Don’t!'", "don't"), ("--", ""), ("1,000.", "1,000"), ("U.S.", "u.s"), ("_so_", "so"),
        ("की", "की"), ("ดี", "ดี"), ("“नहीं।”", "नहीं"),
        ("de\u0301ja\u0300,", "déjà"), ("O\u0308l", "öl"), ("donʼt", "don't"),
        ("\u200bword\u00a0", "word"), ("£5", "5"), ("İ", "i̇"),
    ],
)  # fmt: skip
def test_only_case_and_punctuation_at_the_ends_are_ignored(written, word):
    assert bare_word(written) == word


def test_invisible_characters_are_no_part_of_a_word():
    assert Frequencies.read({"cooperate": 5}).count("co\u00adoper\u2060ate\ufeff") == 5


def test_zero_width_spaces_separate_words_of_a_text_as_they_do_for_a_model(read):
    assert read("ខ្ញុំ\u200bទៅ\u200bផ្ទះ\n" * 3, "text.txt").count("ទៅ") == 3


def test_words_in_other_normal_forms_match(read):
    decomposed = read("l'e\u0301te\u0301 est de\u0301ja\u0300 la\u0300\n" * 3, "text.txt")
    assert [decomposed.count(word) for word in ("l'été", "déjà", "là", "l’été")] == [3, 3, 3, 3]


def test_a_cell_of_several_words_has_the_mean_of_their_frequencies(read):
    frequencies = read(rows("{w}\t{c}"))
    assert frequencies.zipf("The dog") == pytest.approx((frequencies.zipf("the") + frequencies.zipf("dog")) / 2)
    assert frequencies.zipf("The dog") == pytest.approx(7.804, abs=1e-3)
    assert frequencies.zipf("dog --") == frequencies.zipf("dog")


@pytest.mark.parametrize("mapping", [COUNTS, Counter(COUNTS), pd.Series(COUNTS)])
def test_mappings_are_frequencies(mapping):
    assert Frequencies.read(mapping).counts == COUNTS


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        (pd.DataFrame({"word": ["a"]}), "DataFrame"),
        (["the"], "list"),
        (5, "int"),
        ({"the": -1}, "'the': -1"),
        ({1: 2}, "1: 2"),
    ],
)
def test_other_objects_are_refused_by_name(wrong, found):
    with pytest.raises(InputError, match=f"^frequencies: found {found}"):
        Frequencies.read(wrong)


@pytest.mark.long
def test_wordfreq_has_the_values_of_the_package():
    wordfreq = pytest.importorskip("wordfreq")
    frequencies = Frequencies.read("wordfreq:en")
    for word in ("the", "garden", "well-known", "1989.", "42", "AT&T", "New York", "don’t", "mother-in-law", "qqxyzzy"):
        assert frequencies.zipf(word) == wordfreq.zipf_frequency(word, "en")
    assert frequencies.has("well-known")
    assert not frequencies.has("qqxyzzy")
    hindi = Frequencies.read("wordfreq:hi")
    assert [hindi.zipf(word) for word in ("की", "के", "को", "का")] == [7.39, 7.58, 7.27, 7.25]
    with pytest.raises(InputError, match="found the language 'xx'; expected one of"):
        Frequencies.read("wordfreq:xx")


def test_logarithms_in_a_mapping_are_refused():
    with pytest.raises(
        InputError, match=r"the mapping of frequencies: found fractions from 4.1 to 7.2: these look like"
    ):
        Frequencies.read({"the": 7.2, "cat": 4.1})
    assert Frequencies.read({"the": 25_000.5, "cat": 4.1}).has("cat")


@pytest.mark.parametrize(
    ("header", "column", "message"),
    [
        ("word\tcount\tcount", None, "found several columns of numbers: count, count; expected one"),
        ("word\tcount\tcount", "count", "found several columns 'count'; expected one"),
        ("word\tWord\tcount", None, "found several columns of text: word, Word; expected one"),
    ],
)
def test_columns_of_one_name_are_not_chosen_from(read, header, column, message):
    second = "{w}" if "Word" in header else "{r}0"
    with pytest.raises(InputError, match=message):
        read(rows("{w}\t" + second + "\t{c}", header), column=column)
