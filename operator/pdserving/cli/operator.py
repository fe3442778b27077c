"""``pdserving operator``: reconcile PDServingGroups until SIGTERM."""

import argparse
import os
import socket
import sys


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("operator", help="reconcile PDServingGroups", description=__doc__)
    parser.add_argument("--proxy-image", required=True, metavar="IMAGE", help="image of the groups' proxies")
    parser.add_argument(
        "--proxy-image-pull-policy", default="IfNotPresent", choices=("Always", "IfNotPresent", "Never")
    )
    parser.add_argument("--default-engine-image", metavar="IMAGE", help="for groups without spec.engine.image")
    parser.add_argument(
        "--namespace", action="append", default=[], metavar="NAMESPACE", help="serve only this one; repeatable"
    )
    parser.add_argument("--lease-namespace", default=os.environ.get("POD_NAMESPACE", ""), metavar="NAMESPACE")
    parser.add_argument("--lease-name", default="", metavar="NAME", help="be active only while holding this Lease")
    parser.add_argument("--metrics", default="0.0.0.0:9100", metavar="HOST:PORT", help="/healthz, /readyz and /metrics")
    parser.add_argument("--resync", type=float, default=600.0, metavar="SECONDS", help="look at each group so often")
    parser.add_argument("--workers", type=int, default=4, metavar="N", help="groups looked at at the same time")
    parser.add_argument("--log-format", default="text", choices=("text", "json"))
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    # Only this command pays for kopf, pydantic and the client.
    import asyncio  # noqa: PLC0415

    from pdserving.controller.app import Options, run  # noqa: PLC0415
    from pdserving.controller.logs import set_up_logging  # noqa: PLC0415
    from pdserving.core.actions import Defaults  # noqa: PLC0415
    from pdserving.kube.auth import NoCredentialsError  # noqa: PLC0415

    set_up_logging(args.log_format)
    options = Options(
        defaults=Defaults(
            proxy_image=args.proxy_image,
            proxy_image_pull_policy=args.proxy_image_pull_policy,
            engine_image=args.default_engine_image,
            operator_namespace=os.environ.get("POD_NAMESPACE", "pdserving-system"),
        ),
        metrics=args.metrics,
        namespaces=tuple(args.namespace),
        resync=args.resync,
        workers=args.workers,
        lease_namespace=args.lease_namespace,
        lease_name=args.lease_name,
        identity=os.environ.get("POD_NAME", f"{socket.gethostname()}-{os.getpid()}"),
    )
    try:
        return asyncio.run(run(options))
    except NoCredentialsError as error:
        print(f"pdserving operator: {error}", file=sys.stderr)
        return 1
