"""`python -m messaging.cli`, the same as the console script."""

from messaging.cli.entry import main

if __name__ == "__main__":
    main()
