"""`python -m cotune` is `cotune`."""

from cotune.cli.main import main

if __name__ == "__main__":
    main()
