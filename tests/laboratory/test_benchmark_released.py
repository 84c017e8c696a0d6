"""The benchmark of training steps beside a released program, which is not part of the tests."""

from __future__ import annotations

import pytest
import torch
from laboratory.benchmarks import released
from laboratory.benchmarks.inside import sentences
from laboratory.benchmarks.released import (
    OWN,
    Program,
    agreement,
    cases,
    own_steps,
    random_tables,
    read_program,
    released_rules,
    report_of,
    timed,
)
from laboratory.benchmarks.timing import Contestant
from laboratory.pages import speed
from laboratory.results import store

from syntaxlm.core.errors import InputError

MODULES = {module: names[0] for module, names in released._CLASSES.items()}
QUICK = cases(tuple(released._FORMS), [4], quick=True)


@pytest.fixture
def folder(tmp_path):
    for module, name in MODULES.items():
        path = tmp_path / f"{module.replace('.', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"class {name}: pass\n")
        (path.parent / "__init__.py").write_text("import package_that_is_not_needed\n")
    return tmp_path


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("model/N_PCFG.py", None, r"missing parser/model/N_PCFG\.py; expected a clone of github\.com/"),
        (
            "model/C_PCFG.py",
            "import triton_kernels.fast",
            r"C_PCFG\.py: imports the package triton_kernels, which",
        ),
        ("pcfgs/pcfg.py", "import parser.pcfgs.fn", r"pcfg\.py: imports .*parser/pcfgs/fn\.py, which is missing"),
        (
            "model/TN_PCFG.py",
            "from parser.pcfgs.tdpcfg import Other",
            r"cannot import name 'Other'.*files of one commit",
        ),
        ("pcfgs/tdpcfg.py", "class Other: pass", r"tdpcfg\.py: the class TDPCFG is missing"),
    ],
)
def test_what_is_missing_in_the_clone_is_named(folder, file, text, message):
    if text is None:
        (folder / "parser" / file).unlink()
    else:
        (folder / "parser" / file).write_text(text)
    with pytest.raises(InputError, match=message):
        read_program(folder)


def test_a_clone_is_read_without_running_its_packages(folder):
    program = read_program(folder)
    assert set(program.classes) == set(MODULES.values())
    assert set(program.sha256) == {f"{module.replace('.', '/')}.py" for module in MODULES}
    assert program.commit is None
    assert program.forms("N-PCFG") == [("NeuralPCFG", "PCFG")]


@pytest.mark.parametrize("case", QUICK, ids=lambda case: case.model)
@pytest.mark.parametrize("probabilities", [False, True])
def test_the_released_program_gets_the_same_rules_and_words(case, probabilities):
    batch = sentences(case.words, released.BATCH, case.length, case.length)
    tables = random_tables(case, batch)
    rules = released_rules(tables, released.BATCH, probabilities)
    for sentence, words in enumerate(tables.words.split(batch.lengths)):
        assert torch.equal(rules["unary"][sentence], tables.emissions[words])
        if "rule" in rules:
            table = rules["rule"][sentence].exp()
            expected = tables.rules.of(sentence).table()
        else:
            factors = [rules[name][sentence] for name in ("head", "left", "right")]
            table = torch.einsum("al,bl,cl->abc", *(factor if probabilities else factor.exp() for factor in factors))
            expected = tables.rules.table()
        torch.testing.assert_close(table, expected)


def test_different_log_likelihoods_stop_the_benchmark():
    class Wrong:
        def _inside(self, rules, lens):
            return {"partition": rules["unary"].sum((1, 2))}

    batch = sentences(QUICK[0].words, released.BATCH, QUICK[0].length, QUICK[0].length)
    with pytest.raises(InputError, match=r"PCFG of the released program: .* differ by"):
        agreement(Program(None, {}, {"PCFG": Wrong}), ("NeuralPCFG", "PCFG"), QUICK[0], batch)


@pytest.mark.parametrize("case", QUICK, ids=lambda case: case.model)
def test_every_part_is_timed_and_only_the_same_precision_is_compared(case, tmp_path, monkeypatch):
    batch = sentences(case.words, released.BATCH, case.length, case.length)
    full, low = (own_steps(case, batch, precision) for precision in ("32", "bf16-mixed"))
    assert ("inside" in low) == (not case.config.full_table)
    other = Contestant("PCFG", "32", full["step"].step, full["step"].tokens)
    rows = timed(case, "step", [other, full["step"], low["step"]], rounds=3)
    assert [(row.program, row.precision) for row in rows] == [("PCFG", "32"), (OWN, "32"), (OWN, "bf16-mixed")]
    assert all(0 < row.fastest <= row.seconds <= row.slowest for row in rows)
    assert rows[0].ratio == 1
    assert rows[1].ratio == rows[0].seconds / rows[1].seconds
    assert rows[2].ratio is None
    rows += timed(case, "inside", [other, full["inside"]], rounds=1)

    monkeypatch.setattr(store, "RESULTS", tmp_path)
    monkeypatch.setattr(released, "matrix_rate", lambda dtype: 1.0)
    equal = released.Agreement(case.model, case.symbols, case.length, "PCFG", 1, 1, -9.0, 2e-15, 4e-6)
    report = report_of(Program("0123456789" * 4, {}, {}), [equal], rows, rounds=3)
    store.add("speed", report, what="released-speed", run="released")
    page = speed.released()
    assert "TN-PCFG, commit 01234567" in page
    assert "2e-15 nats in float64 and 4e-06 nats in float32" in page
    assert f"| {case.model} | {case.symbols} | 4 | inside | {OWN} | float32 |" in page
    assert page.count("\n|") == 2 + len(rows)


def test_times_of_small_sizes_are_not_stored(capsys):
    with pytest.raises(SystemExit):
        released.main(["folder", "--quick", "--store"])
    assert "are not stored" in capsys.readouterr().err
