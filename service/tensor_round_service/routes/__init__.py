"""HTTP: which bytes mean what, and which status an error has."""
