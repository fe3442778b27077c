"""``python -m pdserving``: the same as the ``pdserving`` console script."""

from pdserving.cli.main import main

if __name__ == "__main__":
    main()
