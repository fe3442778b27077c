"""A group that asks for TLS and API keys: the kubelet mounts the Secrets, clients without a key get nothing."""

import base64
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from e2e.lib.asking import SECONDS, completion, greedy
from e2e.lib.groups import Group, is_ready
from e2e.lib.kubectl import Kubectl
from e2e.lib.plain import Plain
from e2e.lib.target import Target
from e2e.lib.waiting import eventually

KEY = "a-key-of-the-suite"
ROLLOUT = 180.0
QUESTION = completion(64, seed=5)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("certificate")
    certificate, key = folder / "tls.crt", folder / "tls.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=tiny", "-keyout", key, "-out", certificate],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return certificate, key


@pytest.fixture(scope="module")
def guarded(group: Group, kubectl: Kubectl, certificate: tuple[Path, Path]) -> Iterator[Group]:
    """The shared group while it asks for both; only its proxies are replaced for it."""
    files = {path.name: path.read_bytes() for path in certificate}
    kubectl.apply(
        secret("pair", "kubernetes.io/tls", files), secret("keys", "Opaque", {"api-keys": f"{KEY}\n".encode()})
    )
    group.patch({"proxy": {"apiKey": {"secretName": "keys"}, "tls": {"secretName": "pair"}}})
    wait_proxies(group, "--api-key-file", present=True)
    yield group
    group.patch({"proxy": {"apiKey": None, "tls": None}})
    wait_proxies(group, "--api-key-file", present=False)
    group.wait_ready()


@pytest.fixture
def client(target: Target, guarded: Group, certificate: tuple[Path, Path]) -> Iterator[httpx.Client]:
    """It trusts the certificate, whose name is not the address by which a test reaches the Service."""
    trust = ssl.create_default_context(cafile=str(certificate[0]))
    trust.check_hostname = False
    with target.reach(guarded.kubectl, guarded.name, 443) as url:
        address = url.replace("http://", "https://")
        with httpx.Client(base_url=address, verify=trust, timeout=SECONDS, trust_env=False) as opened:
            yield opened


def secret(name: str, kind: str, files: dict[str, bytes]) -> dict[str, object]:
    data = {file: base64.b64encode(content).decode() for file, content in files.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": kind, "data": data}


def wait_proxies(group: Group, option: str, *, present: bool) -> None:
    def rolled_out() -> bool:
        pods = group.pods("proxy")
        args = [pod["spec"]["containers"][0]["args"] for pod in pods]
        return all(map(is_ready, pods)) and all(any(option in arg for arg in each) == present for each in args)

    eventually("all proxies are the new ones", rolled_out, within=ROLLOUT, every=1.0)


def test_a_client_with_a_key_gets_right_tokens(client: httpx.Client, plain: Plain) -> None:
    answer = client.post(QUESTION.path, json=greedy(QUESTION), headers={"authorization": f"Bearer {KEY}"})
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-pdserving-path"] == "pd"
    assert tuple(answer.json()["choices"][0]["token_ids"]) == plain.tokens(QUESTION)


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer guessed"}], ids=["no-key", "wrong-key"])
def test_a_client_without_a_key_is_refused(client: httpx.Client, headers: dict[str, str]) -> None:
    answer = client.post(QUESTION.path, json=greedy(QUESTION), headers=headers)
    assert answer.status_code == 401
    assert "API key" in answer.json()["error"]["message"]
    assert client.get("/ready").status_code == 200


def test_a_missing_secret_is_named(guarded: Group) -> None:
    """Proxies that serve go on; the message says which Secret the new ones wait for."""
    guarded.patch({"proxy": {"apiKey": {"secretName": "absent"}}})
    try:
        told = guarded.wait_condition("Stalled", "True", ROLLOUT)
        assert told["reason"] == "VolumeNotMounted", told
        assert '"absent" not found' in told["message"]
        assert "spec.proxy.apiKey" in told["message"]
    finally:
        guarded.patch({"proxy": {"apiKey": {"secretName": "keys"}}})
    guarded.wait_condition("Stalled", "False", ROLLOUT)
