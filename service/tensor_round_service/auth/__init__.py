"""Who may ask: API keys, the hosts that requests are for, the pages that may ask for a change."""
