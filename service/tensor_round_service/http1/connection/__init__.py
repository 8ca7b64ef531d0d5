"""One connection: its states, its deadline, receiving and sending."""
