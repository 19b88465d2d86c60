"""The live view of `flowbuf collect`."""
