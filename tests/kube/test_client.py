"""What goes over the wire, against an HTTP server that notes it, and what answers mean."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from pdserving.core.actions import ObjectRef
from pdserving.kube import client as client_module
from pdserving.kube.client import KubeClient
from pdserving.kube.errors import (
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidError,
    KubeError,
    NotFoundError,
    ThrottledError,
    UnavailableError,
    UnreachableError,
    parse_error,
)
from pdserving.kube.kinds import GROUPS, PODS, find_kind

SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "llm", "namespace": "serving"}}


class Api:
    """Answers what a test put into `answers`, in turn, and notes the requests."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, Any]] = []
        self.requests: list[dict[str, Any]] = []
        self.slow = False

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.requests.append(
            {
                "method": request.method,
                "path": request.path,
                "query": dict(request.query),
                "type": request.content_type,
                "body": json.loads(body) if body else None,
                "authorization": request.headers.get("Authorization"),
            }
        )
        if self.slow:
            await asyncio.sleep(3600)
        status, answer = self.answers.pop(0)
        if isinstance(answer, str):
            return web.Response(status=status, text=answer)
        return web.json_response(answer, status=status)


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    made = Api()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", made.answer)
    made.server = TestServer(app)
    await made.server.start_server()
    yield made
    await made.server.close()


@pytest.fixture
async def client(
    api: Api, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, counted: list[Any]
) -> AsyncIterator[KubeClient]:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": str(api.server.make_url("")).rstrip("/")}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(path))
    async with KubeClient.connect(lambda *told: counted.append(told[:3])) as connected:
        yield connected


@pytest.fixture
def counted() -> list[Any]:
    return []


async def test_apply_is_a_forced_apply_patch_of_our_manager(api: Api, client: KubeClient) -> None:
    api.answers = [(200, SERVICE)]
    assert await client.apply(SERVICE) == SERVICE
    assert api.requests == [
        {
            "method": "PATCH",
            "path": "/api/v1/namespaces/serving/services/llm",
            "query": {"fieldManager": "pdserving-operator", "force": "true"},
            "type": "application/apply-patch+yaml",
            "body": SERVICE,
            "authorization": "Bearer secret",
        }
    ]


async def test_apply_of_new_objects_names_a_version_that_none_has(api: Api, client: KubeClient) -> None:
    api.answers = [(201, SERVICE)]
    await client.apply(SERVICE, only_new=True, dry_run=True)
    assert api.requests[0]["body"]["metadata"]["resourceVersion"] == "1"
    assert api.requests[0]["query"]["dryRun"] == "All"
    assert "resourceVersion" not in SERVICE["metadata"], "the caller's object is his"


async def test_unknown_fields_pass_through(api: Api, client: KubeClient) -> None:
    manifest = {**SERVICE, "spec": {"fieldOfTomorrow": {"a": [1, None]}}}
    api.answers = [(200, manifest)]
    assert (await client.apply(manifest))["spec"] == manifest["spec"]
    assert api.requests[0]["body"] == manifest


async def test_list_reads_all_pages_and_names_what_each_item_is(api: Api, client: KubeClient) -> None:
    api.answers = [
        (200, {"metadata": {"resourceVersion": "7", "continue": "more"}, "items": [{"metadata": {"name": "a"}}]}),
        (200, {"metadata": {"resourceVersion": "7"}, "items": [{"metadata": {"name": "b"}}]}),
    ]
    listing = await client.list(PODS, None, labels="a=b")
    assert (listing.resource_version, [item["metadata"]["name"] for item in listing.items]) == ("7", ["a", "b"])
    assert {(item["apiVersion"], item["kind"]) for item in listing.items} == {("v1", "Pod")}
    assert [request["query"].get("continue") for request in api.requests] == [None, "more"]
    assert {request["path"] for request in api.requests} == {"/api/v1/pods"}


async def test_status_patch_binds_the_uid(api: Api, client: KubeClient) -> None:
    api.answers = [(200, {})]
    await client.patch_status("serving", "llm", "uid-1", {"lane": None})
    assert api.requests[0]["path"] == GROUPS.path("serving", "llm", "status")
    assert api.requests[0]["type"] == "application/merge-patch+json"
    assert api.requests[0]["body"] == {"metadata": {"uid": "uid-1"}, "status": {"lane": None}}


async def test_delete_binds_uid_and_version(api: Api, client: KubeClient) -> None:
    api.answers = [(200, {})]
    await client.delete(ObjectRef("apps/v1", "StatefulSet", "serving", "llm-prefill", "uid-1", "42"))
    assert api.requests[0]["path"] == find_kind("apps/v1", "StatefulSet").path("serving", "llm-prefill")
    assert api.requests[0]["body"]["preconditions"] == {"uid": "uid-1", "resourceVersion": "42"}


async def test_log_is_text_and_a_missing_one_is_empty(api: Api, client: KubeClient) -> None:
    api.answers = [(200, "line 1\nline 2"), (400, {"message": "previous terminated container not found"})]
    assert await client.read_log("serving", "p-0", "engine", previous=True, lines=10) == "line 1\nline 2"
    assert api.requests[0]["query"]["tailLines"] == "10"
    assert await client.read_log("serving", "p-0", "engine", previous=True, lines=10) == ""


async def test_every_request_is_counted_with_its_outcome(api: Api, client: KubeClient, counted: list[Any]) -> None:
    api.answers = [(200, SERVICE), (403, {"message": "no"})]
    await client.apply(SERVICE)
    with pytest.raises(ForbiddenError):
        await client.list(PODS, "serving")
    assert counted == [("apply", "Service", 200), ("list", "Pod", 403)]


async def test_silence_ends_at_the_deadline(
    api: Api, client: KubeClient, counted: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "DEADLINE", 0.05)
    api.slow = True
    with pytest.raises(UnreachableError, match="no answer"):
        await client.apply(SERVICE)
    assert counted == [("apply", "Service", 0)]


async def test_refused_connection_is_unreachable(api: Api, client: KubeClient) -> None:
    await api.server.close()
    with pytest.raises(UnreachableError):
        await client.apply(SERVICE)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidError),
        (401, ForbiddenError),
        (403, ForbiddenError),
        (404, NotFoundError),
        (409, ConflictError),
        (410, GoneError),
        (422, InvalidError),
        (429, ThrottledError),
        (500, UnavailableError),
        (503, UnavailableError),
    ],
)
def test_status_decides_the_error_and_the_server_its_words(status: int, kind: type[KubeError]) -> None:
    body = json.dumps({"kind": "Status", "reason": "SomeReason", "message": "what failed"}).encode()
    error = parse_error(status, body)
    assert type(error) is kind
    assert (error.reason, error.message, error.status) == ("SomeReason", "what failed", status)


@pytest.mark.parametrize(
    ("body", "message"), [(b"<html>bad gateway</html>", "<html>bad gateway</html>"), (b"", "HTTP 502"), (b"[]", "[]")]
)
def test_answer_that_is_no_status_is_shown_as_it_is(body: bytes, message: str) -> None:
    error = parse_error(502, body)
    assert (error.reason, error.message) == ("HTTP502", message)


def test_field_that_the_schema_lacks_is_invalid_although_the_status_is_500() -> None:
    said = (
        "failed to create typed patch object (ns/a; apps/v1, Kind=StatefulSet): .spec.foo: field not declared in schema"
    )
    error = parse_error(500, json.dumps({"kind": "Status", "message": said, "code": 500}).encode())
    assert isinstance(error, InvalidError)
    assert (error.reason, error.message) == ("Invalid", ".spec.foo: field not declared in schema")
