"""Examination of a service as its caller sees it: bits, versions, settings, time.

:func:`examine` makes every check; a :class:`Report` has its findings and its figures.
"""

from .examination import examine
from .report import Figures, Finding, Level, Report

__all__ = ["Figures", "Finding", "Level", "Report", "examine"]
