"""The pages that the proxy answers itself: health, readiness, metrics, and what it knows of the engines."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec

from pdserving.api.labels import PAIR_UNKNOWN, PAIR_VERIFIED
from pdserving.proxy.errors import Failure
from pdserving.proxy.http.edge import ClientEdge
from pdserving.proxy.http.reply import Reply, build_failure
from pdserving.proxy.http.request import Request
from pdserving.proxy.keys import ApiKeys
from pdserving.proxy.metrics import Sample
from pdserving.proxy.transfers import MOVING, UNKNOWN

if TYPE_CHECKING:
    from pdserving.proxy.gateway import Gateway

Page = Callable[[], Reply]


def build_pages(gateway: "Gateway") -> dict[bytes, Page]:
    """The pages of the main port."""

    def health() -> Reply:
        return Reply(200, b"{}")

    def ready() -> Reply:
        problems = list_problems(gateway)
        content = msgspec.json.encode({"ready": gateway.ready, "problems": problems})
        return Reply(200 if gateway.ready else 503, content)

    def metrics() -> Reply:
        return Reply(200, gateway.metrics.render(), b"text/plain; version=0.0.4; charset=utf-8")

    return {b"/health": health, b"/ready": ready, b"/metrics": metrics}


def build_admin_pages(gateway: "Gateway") -> dict[bytes, Page]:
    def pool() -> Reply:
        described = gateway.pool.describe() | {"ready": gateway.ready, "obstacles": gateway.obstacles}
        for engine, entry in zip(gateway.pool.decodes, described["decode"], strict=True):
            entry["kv"] = gateway.transfers.flow(engine).describe()
        for engine, entry in zip(gateway.pool.prefills, described["prefill"], strict=True):
            entry["sends"] = gateway.rates.describe(engine)
        if gateway.verification is not None:
            described["pairs"] = gateway.verification.describe()
        return Reply(200, msgspec.json.encode(described))

    def pairs() -> Reply:
        return Reply(200, msgspec.json.encode({"pairs": gateway.pairs.describe(gateway.wheel.clock())}))

    return {**build_pages(gateway), b"/debug/pool": pool, b"/debug/pairs": pairs}


def list_problems(gateway: "Gateway") -> list[str]:
    problems = ["draining: the proxy was told to stop"] if gateway.draining else []
    problems += gateway.obstacles
    if gateway.certificate is not None and gateway.certificate.loaded and gateway.certificate.problem:
        problems.append(f"{gateway.certificate.problem}; the one before it is still served")
    for engine in gateway.pool.engines.values():
        if not engine.seen.ready:
            problems.append(f"{engine.seen.role} {engine.seen.pod}: not ready")
        elif engine.seen.role == "prefill" and engine.epoch is None:
            problems.append(f"prefill {engine.seen.pod}: bootstrap server {engine.bootstrap_error or 'not read yet'}")
        elif engine.epoch is not None and engine.epoch.missing:
            problems.append(f"prefill {engine.seen.pod}: ranks missing: {', '.join(engine.epoch.missing)}")
    if not gateway.pool.ready:
        problems.append("no decode engine is ready")
    return problems


def register_gauges(gateway: "Gateway") -> None:
    gauge, pool = gateway.metrics.gauge, gateway.pool

    def per_engine(read: Callable[..., float]) -> Callable[[], Iterable[Sample]]:
        return lambda: [((e.seen.role, e.seen.pod), read(e)) for e in pool.engines.values()]

    def quarantined() -> Iterable[Sample]:
        pairs = gateway.pairs.describe(gateway.wheel.clock())
        return [((pair["prefill"], pair["decode"]), int(pair["quarantined_for"] > 0)) for pair in pairs]

    def moving() -> Iterable[Sample]:
        flows = [(engine.seen.pod, gateway.transfers.flow(engine).state) for engine in pool.decodes]
        return [((pod,), int(state == MOVING)) for pod, state in flows if state != UNKNOWN]

    def verified() -> Iterable[Sample]:
        pairs = gateway.verification.describe() if gateway.verification is not None else []
        known = [pair for pair in pairs if pair["state"] != PAIR_UNKNOWN]
        return [((pair["prefill"], pair["decode"]), int(pair["state"] == PAIR_VERIFIED)) for pair in known]

    def sends() -> Iterable[Sample]:
        rates = [(engine.seen.pod, gateway.rates.describe(engine)) for engine in pool.prefills]
        return [((pod,), rate["rate"]) for pod, rate in rates if rate is not None]

    text = "Bytes a second of a transfer of KV cache, the best of an idle prefill engine's last canaries."
    gauge("kv_send_rate", text, ("prefill",), sends)
    text = "1 if canaries proved a pair of engines, 0 if they failed."
    gauge("pair_verified", text, ("prefill", "decode"), verified)
    text = "1 while a decode engine fetches KV cache, 0 while it computes what it should fetch."
    gauge("kv_moving", text, ("decode",), moving)
    gauge("pair_quarantined", "1 while a pair of engines that failed is avoided.", ("prefill", "decode"), quarantined)
    engine_labels = ("role", "pod")
    gauge("in_flight", "Requests being served.", (), lambda: [((), gateway.in_flight)])
    gauge("local_prefills", "Prompts being computed by decode engines.", (), lambda: [((), gateway.local_prefills)])
    gauge("client_connections", "Open client connections.", (), lambda: [((), len(gateway.edges))])
    gauge("engine_in_flight", "Exchanges with an engine.", engine_labels, per_engine(lambda e: e.in_flight))
    gauge(
        "engine_tokens", "Prompt tokens in flight.", engine_labels, per_engine(lambda e: sum(t.load for t in e.targets))
    )
    gauge("engine_connections", "Open connections to an engine.", engine_labels, per_engine(lambda e: e.endpoint.open))
    gauge(
        "engine_ready", "1 if an engine may be used.", engine_labels,
        per_engine(lambda e: int(e.usable)),
    )  # fmt: skip
    gauge(
        "missing_ranks", "Ranks that a bootstrap server does not show.", engine_labels,
        per_engine(lambda e: len(e.epoch.missing) if e.epoch else 0),
    )  # fmt: skip


class AdminServer:
    """The admin port: the same edge, other pages."""

    def __init__(self, gateway: "Gateway") -> None:
        self.config, self.wheel = gateway.config, gateway.wheel
        self.draining = False
        self.keys: ApiKeys | None = None
        self.edges: set[ClientEdge] = set()
        self._pages = build_admin_pages(gateway)

    def serve(self, edge: ClientEdge, request: Request) -> None:
        page = self._pages.get(request.path)
        if page is None or request.method not in {b"GET", b"HEAD"}:
            known = ", ".join(path.decode() for path in self._pages)
            failure = Failure(404, "unknown_page", f"Only GET of these: {known}.")
            edge.reply(build_failure(failure, request.path), request)
        else:
            edge.reply(page(), request)

    def rejected(self, failure: Failure) -> None:
        """Not a request of the service."""
