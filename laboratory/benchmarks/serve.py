"""Response time of the page and of its JSON interface.

    python -m laboratory.benchmarks.serve MODEL [--sentences FILE] [--json]

The server runs in this process. Each sentence is sent once per round, one after the other, after one round that is not
timed.
- interface: a request to /api/analyse, the tree, surprisals and pictures of one sentence, on an open connection.
- page: in a browser, from a click on "Parse" until the pictures are in the page and the browser has drawn a frame.
  Left out if there is no browser.
- together: 50 requests at once, time until the last answer.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import httpx

from laboratory.pages import browser as browsers
from syntaxlm.api.model import load
from syntaxlm.core.files import to_json
from syntaxlm.serve.app import create_app
from syntaxlm.serve.server import running

SCHEMA_VERSION = 1
TOGETHER = 50
SENTENCES = (
    "The old man the boats.",
    "She saw the man with the telescope.",
    "The horse raced past the barn fell.",
    "The company said it expects sales to rise in the second half of the year.",
    "The woman who lived near the river read her children a story about a dog that had lost its way home.",
)
_PARSE = """async (sentence) => {
  const results = document.getElementById("results");
  results.replaceChildren();
  document.getElementById("text").value = sentence;
  const drawn = new Promise((done) => {
    new MutationObserver((_, observer) => {
      if (results.querySelector("figure svg")) { observer.disconnect(); done(); }
    }).observe(results, { childList: true });
  });
  const started = performance.now();
  document.getElementById("submit").click();
  await drawn;
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - started;
}"""  # milliseconds, by the browser's clock


def timed(ask: Callable[[str], float], sentences: Sequence[str], rounds: int) -> list[float]:
    """What `ask` returns for each sentence in each round, after a round that is left out. ask: returns milliseconds."""
    for sentence in sentences:
        ask(sentence)
    return [ask(sentence) for _ in range(rounds) for sentence in sentences]


def of_interface(address: str, sentences: Sequence[str], rounds: int) -> list[float]:
    """Milliseconds of requests to the JSON interface."""
    with httpx.Client(base_url=address, timeout=120) as client:

        def ask(sentence: str) -> float:
            started = time.perf_counter()
            client.post("/api/analyse", json={"sentences": [sentence]}).raise_for_status()
            return 1000 * (time.perf_counter() - started)

        return timed(ask, sentences, rounds)


def of_page(address: str, sentences: Sequence[str], rounds: int) -> list[float]:
    """Milliseconds from clicks on the page to drawn pictures, in a browser."""
    with browsers.browser() as browser:
        page = browser.new_page()
        page.goto(address)
        page.wait_for_selector(".chip")
        return timed(lambda sentence: float(page.evaluate(_PARSE, sentence)), sentences, rounds)


def together(address: str, sentences: Sequence[str]) -> float:
    """Milliseconds until `TOGETHER` requests that are sent at once are answered."""

    async def ask_together() -> None:
        async with httpx.AsyncClient(base_url=address, timeout=120) as client:
            requests = (
                client.post("/api/analyse", json={"sentences": [sentences[number % len(sentences)]]})
                for number in range(TOGETHER)
            )
            for answer in await asyncio.gather(*requests):
                answer.raise_for_status()

    started = time.perf_counter()
    asyncio.run(ask_together())
    return 1000 * (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--sentences", type=Path, metavar="FILE", help="one sentence per line")
    parser.add_argument("--rounds", type=int, default=10, metavar="N")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    sentences = options.sentences.read_text("utf-8").splitlines() if options.sentences else SENTENCES
    with running(create_app({"model": load(options.model)})) as address:
        times = {"interface": of_interface(address, sentences, options.rounds)}
        if (missing := browsers.missing()) is None:
            times["page"] = of_page(address, sentences, options.rounds)
        together_ms = together(address, sentences)
    report = {
        name: {"median_ms": statistics.median(values), "p90_ms": statistics.quantiles(values, n=10)[-1]}
        for name, values in times.items()
    }
    if options.json:
        print(to_json({"schema_version": SCHEMA_VERSION, **report, f"{TOGETHER}_together_ms": together_ms}))
        return
    for name, row in report.items():
        print(f"{name:<10} median {row['median_ms']:5.0f} ms   90% within {row['p90_ms']:5.0f} ms")
    print(f"together   {TOGETHER} requests at once {together_ms:5.0f} ms")
    if missing:
        print(f"page       not measured: {missing}")


if __name__ == "__main__":
    main()
