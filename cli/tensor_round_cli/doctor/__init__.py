"""Checks of a service from its caller's side: results, versions, settings, times.

:func:`examine` runs every check; its :class:`Report` has findings and figures.
"""

from .examination import examine
from .report import Figures, Finding, Level, Report

__all__ = ["Figures", "Finding", "Level", "Report", "examine"]
