"""`syntaxlm serve`: where it listens, what it prints, and how it stops."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from syntaxlm.cli import main
from syntaxlm.core.errors import InputError
from syntaxlm.serve.server import address_of, is_loopback, listen
from tests.docs.examples import ROOT

MODELS = ROOT / "tests" / "stored_models" / "models"


def test_a_server_listens_on_this_machine_until_it_is_interrupted():
    models = [str(MODELS / name) for name in ("prpn", "lstm")]
    command = [sys.executable, "-m", "syntaxlm", "serve", *models, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    names, _, rest = line.partition(": ")
    assert names == "prpn, lstm"
    address = rest.split()[0]
    assert address.startswith("http://127.0.0.1:")
    assert [one["name"] for one in httpx.get(f"{address}/api/models", timeout=60).json()["models"]] == ["prpn", "lstm"]
    assert process.stdout.readline() == "The models are ready.\n"
    unknown = {"sentences": ["zxq zxr zxs zxt"]}  # of which Python would warn; what clients send is not logged
    assert httpx.post(f"{address}/api/surprisal", json=unknown, timeout=60).status_code == 200
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")


LARGE = {"count": 50, "prompt": "the old cat " * 33, "max_words": 100}  # minutes


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.long)])
def test_a_server_ends_soon_while_large_requests_are_computed_which_are_told(number):
    if signal.getsignal(number) == signal.SIG_IGN:  # under nohup
        pytest.skip("the tests were started with this signal ignored")
    command = [sys.executable, "-m", "syntaxlm", "serve", "en-fast", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        address = process.stdout.readline().split()[1]
        with ThreadPoolExecutor(3) as executor:
            answers = [executor.submit(httpx.post, f"{address}/api/generate", json=LARGE, timeout=60) for _ in range(3)]
            time.sleep(2)
            process.send_signal(number)
            assert process.wait(30) == 128 + number
            assert [answer.result().status_code for answer in answers] == [503] * 3
        assert "Traceback" not in process.stderr.read()


@pytest.mark.parametrize(
    ("host", "is_local", "shown"),
    [("127.0.0.1", True, "127.0.0.1"), ("0.0.0.0", False, "127.0.0.1"), ("::1", True, "[::1]")],
)
def test_addresses_are_those_of_a_browser(host, is_local, shown):
    try:
        bound = listen(host, 0)
    except InputError:
        if host == "::1":
            pytest.skip("this machine has no IPv6 loopback address")
        raise
    with bound:
        assert is_loopback(bound) == is_local
        assert address_of(bound) == f"http://{shown}:{bound.getsockname()[1]}"


def test_a_port_in_use_is_reported(capsys):
    with listen("127.0.0.1", 0) as bound:
        port = bound.getsockname()[1]
        assert main(["serve", str(MODELS / "lstm"), "--port", str(port)]) == 2
    message = capsys.readouterr().err
    assert f"cannot listen on 127.0.0.1, port {port}: Address already in use" in message
    assert "--port" in message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "no.such.host.invalid"], "cannot listen on no.such.host.invalid"),
        (["--port", "70000"], "--port: found '70000'; expected an integer from 0 to 65,535"),
        (["--max-words", "0"], "--max-words: found '0'"),
        (["missing-model"], "missing-model"),
        ([str(MODELS / "lstm"), str(MODELS / "lstm")], "the same model is given twice"),
        (["en", "en"], "error: en: the same model is given twice"),
    ],
)
def test_wrong_arguments_are_reported(refused, arguments, message):
    assert message in refused("serve", *arguments)


def test_missing_libraries_are_named(monkeypatch, capsys):
    for name in [name for name in sys.modules if name.startswith("syntaxlm.serve.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert main(["serve", str(MODELS / "lstm")]) == 2
    assert (
        "serve needs the library fastapi, which is not installed. Install it with: pip install 'syntaxlm[serve]'"
        in capsys.readouterr().err
    )
