"""Logistic regressions of reading measures of 0 and 1, such as skipping, compared with statsmodels and R."""

from __future__ import annotations

import json
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest

from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.core.reading import collected
from syntaxlm.data.displayed_words import displayed_words, join_times
from syntaxlm.data.frequencies import Frequencies
from syntaxlm.data.input_table import InputTable
from syntaxlm.evaluation.options import RegressionSettings
from syntaxlm.evaluation.reading_times import evaluate_reading_times
from syntaxlm.scoring.word_table import word_table
from syntaxlm.statistics.regression import assigned_folds, fit, held_out_log_likelihood
from tests.fresh_models import fresh

statsmodels = pytest.importorskip("statsmodels.api")

WORDS = 900
READERS = 4
FREQUENCIES = Frequencies({"the": 50, "cat": 10, "dog": 5, "sees": 2, "old": 1}, 100, "list.tsv")


@pytest.fixture(scope="module")
def rows():
    """Predictors of rows of very different sizes, the numbers of 1, and the numbers of observations."""
    generator = np.random.default_rng(4)
    predictors = {"length": generator.normal(5, 2, 600), "place": generator.normal(8000, 3000, 600)}
    trials = generator.integers(1, 6, 600)
    log_odds = -1 + 0.4 * predictors["length"] - 0.0002 * predictors["place"]
    return predictors, generator.binomial(trials, 1 / (1 + np.exp(-log_odds))), trials


def by_statsmodels(predictors, ones, trials, among=slice(None)):
    design = np.column_stack([np.ones(len(ones)), *predictors.values()])[among]
    both = np.column_stack([ones, trials - ones])[among]
    family = statsmodels.families.Binomial()
    return statsmodels.GLM(both, design, family=family).fit(tol=1e-13, maxiter=100), design


def test_a_logistic_regression_is_that_of_statsmodels(rows):
    predictors, ones, trials = rows
    found = fit(ones / trials, predictors, trials)
    expected, design = by_statsmodels(*rows)
    assert (found.kind, found.observations, found.r_squared) == ("logistic", trials.sum(), None)
    assert [each.value for each in found.coefficients] == pytest.approx(expected.params, rel=1e-7)
    assert [each.standard_error for each in found.coefficients] == pytest.approx(expected.bse, rel=1e-6)
    assert [each.t for each in found.coefficients] == pytest.approx(expected.tvalues, rel=1e-6)
    assert [each.p_value for each in found.coefficients] == pytest.approx(expected.pvalues, rel=1e-4)
    log_odds = design @ expected.params
    assert found.log_likelihood == pytest.approx(ones @ log_odds - trials @ np.log1p(np.exp(log_odds)), rel=1e-9)


def test_held_out_rows_have_the_mean_log_likelihood_of_their_observations(rows):
    predictors, ones, trials = rows
    folds = assigned_folds(np.arange(600) // 6, 5, seed=1)
    found = held_out_log_likelihood(ones / trials, predictors, folds, trials)
    design = np.column_stack([np.ones(600), *predictors.values()])
    for fold in range(5):
        inside = folds == fold
        regression, _ = by_statsmodels(*rows, ~inside)
        p = 1 / (1 + np.exp(-design[inside] @ regression.params))
        share = (ones / trials)[inside]
        assert found[inside] == pytest.approx(share * np.log(p) + (1 - share) * np.log(1 - p), rel=1e-6)


@pytest.mark.parametrize("separating", ["all", "one word"])
def test_predictors_that_separate_0_and_1_are_refused(rows, separating):
    predictors, ones, trials = rows
    answers = (ones > trials / 2).astype(float)
    column = answers if separating == "all" else (np.arange(600) == 7).astype(float)
    with pytest.raises(InputError, match="separate the words with 0 from the words with 1: mainly rare"):
        fit(answers, {**predictors, "rare": column}, np.ones(600, int))


@pytest.fixture(scope="module")
def study():
    """A model, and words that readers skip less often if their surprisal is high, with their first-pass times."""
    generator = np.random.default_rng(2)
    drawn = generator.choice(["the", "cat", "dog", "sees", "old"], WORDS, p=[0.3, 0.2, 0.2, 0.17, 0.13])
    words = pd.DataFrame({"word": [f"{word}{'.' * (place % 7 == 6)}" for place, word in enumerate(drawn)]})
    words = words.assign(story=np.arange(WORDS) // 150, zone=np.arange(WORDS) % 150)
    model = fresh("ngram")
    columns = word_table(model, words, group="story").to_dataframe()
    log_odds = 1.5 - 0.5 * columns["surprisal"] + 0.1 * columns["length"]
    odds = np.exp(log_odds - log_odds.mean())
    times = pd.concat(
        words[["story", "zone"]].assign(
            subject=f"s{reader}",
            IA_SKIP=(generator.random(WORDS) < odds / (1 + odds)).astype(int),
            FPRT=200 + 5 * columns["surprisal"] + generator.normal(0, 20, WORDS),
        )
        for reader in range(READERS)
    )
    return {"kn": model}, words, times


def evaluate(study, columns, minimum=None, **settings):
    models, words, times = study
    return evaluate_reading_times(
        models, words, times, frequencies=FREQUENCIES, time_column=columns, group="story", minimum=minimum,
        settings=RegressionSettings(**settings),
    )  # fmt: skip


def test_the_effect_on_skipping_is_found_with_its_held_out_gain(study):
    report = evaluate(study, "skip")
    (model,) = report.models
    assert model.regression.kind == model.baseline.kind == "logistic"
    assert model.regression.observations == READERS * report.count
    effect = model.regression.coefficient("surprisal")
    assert abs(effect.value - -0.5) < 4 * effect.standard_error < 0.3
    assert model.delta.low > 0
    # What the report measures is what its exported columns give with statsmodels.
    rows = report.word_table().to_dataframe()
    rows = rows[rows["analysed"]]
    names = [each.name for each in model.regression.coefficients][1:]
    design = {name: rows[f"{name}_kn_reset" if "surprisal" in name or "tokens" in name else name] for name in names}
    values = {name: column.to_numpy(float) for name, column in design.items()}
    ones = (rows["reading_time"] * READERS).round().to_numpy()
    expected, _ = by_statsmodels(values, ones, np.full(len(rows), READERS))
    assert [each.value for each in model.regression.coefficients] == pytest.approx(expected.params, rel=1e-3, abs=1e-3)
    folds = rows["fold"].to_numpy()
    without = {name: column for name, column in values.items() if "surprisal" not in name}
    logs = [held_out_log_likelihood(ones / READERS, x, folds, np.full(len(rows), READERS)) for x in (values, without)]
    assert model.delta.value == pytest.approx(float((logs[0] - logs[1]).mean()), rel=1e-3)


@pytest.mark.long
def test_linear_and_logistic_regressions_are_named_in_one_call(study):
    report = evaluate(study, ["skip", "first_pass"], minimum=200)
    frame = report.to_dataframe()
    assert list(frame["regression"]) == ["logistic", "linear"]
    assert list(frame["times_out_of_range"]) == [0, report.by_measure["first_pass"].times.left_out]
    assert frame["times_out_of_range"].max() > 0
    figures = json.loads(json.dumps(report.to_dict()))
    assert [one["regression"] for one in figures["measures"]] == ["logistic", "linear"]
    assert figures["measures"][0]["models"][0]["regression"]["kind"] == "logistic"
    assert figures["measures"][0]["models"][0]["regression"]["r_squared"] is None
    text = str(report)
    assert "skip: measure: IA_SKIP of the data frame, 0 or 1, share of 1" in text
    assert "logistic regression" in text
    (skipping,) = (line for line in text.splitlines() if line.startswith("skip ") and "kn" in line)
    assert skipping.split()[:3] == ["skip", "logistic", "kn"]
    alone = evaluate(study, "skip").to_dataframe().iloc[0]
    assert frame["surprisal_coefficient"][0] == alone["surprisal_coefficient"]
    assert "log odds" in str(evaluate(study, "skip"))
    assert [ax.get_ylabel() for ax in report.plot().axes] == ["share of 1, IA_SKIP", "FPRT"]


def test_limits_and_logarithms_of_0_and_1_are_refused_where_nothing_else_has_them(study):
    with pytest.raises(InputError, match=r"minimum=\.\.\.: found with IA_SKIP, which has only 0 and 1"):
        evaluate(study, "IA_SKIP", minimum=1)
    with pytest.raises(InputError, match=r"log=True\): found with IA_SKIP, which has only 0 and 1"):
        evaluate(study, "IA_SKIP", log=True)


def test_rates_of_skipping_are_refused(study):
    models, words, times = study
    rates = times.groupby(["story", "zone"], as_index=False)["IA_SKIP"].mean()
    with pytest.raises(InputError, match=r"found 0\.\d+ in column IA_SKIP, .*expected 0 or 1, in a row per reader"):
        evaluate((models, words, rates), "skip")


def test_values_from_0_to_1_of_an_unknown_measure_are_warned_of(study):
    models, words, times = study
    rates = times.groupby(["story", "zone"], as_index=False)["IA_SKIP"].mean().rename(columns={"IA_SKIP": "share"})
    with pytest.warns(InputWarning, match="all values of the column share are from 0 to 1 and are read as times"):
        evaluate((models, words, rates), "share")


@pytest.mark.parametrize(("true", "false"), [("TRUE", "FALSE"), ("T", "F"), ("yes", "no"), (True, False)])
def test_logical_values_are_read_as_1_and_0_and_announced(study, true, false):
    words, times = displayed_words(InputTable.read(study[1]), group="story"), study[2]
    expected = join_times(words, InputTable.read(times), "IA_SKIP")
    logical = times.assign(IA_SKIP=times["IA_SKIP"].map({1: true, 0: false}))
    with collected() as reports:
        found = join_times(words, InputTable.read(logical), "IA_SKIP")
    assert found.is_binary
    assert found.values.tolist() == expected.values.tolist()
    first, second = (true, false) if times["IA_SKIP"].iloc[0] else (false, true)
    remark = f"3,600 logical values in column IA_SKIP, read as 1 and 0: '{first}', '{second}'"
    assert remark in str(reports[-1])


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["TRUE", "FALSE", "maybe"], "line 2: found 'TRUE' in column skip, and 'maybe' in another row; expected numbers"
         " only, or TRUE and its opposite only. Replace them with 1 and 0"),
        (["1", "0", "F"], "line 4: found 'F' in column skip, and '1' in another row; expected numbers only, or F and"),
        (["TRUE", "NA", "TRUE"], "all 2 values of the column skip, whether a word was skipped, are 1; expected times,"
         " or both 0 and 1, because a regression needs values that differ. Choose another column with time_column=..."),
        (["0", "0", "0"], "all 3 values of the column skip, whether a word was skipped, are 0; expected times"),
    ],
)  # fmt: skip
def test_columns_that_are_neither_times_nor_0_and_1_are_refused_with_a_reason(cells, message, tmp_path):
    path = tmp_path / "words.csv"
    path.write_text("word,skip\n" + "".join(f"cat,{cell}\n" for cell in cells))
    words = displayed_words(InputTable.read(path))
    with pytest.raises(InputError) as error:
        join_times(words, None, "skip")
    assert message in str(error.value)


def test_logical_predictors_are_read_as_1_and_0_and_announced(tmp_path):
    path = tmp_path / "words.csv"
    path.write_text("word,bold\nthe,TRUE\ncat,FALSE\nsees,NA\n")
    with collected() as reports:
        found = InputTable.read(path).numbers("bold", "--predictor")
    assert found[:2].tolist() == [1, 0]
    assert np.isnan(found[2])
    assert "2 logical values in column bold, read as 1 and 0: 'TRUE', 'FALSE'" in str(reports[-1])


@pytest.mark.long
def test_the_script_beside_an_exported_table_is_of_its_measure(study, tmp_path):
    models, words, times = study
    reports = {name: evaluate((models, words, times), name, smooth=0) for name in ("FPRT", "skip")}
    table, script = tmp_path / "rows.csv", tmp_path / "rows.R"

    # A script of the same measure is kept.
    reports["FPRT"].export(table)
    edited = script.read_text() + "# mine\n"
    script.write_text(edited)
    with pytest.warns(InputWarning, match=r"rows\.R: is kept, because it differs"):
        reports["FPRT"].export(table)
    assert script.read_text() == edited

    # A script of another measure is renamed, whichever of them is of 0 and 1.
    message = r"rows\.R: is written anew, because the earlier script does not name the measure of this table, "
    with pytest.warns(InputWarning, match=message + r"IA_SKIP \(0 or 1\)\. The earlier script is now .*rows\.R\.old$"):
        reports["skip"].export(table)
    assert "# Measure, in the column time: IA_SKIP (0 or 1)" in script.read_text().splitlines()
    assert set(pd.read_csv(table)["time"]) == {0, 1}
    assert (tmp_path / "rows.R.old").read_text() == edited
    with pytest.warns(InputWarning, match=message + r"FPRT \(times\)\. .*rows\.R\.old2$"):
        reports["FPRT"].export(table)
    assert "# Measure, in the column time: FPRT (times)" in script.read_text().splitlines()
    assert "glmer" in (tmp_path / "rows.R.old2").read_text()
    assert (tmp_path / "rows.R.old").read_text() == edited


def test_the_script_for_r_fits_logistic_mixed_models(study, tmp_path):
    report = evaluate(study, "skip", smooth=0)
    script = report.export(tmp_path / "rows.csv")
    text = script.read_text(encoding="utf-8")
    assert "family = binomial" in text
    assert "glmerControl" in text
    assert "lmer(" not in text.replace("glmer(", "")
    if shutil.which("Rscript") is None:
        pytest.skip("Rscript is not installed")
    # The regression of the report is that of the exported rows without random effects.
    names = [each.name for each in report.models[0].regression.coefficients][1:]
    formula = f"time ~ {' + '.join(names)}"
    code = f'd <- read.csv("{tmp_path}/rows.csv"); cat(coef(glm({formula}, binomial, d)), sep = "\\n")'
    found = subprocess.run(["Rscript", "-e", code], capture_output=True, text=True, check=True).stdout.split()
    values = [each.value for each in report.models[0].regression.coefficients]
    assert list(map(float, found)) == pytest.approx(values, rel=1e-3, abs=1e-3)
