"""A stub of the Hugging Face hub on the loopback address: what huggingface_hub asks to read and to write models.

It speaks the hub's HTTP interface: information and trees of repositories, files with their commit and ETag, creation of
repositories and branches, checks of cards, and commits with the files inside or uploaded before (Git LFS).
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from syntaxlm.core.yaml_files import parse_yaml

TOKEN = "hf_stub"


@dataclass
class Repository:
    """Files by branch. private: readable with `TOKEN` only; gated: with nobody's token."""

    private: bool = False
    gated: bool = False
    branches: dict[str, dict[str, bytes]] = field(default_factory=lambda: {"main": {}})

    def commit(self, branch: str) -> str:
        return hashlib.sha1(repr(sorted(self.branches[branch].items())).encode()).hexdigest()

    def branch_of(self, revision: str) -> str | None:
        """The branch with a name or whose last commit has a hash."""
        return next((name for name in self.branches if revision in (name, self.commit(name))), None)


@dataclass
class Hub:
    """repositories: by name.  large: objects uploaded by Git LFS, by hash.  requests: "METHOD path" of every request.

    failing: the status of every answer, if given.
    """

    address: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    large: dict[str, bytes] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    failing: int | None = None


class _Answer(Exception):
    def __init__(self, status: int, content: Any = b"", **headers: str) -> None:
        super().__init__(status)
        self.status, self.headers = status, headers
        self.content = content if isinstance(content, bytes) else json.dumps(content).encode()


def _error(status: int, code: str, message: str) -> _Answer:
    return _Answer(status, {"error": message}, **{"X-Error-Code": code, "X-Error-Message": message})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = unquote(urlsplit(self.path).path)
        self.hub.requests.append(f"{self.command} {path}")
        try:
            if self.hub.failing is not None:
                raise _Answer(self.hub.failing, {"error": "the stub fails"})
            self._answer(path, body)
            raise _Answer(500, {"error": f"the stub has no {self.command} {path}"})
        except _Answer as answer:
            self.send_response(answer.status)
            for name, value in ({"Content-Length": str(len(answer.content))} | answer.headers).items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.content)

    do_GET = do_HEAD = do_POST = do_PUT = _serve

    def log_message(self, *_: Any) -> None:
        pass

    def _answer(self, path: str, body: bytes) -> None:
        if path == "/api/repos/create":
            self._create(json.loads(body))
        if path == "/api/validate-yaml":
            faults = _card_faults(json.loads(body)["content"])
            raise _Answer(400 if faults else 200, {"errors": faults, "warnings": []})
        if found := re.fullmatch(r"/large/(\w+)", path):
            assert hashlib.sha256(body).hexdigest() == found[1]
            self.hub.large[found[1]] = body
            raise _Answer(200)
        if found := re.fullmatch(r"/(\w+/[\w-]+)\.git/info/lfs/objects/batch", path):
            self._repository(found[1], writing=True)
            uploads = [self._upload(one) for one in json.loads(body)["objects"]]
            raise _Answer(200, {"transfer": "basic", "objects": uploads})
        if found := re.fullmatch(r"/api/models/(\w+/[\w-]+)(?:/(revision|tree|branch|preupload|commit)/(.+))?", path):
            self._api(found[1], found[2], found[3] or "main", body)
        if found := re.fullmatch(r"/(\w+/[\w-]+)/resolve/([^/]+)/(.+)", path):
            self._file(found[1], found[2], found[3])

    def _repository(self, name: str, writing: bool = False) -> Repository:
        repository = self.hub.repositories.get(name)
        allowed = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        if repository is not None and repository.gated:
            raise _error(403, "GatedRepo", f"Access to model {name} is restricted")
        if repository is None or (repository.private and not allowed):
            raise _error(404 if allowed else 401, "RepoNotFound", "Repository not found")
        if writing and not allowed:
            raise _error(403, "", "You do not have write access")
        return repository

    def _create(self, wanted: dict[str, Any]) -> None:
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            raise _Answer(401, {"error": "Invalid username or password."})
        name = f"{wanted['organization']}/{wanted['name']}"
        address = {"url": f"{self.hub.address}/{name}", "name": name}
        if name in self.hub.repositories:
            raise _Answer(409, {"error": "You already created this model repo", **address})
        private = wanted.get("private") or wanted.get("visibility") == "private"
        self.hub.repositories[name] = Repository(private=bool(private))
        raise _Answer(200, address)

    def _api(self, name: str, what: str | None, revision: str, body: bytes) -> None:
        repository = self._repository(name, writing=what in ("branch", "preupload", "commit"))
        if what == "branch":
            if revision in repository.branches:
                raise _Answer(409, {"error": "Reference already exists"})
            repository.branches[revision] = dict(repository.branches["main"])
            raise _Answer(200, {})
        branch = repository.branch_of(revision)
        if branch is None:
            raise _error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        files = repository.branches[branch]
        if what == "preupload":
            wanted = [one["path"] for one in json.loads(body)["files"]]
            mode = {True: "lfs", False: "regular"}
            found = [{"path": one, "uploadMode": mode[one.endswith(".safetensors")]} for one in wanted]
            raise _Answer(200, {"files": [one | {"shouldIgnore": False} for one in found]})
        if what == "commit":
            self._commit(files, [json.loads(line) for line in body.splitlines()])
            commit = repository.commit(branch)
            address = f"{self.hub.address}/{name}/commit/{commit}"
            raise _Answer(200, {"success": True, "commitOid": commit, "commitUrl": address})
        if what == "tree":
            raise _Answer(200, [_entry(path, content) | {"type": "file"} for path, content in files.items()])
        siblings = [_entry(path, content) | {"rfilename": path} for path, content in files.items()]
        raise _Answer(200, {"id": name, "modelId": name, "sha": repository.commit(branch), "siblings": siblings})

    def _commit(self, files: dict[str, bytes], lines: list[dict[str, Any]]) -> None:
        header, *changes = lines
        assert header["key"] == "header"
        assert header["value"]["summary"]
        for change in changes:
            value = change["value"]
            if change["key"] == "file":
                assert value["encoding"] == "base64"
                files[value["path"]] = base64.b64decode(value["content"])
            else:
                assert change["key"] == "lfsFile"
                files[value["path"]] = self.hub.large[value["oid"]]

    def _upload(self, wanted: dict[str, Any]) -> dict[str, Any]:
        href = f"{self.hub.address}/large/{wanted['oid']}"
        return wanted | {"actions": {"upload": {"href": href, "header": {}}}}

    def _file(self, name: str, revision: str, path: str) -> None:
        repository = self._repository(name)
        branch = repository.branch_of(revision)
        if branch is None:
            raise _error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        commit = {"X-Repo-Commit": repository.commit(branch)}
        if path not in repository.branches[branch]:
            raise _Answer(404, b"", **commit, **{"X-Error-Code": "EntryNotFound", "X-Error-Message": "Entry not found"})
        content = repository.branches[branch][path]
        raise _Answer(200, content, **commit, ETag=f'"{hashlib.sha1(content).hexdigest()}"')


def _entry(path: str, content: bytes) -> dict[str, Any]:
    blob = hashlib.sha1(content).hexdigest()
    return {"path": path, "size": len(content), "oid": blob, "blobId": blob}


def _card_faults(card: str) -> list[dict[str, str]]:
    """As the hub checks a card: the front matter must be YAML with a known licence."""
    front = parse_yaml(card.split("---")[1], "")
    known = front.get("license", "other") in ("mit", "cc-by-4.0", "other")
    return [] if known else [{"message": '"license" must be one of [...]'}]


@contextmanager
def running_hub() -> Iterator[Hub]:
    hub = Hub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        hub.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield hub
        finally:
            server.shutdown()
            thread.join()
