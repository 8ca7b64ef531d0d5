"""One connection: its states, its deadline, the bytes that come in and go out."""
