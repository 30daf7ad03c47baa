"""`python -m highwaynet` is the command `highway`."""

from highwaynet.cli.main import main

if __name__ == "__main__":
    main()
