"""The clients, and the layers between their calls and a transport."""

from __future__ import annotations
