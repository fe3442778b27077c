"""What all requests share, and where a request goes: to engines, to a page of our own, or nowhere."""

from functools import partial
from typing import Final

from pdserving.api.labels import PREFILL
from pdserving.proxy.access_log import AccessLog
from pdserving.proxy.apis import APIS, PASS_THROUGH
from pdserving.proxy.config import Config
from pdserving.proxy.deadlines import Deadline, Wheel
from pdserving.proxy.epochs import EpochReader
from pdserving.proxy.errors import Failure
from pdserving.proxy.http.edge import ClientEdge
from pdserving.proxy.http.reply import build_failure
from pdserving.proxy.http.request import Request
from pdserving.proxy.http.upstream import CONNECT, RESET
from pdserving.proxy.keys import ApiKeys
from pdserving.proxy.metrics import Metrics
from pdserving.proxy.pages import build_pages, register_gauges
from pdserving.proxy.pairs import Pairs
from pdserving.proxy.pool import Engine, Pool
from pdserving.proxy.rates import Rates
from pdserving.proxy.relay import Relay
from pdserving.proxy.session import Session
from pdserving.proxy.tls import Certificate
from pdserving.proxy.transfers import TransferWatch
from pdserving.proxy.verification import Verification

ASIDE_SECONDS: Final = 2.0


class Gateway:
    def __init__(self, config: Config, wheel: Wheel, pool: Pool) -> None:
        self.config = config
        self.wheel = wheel
        self.pool = pool
        self.metrics = Metrics()
        self.pairs = Pairs()
        self.access_log = AccessLog(wheel) if config.access_log else None
        self.keys = ApiKeys(config.api_key_file, wheel) if config.api_key_file else None
        self.certificate: Certificate | None = None
        if config.tls_cert_file and config.tls_key_file:
            self.certificate = Certificate(config.tls_cert_file, config.tls_key_file, wheel)
        self.epochs = EpochReader(pool, config)
        self.transfers = TransferWatch(pool)
        self.rates = Rates()
        self.verification = Verification(self, config.verify_interval) if config.verify_interval else None
        self.edges: set[ClientEdge] = set()
        self.draining = False
        self.in_flight = 0
        self.local_prefills = 0
        self._pages = build_pages(self)
        register_gauges(self)

    def serve(self, edge: ClientEdge, request: Request) -> None:
        api = APIS.get(request.path)
        if api is not None and request.method == b"POST":
            if self.in_flight >= self.config.max_in_flight:
                self._overloaded(edge, request, api.name)
            else:
                Session(self, edge, request, api).start()
            return
        route = PASS_THROUGH.get(request.path)
        if route is not None and request.method == route.method:
            Relay(self, edge, request, route.name).start()
            return
        page = self._pages.get(request.path)
        if page is not None and request.method in {b"GET", b"HEAD"}:
            edge.reply(page(), request)
            return
        self._refuse(edge, request)

    def _overloaded(self, edge: ClientEdge, request: Request, api: str) -> None:
        text = f"This proxy already serves {self.in_flight} requests, its limit; try again in a moment."
        self.metrics.requests.add(api, "none", "overloaded")
        edge.reply(build_failure(Failure(429, "overloaded", text, 1), request.path), request)

    def _refuse(self, edge: ClientEdge, request: Request) -> None:
        path = request.path.decode("latin-1")
        allowed = self._method_of(request.path)
        if allowed is not None:
            text = f"{path} does not answer {request.method.decode('latin-1')}; use {allowed.decode()}."
            failure, headers = Failure(405, "method_not_allowed", text), b"allow: %b\r\n" % allowed
        else:
            failure, headers = Failure(404, "unknown_route", f"There is no {path} here."), b""
        self.metrics.requests.add("other", "none", str(failure.status))
        edge.reply(build_failure(failure, request.path, headers), request)

    def _method_of(self, path: bytes) -> bytes | None:
        if path in APIS:
            return b"POST"
        if path in PASS_THROUGH:
            return PASS_THROUGH[path].method
        return b"GET" if path in self._pages else None

    def rejected(self, failure: Failure) -> None:
        self.metrics.requests.add("other", "none", failure.code)

    @property
    def obstacles(self) -> list[str]:
        """Why every client is refused, whatever the engines do."""
        found = []
        if self.keys is not None and self.keys.problem:
            found.append(f"{self.keys.problem}; everybody is refused")
        if self.certificate is not None and not self.certificate.loaded:
            found.append(f"{self.certificate.problem}; nobody can connect")
        return found

    @property
    def ready(self) -> bool:
        return self.pool.ready and not self.draining and not self.obstacles

    def leg_failed(self, engine: Engine, cause: str) -> None:
        """A leg to this engine broke: count it, look again at what we know of it, and prefer others for a moment.

        It may be dead and its readiness probe slower than its clients; or only this request was bad. So it stays in
        use where there is no other.
        """
        self.metrics.leg_failures.add(engine.seen.role, engine.seen.pod, cause)
        if engine.seen.role == PREFILL:
            self.epochs.recheck(engine)
        if engine.seen.role == PREFILL or cause in {CONNECT, RESET}:
            self.pool.sideline(engine, aside=True)
            back = Deadline(partial(self.pool.sideline, engine, aside=False))
            self.wheel.arm(back, self.wheel.clock() + ASIDE_SECONDS)

    def pair_failed(self, prefill: Engine, decode: Engine, cause: str) -> None:
        """D failed a request that should have fetched from P: P may have been restarted, or the two can't talk."""
        self.epochs.recheck(prefill)
        if cause != CONNECT:
            self.pairs.failed(prefill, decode, cause, self.wheel.clock())
