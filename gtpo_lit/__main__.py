"""``python -m gtpo_lit``: the same as the command `gtpo-lit`."""

from gtpo_lit.cli import main

if __name__ == "__main__":
    main()
