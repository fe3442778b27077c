"""One engine as a canary asks it: every answer that is not the one hoped for ends the canary, with what it means."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from pdserving.api import conditions as c
from pdserving.proxy.http.fetch import Answer, FetchError, exchange
from pdserving.proxy.http.request import make_id
from pdserving.proxy.pool import Target
from pdserving.proxy.readings import Reading, read

if TYPE_CHECKING:
    from pdserving.proxy.gateway import Gateway

PASSING: Final = frozenset((408, 425, 429, 503))
"""Statuses of an engine that may answer another time."""
MAX_TEXT: Final = 200


@dataclass(frozen=True, slots=True)
class Outcome:
    """``reason`` is one of `conditions`: Verified, a symptom, or why nothing can be said."""

    reason: str
    text: str = ""


class StoppedError(Exception):
    """The canary's outcome is known before its end."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.outcome = Outcome(reason, text)


class UnreachedError(StoppedError):
    """Nobody listens there: what was to be sent was not seen."""


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


class _Choice(msgspec.Struct):
    token_ids: list[int] | None = None


class _Completion(msgspec.Struct):
    choices: list[_Choice]


class _Error(msgspec.Struct):
    message: str


class _Failure(msgspec.Struct):
    error: _Error


_models: Final = msgspec.json.Decoder(_Models)
_completions: Final = msgspec.json.Decoder(_Completion)
_failures: Final = msgspec.json.Decoder(_Failure)


class CanaryEngine:
    """Every method raises `StoppedError`."""

    def __init__(self, gateway: "Gateway", target: Target) -> None:
        self.target = target
        self.name = f"{target.engine.seen.role} engine {target.engine.seen.pod}"
        self._seconds = gateway.config.first_byte_timeout

    async def read(self) -> Reading:
        try:
            reading = await read(self.target.engine)
        except FetchError as error:
            raise self._unanswered(error) from None
        if reading is None:
            raise StoppedError(c.CANARY_REFUSED, f"{self.name} does not count prompt tokens by their source")
        return reading

    async def find_model(self) -> str:
        """The name that it serves; of several the first, which is no adapter."""
        try:
            answer = await self._exchange(b"GET /v1/models HTTP/1.1\r\nhost: %b\r\n\r\n", b"")
        except FetchError as error:
            raise self._unanswered(error) from None
        if answer.status != 200:
            raise self._refused(answer)
        try:
            return _models.decode(answer.body).data[0].id
        except (msgspec.DecodeError, IndexError):
            raise StoppedError(c.CANARY_INCONCLUSIVE, f"{self.name} names no model") from None

    async def complete(self, body: bytes) -> Answer:
        head = (
            b"POST /v1/completions HTTP/1.1\r\nhost: %%b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
            b"x-request-id: canary-%b\r\n%b\r\n"
        ) % (len(body), make_id().encode(), self.target.header)
        try:
            answer = await self._exchange(head, body)
        except FetchError as error:
            if error.late:
                raise StoppedError(c.TRANSFER_TIMED_OUT, f"{self.name}: {error}") from None
            raise self._unanswered(error) from None
        if answer.status == 200:
            return answer
        if answer.status >= 500 and answer.status not in PASSING:
            raise StoppedError(c.TRANSFER_FAILED, self._quote(answer))
        raise self._refused(answer)

    async def generate(self, body: bytes, count: int) -> list[int]:
        """Ids of the ``count`` tokens that were asked for."""
        answer = await self.complete(body)
        try:
            tokens = _completions.decode(answer.body).choices[0].token_ids
        except (msgspec.DecodeError, IndexError):
            tokens = None
        if tokens is None or len(tokens) != count:
            raise StoppedError(c.CANARY_INCONCLUSIVE, f"{self.name} did not answer with {count} token ids")
        return tokens

    async def _exchange(self, head: bytes, body: bytes) -> Answer:
        endpoint = self.target.engine.endpoint
        return await exchange(endpoint, head % endpoint.authority, body, timeout=self._seconds)

    def _unanswered(self, error: FetchError) -> StoppedError:
        """Other conditions tell of an engine that can't be spoken to."""
        kind = UnreachedError if error.refused else StoppedError
        return kind(c.CANARY_INCONCLUSIVE, f"{self.name}: {error}")

    def _refused(self, answer: Answer) -> StoppedError:
        refused = 400 <= answer.status < 500 and answer.status not in PASSING
        return StoppedError(c.CANARY_REFUSED if refused else c.CANARY_INCONCLUSIVE, self._quote(answer))

    def _quote(self, answer: Answer) -> str:
        try:
            said = f": {_failures.decode(answer.body).error.message[:MAX_TEXT]}"
        except msgspec.DecodeError:
            said = ""
        return f"{self.name} answered with status {answer.status}{said}"
