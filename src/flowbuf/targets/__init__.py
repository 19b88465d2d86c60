"""What a schema becomes for others: Protocol Buffers definitions."""
