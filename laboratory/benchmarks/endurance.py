"""A server under load for a long time: errors, time of answers, and memory.

    python -m laboratory.benchmarks.endurance [MODEL ...] [--minutes 60] [--clients 50] [--json]

Starts `syntaxlm serve` in a process of its own, by default with two bundled and two small models. Each client sends a
request, waits for the answer and sends the next. The requests parse, compute surprisals, compare pairs and generate.
One in twenty is wrong and must be refused with the expected status. Sentences have 1 to 60 words. Every minute, the
program prints the number of answers, the time of answers and the resident memory of the server.

- Errors are answers with an unexpected status or number of sentences, and lost connections.
- The first minutes (`--warm-up`) are a warm-up, in which all models answer all kinds of requests. Slope and growth are
  those of a line through the memory of the later minutes, because the memory of a single minute depends on the requests
  that are just computed.
- The exit code is 1 if there was an error or if the memory grew by more than 10%.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from laboratory.results.store import with_head
from syntaxlm.core.files import to_json
from syntaxlm.data.toy import english_fragment

SCHEMA_VERSION = 1
STORED = Path(__file__).parents[2] / "tests" / "stored_models" / "models"
MODELS = ("en", "en-fast", str(STORED / "prpn"), str(STORED / "lstm"))
KINDS = {"parse": 35, "surprisal": 35, "pair": 15, "generate": 10, "wrong": 5}  # shares of requests
LONGEST = 60  # words of a sentence
TYPICAL = 15  # mean words of a sentence
RARE_WORDS = 0.1  # share of words that no model knows
RARE_FORMS = 20_000  # of these words; models remember how the last 65,536 forms are read
SAMPLED = 1000  # sentences of the built-in grammar, from which words are drawn
MOST_PERCENT = 10  # growth of the memory after the warm-up


class Request(NamedTuple):
    """A request, and what its answer must be.

    Attributes:
        sentences: number of results; None if the answer has no list.
    """

    kind: str
    path: str
    body: dict[str, Any] | bytes
    status: int = 200
    sentences: int | None = None


@dataclass(frozen=True)
class Served:
    """A model of the server, with the kinds of requests that it answers."""

    name: str
    kinds: tuple[str, ...]

    @classmethod
    def of(cls, info: dict[str, Any]) -> Served:
        parses = ("parse",) if info["decoders"] else ()
        generates = ("generate",) if info["by_word"] else ()
        return cls(info["name"], ("surprisal", "pair", *parses, *generates))


class Draw:
    """Draws the requests of a client."""

    def __init__(self, models: Sequence[Served], words: Sequence[str], seed: int) -> None:
        self._random, self._models, self._words = random.Random(seed), models, words

    def sentence(self) -> str:
        """A sentence whose length has a long tail, with words that no model knows."""
        count = 1 + min(LONGEST - 1, int(self._random.expovariate(1 / TYPICAL)))
        return " ".join(
            f"w{self._random.randrange(RARE_FORMS)}" if self._random.random() < RARE_WORDS else word
            for word in self._random.choices(self._words, k=count)
        )

    def pause(self, mean: float) -> float:
        """Seconds until the next request."""
        return self._random.expovariate(1 / mean) if mean else 0.0

    def request(self) -> Request:
        (kind,) = self._random.choices(list(KINDS), list(KINDS.values()))
        if kind == "wrong":
            return self._wrong()
        model = self._random.choice([model for model in self._models if kind in model.kinds])
        body: dict[str, Any] = {"model": model.name}
        if kind == "pair":
            return Request(kind, "/api/pair", body | {"first": self.sentence(), "second": self.sentence()})
        if kind == "generate":
            count = self._random.randint(1, 4)
            body |= {"count": count, "max_words": 30, "seed": self._random.randrange(1000)}
            return Request(kind, "/api/generate", body, sentences=count)
        sentences = [self.sentence() for _ in range(self._random.choice((1, 1, 1, 2, 5)))]
        return Request(kind, f"/api/{kind}", body | {"sentences": sentences}, sentences=len(sentences))

    def _wrong(self) -> Request:
        return self._random.choice(
            (
                Request("wrong", "/api/parse", {"model": "none", "sentences": ["a cat"]}, 404),
                Request("wrong", "/api/parse", {"sentences": [" ".join(["cat"] * 500)]}, 422),
                Request("wrong", "/api/surprisal", {"sentences": []}, 422),
                Request("wrong", "/api/pair", {"first": self.sentence()}, 422),
                Request("wrong", "/api/generate", {"count": 10**6}, 422),
                Request("wrong", "/api/parse", b"{not JSON", 422),
                Request("wrong", "/api/parse", b" " * 300_000, 413),
                Request("wrong", "/api/nothing", {}, 404),
            )
        )


@dataclass
class Minute:
    """What happened in a minute. seconds: time of each correct answer to a request that is not wrong."""

    seconds: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Row:
    """A line of the report. Times in seconds, memory in MiB."""

    minute: int
    answers: int
    errors: int
    median: float | None
    p95: float | None
    p99: float | None
    memory: float
    threads: int


def times_of(seconds: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    """Median, 95th and 99th percentile; None without at least two answers."""
    if len(seconds) < 2:
        return None, None, None
    percentiles = statistics.quantiles(seconds, n=100)
    return statistics.median(seconds), percentiles[94], percentiles[98]


def state_of(process: int) -> tuple[float, int]:
    """Resident memory of a process in MiB, and its number of threads."""
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    lines = dict(line.split(":", 1) for line in status.splitlines())
    return int(lines["VmRSS"].split()[0]) / 1024, int(lines["Threads"])


async def loaded(address: str, draws: Sequence[Draw], end: float, pause: float, minutes: list[Minute]) -> None:
    """Send requests until the time `end`. pause: mean seconds between an answer and the next request of a client."""

    async def ask(client: httpx.AsyncClient, draw: Draw) -> None:
        while time.monotonic() < end:
            request, started = draw.request(), time.monotonic()
            fault = await fault_of(client, request)
            taken = time.monotonic() - started
            if fault is not None:
                minutes[-1].errors[f"{request.kind}: {fault}"] += 1
            elif request.kind != "wrong":
                minutes[-1].seconds.append(taken)
            await asyncio.sleep(draw.pause(pause))

    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=address, timeout=120, limits=limits, trust_env=False) as client:
        await asyncio.gather(*(ask(client, draw) for draw in draws))


async def fault_of(client: httpx.AsyncClient, request: Request) -> str | None:
    """Send a request. Returns what is wrong with its answer, if anything."""
    try:
        if isinstance(request.body, bytes):
            headers = {"Content-Type": "application/json"}
            answer = await client.post(request.path, content=request.body, headers=headers)
        else:
            answer = await client.post(request.path, json=request.body)
    except httpx.HTTPError as error:
        return type(error).__name__
    if answer.status_code != request.status:
        return f"status {answer.status_code} instead of {request.status}: {answer.text[:200]}"
    if request.sentences is not None and len(answer.json()["sentences"]) != request.sentences:
        return "another number of sentences"
    return None


async def measure(process: int, minutes: list[Minute], length: float, count: int, show: Any) -> list[Row]:
    """Return a row for each minute.

    Args:
        process: of the server.
        length: seconds of a "minute".
    """
    rows, start = [], time.monotonic()
    for number in range(1, count + 1):
        await asyncio.sleep(start + number * length - time.monotonic())
        minute = minutes[-1]
        minutes.append(Minute())
        memory, threads = state_of(process)
        errors = sum(minute.errors.values())
        rows.append(Row(number, len(minute.seconds), errors, *times_of(minute.seconds), memory, threads))
        show(rows[-1])
    return rows


def summary_of(rows: Sequence[Row], minutes: Sequence[Minute], warm_up: int, start: float) -> dict[str, Any]:
    """Return the figures of a run. start: the memory before the first request, in MiB."""
    after = [row.memory for row in rows[warm_up:]]
    line = statistics.linear_regression(range(len(after)), after)
    median, p95, p99 = times_of([seconds for minute in minutes for seconds in minute.seconds])
    return {
        "answers": sum(row.answers for row in rows),
        "errors": dict(sum((minute.errors for minute in minutes), Counter())),
        "median": median,
        "p95": p95,
        "p99": p99,
        "minutes_after_warm_up": len(after),
        "memory_before": start,
        "memory_warm": line.intercept,
        "memory_largest": max(after),
        "growth_percent": 100 * line.slope * (len(after) - 1) / line.intercept,
        "slope_per_hour": 60 * line.slope,
    }


def shown(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=MODELS, metavar="MODEL")
    parser.add_argument("--minutes", type=int, default=60, metavar="N")
    parser.add_argument("--warm-up", type=int, default=5, metavar="N", help="minutes (default 5)")
    parser.add_argument("--clients", type=int, default=50, metavar="N")
    parser.add_argument("--pause", type=float, default=0, metavar="S", help="mean seconds between requests of a client")
    parser.add_argument("--seconds", type=float, default=60, metavar="S", help="length of a minute, for a short test")
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    options = parser.parse_args()
    if not 0 <= options.warm_up <= options.minutes - 2:
        parser.error(f"--warm-up: found {options.warm_up}; expected two minutes or more after it, of {options.minutes}")

    words = [word for sentence in english_fragment().sample(SAMPLED, 1) for word in sentence.words]
    minutes = [Minute()]

    def show(row: Row) -> None:
        times = "  ".join(f"{shown(seconds):>6}" for seconds in (row.median, row.p95, row.p99))
        line = f"{row.minute:>6}  {row.answers:>7,}  {row.errors:>6}  {times}  {row.memory:>7,.0f}  {row.threads:>7}"
        print(line, file=sys.stderr, flush=True)

    command = [sys.executable, "-m", "syntaxlm", "serve", *options.models, "--port", "0", "--quiet"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().rpartition(": ")[2].split()[0]
            if not server.stdout.readline():  # printed when the models are read
                sys.exit("the server did not start; stderr has the reason")
            infos = httpx.get(f"{address}/api/models", timeout=600, trust_env=False).json()["models"]
            models, start = [Served.of(info) for info in infos], state_of(server.pid)[0]
            print(
                f"minute  answers  errors  median     95%     99%  RSS/MiB  threads\n{0:>6} {start:>52,.0f}",
                file=sys.stderr,
            )
            draws = [Draw(models, words, seed) for seed in range(options.clients)]
            end = time.monotonic() + options.minutes * options.seconds

            async def rows_under_load() -> list[Row]:
                load = loaded(address, draws, end, options.pause, minutes)
                rows = measure(server.pid, minutes, options.seconds, options.minutes, show)
                return (await asyncio.gather(rows, load))[0]

            rows = asyncio.run(rows_under_load())
            server.send_signal(signal.SIGINT)
            code = server.wait(60)
        finally:
            server.kill()

    summary = summary_of(rows, minutes, options.warm_up, start)
    if code:
        summary["errors"][f"the server ended with {code}"] = 1
    if options.json:
        facts = {"models": [model.name for model in models], "clients": options.clients, "pause": options.pause}
        report = {"schema_version": SCHEMA_VERSION, **facts, **summary, "minutes": [asdict(row) for row in rows]}
        print(to_json(with_head(report)))
    else:
        print(
            f"answers {summary['answers']:,}   errors {sum(summary['errors'].values())}   median"
            f" {shown(summary['median'])} s   95% {shown(summary['p95'])} s   99% {shown(summary['p99'])} s\n"
            f"memory before {start:,.0f} MiB   after warm-up {summary['memory_warm']:,.0f} MiB   largest"
            f" {summary['memory_largest']:,.0f} MiB   slope {summary['slope_per_hour']:+,.1f} MiB per hour"
            f" ({summary['growth_percent']:+.1f}% in the run)"
        )
    for fault, count in summary["errors"].items():
        print(f"{count} x {fault}", file=sys.stderr)
    sys.exit(1 if summary["errors"] or summary["growth_percent"] > MOST_PERCENT else 0)


if __name__ == "__main__":
    main()
