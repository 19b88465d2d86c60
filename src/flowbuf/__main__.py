"""Run the command line as `python -m flowbuf`."""

from flowbuf.cli import run

if __name__ == "__main__":
    run()
