"""Messages of any type to Arrow columns, and back."""
