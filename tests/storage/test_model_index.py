"""Results in a model card, as a row of text."""

from __future__ import annotations

from syntaxlm.storage.model_index import DataSet, EvaluatedTask, Metric, Result


def test_a_row_has_every_fact_and_every_metric_also_of_one_name():
    data = DataSet(type="wsj", name="WSJ", args={"split": "test", "sentences": 2416})
    metrics = [Metric(type="f1", name="F1", value=value) for value in (50, 61.26)]
    result = Result(task=EvaluatedTask(type="constituency-parsing"), dataset=data, metrics=metrics)
    assert result.row() == {"data": "WSJ", "split": "test", "sentences": "2,416", "F1": "50.0", "F1 (2)": "61.3"}


def test_small_values_have_the_digits_that_tell_them_from_others():
    data = DataSet(type="glue", name="GLUE", args={"seeds": 3, "learning rate": 2e-5})
    metrics = [Metric(type=name, value=value) for name, value in (("accuracy", 0.953), ("loss", 3.21), ("points", 5.0))]
    result = Result(task=EvaluatedTask(type="text-classification"), dataset=data, metrics=metrics)
    shown = {"data": "GLUE", "seeds": "3", "learning rate": "2e-05", "accuracy": "0.953", "loss": "3.21"}
    assert result.row() == {**shown, "points": "5.0"}
