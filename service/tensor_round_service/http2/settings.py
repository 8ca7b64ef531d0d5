"""What the settings of a peer may be (RFC 9113, section 6.5.2)."""

from __future__ import annotations

from .frames import MAX_FRAME_BYTES, MAX_WINDOW, MIN_FRAME_BYTES, SETTING, Code, Setting
from .limits import ConnectionFault


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
    longest = values.get(Setting.MAX_FRAME_SIZE, MIN_FRAME_BYTES)
    if not MIN_FRAME_BYTES <= longest <= MAX_FRAME_BYTES:
        raise ConnectionFault(Code.PROTOCOL_ERROR, "MAX_FRAME_SIZE is out of its range")
    if values.get(Setting.INITIAL_WINDOW_SIZE, 0) > MAX_WINDOW:
        raise ConnectionFault(Code.FLOW_CONTROL_ERROR, "INITIAL_WINDOW_SIZE is too large")
    return values
