"""Read and write captures, message streams, columns, .proto files and state files."""
