"""A canary: one prompt through one pair of engines, believed only on evidence from both.

It goes the way of real traffic, P first, then D with the transfer. Then D alone gets the same prompt twice under
another cache salt: first it computes the prompt, then it finds it in its own prefix cache. The second answer is the
reference: like the canary's it comes from whole blocks of KV cache and one computed token. On GPUs another shape may
round otherwise and give other greedy tokens from equal KV cache (seen with vLLM 0.26 and 0.32).

D's counters are everybody's, but others can only add to them. So what follows is sound at any load: a D that counts
less than half of the prompt as fetched and more as computed did not fetch it; one that counts less than half as
computed and more as fetched did not compute it. Else the canary says nothing. Nor do unequal tokens from engines that
had other requests: batches have other shapes, too.
"""

import asyncio
import random
import uuid
from typing import TYPE_CHECKING, Final

import msgspec

from pdserving.api import conditions as c
from pdserving.proxy import rewrite
from pdserving.proxy.canary_engine import CanaryEngine, Outcome, StoppedError, UnreachedError
from pdserving.proxy.dialects import COMPLETION
from pdserving.proxy.http.request import make_id
from pdserving.proxy.pool import Target
from pdserving.proxy.prefill_leg import parse_answer
from pdserving.proxy.readings import Reading
from pdserving.proxy.release import release

if TYPE_CHECKING:
    from pdserving.proxy.gateway import Gateway

LENGTH: Final = 257
"""Prompt tokens: whole blocks of 16, 32, 64, 128 or 256 and one more, so that a prefix hit computes just one token, as
D does after a fetch. With the answer it fits into a context of 512."""
HALF: Final = LENGTH // 2
PERIOD: Final = 37
"""The prompt repeats itself: models go on with a pattern more surely than with noise, so fewer tokens depend on
rounding. Coprime to block sizes, so that no two blocks are equal."""
TOKENS: Final = 8
COUNT_SECONDS: Final = 5.0
"""Within which P counts a transfer that D has received: at its next step."""
COUNT_PAUSE: Final = 0.1
LOWEST_ID, IDS = 3, 253
"""Token ids 3 to 255 are in every vocabulary."""

_randrange = random.Random().randrange  # noqa: S311 - a prompt, not a secret


async def run_canary(gateway: "Gateway", prefill: Target, decode: Target) -> Outcome:
    for target in (prefill, decode):
        target.enter(LENGTH)
    try:
        return await _Canary(gateway, prefill, decode).run()
    except StoppedError as stopped:
        return stopped.outcome
    finally:
        for target in (prefill, decode):
            target.leave(LENGTH)


class _Canary:
    def __init__(self, gateway: "Gateway", prefill: Target, decode: Target) -> None:
        self._gateway = gateway
        self._prefill, self._decode = CanaryEngine(gateway, prefill), CanaryEngine(gateway, decode)
        pattern = [LOWEST_ID + _randrange(IDS) for _ in range(PERIOD)]
        self._prompt = (pattern * (LENGTH // PERIOD + 1))[:LENGTH]

    async def run(self) -> Outcome:
        """Raises `StoppedError`."""
        sender, before = await self._prefill.read(), await self._read_decode()
        if sender.waiting or before.waiting:
            raise StoppedError(c.ENGINES_BUSY, "requests wait at the engines")
        model = await self._decode.find_model()
        tokens = await self._transfer(self._build_body(model))
        after = await self._read_decode()
        self._require_moved(before, after)
        if sender.sent:
            counted = await self._require_sent(sender.sent)
            self._gateway.rates.take(self._prefill.target.engine, self._decode.target.engine, sender, counted)
        try:
            reference, hit = await self._compute(self._build_body(model), after)
        except StoppedError as stopped:
            raise StoppedError(c.CANARY_INCONCLUSIVE, f"without a transfer {stopped}") from None
        if tokens != reference:
            undisturbed = not sender.running and await self._undisturbed(before)
            self._refute(tokens, reference, comparable=hit and undisturbed)
        return Outcome(c.VERIFIED)

    def _build_body(self, model: str) -> bytes:
        """Under a cache salt of its own: no engine has this prompt in its prefix cache."""
        body = {
            "model": model,
            "prompt": self._prompt,
            "max_tokens": TOKENS,
            "temperature": 0,
            "ignore_eos": True,
            "return_token_ids": True,
            "cache_salt": str(uuid.uuid4()),
        }
        return msgspec.json.encode(body)

    async def _read_decode(self) -> Reading:
        reading = await self._decode.read()
        self._gateway.transfers.flow(self._decode.target.engine).read(reading)
        return reading

    # ---- the pair

    async def _transfer(self, body: bytes) -> list[int]:
        """D's tokens for the prompt, with KV cache from P."""
        prompt, target = rewrite.parse(COMPLETION, body), self._prefill.target
        transfer = rewrite.Transfer(make_id(), target.engine_id, target.engine.bootstrap_url)
        answer = await self._prefill.complete(
            b"".join(rewrite.build_prefill_body(COMPLETION, prompt, transfer.transfer_id))
        )
        said = parse_answer(answer.body)
        if said is None or not said.by_length:
            raise StoppedError(c.CANARY_INCONCLUSIVE, f"{self._prefill.name} did not end by length")
        await self._confirm(answer.established)
        try:
            return await self._decode.generate(b"".join(rewrite.build_decode_body(prompt, transfer)), TOKENS)
        except UnreachedError:
            engine = self._decode.target.engine
            release(self._gateway, transfer, engine.seen.lane, (engine,))
            raise

    async def _confirm(self, established: float) -> None:
        """As for any request, an engine id counts only if it was read after the connection was made."""
        engine = self._prefill.target.engine
        if established > engine.verified:
            read = asyncio.Event()
            engine.waiting.append(read.set)
            self._gateway.epochs.recheck(engine)
            await read.wait()
        if not self._prefill.target.valid:
            raise StoppedError(c.CANARY_INCONCLUSIVE, f"{self._prefill.name} was restarted meanwhile")

    def _require_moved(self, before: Reading, after: Reading) -> None:
        fetched, computed = after.fetched - before.fetched, after.computed - before.computed
        if fetched < 0 or computed < 0:
            raise StoppedError(c.CANARY_INCONCLUSIVE, f"{self._decode.name} was restarted meanwhile")
        if fetched < HALF <= computed:
            text = f"the decode engine fetched {fetched:.0f} of {LENGTH} prompt tokens and computed {computed:.0f}"
            raise StoppedError(c.NO_KV_MOVED, text)
        if fetched < HALF:
            raise StoppedError(c.CANARY_INCONCLUSIVE, f"{self._decode.name} did not count the prompt")
        if computed >= HALF:
            raise StoppedError(c.CANARY_INCONCLUSIVE, "in the counters other requests hide what the canary did")

    async def _require_sent(self, before: float) -> Reading:
        """P has counted one more. One that has not counted yet may be of a version that tells nothing while idle."""
        try:
            async with asyncio.timeout(COUNT_SECONDS):
                while (now := await self._prefill.read()).sent == before:  # noqa: ASYNC110 - another process's count
                    await asyncio.sleep(COUNT_PAUSE)
                return now
        except TimeoutError:
            raise StoppedError(c.CANARY_INCONCLUSIVE, f"{self._prefill.name} counts no transfer") from None

    # ---- D alone

    async def _compute(self, body: bytes, before: Reading) -> tuple[list[int], bool]:
        """D's own tokens, and whether they came from a prefix hit."""
        await self._decode.generate(body, TOKENS)
        self._gateway.transfers.own(self._decode.target.engine, LENGTH)
        computed = await self._read_decode()
        tokens = await self._decode.generate(body, TOKENS)
        now = await self._read_decode()
        return tokens, now.computed - computed.computed < HALF <= computed.computed - before.computed

    async def _undisturbed(self, before: Reading) -> bool:
        """Whether D had only the canary's three prompts, each counted once and perhaps its last token again."""
        now = await self._read_decode()
        return not before.running and now.prompt_tokens - before.prompt_tokens <= 3 * (LENGTH + 1)

    def _refute(self, tokens: list[int], reference: list[int], *, comparable: bool) -> None:
        if not comparable:
            raise StoppedError(c.CANARY_INCONCLUSIVE, "tokens differ, but other requests or a cold cache may be why")
        first = next(index for index in range(TOKENS) if tokens[index] != reference[index])
        text = f"with fetched KV cache the decode engine answers otherwise than with its own, from token {first + 1} on"
        raise StoppedError(c.WRONG_TOKENS, text)
