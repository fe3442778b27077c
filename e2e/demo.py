"""`make demo`: from a bare machine to an answer whose KV cache moved from a prefill to a decode engine.

Everything that is shown is asked from the cluster while it is shown; the proof is the decode engine's own counters.
Each step can be repeated: what is there already is kept, so a second run shows the same in less time.

usage: python -m e2e.demo up|down        CLUSTER=self|kind|context, see e2e/lib/target.py
"""

import argparse
import subprocess
import sys
import uuid
from typing import Any

import httpx

from e2e.cluster.console import say, step
from e2e.lib import target as clusters
from e2e.lib.engine import Engine, transferred
from e2e.lib.evidence import gather
from e2e.lib.groups import EXAMPLE, START_SECONDS, Group, example_spec, make_namespace
from e2e.lib.kubectl import CommandError
from e2e.lib.release import NAMESPACE as OPERATOR_NAMESPACE
from e2e.lib.release import Release
from e2e.lib.target import MissingNeedError, Target
from e2e.lib.waiting import NotYetError, eventually
from pdserving.proxy.canary import LENGTH

NAMESPACE = "pdserving-demo"
GROUP = "tiny"
CHAT = "The quick brown fox jumps over the lazy dog. Which animal is lazy, and which one is quick?"
COMPLETION = "prefill and decode workers move the kv cache, and a request waits for its blocks until"


def up() -> None:
    target = clusters.start()
    release = Release(target.kubectl.within(OPERATOR_NAMESPACE), target.helm)
    with step("installing the operator with its Helm chart"):
        release.install(target.operator_image, defaultEngineImage=target.engine_image)
    group = Group(make_namespace(target.kubectl, NAMESPACE), GROUP)
    say(f"applying {EXAMPLE.relative_to(clusters.ROOT)} in namespace {NAMESPACE} (Pod Security restricted)")
    group.apply(example_spec(target.engine_image))
    with step("waiting until the group is Ready; the engines import vLLM and load the model"):
        _wait_telling(group)
    _show(group)
    with target.reach(group.kubectl, GROUP, 80) as url:
        _ask(url, group)
        _next(target, group, url)


def down() -> None:
    """Remove the cluster, or in someone else's cluster what the demo put there."""
    if clusters.chosen() == "context":
        target = clusters.start()
        target.kubectl.delete("namespace", NAMESPACE)
        Release(target.kubectl.within(OPERATOR_NAMESPACE), target.helm).uninstall()
        say("kept: the CRD, and with it the groups of others; deleting crd/pdservinggroups.pdserving.dev ends them")
    else:
        clusters.stop()


def _wait_telling(group: Group) -> None:
    """Wait for Ready and say each new reason once."""
    told: set[str] = set()

    def ready() -> bool:
        condition = group.condition("Ready")
        line = f"{condition.get('reason', 'no condition yet')}: {condition.get('message', '')}"
        if line not in told:
            told.add(line)
            say(f"  Ready={condition.get('status', 'Unknown')} {line}")
        if condition.get("status") != "True":
            raise NotYetError(line)
        return True

    eventually("the group is Ready", ready, within=START_SECONDS, every=1.0)


def _show(group: Group) -> None:
    _title("The group, its pods and its conditions")
    print(group.kubectl.run("get", "pdservinggroup", group.name))
    print(group.kubectl.run("get", "pods", "-o", "wide"))
    for condition in group.get()["status"]["conditions"]:
        print(f"  {condition['type']:18} {condition['status']:6} {condition['reason']}: {condition['message']}")


def _ask(url: str, group: Group) -> None:
    """A chat and a completion, and D's counters before and after them."""
    (decoder,) = group.engines("decode")
    before = decoder.counters()
    _title("A chat, through the proxy's Service")
    chat = _post(f"{url}/v1/chat/completions", {"messages": [{"role": "user", "content": CHAT}]})
    print(f"> {CHAT}\n{chat['choices'][0]['message']['content']!r}")
    _title("A completion")
    completion = _post(f"{url}/v1/completions", {"prompt": COMPLETION})
    print(f"> {COMPLETION}\n{completion['choices'][0]['text']!r}")
    print("\n(The model is two random layers: its words mean nothing, but they are the same at every run.)")
    _prove(decoder, before, sum(answer["usage"]["prompt_tokens"] for answer in (chat, completion)))


def _post(url: str, body: dict[str, Any]) -> dict[str, Any]:
    """An answer with a cache salt of its own: D can't have the prompt in its prefix cache from an earlier run."""
    asked = {"model": GROUP, "max_tokens": 24, "temperature": 0, "cache_salt": str(uuid.uuid4()), **body}
    response = httpx.post(url, json=asked, timeout=120, trust_env=False)
    response.raise_for_status()
    answer: dict[str, Any] = response.json()
    return answer


def _prove(decoder: Engine, before: dict[str, float], sent: int) -> None:
    def counted() -> float:
        moved = transferred(decoder.counters()) - transferred(before)
        if moved < sent:
            raise NotYetError(f"D fetched KV cache for {moved:.0f} of {sent} prompt tokens")
        return moved

    moved = eventually("D's counters show the transfer", counted, within=20)
    _title("The proof that KV cache moved")
    print(f"prompt tokens sent:                                          {sent}")
    print(f"prompt tokens that {decoder.pod} got as KV cache:  {moved:.0f}")
    print('  (its counter vllm:prompt_tokens_by_source_total{source="external_kv_transfer"}, before and after)')
    if moved > sent:
        print(f"  (the proxies sent a canary meanwhile, {LENGTH} tokens, as they do to verify a pair of engines)")


def _next(target: Target, group: Group, url: str) -> None:
    kubectl = " ".join([*group.kubectl.command()])
    _title("What to type next")
    if target.name == "self":
        print("make cluster-shell                # kubectl and helm ready, then for example:")
    else:
        print(f"alias kubectl='{kubectl}'")
    print(f"""kubectl -n {NAMESPACE} get pdsg,pods
kubectl -n {NAMESPACE} describe pdsg {GROUP}
kubectl explain pdsg.spec.prefill
kubectl -n {NAMESPACE} patch pdsg {GROUP} --type=merge -p '{{"spec":{{"prefill":{{"replicas":2}}}}}}'
kubectl -n {NAMESPACE} port-forward service/{GROUP} 8080:80""")
    if target.name == "self":
        chat = f'{{"model":"{GROUP}","messages":[{{"role":"user","content":"hello"}}]}}'
        print(f"curl {url}/v1/chat/completions -H 'content-type: application/json' -d '{chat}'")
    print("make demo-down                    # remove all of it")


def _title(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n=== {text}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Start, show and remove the demo")
    parser.add_argument("command", choices=("up", "down"))
    command = parser.parse_args().command
    try:
        up() if command == "up" else down()
    except (CommandError, MissingNeedError, AssertionError, httpx.HTTPError) as error:
        say(f"\nthe demo stopped: {error}")
        _explain()
        sys.exit(1)
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)  # the program has said why
    except KeyboardInterrupt:
        sys.exit("interrupted; `make demo` goes on where it was, `make demo-down` removes what is there")


def _explain() -> None:
    try:
        say(gather(clusters.find().kubectl, [OPERATOR_NAMESPACE, NAMESPACE]))
    except Exception as error:  # noqa: BLE001 - the first failure is the one to read
        say(f"(no more to say: {error})")


if __name__ == "__main__":
    main()
