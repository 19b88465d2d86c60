"""Files and streams: captures, messages, columns, .proto files and state files."""
