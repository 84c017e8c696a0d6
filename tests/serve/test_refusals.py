"""Limits, wrong requests, load, and what a request cannot reach."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from functools import partial
from urllib.parse import urlsplit

import httpx
import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.core.threads import check_wanted
from syntaxlm.serve import app, server
from syntaxlm.serve.app import create_app
from syntaxlm.serve.limits import Limits
from syntaxlm.serve.models import ServedModel
from syntaxlm.serve.server import running
from syntaxlm.serve.site import STATIC
from tests.serve.conftest import SENTENCE

MANY = 50
PARSE_SCOPE = {  # of a request that reaches the application without a server
    "type": "http",
    "http_version": "1.1",
    "method": "POST",
    "path": "/api/parse",
    "query_string": b"",
    "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
}


def detail(answer: httpx.Response, status: int) -> str:
    assert answer.status_code == status, answer.text
    return answer.json()["detail"]


@pytest.mark.parametrize(
    ("path", "request_", "message"),
    [
        ("parse", {"sentences": ["the " * 5000]}, "sentence 1: found 5,000 words; expected at most 100. Split it"),
        ("parse", {"sentences": ["the cat", "," * 101]}, "sentence 2: found 101 words; expected at most 100"),
        ("parse", {"sentences": ["the cat, " * 98], "model": "simple-pcfg"}, "sentence 1: found 196 words; expected"),
        ("parse", {"sentences": ["a" * 2001]}, "sentence 1: found 2,001 characters; expected at most 2,000"),
        ("parse", {"sentences": ["a"] * 51}, "found 51 sentences; expected at most 50"),
        ("parse", {"sentences": []}, "sentences: found an empty array; expected one item or more"),
        ("parse", {"sentences": "a"}, "sentences: input should be a valid list"),
        ("parse", {"sentences": ["a"], "decoder": "best"}, "decoder: input should be 'biased', 'unbiased'"),
        (
            "parse",
            {"sentences": ["a"], "decoder": "mbr"},
            "decoder: found 'mbr'; expected biased, unbiased",
        ),
        ("parse", {"sentences": ["a"], "layer": 3}, "layer"),
        ("parse", {"sentences": ["a"], "sentence": "b"}, "sentence: no such field"),
        ("parse", {}, "sentences: field required"),
        ("parse", {"sentences": ["a"], "model": "lstm"}, "lstm"),
        ("generate", {"model": "lstm", "trees": True}, "lstm"),
        ("generate", {"count": 51}, "count: found 51"),
        ("generate", {"max_words": 101}, "max_words: found 101"),
        ("generate", {"prompt": "the " * 101}, "prompt: found 101 words; expected at most 100"),
        ("generate", {"prompt": "cat, " * 60}, "prompt: found 120 words; expected at most 100"),
        ("parse", {"sentences": ["the cat"] * 9 + ["cat, " * 90]}, "sentence 10: found 180 words"),  # not of its piece
        ("surprisal", {"sentences": ["a", "a cat"], "given": "the " * 99}, "sentence 2 with given: found 101 words"),
        ("surprisal", {"sentences": ["a"], "given": "cat, " * 60}, "sentence 1 with given: found 121 words"),
    ],
)
def test_a_wrong_request_is_refused_with_the_reason(client, path, request_, message):
    assert message in detail(client.post(f"/api/{path}", json={"model": "prpn", **request_}), 422)


def test_a_request_at_a_limit_is_answered(client):
    assert len(client.post("/api/surprisal", json={"sentences": ["a"] * 50}).json()["sentences"]) == 50
    assert len(client.post("/api/generate", json={"count": 50, "max_words": 2}).json()["sentences"]) == 50


@pytest.mark.parametrize("model", ["other", "", "../prpn", "/etc/passwd", "tests/stored_models/models/prpn", "\ud800"])
def test_a_request_names_a_model_of_the_command_line_and_no_file(client, model):
    body = b'{"model": %s, "sentences": ["a"]}' % ascii(model).replace("'", '"').encode()
    answer = client.post("/api/parse", content=body, headers={"Content-Type": "application/json"})
    assert "expected one of simple-pcfg, prpn" in detail(answer, 404)


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b'{"sentences": ["a"', 422, "the body is not JSON"),
        (b'{"sentences": ["\\ud800"]}', 422, "sentences.0: "),
        (b"[]", 422, "the body is not a JSON object"),
        (b"", 422, "the body is not a JSON object"),
        (
            b'{"sentences": ["\xff"]}',
            400,
            "the body is not utf-8: found byte 0xff at offset 16; expected JSON in UTF-8",
        ),
        (b"[" * 100_000 + b"]" * 100_000, 400, "nested too deeply"),
        (b'{"sentences": ' + b"9" * 5000 + b"}", 400, "the body cannot be read: Exceeds the limit"),
    ],
)
def test_a_damaged_body_is_refused(client, body, status, message):
    answer = client.post("/api/parse", content=body, headers={"Content-Type": "application/json"})
    assert message in detail(answer, status)


def test_half_of_a_surrogate_pair_is_refused_before_the_sentences(client):
    body = b'{"sentences": ["a"], "given": "\\ud800"}'
    answer = client.post("/api/surprisal", content=body, headers={"Content-Type": "application/json"})
    assert "given: the text: found" in detail(answer, 422)


def test_only_json_is_read_so_that_no_other_site_can_post_without_permission(client):
    """A browser sends a form of another site without asking this server, but not JSON."""
    answer = client.post("/api/parse", content='{"sentences": ["a"]}', headers={"Content-Type": "text/plain"})
    assert "Content-Type: application/json" in detail(answer, 422)
    assert "access-control-allow-origin" not in answer.headers


def test_a_body_of_ten_megabytes_is_refused(client):
    message = "the request is too large; expected at most 262,144 bytes"
    assert detail(client.post("/api/parse", json={"sentences": ["a" * 10**7]}), 413) == message

    def parts():
        for _ in range(100):
            yield b" " * 10**5

    assert detail(client.post("/api/parse", content=parts()), 413) == message  # its size is not announced


def test_fifty_requests_at_once_are_answered_each_with_its_own_sentence(address):
    words = ["the", "cat", "dog", "sees", "a", "old"]
    sentences = [" ".join(words[(start + step) % 6] for step in range(3 + start % 5)) for start in range(MANY)]

    async def ask() -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=address, timeout=60) as client:
            requests = [
                client.post("/api/analyse", json={"model": "prpn", "sentences": [sentence], "pictures": False})
                for sentence in sentences
            ]
            return await asyncio.gather(*requests)

    for sentence, answer in zip(sentences, asyncio.run(ask()), strict=True):
        assert answer.status_code == 200
        (found,) = answer.json()["sentences"]
        assert found["parse"]["words"] == sentence.split()
        assert [row["word"] for row in found["surprisal"]["words"]] == [*sentence.split(), ""]
        assert {found["parse"]["number"], *(row["sentence"] for row in found["surprisal"]["words"])} == {1}


def test_requests_above_the_limit_of_waiting_ones_are_refused_and_slow_ones_end(models, monkeypatch):
    started, release = threading.Event(), threading.Event()
    blocked = ServedModel.parse

    def slow(self, sentences, **options):
        started.set()
        release.wait(30)
        return blocked(self, sentences, **options)

    monkeypatch.setattr(ServedModel, "parse", slow)
    limits = Limits(max_waiting=1, max_seconds=1)
    with running(create_app({"lstm": models["lstm"], "prpn": models["prpn"]}, limits)) as address:

        async def ask() -> list[httpx.Response]:
            async with httpx.AsyncClient(base_url=address, timeout=30) as client:

                def parse() -> asyncio.Task[httpx.Response]:
                    return asyncio.create_task(client.post("/api/parse", json={"model": "prpn", "sentences": ["a"]}))

                requests = [parse()]
                await asyncio.to_thread(started.wait, 30)
                requests += [parse(), parse()]  # one waits, one is too many
                other = await client.get("/api/models")
                assert other.status_code == 200  # the server itself is not blocked
                found = await asyncio.gather(*requests)
                release.set()
                return found

        refused, *slow_ones = sorted(asyncio.run(ask()), key=lambda answer: answer.status_code)
    assert all("no answer within 1 seconds" in detail(answer, 504) for answer in slow_ones)
    assert "prpn: 1 requests are waiting" in detail(refused, 503)
    assert refused.headers["retry-after"]


@pytest.mark.parametrize(("path", "body"), [("sentences", {"text": "It rained."}), ("tree", {"brackets": "(S (A a))"})])
def test_requests_without_a_model_end_in_time_and_their_failures_are_reported(models, monkeypatch, path, body):
    release = threading.Event()

    def fail(texts, **_):
        if texts != [""]:  # that of the start
            release.wait(60)
            raise RuntimeError("secret")
        return [[]]

    monkeypatch.setattr(app, "_split", fail)
    monkeypatch.setattr(app, "_drawn", fail)
    with running(create_app({"lstm": models["lstm"]}, Limits(max_seconds=1))) as address:
        assert "no answer within 1 seconds" in detail(httpx.post(f"{address}/api/{path}", json=body, timeout=30), 504)
        release.set()
        assert "the server failed" in detail(httpx.post(f"{address}/api/{path}", json=body, timeout=30), 500)


def test_a_failure_is_reported_and_the_server_goes_on(models, monkeypatch, caplog):
    def fail(self, sentences, **options):
        raise RuntimeError("secret")

    monkeypatch.setattr(ServedModel, "surprisal", fail)
    with running(create_app({"lstm": models["lstm"]})) as address, httpx.Client(base_url=address) as client:
        answer = client.post("/api/surprisal", json={"sentences": ["a"]})
        assert "the server failed" in detail(answer, 500)
        assert "secret" not in answer.text
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert client.post("/api/analyse", json={"sentences": ["the cat"]}).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd", "/../../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/page.js/../../app.py",
        "/static/page.js", "//etc/passwd", "/api/../app.py", "/index.html", "/page.js%00",
        "/..%2f..%2fetc%2fpasswd", "/app.py", "/api/models/../../x", "/\\..\\..\\etc\\passwd",
    ],
)  # fmt: skip
def test_no_path_reaches_a_file(address, path):
    """The path is sent as it is here: HTTP clients of Python would shorten it."""
    host = urlsplit(address)
    connection = http.client.HTTPConnection(host.hostname, host.port)
    connection.putrequest("GET", path, skip_host=True)
    connection.putheader("Host", host.netloc)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read().decode()
    assert answer.status in (400, 404)
    assert "root:" not in body
    assert "import" not in body


@pytest.mark.parametrize("route", STATIC)
def test_pages_are_fixed_and_refer_to_no_other_host(client, route):
    answer = client.get(route)
    assert answer.status_code == 200
    hosts = set(re.findall(r"https?://([^/\"'` )]+)", answer.text))
    assert hosts <= {"www.w3.org"}  # the name space of SVG
    if answer.headers["content-type"].startswith("text/html"):
        assert not re.search(r"<script(?![^>]*\bsrc=)|\son\w+=\"|<style|\sstyle=\"", answer.text)


@pytest.mark.parametrize("route", ["/", "/api/", "/api/models", "/missing"])
def test_every_answer_has_security_headers(client, route):
    headers = client.get(route).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert "server" not in headers


HOSTS = ["localhost", "LOCALHOST:80", "127.0.0.1:1", "[::1]:8000", "192.168.1.5"]
OTHER_HOSTS = ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "[", "", "a b",
               "evil.example@localhost", "localhost/x", "localhost?x", "localhost#x", "lo\tcalhost", "localhost:80:80",
               "localhost:x", "[localhost]", "[::1", "::1"]  # fmt: skip


@pytest.mark.parametrize(("host", "status"), [(host, 200) for host in HOSTS] + [(host, 400) for host in OTHER_HOSTS])
def test_localhost_and_addresses_are_allowed_and_other_host_names_refused(client, host, status):
    answer = client.get("/api/models", headers={"Host": host})
    assert answer.status_code == status
    if host and status == 400:
        assert "is not one of this server's names" in answer.json()["detail"]


def test_a_host_name_can_be_allowed(models):
    with running(create_app({"lstm": models["lstm"]}, hosts=["Lab.example"])) as address:
        assert httpx.get(address, headers={"Host": "lab.example:80"}).status_code == 200


def test_script_in_a_sentence_stays_text(client):
    sentence = '<script>alert(1)</script> <img src=x onerror="alert(1)"> & the'
    (found,) = client.post("/api/analyse", json={"model": "prpn", "sentences": [sentence]}).json()["sentences"]
    assert found["sentence"] == sentence
    assert "<script" not in found["svg"]
    assert "<img" not in found["svg"]
    assert SENTENCE not in found["svg"]


@pytest.mark.parametrize("depth", [10, 200, 400, 600, 800, 900, 950])
def test_nested_values_are_refused(client, depth):
    body = b'{"sentences": [' + b"[" * depth + b"]" * depth + b"]}"
    answer = client.post("/api/parse", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert "an array" in answer.text or "nested too deeply" in answer.text


def test_messages_about_a_large_request_are_short(client):
    fields = {f"{'x' * 100}{number}": 1 for number in range(1000)}
    message = detail(client.post("/api/parse", json=fields), 422)
    assert message.endswith("and 996 more errors")
    assert len(message) < 1000


@pytest.mark.parametrize("text", ["", " \n\t", "\x85\u2028", ".", "\ufeff"])
def test_text_without_sentences_has_none(client, text):
    assert client.post("/api/sentences", json={"text": text}).json()["sentences"] == []


def sent(address: str, path: str, body: dict[str, object], buffer: int | None = None) -> socket.socket:
    """A connection on which a request was sent, whose answer is not read."""
    host, content = urlsplit(address), json.dumps(body).encode()
    connection = socket.socket()
    if buffer is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    connection.settimeout(60)
    connection.connect((host.hostname, host.port))
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
    connection.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
    return connection


@pytest.mark.long
def test_a_client_that_does_not_read_its_answer_is_disconnected_and_a_slow_one_is_not(models, monkeypatch):
    monkeypatch.setattr(server, "READ_SECONDS", 1.0)
    body = {"sentences": ["the old cat " * 30] * 50}
    with running(create_app({"simple-pcfg": models["simple-pcfg"]})) as address:
        unread, slow = (sent(address, "/api/analyse", body, buffer) for buffer in (4096, 500_000))
        received = slow.recv(1)
        for part in iter(partial(slow.recv, 500_000), b""):
            received += part
            time.sleep(0.2)  # longer than READ_SECONDS together
        assert received.endswith(b"}")
        assert len(received) > 4_000_000
        unread.recv(1)  # its answer may have been computed second
        time.sleep(3 * server.READ_SECONDS)
        assert len(b"".join(iter(partial(unread.recv, 500_000), b""))) < len(received) - 1  # what the system had sent


def test_requests_of_clients_that_have_gone_do_not_wait_or_hold_the_model(models, monkeypatch):
    started, computed = threading.Event(), []

    def parse(self, sentences, **options):
        computed.append(sentences)
        started.set()
        while sentences == ["gone"]:
            check_wanted()
            time.sleep(0.01)
        return original(self, sentences, **options)

    original = ServedModel.parse
    monkeypatch.setattr(ServedModel, "parse", parse)
    with running(create_app({"prpn": models["prpn"]}, Limits(max_waiting=5, max_seconds=50))) as address:
        gone = [sent(address, "/api/parse", {"sentences": ["gone"]}) for _ in range(4)]
        assert started.wait(30)
        for connection in gone:
            connection.close()
        start = time.monotonic()
        answers = [httpx.post(f"{address}/api/parse", json={"sentences": [SENTENCE]}, timeout=60) for _ in range(5)]
        assert [answer.status_code for answer in answers] == [200] * 5
        assert time.monotonic() - start < 20


@pytest.mark.parametrize(
    "steps", [pytest.param(steps, marks=pytest.mark.long if steps % 5 else ()) for steps in range(30)]
)
def test_a_request_ends_when_its_client_goes_after_any_number_of_steps(models, monkeypatch, steps):
    def parse(self, sentences, **options):
        while True:
            check_wanted()
            time.sleep(0.01)

    async def answer() -> None:
        site.start()
        await asyncio.wrap_future(site.loading)
        body, has_gone = json.dumps({"sentences": [SENTENCE]}).encode(), asyncio.Event()
        messages = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive():
            message = next(messages, None)
            if message is None:
                await has_gone.wait()
                return {"type": "http.disconnect"}
            return message

        async def send(message):
            sent.append(message)

        answering = asyncio.ensure_future(site(PARSE_SCOPE, receive, send))
        for _ in range(steps):
            await asyncio.sleep(0)
        has_gone.set()
        await asyncio.wait({answering}, timeout=20)
        for thread in site.threads:
            thread.stop()
        assert answering.done()
        assert sent == []

    sent: list[object] = []
    monkeypatch.setattr(ServedModel, "parse", parse)
    site = create_app({"prpn": models["prpn"]}, Limits(max_seconds=50))
    asyncio.run(answer())


def test_sampling_does_not_hold_up_other_requests(models, monkeypatch):
    release = threading.Event()
    generate = ServedModel.generate
    monkeypatch.setattr(
        ServedModel, "generate", lambda *given, **options: release.wait(60) and generate(*given, **options)
    )
    with running(create_app({"lstm": models["lstm"]})) as address:
        connection = sent(address, "/api/generate", {"count": 1})
        answer = httpx.post(f"{address}/api/surprisal", json={"sentences": [SENTENCE]}, timeout=60)
        assert answer.status_code == 200
        release.set()
        assert connection.recv(100).startswith(b"HTTP/1.1 200")


def test_names_of_models_that_json_cannot_hold_are_refused(models):
    with pytest.raises(InputError, match="the name of a model: found"):
        create_app({"lat\udce9": models["lstm"]})


def test_slow_clients_are_disconnected(models, monkeypatch):
    """One sends no request, one half of its headers, one half of its body."""
    monkeypatch.setattr(server, "HEADER_SECONDS", 0.5)
    with running(create_app({"lstm": models["lstm"]}, Limits(max_seconds=1))) as address:
        host = urlsplit(address)
        half = b"POST /api/parse HTTP/1.1\r\nHost: localhost\r\n"
        sent = [b"", half, half + b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"]
        connections = [socket.create_connection((host.hostname, host.port), timeout=30) for _ in sent]
        for connection, part in zip(connections, sent, strict=True):
            connection.sendall(part)
        answers = [b"".join(iter(partial(connection.recv, 10_000), b"")) for connection in connections]
        assert answers[:2] == [b"", b""]
        assert answers[2].startswith(b"HTTP/1.1 408")
        assert b"the request was not received within 1 seconds" in answers[2]
        assert httpx.get(f"{address}/api/models").status_code == 200


@pytest.mark.parametrize(
    ("request_line", "headers", "status"),
    [
        ("POST /api/parse HTTP/1.1", "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", b"400"),
        ("GET /api/models HTTP/9.9", "", b"505"),
        ("GET /api/models HTTP/1.0", "", b"200"),
    ],
)
def test_requests_whose_end_or_version_is_doubtful_are_refused_and_end_the_connection(
    address, request_line, headers, status
):
    host = urlsplit(address)
    with socket.create_connection((host.hostname, host.port), timeout=30) as connection:
        body = "2\r\n{}\r\n0\r\n\r\n" if headers else ""
        connection.sendall(f"{request_line}\r\nHost: localhost\r\n{headers}\r\n{body}".encode())
        answer = b"".join(iter(partial(connection.recv, 10_000), b""))
    assert answer.split()[1] == status


HALF = b"POST /api/parse HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"


@pytest.mark.parametrize(
    ("wait", "part"),
    [
        (0.0, HALF), pytest.param(0.0, b"", marks=pytest.mark.long), pytest.param(0.3, HALF, marks=pytest.mark.long),
        pytest.param(0.3, b"", marks=pytest.mark.long),
    ],
    ids=["at once, in a request", "at once", "later, in a request", "later"],
)  # fmt: skip
def test_a_second_ctrl_c_ends_the_server_without_a_traceback(trained, part, wait):
    command = [sys.executable, "-m", "syntaxlm", "serve", str(trained.lstm), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            port = int(process.stdout.readline().rpartition(":")[2].split()[0])
            assert process.stdout.readline() == "The models are ready.\n"
            with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
                connection.sendall(part)
                time.sleep(0.2)
                process.send_signal(signal.SIGINT)
                time.sleep(wait)
                process.send_signal(signal.SIGINT)
                printed = process.communicate(timeout=60)[0]
        finally:
            process.kill()
    assert process.returncode == 0
    assert "Traceback" not in printed
