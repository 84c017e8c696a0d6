"""The rule by which published claims hold or not, on made-up values whose intervals are known."""

from __future__ import annotations

import math

import pytest
from laboratory.pages.claims import (
    Result,
    Sample,
    Verdict,
    agreement,
    decisions,
    difference,
    sign,
    verdict,
    verdict_on,
)
from laboratory.pages.papers import leave_out_missing, published
from laboratory.pages.reproductions import FOUR_PAPERS, counted_sentence, counts, overview, rows_of
from laboratory.pages.signal import outside
from laboratory.pages.stored_results import Figure
from scipy import stats

from syntaxlm.statistics.intervals import Interval

HOLDS, OPEN, FAILS = Result.HOLDS, Result.OPEN, Result.FAILS


def sample(*values, random=True, source=None, seeds=()):
    return Sample(Figure.of(values), random, source=source, seeds=seeds)


def test_the_interval_of_different_models_is_that_of_welch():
    """With whole degrees of freedom, against scipy."""
    first, second = [61.0, 63.0, 62.0, 66.0], [57.0, 59.0, 58.0, 62.0]
    low, high = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert difference(sample(*first), sample(*second)) == pytest.approx((4.0, low, high))
    wider = difference(sample(61.0, 63.0), sample(57.0, 58.0, 60.0, 59.5))  # degrees of freedom are rounded down
    low, high = stats.ttest_ind([61.0, 63.0], [57.0, 58.0, 60.0, 59.5], equal_var=False).confidence_interval(0.95)
    assert wider.low < low < high < wider.high


def test_rounding_errors_cost_no_degree_of_freedom():
    """Those of equal standard deviations are 2 here, but 1.9999999999999996 as computed."""
    first, second = [66.2, 62.0], [58.2, 54.0]
    low, high = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert difference(sample(*first), sample(*second)) == pytest.approx((8.0, low, high))


def test_two_values_of_the_same_models_are_subtracted_seed_by_seed():
    first, second = (40.0, 50.0, 60.0), (39.0, 48.9, 59.2)
    same, other = ("some", "prpn"), ("some", "lstm")
    larger = sample(*first, source=same, seeds=(1, 2, 3))
    paired = difference(larger, sample(*second, source=same, seeds=(1, 2, 3)))
    assert paired == pytest.approx((2.9 / 3, *stats.ttest_rel(first, second).confidence_interval(0.95)))
    assert sign(paired) is HOLDS
    assert sign(difference(larger, sample(*second, source=other, seeds=(1, 2, 3)))) is OPEN
    assert sign(difference(larger, sample(39.0, 48.9, source=same, seeds=(1, 2)))) is OPEN
    # If the seeds are not known, values may not belong together.
    assert sign(difference(sample(*first, source=same), sample(*second, source=same))) is OPEN


def test_values_of_other_seeds_of_the_same_run_are_not_subtracted_seed_by_seed(store):
    f1 = {"biased": {1: 0.40, 2: 0.50, 3: 0.60}, "unbiased": {2: 0.39, 3: 0.489, 4: 0.592}}
    for decoder, by_seed in f1.items():
        for seed, value in by_seed.items():
            store("some", "trees", "prpn", seed, "wsj", f1_by_decoder={decoder: value}, sentences=10,
                  protocol="wsj-test", decoder=decoder)  # fmt: skip
    systems = [
        {"system": decoder, "here": {"reports": "some", "scored_on": "wsj", "run": "prpn", "decoder": decoder}}
        for decoder in f1
    ]
    (found,) = decisions({"item": "x", "systems": systems, "claims": [{"higher": "biased", "than": "unbiased"}]})
    assert found.result is OPEN


def test_perplexities_with_and_without_trees_are_subtracted_seed_by_seed(store):
    for trees, by_seed in {"none": {2: 200.0, 1: 100.0, 3: 300.0}, "induced": {1: 90.0, 2: 190.0}}.items():
        for seed, value in by_seed.items():
            store("trees-as-signal", "perplexity", trees, seed, "gum-test", text="third", model="transformer",
                  trees=trees, perplexity=value)  # fmt: skip
    assert "-10.0 (-10.0 to -10.0)" in outside()


def test_a_value_without_seeds_is_compared_with_the_mean_of_the_others():
    right = sample(39.7, random=False)
    low, high = stats.ttest_1samp([45.0, 47.0, 46.0], 39.7).confidence_interval(0.95)
    assert difference(sample(45.0, 47.0, 46.0), right) == pytest.approx((6.3, low - 39.7, high - 39.7))
    assert sign(difference(right, sample(45.0, 47.0, 46.0))) is FAILS
    assert difference(right, sample(17.8, random=False)) == pytest.approx((21.9, 21.9, 21.9))


def test_one_seed_decides_nothing_whatever_the_difference():
    for first, second in ((sample(90.0), sample(10.0, random=False)), (sample(90.0), sample(10.0, 11.0, 12.0))):
        found = difference(first, second)
        assert math.isnan(found.low)
        assert sign(found) is OPEN


def test_equal_values_are_no_difference():
    equal = difference(sample(0.3, 0.3, 0.3), sample(0.1 + 0.2, random=False))
    assert sign(equal) is OPEN
    assert sign(difference(sample(5.0, 5.0), sample(4.0, 4.0))) is HOLDS


@pytest.mark.parametrize(
    ("interval", "published", "result"),
    [
        ((61.0, 60.5, 61.5), Figure(62.0), HOLDS),
        ((61.0, 59.5, 62.5), Figure(62.0), OPEN),
        ((50.0, 49.0, 51.0), Figure(62.0), FAILS),
        ((70.0, 69.0, 71.0), Figure(62.0), FAILS),
        ((50.0, 45.0, 55.0), Figure(41.0, 15.0), HOLDS),  # the published seeds differ by more than two points
        ((62.0, math.nan, math.nan), Figure(62.0), OPEN),
    ],
)
def test_a_value_is_the_published_one_if_its_whole_interval_is_near(interval, published, result):
    assert agreement(Interval(*interval), published) is result


def test_a_value_that_is_no_percentage_has_a_tolerance_of_its_own():
    counted = Interval(2.26, 2.26, 2.26)
    assert agreement(counted, Figure(2.3), tolerance=0.05) is HOLDS
    assert agreement(counted, Figure(2.4), tolerance=0.05) is FAILS
    assert agreement(counted, Figure(2.4)) is HOLDS


def test_the_verdict_follows_from_the_results_of_the_claims():
    assert verdict([]) is Verdict.NOT_RUN
    assert verdict([HOLDS, HOLDS]) is Verdict.FOUND
    assert verdict([HOLDS, HOLDS], published_data=True) is Verdict.REPRODUCED
    assert verdict([HOLDS, OPEN], published_data=True) is Verdict.MIXED
    assert verdict([HOLDS, FAILS]) is Verdict.MIXED
    assert verdict([OPEN, FAILS]) is Verdict.NOT_FOUND


@pytest.fixture
def row(store):
    """Three seeds of two models, one seed of a third, and published values of two of them."""
    for name, f1 in (("prpn", (0.45, 0.46, 0.47)), ("lstm", (0.35, 0.36, 0.34)), ("single", (0.9,))):
        for seed, value in enumerate(f1, 1):
            store("some", "trees", name, seed, "wsj", f1_by_decoder={"mbr": value}, sentences=10,
                  protocol="wsj-test", preprocessing="ptb-keep", decoder="mbr")  # fmt: skip
    systems = [
        {"system": name, "here": {"reports": "some", "scored_on": "wsj", "run": name}}
        for name in ("prpn", "lstm", "single")
    ]
    systems[0]["published"], systems[1]["published"] = "47.7 ± 1.5", 37.4
    return {"item": "Table 9", "measure": "F1", "why": "x", "systems": systems}


def test_values_and_claims_of_runs_that_are_not_stored_are_left_out_if_they_say_so(row):
    here = {"reports": "some", "scored_on": "wsj", "run": "missing"}
    row["systems"][0]["if_stored"] = True
    row["systems"].append({"system": "missing", "published": 50.0, "if_stored": True, "here": here})
    row["claims"] = [{"higher": "missing", "than": "lstm"}, {"higher": "prpn", "than": "lstm"}]
    only = {**row, "claims": [{"value": "missing"}]}
    leave_out_missing(row)
    assert [one.claim for one in decisions(row)] == ["prpn > lstm"]
    assert [one["system"] for one in row["systems"] if "here" in one] == ["prpn", "lstm", "single"]
    leave_out_missing(only)
    assert verdict_on(only) is Verdict.NOT_RUN


def test_claims_name_systems_numbers_or_stored_runs(row):
    claims = [
        {"higher": "prpn", "than": "lstm"},
        {"lower": "lstm", "than": 40},
        {"higher": {"title": "one model", "reports": "some", "scored_on": "wsj", "run": "single"}, "than": "lstm"},
        {"value": "prpn"},
        {"value": "lstm", "by": {"title": "another decoder", "reports": "some", "scored_on": "wsj", "run": "prpn"}},
    ]
    decided = decisions(row | {"claims": claims})
    assert [one.claim for one in decided] == [
        "prpn > lstm", "lstm < 40", "one model > lstm", "prpn is near the published value",
        "lstm by another decoder is near the published value",
    ]  # fmt: skip
    assert [one.result for one in decided] == [HOLDS, HOLDS, OPEN, OPEN, FAILS]
    assert [one.ours.value for one in decided] == pytest.approx([11.0, 5.0, 55.0, 46.0, 46.0])
    assert [one.published for one in decided] == ["10.3", "2.6", "", "47.7 ± 1.5", "37.4"]
    assert [one.seeds for one in decided] == [3, 3, 1, 3, 3]
    assert verdict_on(row | {"claims": claims}) is Verdict.MIXED
    assert verdict_on(row | {"claims": claims[2:3]}) is Verdict.NOT_FOUND
    assert verdict_on(row | {"picture": True}) is Verdict.PICTURE


def test_one_run_of_a_model_without_random_weights_decides(row):
    claims = [{"higher": "single", "than": "lstm"}]
    assert verdict_on(row | {"claims": claims, "deterministic": True}) is Verdict.FOUND


def test_a_claim_about_an_unknown_system_is_refused(row):
    with pytest.raises(ValueError, match="Table 9: a claim is about 'PRPN'; expected one of 'prpn', 'lstm', 'single'"):
        decisions(row | {"claims": [{"value": "PRPN"}]})
    with pytest.raises(ValueError, match="found None published of 'single'"):
        decisions(row | {"claims": [{"value": "single"}]})


ROWS = [row for one in published()["experiments"].values() for row in one["rows"]]


@pytest.mark.parametrize("row", ROWS, ids=[row["item"] for row in ROWS])
def test_what_was_run_has_claims_or_is_a_picture_and_claims_agree_with_the_published_values(row):
    here = [one["here"] for one in row.get("systems", ()) if "here" in one]
    assert bool(here) == (("claims" in row) != row.get("picture", False))
    numbers = {one["system"]: one.get("published") for one in reversed(row.get("systems", ()))}
    for claim in row.get("claims", ()):
        sides = [claim.get("higher", claim.get("lower")), claim.get("than")]
        values = [numbers.get(side) for side in sides if isinstance(side, str)]
        if len(values) == 2 and all(isinstance(value, int | float) for value in values):
            assert (values[0] > values[1]) == ("higher" in claim), claim
    assert not row.get("published_data") or any("value" in claim for claim in row["claims"])


def test_the_first_table_has_the_experiments_of_the_four_papers_and_the_second_their_verdicts():
    rows = rows_of(FOUR_PAPERS)
    _, _, *lines = overview().splitlines()
    assert [line.split("](")[0].removeprefix("| [") for line in lines] == [row["item"] for row in rows]
    head, _, *counted = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in counts().splitlines()]
    assert head[1:] == [*(one for one in Verdict if one is not Verdict.PICTURE), "experiments", "pictures"]
    numbers = {name: [int(cell) for cell in cells] for name, *cells in counted}
    verdicts = [verdict_on(row) for row in rows]
    assert numbers["these four papers"] == [
        *(verdicts.count(one) for one in Verdict if one is not Verdict.PICTURE),
        len(rows) - verdicts.count(Verdict.PICTURE),
        verdicts.count(Verdict.PICTURE),
    ]
    for *parts, total, _ in numbers.values():
        assert sum(parts) == total
    (without_models,) = (name for name in numbers if name.startswith("of these: "))
    quantities = [verdict_on(row) for row in rows if "quantity" in row]
    assert numbers.pop(without_models)[:2] == [quantities.count(Verdict.REPRODUCED), quantities.count(Verdict.FOUND)]
    four, others = list(numbers.values())[:4], list(numbers.values())[5:]
    assert numbers["these four papers"] == [sum(column) for column in zip(*four, strict=True)]
    assert sum(one[-1] + one[-2] for one in (numbers["these four papers"], *others)) == len(ROWS)


def test_the_sentence_of_the_readme_counts_results_without_a_trained_model_apart():
    tested = [row for row in rows_of(FOUR_PAPERS) if verdict_on(row) is not Verdict.PICTURE]
    without = sum("quantity" in row for row in tested)
    assert 0 < without < len(tested)
    sentence = counted_sentence()
    assert f" {len(tested) - without} experiments with trained models. " in sentence
    assert f" Of {without} results on path lengths, parameters and speed, " in sentence
