"""The settings of this side, and what those of a peer may be (RFC 9113, section 6.5.2)."""

from __future__ import annotations

from . import frames
from .frames import SETTING, Code, Setting
from .limits import ConnectionFault, SessionLimits


def opening(limits: SessionLimits) -> bytes:
    """What this side says first: its settings, and the window of the connection."""
    values = {
        Setting.MAX_CONCURRENT_STREAMS: limits.streams,
        Setting.INITIAL_WINDOW_SIZE: frames.FIRST_WINDOW,
        Setting.MAX_FRAME_SIZE: frames.MAX_FRAME_BYTES,
        Setting.MAX_HEADER_LIST_SIZE: limits.max_list_bytes,
    }
    return frames.settings(values) + frames.window_update(
        0, frames.FIRST_WINDOW - frames.DEFAULT_WINDOW
    )


def read_settings(payload: bytes, most: int) -> dict[int, int]:
    """The values in a SETTINGS frame; of one that is there twice, the last.

    Raises :class:`ConnectionFault` for a value out of its range, and for more than ``most``.
    """
    if len(payload) % SETTING.size:
        raise ConnectionFault(Code.FRAME_SIZE_ERROR, "SETTINGS have a wrong length")
    if len(payload) > most * SETTING.size:
        raise ConnectionFault(Code.ENHANCE_YOUR_CALM, "SETTINGS have too many values")
    values = dict(SETTING.iter_unpack(payload))
    if values.get(Setting.ENABLE_PUSH, 0) > 1:
        raise ConnectionFault(Code.PROTOCOL_ERROR, "ENABLE_PUSH must be 0 or 1")
    longest = values.get(Setting.MAX_FRAME_SIZE, frames.MIN_FRAME_BYTES)
    if not frames.MIN_FRAME_BYTES <= longest <= frames.MAX_FRAME_BYTES:
        raise ConnectionFault(Code.PROTOCOL_ERROR, "MAX_FRAME_SIZE is out of its range")
    if values.get(Setting.INITIAL_WINDOW_SIZE, 0) > frames.MAX_WINDOW:
        raise ConnectionFault(Code.FLOW_CONTROL_ERROR, "INITIAL_WINDOW_SIZE is too large")
    return values
