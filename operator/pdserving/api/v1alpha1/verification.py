"""``spec.verification``: what must be proven before a group is Ready."""

from typing import Annotated, Literal

from pydantic import Field

from pdserving.api.v1alpha1.base import Model


class VerificationSpec(Model):
    mode: Literal["Enforce", "Warn", "Off"] = "Enforce"
    """Canary prompts of the proxies prove that KV cache moves between engines and gives right tokens. Enforce: the
    group is not Ready before, nor while a pair of engines fails; requests are served all the same. Warn: only the
    condition KVTransferVerified tells. "Off": no canaries, and the condition tells what counters say of real traffic.
    Write "Off" in quotes: to YAML a bare Off is the boolean false."""
    interval_seconds: Annotated[int, Field(ge=30, le=86400)] = 600
    """How often each engine takes part in a canary of each proxy, besides after its start."""
