"""Content of a capture as one structure, for `flowbuf inspect`."""
