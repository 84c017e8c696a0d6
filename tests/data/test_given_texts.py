"""Texts of a training that are not local files: objects of Python, Parquet files, and files of servers."""

from __future__ import annotations

import functools
import gzip
import http.server
import threading
from contextlib import suppress
from pathlib import Path

import fsspec
import numpy
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest

import syntaxlm
from syntaxlm.core import remote_files
from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.core.remote_files import local_copy
from syntaxlm.core.text_files import text_files_of
from syntaxlm.data import given_texts
from syntaxlm.data.corpora import EncodedCorpus, count_tokens, read_lines, read_sentences
from syntaxlm.data.given_texts import text_file
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.training.recipe import read_recipe
from syntaxlm.training.run import fingerprints_of

SENTENCES = ["the cat sleeps", "", "eine Kälte"]


class Dataset:
    """Stands in for `datasets.Dataset`, which has rows, and perhaps splits."""

    def __init__(self, **columns: list[str]) -> None:
        self.columns = columns
        self.features = self.column_names = list(columns)

    def __iter__(self):
        return (dict(zip(self.columns, row, strict=True)) for row in zip(*self.columns.values(), strict=True))


class DatasetDict(dict):
    @property
    def column_names(self) -> dict[str, list[str]]:
        return {name: one.column_names for name, one in self.items()}


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path) -> Path:
    """An empty cache, in which compiled operations are not looked for."""

    def folder_in_cache(name: str) -> Path:
        (tmp_path / "cache" / name).mkdir(parents=True, exist_ok=True)
        return tmp_path / "cache" / name

    for module in (remote_files, given_texts):
        monkeypatch.setattr(module, "folder_in_cache", folder_in_cache)
    return tmp_path / "cache"


OBJECTS = {
    "list": lambda: SENTENCES,
    "generator": lambda: (sentence for sentence in SENTENCES),
    "lines": lambda: [f"{sentence}\r\n" for sentence in SENTENCES],
    "array": lambda: numpy.array(SENTENCES),
    "pyarrow array": lambda: pyarrow.chunked_array([SENTENCES]),
    "pyarrow table": lambda: pyarrow.table({"id": [1, 2, 3], "text": SENTENCES}),
    "pandas": lambda: pandas.DataFrame({"sentence": SENTENCES}),
    "polars": lambda: polars.DataFrame({"text": SENTENCES, "source": ["a", "b", "c"]}),
    "datasets": lambda: Dataset(text=SENTENCES, label=["a", "b", "c"]),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_texts_of_python_become_a_file_that_is_named_by_its_content(name, cache):
    recipe = read_recipe("prpn-toy", {"text.train": OBJECTS[name](), "text": {"valid": OBJECTS[name]()}})
    assert recipe.text.train == recipe.text.valid
    path = Path(recipe.text.train)
    assert path.parent == cache / "texts"
    assert path.read_text(encoding="utf-8") == "".join(f"{sentence}\n" for sentence in SENTENCES)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


WRONG = {
    "number": ({"text.train": 3}, InputError, "text.train: found 3; expected a valid string"),
    "object": (
        {"text.train": object()},
        TypeError,
        "text.train: found object; expected a file or a pattern, an iterable",
    ),
    "bytes": ({"text.train": b"a b"}, TypeError, "text.train: found bytes; .* Decode it"),
    "list of bytes": ({"text.valid": [b"a b"]}, TypeError, "text.valid, text 1: found bytes; expected str"),
    "files": (
        {"text.train": [__file__]},
        InputError,
        "text.train: found a list with the name of a file, .*given_texts",
    ),
    "splits": (
        {"text.train": DatasetDict(train=Dataset(text=["a"]))},
        InputError,
        r"text.train: found several splits; expected one of 'train', such as data\['train'\]",
    ),
    "columns": (
        {"text.train": pyarrow.table({"a": ["x"], "b": ["y"]})},
        InputError,
        "text.train: found the columns 'a', 'b'; expected a column 'text', or only one column",
    ),
    "trees": (
        {"text.trees": Dataset(text=["a"])},
        InputError,
        "overrides: text.trees: found an object of type .*Dataset; expected text, a number or a list",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_objects_that_are_no_texts_are_refused_by_name(name):
    overrides, kind, message = WRONG[name]
    with pytest.raises(kind, match=message):
        read_recipe("prpn-toy", overrides)


def test_a_data_set_is_trained_on_and_the_same_one_resumes_the_run(few, tmp_path):
    def overrides(part: str) -> dict:
        texts = {f"text.{name}": iter((few / f"{name}.txt").read_text().splitlines()) for name in ("train", "valid")}
        return texts | {"text.test": None, "schedule.epochs": 1}

    recipe = few.recipe("lstm", schedule={"epochs": 1})
    whole = syntaxlm.train(recipe, tmp_path / "whole", {"text.test": None})
    result = syntaxlm.train(recipe, tmp_path / "run", overrides("run"), resume=True)
    assert result.valid.perplexity == whole.valid.perplexity
    again = syntaxlm.train(recipe, tmp_path / "run", overrides("run"), resume=True)
    assert again.valid == result.valid
    assert '.txt"' in (tmp_path / "run" / "inputs.json").read_text()


def test_texts_are_paths_too_and_named_in_the_result(few, tmp_path):
    texts = {"text.train": few / "train.txt", "text.valid": few / "valid.txt", "text.test": None}
    result = syntaxlm.train(few.recipe("lstm", schedule={"epochs": 1}), tmp_path / "run", texts)
    assert result.run["overrides"] == {name: path and str(path) for name, path in texts.items()}


def test_a_parquet_file_is_read_as_the_lines_of_its_rows(tmp_path):
    path = tmp_path / "a.parquet"
    polars.DataFrame({"id": [1, 2], "sentence": ["a b\nc d\n", "e"]}).write_parquet(path)
    assert list(read_lines(path)) == [(1, "a b"), (1, "c d"), (2, "e")]
    polars.DataFrame({"text": ["a", None]}).write_parquet(path)
    with pytest.raises(InputError, match=r"row 2: column 'text' is empty; expected text"):
        list(read_lines(path))
    polars.DataFrame({"one": ["a"], "two": ["b"]}).write_parquet(path)
    with pytest.raises(InputError, match=r"no column 'text'; found one, two"):
        list(read_lines(path))


def test_a_remote_text_is_downloaded_once_and_read_without_a_connection(tmp_path, toy):
    requests = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def copyfile(self, source, outputfile):
            requests.append(self.path)
            with suppress(OSError):  # who has the file reads no more of it
                super().copyfile(source, outputfile)

        def log_message(self, *_):
            pass

    folder = tmp_path / "served"
    folder.mkdir()
    content = b"a b\n" * 200_000  # more than a server sends before it is read
    (folder / "a.txt").write_bytes(content)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/a.txt"
    try:
        assert local_copy(address).read_bytes() == content
        written = local_copy(address).stat().st_mtime_ns
        assert sum(1 for _ in read_lines(address)) == 200_000
        assert local_copy(address).stat().st_mtime_ns == written

        (folder / "a.txt").write_text("a new text\n")
        assert list(read_lines(address)) == [(1, "a new text")]
        with pytest.raises(InputError, match=r"b.txt: cannot be read: no such file"):
            local_copy(address.replace("a.txt", "b.txt"))
    finally:
        server.shutdown()
        server.server_close()

    with pytest.warns(InputWarning, match=r"cannot be reached .* The copy of an earlier download is read"):
        assert list(read_lines(address)) == [(1, "a new text")]
    with pytest.raises(InputError, match=r"b.txt: cannot be read: .*refused.* download the file elsewhere"):
        local_copy(address.replace("a.txt", "b.txt"))


def test_a_run_on_remote_texts_records_their_hashes_and_notices_a_change(few, tmp_path):
    memory = fsspec.filesystem("memory")
    settings = {"text.test": None}
    for part in ("train", "valid"):
        memory.pipe(f"/runs/{part}.txt", (few / f"{part}.txt").read_bytes())
        settings[f"text.{part}"] = f"memory://runs/{part}.txt"
    recipe = few.recipe("lstm", schedule={"epochs": 1})
    result = syntaxlm.train(recipe, tmp_path / "run", settings)
    local = fingerprints_of(few.recipe("lstm"))["text.train"].values()
    assert result.run["sha256"]["memory://runs/train.txt"] in local
    assert syntaxlm.resume(tmp_path / "run").valid == result.valid
    memory.pipe("/runs/train.txt", b"other words\n")
    with pytest.raises(InputError, match=r"memory://runs/train.txt: changed since the run started"):
        syntaxlm.resume(tmp_path / "run")


def test_the_file_of_a_split_is_chosen_in_a_data_set_of_the_hub(monkeypatch):
    address = "hf://datasets/owner/training-texts"
    files = [
        f"{address}/data/train-00000-of-00001.parquet",
        f"{address}/data/validation.txt.gz",
        f"{address}/README.md",
    ]
    monkeypatch.setattr(given_texts, "files_below", lambda _: files)
    recipe = read_recipe("prpn-toy", [("text.train", address), ("text.valid", f"{address}/"), ("text.test", "null")])
    assert (recipe.text.train, recipe.text.valid) == (files[0], files[1])
    with pytest.raises(
        InputError, match=r"text.test: .* expected one text or Parquet file with test in its name; found"
    ):
        text_file(address, "test")
    assert text_file(files[0], "train") == files[0]

    # Numbered files are one text; others are not guessed.
    files[0] = f"{address}/data/train-00000-of-00002.parquet"
    files.append(f"{address}/data/train-00001-of-00002.parquet")
    assert text_file(address, "train") == f"{address}/data/train-*-of-00002.parquet"
    files.append(f"{address}/data/train-of-another-corpus.parquet")
    with pytest.raises(InputError, match=r"text.train: .*found 3: hf://"):
        text_file(address, "train")


@pytest.fixture
def shards(few, tmp_path) -> Path:
    """The training text in three files of different formats."""
    lines = (few / "train.txt").read_text().splitlines()
    (tmp_path / "part-1.txt").write_text("\n".join(lines[:30]) + "\n")
    (tmp_path / "part-2.txt.gz").write_bytes(gzip.compress(("\n".join(lines[30:40]) + "\n").encode()))
    polars.DataFrame({"text": lines[40:]}).write_parquet(tmp_path / "part-3.parquet")
    return tmp_path


def test_the_files_of_a_pattern_are_trained_on_as_one_text(few, shards):
    sections = {"schedule": {"epochs": 1}}
    syntaxlm.train(few.recipe("lstm", **sections), shards / "one")
    pattern = str(shards / "part-*")
    recipe = few.recipe("lstm", text={"train": pattern}, **sections)
    result = syntaxlm.train(recipe, shards / "several")
    weights = [(shards / name / "weights.safetensors").read_bytes() for name in ("one", "several")]
    assert weights[0] == weights[1]
    names = [str(shards / name) for name in ("part-1.txt", "part-2.txt.gz", "part-3.parquet")]
    assert list(fingerprints_of(recipe)["text.train"]) == names
    assert {*names} < result.run["sha256"].keys()

    # A run whose files were changed or became more is not resumed.
    (shards / "part-0.txt").write_text("the cat sleeps\n")
    (shards / "part-1.txt").write_text("the cat sleeps\n")
    with pytest.raises(InputError) as error:
        syntaxlm.resume(shards / "several")
    assert f"{shards / 'part-0.txt'}: added since the run started (text.train)" in str(error.value)
    assert f"{shards / 'part-1.txt'}: changed since the run started (text.train)" in str(error.value)


def test_messages_name_the_file_of_a_pattern_and_its_own_line(shards):
    pattern, normaliser = str(shards / "part-*"), Normaliser()
    vocabulary = Vocabulary.build(count_tokens(pattern, normaliser), "<unk>", "<s>", "</s>")
    with EncodedCorpus.encode(pattern, normaliser, vocabulary) as corpus:
        assert len(corpus) == 80
        assert corpus.line_numbers.tolist() == list(range(1, 81))
        places = [corpus.place(index) for index in (0, 29, 30, 39, 40)]
        selected = corpus.select(numpy.array([29, 40]))
        assert [selected.place(index) for index in range(2)] == [places[1], places[4]]
    files = [shards / name for name in ("part-1.txt", "part-2.txt.gz", "part-3.parquet")]
    expected = [(files[0], 1), (files[0], 30), (files[1], 1), (files[1], 10), (files[2], 1)]
    assert places == [f"{file}, line {line}" for file, line in expected]
    files[1].write_bytes(b"the cat\n\xff\n")
    with pytest.raises(InputError, match=r"part-2\.txt\.gz: found uncompressed content"):
        list(read_sentences(pattern, normaliser))
    with pytest.raises(InputError, match=r"shard-\*\.txt: no such file, and no file matches this pattern"):
        list(read_sentences(str(shards / "shard-*.txt"), normaliser))
    odd = shards / "part-[1].txt"
    odd.write_text("a file with the name of a pattern\n")
    assert [line for _, line in read_sentences(odd, normaliser)] == ["a file with the name of a pattern"]


def test_a_pattern_of_remote_files_is_listed_by_the_server():
    memory = fsspec.filesystem("memory")
    for name, text in (("b.txt", b"c\n"), ("a.txt", b"a\nb\n"), ("other", b"d\n")):
        memory.pipe(f"/shards/{name}", text)
    assert list(read_sentences("memory://shards/*.txt", Normaliser())) == [(1, "a"), (2, "b"), (3, "c")]
    with pytest.raises(InputError, match=r"memory://shards/\*\.gz: no such file, and no file matches this pattern"):
        list(read_sentences("memory://shards/*.gz", Normaliser()))
    assert read_recipe("prpn-toy", [("text.train", "*.txt")]).text.train == "*.txt"
    assert text_files_of("https://host/text.txt?part=1") == ["https://host/text.txt?part=1"]
