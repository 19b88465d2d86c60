"""`python -m flowbuf`."""

from flowbuf.cli.main import main

if __name__ == "__main__":
    main(prog_name="flowbuf")
