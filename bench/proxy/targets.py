"""The proxies under test, each as its users start it, and what its engines must see of it."""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bench.proxy.peers import install_nginx, install_routers

Legs = Literal["transfer", "room", "plain"]
OURS = "pdserving"
ROUTER = "vllm-router"
FLOOR = "nginx"
DIRECT = "direct"


@dataclass(frozen=True, slots=True)
class Ports:
    """Loopback ports of one run."""

    proxy: int
    admin: int
    prefill: int
    decode: int
    bootstrap: int

    @property
    def prefill_url(self) -> str:
        return f"http://127.0.0.1:{self.prefill}"

    @property
    def decode_url(self) -> str:
        return f"http://127.0.0.1:{self.decode}"


@dataclass(frozen=True, slots=True)
class Target:
    """A proxy: ``command`` gets the ports and an empty folder; ``legs`` is what the engines must see of it.

    ``transfer``: P's and D's leg of one Mooncake transfer. ``room``: the SGLang form, to both. ``plain``: D only.
    """

    name: str
    legs: Legs
    command: Callable[[Ports, Path], Sequence[str | Path]]
    env: dict[str, str] = field(default_factory=dict)


def build_targets(names: Sequence[str], python: str) -> list[Target]:
    return [BUILDERS[name](python) for name in names]


def _pdserving(python: str) -> Target:
    source = Path(__file__).parents[2] / "operator"

    def command(ports: Ports, _: Path) -> list[str]:
        listen = ["--listen", f"127.0.0.1:{ports.proxy}", "--admin", f"127.0.0.1:{ports.admin}"]
        engines = ["--prefill", ports.prefill_url, "--bootstrap-port", str(ports.bootstrap)]
        return [python, "-m", "pdserving", "proxy", *listen, *engines, "--decode", ports.decode_url, "--access-log"]

    return Target(OURS, "transfer", command, {"PYTHONPATH": str(source)})


def _vllm_router(_: str) -> Target:
    program = install_routers() / "vllm-router"

    def command(ports: Ports, _: Path) -> list[str | Path]:
        mode = ["--vllm-pd-disaggregation", "--kv-connector", "mooncake", "--policy", "round_robin"]
        listen = ["--host", "127.0.0.1", "--port", str(ports.proxy), "--prometheus-port", str(ports.admin)]
        engines = ["--prefill", ports.prefill_url, str(ports.bootstrap), "--decode", ports.decode_url]
        return [program, *mode, *listen, *engines]

    return Target(ROUTER, "transfer", command)


def _sglang_router(_: str) -> Target:
    program = install_routers() / "sglang-router"

    def command(ports: Ports, _: Path) -> list[str | Path]:
        mode = ["launch", "--pd-disaggregation", "--policy", "round_robin"]
        listen = ["--host", "127.0.0.1", "--port", str(ports.proxy), "--prometheus-port", str(ports.admin)]
        engines = ["--prefill", ports.prefill_url, str(ports.bootstrap), "--decode", ports.decode_url]
        return [program, *mode, *listen, *engines]

    return Target("sglang-router", "room", command)


NGINX_CONF = """
daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 16384; }}
http {{
  access_log off; client_max_body_size 0; client_body_buffer_size 2m; keepalive_requests 10000000;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  upstream decode {{ server 127.0.0.1:{decode}; keepalive 4096; keepalive_requests 10000000; }}
  server {{
    listen 127.0.0.1:{proxy} backlog=4096;
    location / {{
      proxy_pass http://decode; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
    }}
  }}
}}
"""


def _nginx(_: str) -> Target:
    program = install_nginx()

    def command(ports: Ports, folder: Path) -> list[str | Path]:
        conf = folder / "nginx.conf"
        conf.write_text(NGINX_CONF.format(folder=folder, decode=ports.decode, proxy=ports.proxy))
        return [program, "-c", conf, "-e", folder / "error.log"]

    return Target(FLOOR, "plain", command)


def _direct(_: str) -> Target:
    """No proxy: the load goes to D. The base of the added latency."""
    return Target(DIRECT, "plain", lambda _ports, _folder: ())


BUILDERS: dict[str, Callable[[str], Target]] = {
    OURS: _pdserving,
    ROUTER: _vllm_router,
    "sglang-router": _sglang_router,
    FLOOR: _nginx,
    DIRECT: _direct,
}


def environment(target: Target) -> dict[str, str]:
    """The driver's environment without its own Python path and HTTP proxies, plus what the target's image sets."""
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHONPATH" and not k.lower().endswith("_proxy")}
    return inherited | target.env


def default_python() -> str:
    return sys.executable
