"""The content of requests and responses, in no protocol's terms."""
