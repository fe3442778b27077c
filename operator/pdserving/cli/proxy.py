"""``pdserving proxy``: the P/D proxy of a group, or of engines named on the command line."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pdserving.proxy.app import Address, Source
    from pdserving.proxy.config import Config

LISTEN, ADMIN = "127.0.0.1:8000", "127.0.0.1:9090"
SECONDS = (
    ("--prefill-timeout", 300.0, "for a prefill engine's whole answer"),
    ("--first-byte-timeout", 60.0, "from asking a decode engine for a stream to its first byte"),
    ("--idle-timeout", 120.0, "between two pieces of a stream"),
    ("--request-timeout", 3600.0, "for a whole request"),
    ("--drain-timeout", 30.0, "for running requests after SIGTERM"),
    ("--verify-interval", 0.0, "between two canaries of an engine; 0: none"),
)
COUNTS = (
    ("--max-retries", 1, "how often a leg is tried again before the client got a byte"),
    ("--max-in-flight", 4096, "requests at once; more get 429"),
    ("--max-body-bytes", 64 * 1024 * 1024, "longest body; a longer one gets 413"),
    ("--max-local-prefills", 4, "prompts at once that decode engines compute because no prefill engine could"),
    ("--local-prefill-below-tokens", 0, "shorter prompts, by estimate, go to a decode engine alone"),
)


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("proxy", help="serve the OpenAI API from prefill and decode engines")
    add_arguments(parser)
    parser.set_defaults(run=_run)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--listen", default=LISTEN, metavar="HOST:PORT", help=f"where clients connect ({LISTEN})")
    parser.add_argument("--admin", default=ADMIN, metavar="HOST:PORT", help=f"metrics and /debug ({ADMIN})")
    parser.add_argument("--group", help="serve from the pods of this PDServingGroup")
    parser.add_argument("--namespace", help="of the group")
    parser.add_argument("--prefill", action="append", default=[], metavar="URL", help="a prefill engine; repeatable")
    parser.add_argument("--decode", action="append", default=[], metavar="URL", help="a decode engine; repeatable")
    parser.add_argument(
        "--bootstrap-port", type=int, default=8998, metavar="PORT", help="of the --prefill engines (8998)"
    )
    parser.add_argument(
        "--on-prefill-failure",
        choices=("RecomputeOnDecode", "Fail"),
        default="RecomputeOnDecode",
        help="when no prefill engine can take a prompt: a decode engine computes it, or the request fails",
    )
    parser.add_argument("--access-log", action="store_true", help="one line of JSON for each request, on stdout")
    parser.add_argument("--log-format", choices=("text", "json"), default="text", help="of log lines (text)")
    parser.add_argument(
        "--api-key-file", type=Path, metavar="PATH", help="keys, one a line, of which clients must show one"
    )
    parser.add_argument("--tls-cert-file", type=Path, metavar="PATH", help="clients connect by TLS; its certificates")
    parser.add_argument("--tls-key-file", type=Path, metavar="PATH", help="the key of the first of them")
    for option, seconds, text in SECONDS:
        parser.add_argument(option, type=float, default=seconds, metavar="SECONDS", help=f"{text} ({seconds:g})")
    for option, count, text in COUNTS:
        parser.add_argument(option, type=int, default=count, metavar="N", help=f"{text} ({count})")


def _run(args: argparse.Namespace) -> int:
    import uvloop  # noqa: PLC0415 - no other subcommand should pay for these

    from pdserving.controller.logs import set_up_logging  # noqa: PLC0415
    from pdserving.proxy import app  # noqa: PLC0415

    set_up_logging(args.log_format)
    try:
        chosen, source = read_config(args), _read_source(args)
        listen, admin = _read_address(args.listen), _read_address(args.admin)
    except ValueError as error:
        print(f"pdserving proxy: {error}")
        return 2
    return uvloop.run(app.run(chosen, source, listen, admin))


def read_config(args: argparse.Namespace) -> "Config":
    from pdserving.proxy.config import Config  # noqa: PLC0415

    if bool(args.tls_cert_file) != bool(args.tls_key_file):
        raise ValueError("--tls-cert-file and --tls-key-file go together")
    names = [option[2:].replace("-", "_") for option, *_ in (*SECONDS, *COUNTS)]
    return Config(
        on_prefill_failure=args.on_prefill_failure,
        access_log=args.access_log,
        api_key_file=args.api_key_file,
        tls_cert_file=args.tls_cert_file,
        tls_key_file=args.tls_key_file,
        **{name: getattr(args, name) for name in names},
    )


def _read_source(args: argparse.Namespace) -> "Source":
    from pdserving.api import labels  # noqa: PLC0415
    from pdserving.proxy.app import Source  # noqa: PLC0415
    from pdserving.proxy.discovery import parse_engine  # noqa: PLC0415

    if args.group:
        if args.prefill or args.decode or not args.namespace:
            raise ValueError("--group goes with --namespace and without --prefill and --decode")
        return Source(group=args.group, namespace=args.namespace)
    if not args.decode:
        raise ValueError("name a group (--group, --namespace) or engines (--prefill, --decode)")
    roles = ((labels.PREFILL, args.prefill), (labels.DECODE, args.decode))
    return Source(engines=[parse_engine(url, role, args.bootstrap_port) for role, urls in roles for url in urls])


def _read_address(text: str) -> "Address":
    from pdserving.proxy.app import Address  # noqa: PLC0415

    host, separator, port = text.rpartition(":")
    if not separator or not port.isdigit():
        raise ValueError(f"{text!r} is no address: write HOST:PORT")
    return Address(host.strip("[]"), int(port))
