"""The command line, as users and the chart's Deployment type it."""

import pytest

from pdserving.cli.main import COMMANDS, build_parser, main


def test_every_command_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    for command in COMMANDS:
        with pytest.raises(SystemExit, match="0"):
            main([command, "--help"])
        assert command in capsys.readouterr().out


def test_arguments_of_the_chart_are_understood() -> None:
    given = "--metrics=0.0.0.0:9100 --proxy-image=p:1 --proxy-image-pull-policy=Never --default-engine-image=e:1"
    given += " --lease-namespace=ns --lease-name=l --namespace=a --namespace=b --resync=10 --workers=2"
    args = build_parser(["operator"]).parse_args(["operator", *given.split(), "--log-format=json"])
    assert (args.namespace, args.resync, args.workers) == (["a", "b"], 10.0, 2)


def test_status_of_a_command_is_that_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    with pytest.raises(SystemExit, match="1"):
        main(["operator", "--proxy-image=p:1", "--metrics=127.0.0.1:0"])
