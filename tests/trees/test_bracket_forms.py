"""The form of bracketed text is decided once, from the whole file; what contradicts it is counted or refused."""

import random
import warnings

import pytest

from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.trees.bounds import random_trees
from syntaxlm.trees.brackets import Place
from syntaxlm.trees.preprocessing import PREPROCESSINGS, clean, without_lemmas
from syntaxlm.trees.spans import trees_of
from syntaxlm.trees.tree import bracket_file, parse_brackets, read_bracket_file, write_brackets

LABELLED, UNLABELLED = "labelled trees", "trees without labels"
GOOD = "(S (NP (DT the) (NN cat)) (VP (VBD slept)))\n"


def words(text, **options):
    return [" ".join(tree.words) for tree in bracket_file(text, **options).trees]


def remarks(text):
    return {remark.what: remark for remark in bracket_file(text).reading.remarks}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("( (S (NP (PRP We)) (VP (VBD left))) (. .))", "We left ."),
        ("( (DT The) (NP (NN dog) (NN house)))", "The dog house"),
        ("( (IP-MAT (NP (N x)) (VB y)) (ID 3,1))", "x y 3,1"),
        ("(S (NN a) (VB b) ())", "a b"),
        ("(S () (NN a) (VB b))", "a b"),
        ("(S (NN a) ( (VB b) (NN c)))", "a b c"),
        ("(TOP (S (NP (NN a)) ( (VB b) (NN c))))", "a b c"),
        ("(S (NN x) (-LRB- () (NN y) (-RRB- )))", "x ( y )"),
        ("(S (NP (NN x)) (PRN (( () (NN y) () ))))", "x ( y )"),
        ("(S (NN x) (PUNCT () (NN y) (-RRB- -RRB-))", "x ( y )"),
        (r"(S (-LRB- \() (NN x) (-RRB- \)) (VB is))", "( x ) is"),
        (r"(S (EMO :\)) (VB is))", ":) is"),
        (r"(S (NN a) (SYM \))", "a \\"),
        ("(S (NP ( The) (NN dog)) (VP (VBD slept)))", "The dog slept"),
        ("(S (NP (PRP (Dia))) (VP (VB pergi) (NP (NN pasar))))", "Dia pergi pasar"),
        ("(S (NP (PRP (Dia))) (VP (VB (pergi))))", "Dia pergi"),
        ("(s (sn (da la) (nc casa)) (sv (v duerme)))", "la casa duerme"),
        ("(s (np the cat) (vp slept))", "the cat slept"),
        ("(X the (X old cat))", "the old cat"),
        ("(3 (2 It) (4 (2 's) good))", "It 's good"),
        ("(S(NP(DT the)(NN cat))(VP(VBD slept)))", "the cat slept"),
    ],
)
def test_words_of_labelled_trees(text, expected):
    read = bracket_file(text)
    assert (words(text), read.reading.form) == ([expected], LABELLED)
    assert read.reading.counts == {"sentences": 1, "words": len(expected.split())}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(The (dog (slept well)))", ["The dog slept well"]),
        ("(The (dog (slept well)))\n(We (left (the house)))", ["The dog slept well", "We left the house"]),
        ("((the cat) (sat down))", ["the cat sat down"]),
        ("((the cat) (sat (on (the mat))))\n(Yes)", ["the cat sat on the mat", "Yes"]),
        ("(the cat sat)", ["the cat sat"]),
        ("(the (cat sat)) ((a b) c)", ["the cat sat", "a b c"]),
    ],
)
def test_words_of_trees_without_labels(text, expected):
    assert (words(text), bracket_file(text).reading.form) == (expected, UNLABELLED)


def test_a_large_file_of_few_words_without_labels_is_not_taken_for_labels():
    text = "(the (cat (sees (the dog))))\n(a (dog (sleeps (here often))))\n(cat (sees (dog here)))\n" * 500
    read = bracket_file(text)
    assert (read.reading.form, read.reading.counts["words"]) == (UNLABELLED, 500 * 14)


def test_lower_case_labels_without_tags_are_recognised_by_their_recurrence():
    text = "".join(f"(sent (fone w{i} x{i}) (ftwo y{i} (fone z{i} v{i})))\n" for i in range(300))
    read = bracket_file(text)
    assert (read.reading.form, read.reading.counts["words"]) == (LABELLED, 1500)


@pytest.mark.parametrize("odd", ["(ROOT)", "(NOPARSE)", "(X)", "(TOP ())", "(())", "()", "(S (NP ))", "(FAILED)"])
def test_a_failed_parse_does_not_change_how_other_trees_are_read(odd):
    text = GOOD * 50 + odd + "\n" + GOOD * 50
    read = bracket_file(text)
    assert read.reading.counts == {"sentences": 100, "words": 300}
    assert (len(read.trees), read.failed) == (101, (Place(50, 51),))
    assert remarks(text)["trees without words (failed parses)"].lines == (51,)
    with pytest.raises(InputError, match="line 51: found a tree without words"):
        parse_brackets(text)


def test_blank_lines_are_noted_among_trees_of_one_line():
    assert bracket_file(GOOD + "\n" + GOOD).blank_lines == (Place(1, 2),)
    assert bracket_file("\n" + GOOD + GOOD + " \n").blank_lines == (Place(0, 1), Place(2, 4))
    assert bracket_file("(S (A a)\n (B b))\n\n" + GOOD).blank_lines == ()
    assert bracket_file(GOOD + GOOD).blank_lines == ()


@pytest.mark.parametrize(
    ("text", "what", "line"),
    [
        (GOOD + "(NP (NN savings) (HYPH ) (NN loan))", "brackets without words", 2),
        (GOOD + "(NP (NN a) (NP) (NN b))", "brackets without words", 2),
        (GOOD + "(S (NN a) ())", "brackets without words", 2),
        (GOOD + "(S (NN a) ((VB b) (NN c)))", "inner brackets without a label", 2),
        (GOOD * 9 + "(S (NN a) b)", "words without a tag", 10),
        (GOOD + "(S (NP ( The) (NN dog)))", "words in brackets of their own or without a tag", 2),
        (GOOD + "(S (-LRB- \\() (NN x))", "lines with parentheses as words, read like -LRB- and -RRB-", 2),
        (GOOD + "((the cat) (sat down))", "trees whose labels look like words", 2),
        (GOOD + "(the (cat (sat down)))", "trees whose labels look like words", 2),
    ],
)
def test_what_is_odd_is_counted_with_its_line(text, what, line):
    remark = remarks(text)[what]
    assert (remark.count, remark.lines) == (1, (line,))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD + "(S (NP (PRP They)) (VP (VBD like(d)) (NP (PRP it))))", r"line 2: found \(d\), a bracket of one atom"),
        (GOOD + "(NP(x) (NN a))", r"line 2: found \(x\), a bracket of one atom"),
        (GOOD + "(Dia)", r"line 2: found \(Dia\), a bracket of one atom"),
        ("(ROOT (S (VP (PP (IN 0=On) (CD 2=this)) (VVPP 1=thought)) (V 3=has)))", "the format discbracket"),
        ("((0=a 2=b) 1=c)", "the format discbracket"),
        (
            "#FORMAT 3\n#BOS 1\nThe DT",
            "the NEGRA export format; .* --inputfmt=export",
        ),
        ('<?xml version="1.0"?>\n<corpus>\n<s id="s1"><graph>', "found Tiger XML; .* --inputfmt=tiger"),
        ('<?xml version="1.0"?>\n<TEI>', "found XML; expected bracketed trees"),
        ("# sent_id = 1\n1\tGo\tgo\tVERB", "columns separated by tabs, such as CoNLL-U"),
        ("((the cat) (sat down))\n" * 9 + GOOD, "line 10: found a tree with labels"),
        (GOOD + "(S (EMO :)) (NN a))", "line 2: found a closing bracket without an opening one"),
    ],
)
def test_what_cannot_be_read_is_refused(text, message):
    with pytest.raises(InputError, match=message):
        bracket_file(text)


def test_a_form_can_be_forced():
    assert words("(NP (NN cat))", labelled=False) == ["NP NN cat"]
    assert words("(the (cat sat))", labelled=True) == ["sat"]
    assert bracket_file(GOOD, labelled=True).reading.evidence == "as asked"


def test_several_readings_of_a_file_are_equal(tmp_path):
    (tmp_path / "a.mrg").write_text(GOOD)
    assert read_bracket_file(tmp_path / "a.mrg").trees == parse_brackets(GOOD) == bracket_file(GOOD).trees


@pytest.mark.parametrize("name", ["icepahc", "ppche", "keyaki"])
def test_nodes_that_are_not_text_and_empty_categories_of_historical_corpora_are_dropped(name):
    text = (
        "( (METADATA (AUTHOR someone) (DATE (YEAR 1150))) (IP-MAT (CODE <P_3>) (NP-SBJ *con*) (C 0) (NUM 0) (VB go)"
        " (NP *T*-1) (NP *) (. .)) (ID X,1.2))"
    )
    tree = clean(parse_brackets(text)[0], PREPROCESSINGS[name])
    assert (tree.words, [label for label, *_ in tree.constituents]) == (("0", "go"), ["IP"])


def test_lemmas_of_icelandic_words_are_removed_if_nearly_all_words_have_one():
    text = "( (IP-MAT (NP-SBJ (PRO-N Hún-hún)) (VBDI sá-sjá) (NP *T*-1) (. .-.)) (ID 2001.TEST,.1))"
    rule = PREPROCESSINGS["icepahc"]
    (tree,) = without_lemmas(parse_brackets(text), rule)
    assert clean(tree, rule).words == ("Hún", "sá")
    plain = parse_brackets("(S (N a-b) (N c) (N d))")
    assert without_lemmas(plain, rule) == plain


@pytest.mark.parametrize(
    "text",
    [
        "(we (gave (the dog) (a bone)))\n(we (gave (the cat) (a (big fish))))\n",
        "(I (saw (him yesterday)))\n(I (saw (her today)))\n(I (know (him well)))\n",
    ],
)
def test_labels_that_look_like_words_are_a_warning_in_a_small_file(text):
    with pytest.warns(InputWarning, match="are read as labels and tags.*--brackets unlabelled"):
        parse_brackets(text)
    assert parse_brackets(text, labelled=False)[0].words[0] in ("we", "I")


@pytest.mark.parametrize("text", ["(X the (X old cat))\n(X a dog)\n", "(S (NP (DT the) (NN cat)) (VP (VBD sat)))\n"])
def test_labels_of_treebanks_and_of_this_program_are_no_doubt(text):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parse_brackets(text)


@pytest.mark.parametrize(
    "text",
    [
        "(ROOT [58.857]\n  (S [58.753]\n    (NP [12.331] (DT the) (NN cat))\n    (VP [-1.200] (VBD slept))))\n",
        "(ROOT [58,857] (S [58,753] (NP [12,3] (DT [3,1] the) (NN [5,2] cat)) (VP [9,1] (VBD [9,0] slept))))",
    ],
)
def test_scores_that_the_stanford_parser_writes_after_labels_are_no_words(text):
    assert parse_brackets(text) == parse_brackets(f"(ROOT {GOOD})")
    assert parse_brackets(text, labelled=True) == parse_brackets(f"(ROOT {GOOD})")
    (remark,) = bracket_file(text).reading.remarks
    assert (remark.what, remark.count) == (
        "scores after labels, as the Stanford parser writes them, left out",
        text.count("["),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(S (NP (CD [58.8]) (NN mm)) (VP (VBD fell)))", "[58.8] mm fell"),
        ("(X [58.8] (X the cat))", "[58.8] the cat"),
        ("(X [58.8] cat) (X a (X b c))", "[58.8] cat"),
        ("(X [1] (X the (X old cat)))", "[1] the old cat"),
    ],
)
def test_numbers_in_square_brackets_that_are_words_stay(text, expected):
    assert words(text)[0] == expected


@pytest.mark.parametrize("forms", [("DT", "NN", "VBD", "IN", "NNP", "JJ", "PRP$"), ("THE", "OLD", "CAT", "SAT", "I")])
def test_trees_without_labels_of_tags_or_in_capital_letters_are_read_back(forms, tmp_path):
    source = random.Random(0)
    lengths = [source.randint(2, 12) for _ in range(40)]
    written = trees_of(random_trees(lengths, 0), [source.choices(forms, k=length) for length in lengths])
    write_brackets(written, tmp_path / "trees.txt", labelled=False)
    read = read_bracket_file(tmp_path / "trees.txt")
    assert read.reading.form == UNLABELLED
    assert [tree.words for tree in read.trees] == [tree.words for tree in written]
    assert words("(S (NP DT NN) (VP VBD (NP DT NN)))\n(S (NP NN) (VP VBD))\n") == ["DT NN VBD DT NN", "NN VBD"]
