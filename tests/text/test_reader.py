"""Untokenised text, read with the splitting and spelling of a model's vocabulary."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syntaxlm.core.errors import InputError
from syntaxlm.parsing.options import ParseOptions
from syntaxlm.scoring.options import ScoreOptions
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.options import TextOptions
from syntaxlm.text.reader import AS_TOKENISED, AUTO_STYLE, TextReader
from syntaxlm.text.treebank_style import TreebankStyle
from syntaxlm.text.vocabulary import Vocabulary
from tests.fresh_models import fresh
from tests.normalisers import normaliser_with

WORDS = (
    "the The a man didn't does do n't 's can not cannot said no . , Mr. N yes books girls it It left u.s. corp. corp"
)
STYLES = {
    # as the Penn Treebank writes text
    "treebank": "the The a man did n't 's ' can not said no Mr. yes books girls it left , . ? `` '' -LRB- -RRB- --",
    # as Mikolov's preparation: no punctuation, lower case, numbers as N
    "bare": "the a man does do did n't 's ' can not said no mr. yes books girls it left N $ corp. corp inc.",
    # neither tokenised nor lower-cased
    "raw": "the The man man. man, said said, said. said? no, yes, yes. books, left, didn't it It girls' can't left.",
    # marks as words, lower case, numbers as N
    "numbers": "the man said it cost rose and $ N % . , in",
    # the same from books, in which dashes and spaced dots are words of their own
    "book": "the The man man. man, said said, said. said? no, yes, yes. books, left, didn't it It girls' left. -- .",
}


def reader(name: str, style: TreebankStyle = AUTO_STYLE, **normalising: object) -> TextReader:
    vocabulary = Vocabulary(["<unk>", "<s>", "</s>", *STYLES[name].split()])
    return TextReader.of(normaliser_with(**normalising), vocabulary, style)


@pytest.mark.parametrize(
    ("name", "style"),
    [
        ("treebank", ("split", "split")),
        ("bare", ("drop", "split")),
        ("raw", ("keep", "keep")),
        ("book", ("keep", "keep")),
    ],
)
def test_the_vocabulary_decides_how_words_are_split(name, style):
    assert reader(name).style == TreebankStyle(*style)


@pytest.mark.parametrize(
    ("known", "line", "tokens"),
    [
        ("“ ”", "«the» «the », »the« „the“ ”the” 「the」", "“ the ” “ the ” , “ the ” “ the ” “ the ” “ the ”"),
        ("` ' ``", "„the‘ ‚the.‘ ‚the‘. ›the‹", "`` the ' ` the . ' ` the ' . ` the '"),
        ("`` ''", "« the » » the « , „ the “ the “", "`` the '' '' the `` , `` the '' the ``"),
        ("`` ''", "» the « , „ the „the“ “ . “ the ”", "`` the '' , `` the `` the '' '' . `` the ''"),
        ("`` '' ( )", '("the") („the“) the—"the" the—"', "( `` the '' ) ( `` the '' ) the — `` the '' the — ''"),
        ("``", "«the", "`` the"),
        ("’ ``", "‹the› ‚the‘, ‚", "`` the ’ `` the ’ , ``"),
        ('" “ ”', "„the“ „the” ”the” “the” „ the ” ” the", '" the " " the " " the " “ the ” " the " ” the'),
        ('" “ ”', "„the”, ”the. the”. “the „the” the”", '" the " , " the . the " . “ the " the " the ”'),
        ("« »", "«the» »the« »", "« the » » the « »"),
        ("", "«the».", "« the » ."),
    ],
)
def test_quotation_marks_of_other_languages_are_those_of_the_vocabulary(known, line, tokens):
    vocabulary = Vocabulary(["<unk>", "<s>", "</s>", "the", ",", ".", *known.split()])
    assert TextReader.of(Normaliser(), vocabulary, AUTO_STYLE).tokens(line) == tokens.split()


@pytest.mark.parametrize(
    ("name", "line", "tokens"),
    [
        ("treebank", "The man didn’t.", "The man did n't ."),
        ("treebank", "“No,” said the man.", "`` no , '' said the man ."),
        ("treebank", '"No," said the " man " (it).', "`` no , '' said the `` man '' -LRB- it -RRB- ."),
        ("treebank", "He cannot—yes!", "He can not -- yes !"),
        ("treebank", "It left. The man left.", "it left . The man left ."),
        ("treebank", "Mr. Man said it.", "Mr. Man said it ."),
        ("treebank", "the girls' books, 'yes'", "the girls ' books , ' yes '"),
        ("bare", "The man didn’t say “no,” did it?", "the man did n't say no did it"),
        ("bare", "The man's 3,000 books (it) cost $40.", "the man 's N books it cost $ N"),
        ("numbers", "It rose 50%.", "it rose N % ."),
        ("numbers", "It rose 5.5%, and cost $3.50.", "it rose N % , and cost $ N ."),
        ("bare", "It left Corp. Mr. Man said no.", "it left corp. mr. man said no"),
        ("raw", "The man, said: yes, didn’t it", "The man, said: yes, didn't it"),
        ("book", "The man -- it sleeps.", "The man -- it sleeps."),
    ],
)
def test_raw_text_is_read_like_the_training_text(name, line, tokens):
    assert reader(name).tokens(line) == tokens.split()


QUOTED = (
    "the man said no yes go away left 's 'the 'no 'no' 'em o' an' u.s. ph.d. iron(iii iii options ) ( , . ? ' ` – N 1–2"
    " do n't and"
)


@pytest.mark.parametrize(
    ("line", "tokens"),
    [
        ("The man 'left'.", "the man ' left ' ."),
        ("'The man left,' said the man.", "' the man left , ' said the man ."),
        ("'No man left,' said the man, 'and no.'", "' no man left , ' said the man , ' and no . '"),
        ("The man said ‘no’ and left.", "the man said ` no ' and left ."),
        ("'no' said 'the man", "'no' said 'the man"),  # known as it is written, and not the beginning of a quotation
        ("'the man left . ' an' o' 'em", "'the man left . ' an' o' 'em"),
        ("The U.S.'s and the Ph.D.’s", "the u.s. 's and the ph.d. 's"),
        ("The 1990's, 1990–95 and 1–2", "the N 's , N and 1–2"),
        ("The man–no said donʼt", "the man – no said do n't"),
        ("Iron(iii) left", "iron(iii ) left"),  # as in the training text
        ("Iron(no) left", "Iron(no) left"),
    ],
)  # fmt: skip
def test_quotation_marks_and_brackets_are_read_with_what_the_vocabulary_knows(line, tokens):
    reads = TextReader.of(
        normaliser_with(lower_case=not line.startswith("Iron(no"), numbers="whole"),
        Vocabulary(["<unk>", "<s>", "</s>", *QUOTED.split()]),
        AUTO_STYLE,
    )
    assert reads.tokens(line) == tokens.split()
    assert next(reads.read([line]).aligned()) == reads.align(line)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("treebank", "`` The man did n't , '' said the Foo Inc. man ."),
        ("treebank", "-LRB- it -RRB- -- the girls ' books 's <unk>"),
        ("bare", "mr. <unk> said the girls ' books do n't cost $ N"),
        ("bare", "the man left <unk> corp."),
        ("raw", "The man, said, it didn't <unk>, man."),
    ],
)
def test_text_that_is_tokenised_like_the_training_text_stays_as_it_is(name, line):
    reads = reader(name)
    assert reads.tokens(line) == line.split() == reads.tokens(" ".join(reads.tokens(line)))


def test_every_token_has_the_place_of_its_characters():
    line = "The man didn’t, “cannot” leave (yes)."
    aligned = reader("treebank").align(line)
    assert all(line[part.start : part.end] == part.written for part in aligned)
    assert " ".join(part.written for part in aligned) == "The man did n’t , “ can not ” leave ( yes ) ."
    dropped = [part.written for part in reader("bare").align(line) if part.token is None]
    assert dropped == [",", "“", "”", "(", ")", "."]


@given(
    st.text(st.sampled_from("ab's.n't\"(?U’‘)–—$5% N\u200b\t“”,-"), max_size=25),
    st.sampled_from(list(STYLES)),
    st.sampled_from([AUTO_STYLE, AS_TOKENISED, TreebankStyle("drop", "split"), TreebankStyle("split")]),
    st.sampled_from(["words", "characters"]),
    st.booleans(),
)
def test_places_are_in_order_and_lose_no_character(line, name, style, units, drops):
    reads = reader(name, style, units=units, drop_punctuation=drops)
    aligned = reads.align(line)
    assert [part.token for part in aligned if part.token is not None] == reads.tokens(line)
    assert all(line[part.start : part.end] == part.written for part in aligned)
    assert [part.start for part in aligned] == sorted(part.start for part in aligned)
    covered = {place for part in aligned for place in range(part.start, part.end)}
    assert all(place in covered for place, mark in enumerate(line) if not mark.isspace() and mark != "\u200b")


def test_a_style_of_rules_reads_as_the_style_and_the_normaliser_after_each_other():
    style = TreebankStyle("split", "split")
    reads = reader("treebank", style, lower_case=True)
    line = 'The "man" didn\'t—it cannot: (No.)'
    assert reads.tokens(line) == normaliser_with(lower_case=True).tokens(style(line))


def test_only_the_normaliser_is_used_if_nothing_is_split():
    reads = reader("bare", AS_TOKENISED)
    assert reads.tokens("The man, didn't.") == ["The", "man,", "didn't."]
    assert reads.align("The man, didn't.") == Normaliser().align("The man, didn't.")


def test_characters_and_tags_are_left_alone():
    assert reader("treebank", units="characters").style == AS_TOKENISED
    assert reader("treebank", units="tags").tokens("The_DT man_NN ,_,") == ["DT", "NN", ","]
    with pytest.raises(InputError, match=r"punctuation dropped.*the model reads tagged text.*expected keep or auto"):
        reader("treebank", TreebankStyle("drop"), units="tags")


def test_a_normaliser_that_splits_punctuation_still_splits_it():
    reads = reader("treebank", splitting="punctuation", drop_punctuation=True)
    assert reads.tokens("“The man didn’t!”") == ["The", "man", "did", "n't"]
    assert [part.token for part in reads.align("man, (it)")] == ["man", None, None, "it", None]


def test_characters_of_split_words_have_the_positions_of_the_line():
    normaliser = normaliser_with("characters")
    vocabulary = Vocabulary(["<unk>", "<s>", "</s>", "_", *"adogb,"])
    line = "a  dog, b"
    aligned = TextReader.of(normaliser, vocabulary, TreebankStyle("split", "split")).align(line)
    assert [part.token for part in aligned] == list("a_dog_,_b")
    assert [part.start for part in aligned] == [0, 1, 3, 4, 5, 6, 6, 7, 8]
    assert [part.end for part in aligned] == [1, 3, 4, 5, 6, 6, 7, 8, 9]
    assert all(line[part.start : part.end] == part.written for part in aligned)


ODD = "aé.,1 _\t\r\n\u200b\u00ad\u0301\u2028\u3000\x1c$<>\"'’—%s🙂\u05d0\ud800"


@given(
    st.lists(
        st.text(ODD, max_size=20)
        | st.lists(
            st.sampled_from(
                ["the", "man", "Mr.", "didn’t", '"', '"No,"', "(it)", "—", "3%", "'the", "man,'", "‘it’", "(s)he"]
            )
        ).map(" ".join),
        max_size=5,
    ),
    st.sampled_from(sorted(STYLES)),
    st.sampled_from([AS_TOKENISED, AUTO_STYLE, TreebankStyle("split", "split"), TreebankStyle("drop")]),
    st.sampled_from(["words", "characters"]),
    st.booleans(),
)
def test_many_lines_are_read_like_each_line(lines, name, style, units, drops):
    reads = reader(name, style, units=units, splitting="punctuation", drop_punctuation=drops)
    for _ in range(2):  # the second time from the cache
        read = reads.read(lines)
        aligned = list(map(reads.align, lines))
        assert list(read.aligned()) == aligned
        tokens = [[part.token for part in line if part.token is not None] for line in aligned]
        assert read.by_line(read.tokens) == tokens
        assert read.by_line(read.ids.tolist()) == list(map(reads.vocabulary.encode, tokens))


def test_cached_words_are_forgotten_before_they_fill_memory(monkeypatch):
    monkeypatch.setattr("syntaxlm.text.lines.REMEMBERED_CHARACTERS", 100)
    reads = reader("treebank")
    for number in range(40):
        read = reads.read([f"the word{number} didn't"])
        assert [part.written for part in next(read.aligned())] == ["the", f"word{number}", "did", "n't"]
        assert len(reads._forms) < 30


def test_new_words_are_added_without_a_copy_of_all_known_words():
    reads = reader("treebank")
    lines = [f"the word{number} didn't" for number in range(500)]
    arrays = []
    early = reads.read(lines[:1])
    for line in lines:
        assert [part.written for part in next(reads.read([line]).aligned())] == [*line.split()[:2], "did", "n't"]
        arrays.append(reads._forms._known.columns.texts.base)
    assert len(set(map(id, arrays))) < 20
    assert list(reads.read(lines).aligned()) == list(map(reads.align, lines))
    assert list(early.aligned()) == [reads.align(lines[0])]


def test_options_that_do_not_concern_words_share_a_reader():
    model = fresh("prpn")
    options = [AUTO_STYLE, TextOptions(), ParseOptions(best=3), *(ScoreOptions(given=given) for given in ("a", "the"))]
    readers = {id(TextReader.of(model.normaliser, model.vocabulary, each)) for each in options}
    assert len(readers) == 1
    assert TextReader.of(model.normaliser, model.vocabulary, TextOptions(punctuation="keep")) is not TextReader.of(
        model.normaliser, model.vocabulary, TextOptions()
    )


def test_a_token_without_tag_is_reported_with_its_sentence():
    reads = TextReader(normaliser_with(units="tags"), Vocabulary(["<unk>", "<s>", "</s>", "DT"]))
    assert reads.read(["the_DT", "", "a_DT"]).tokens == ["DT", "DT"]
    with pytest.raises(InputError, match=r"sentence 9: found 'cat'; expected word_TAG"):
        reads.read(["the_DT", "a_DT cat"], first=8)
