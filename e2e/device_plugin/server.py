"""The plugin's gRPC side: a socket in the kubelet's folder, and a registration for each life of the kubelet.

A kubelet that starts removes every socket in the folder; a plugin that finds its own gone serves on a new one and
registers again, as real plugins do.
"""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import grpc

from e2e.device_plugin import messages
from e2e.device_plugin.pool import Pool

LOOK_SECONDS: Final = 0.5
REGISTER_SECONDS: Final = 5


class Plugin:
    """Serves one pool. `health` is a file with the ids of unhealthy units, one a line; it may change at any time."""

    def __init__(self, pool: Pool, folder: Path, health: Path) -> None:
        self._pool, self._folder, self._health = pool, folder, health
        self._socket = folder / f"{pool.resource.replace('/', '-')}.sock"
        self._stopped = threading.Event()

    def run(self) -> None:
        """Serve for ever; a kubelet that is away is waited for."""
        while True:
            self._stopped = threading.Event()
            server = self._serve()
            try:
                self._register()
                self._watch_socket()
            except grpc.RpcError as error:
                print(f"kubelet: {error.details()}", flush=True)
            finally:
                self._stopped.set()
                server.stop(grace=None).wait()
            time.sleep(LOOK_SECONDS)

    def _serve(self) -> grpc.Server:
        self._socket.unlink(missing_ok=True)
        server = grpc.server(ThreadPoolExecutor(max_workers=8))
        server.add_generic_rpc_handlers((self._handlers(),))
        server.add_insecure_port(f"unix:{self._socket}")
        server.start()
        return server

    def _register(self) -> None:
        request = messages.encode_registration(self._socket.name, self._pool.resource)
        with grpc.insecure_channel(f"unix:{self._folder / 'kubelet.sock'}") as kubelet:
            kubelet.unary_unary(f"/{messages.API}.Registration/Register")(request, timeout=REGISTER_SECONDS)
        print(f"registered {self._pool.resource} units={self._pool.units}", flush=True)

    def _watch_socket(self) -> None:
        while self._socket.exists():
            time.sleep(LOOK_SECONDS)
        print("the kubelet has removed the socket", flush=True)

    def _handlers(self) -> grpc.GenericRpcHandler:
        unary, stream = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
        handlers = {
            "GetDevicePluginOptions": unary(lambda _request, _context: b""),
            "ListAndWatch": stream(self._list_and_watch),
            "Allocate": unary(self._allocate),
        }
        return grpc.method_handlers_generic_handler(f"{messages.API}.DevicePlugin", handlers)

    def _list_and_watch(self, _request: bytes, context: Any) -> Iterator[bytes]:
        """An answer whenever health changes. A stream that ends makes the kubelet drop the resource."""
        told = None
        while context.is_active() and not self._stopped.is_set():
            now = messages.encode_devices(self._pool.devices(self._unhealthy()))
            if now != told:
                yield now
                told = now
            self._stopped.wait(LOOK_SECONDS)

    def _allocate(self, request: bytes, _context: Any) -> bytes:
        containers = messages.decode_allocation(request)
        print(f"allocated {containers}", flush=True)
        return messages.encode_grants(map(self._pool.grant, containers))

    def _unhealthy(self) -> frozenset[str]:
        return frozenset(self._health.read_text().split()) if self._health.exists() else frozenset()
