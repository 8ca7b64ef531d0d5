"""Requests to several addresses: each goes to the one with the least outstanding bytes."""
