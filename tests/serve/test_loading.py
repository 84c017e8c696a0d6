"""What a server answers while its models are loaded, and how it ends if they cannot be."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.serve import threads
from syntaxlm.serve.app import create_app, create_interface
from syntaxlm.serve.limits import Limits
from syntaxlm.serve.site import STATIC
from tests.docs.examples import ROOT
from tests.serve.conftest import SENTENCE, starting

LSTM = ROOT / "tests" / "stored_models" / "models" / "lstm"


def test_the_page_is_answered_while_models_are_loaded_and_an_analysis_waits_for_them(models, release):
    def load():
        release.wait(60)
        return create_interface({"lstm": models["lstm"]}, Limits())

    with starting(load) as (client, _, reported), ThreadPoolExecutor(1) as executor:
        for route in STATIC:
            answer = client.get(route)
            assert answer.status_code == 200
            assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert client.get("/api/health").json() == {"ready": False}
        assert client.post("/").json() == {"detail": "Method Not Allowed"}
        analysis = executor.submit(client.post, "/api/analyse", json={"sentences": [SENTENCE]})
        with pytest.raises(httpx.ReadTimeout):  # the client goes, and the models are loaded nevertheless
            client.get("/api/models", timeout=0.2)
        assert not analysis.done()
        assert reported == []
        release.set()
        assert analysis.result(60).json()["sentences"][0]["sentence"] == SENTENCE
        assert client.get("/api/health").json() == {"ready": True}
    assert reported == ["ready"]


def test_models_that_cannot_be_loaded_end_the_server_and_the_waiting_requests(release):
    def load():
        release.wait(60)
        raise InputError("config.json: damaged")

    with starting(load) as (client, server, reported), ThreadPoolExecutor(1) as executor:
        waiting = executor.submit(client.get, "/api/models")
        assert client.get("/").status_code == 200
        release.set()
        answer = waiting.result(60)
        assert (answer.status_code, answer.json()["detail"]) == (503, "the server is stopping")
        limit = time.monotonic() + 30
        while not server.should_exit:  # the request may be answered first
            assert time.monotonic() < limit
            time.sleep(0.01)
    assert reported == ["config.json: damaged"]


def test_a_request_does_not_wait_for_models_beyond_the_time_limit(release):
    with starting(lambda: release.wait(60), max_seconds=1) as (client, server, reported):
        answer = client.get("/api/models")
        assert answer.status_code == 503
        assert "still being read" in answer.json()["detail"]
        assert answer.headers["retry-after"]
        server.should_exit = True
    assert reported == []


@pytest.mark.parametrize(
    ("number", "errors"),
    [pytest.param(signal.SIGTERM, "", marks=pytest.mark.long), (signal.SIGINT, "syntaxlm: interrupted\n")],
)
def test_the_address_is_printed_before_models_are_loaded_and_a_signal_ends_the_command(number, errors):
    if signal.getsignal(number) == signal.SIG_IGN:  # in a background process of a shell
        pytest.skip("the tests were started with this signal ignored")
    program = (
        "import sys, time\n"
        "from syntaxlm.cli import main\n"
        "from syntaxlm.serve import site\n"
        "site._loaded = lambda _: time.sleep(600)\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    command = [sys.executable, "-c", program, "serve", str(LSTM), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        address = process.stdout.readline().split()[1]
        assert httpx.get(address, timeout=60).status_code == 200
        assert httpx.get(f"{address}/api/health").json() == {"ready": False}
        process.send_signal(number)
        assert process.communicate(timeout=30) == ("", errors)
        assert process.returncode == 128 + number


@pytest.mark.parametrize("is_damaged", [True, False])
def test_a_model_that_cannot_be_served_stops_the_command_before_it_is_ready(tmp_path, run, is_damaged):
    model, message = LSTM.parent / "tree-rnn-lstm", "reads dependency trees"
    if is_damaged:
        model, message = tmp_path, f"{tmp_path / 'config.json'}: damaged or cut short"
        (tmp_path / "config.json").write_text("{")
    code, out, error = run("serve", str(model), "--port", "0")
    assert (code, len(out.splitlines())) == (2, 1)
    assert message in error


def test_models_are_loaded_in_one_turn_so_that_several_servers_of_a_process_do_not_wait_for_each_other(
    models, monkeypatch
):
    monkeypatch.setattr(threads, "_turns", threads.Turns(1))
    site = create_app({"lstm": models["lstm"]})
    site.start()
    try:
        assert len(site.loading.result(30)) == 1
    finally:
        for thread in site.threads:
            thread.stop()
