"""Access control: API keys, allowed hosts, and origins of web pages."""
