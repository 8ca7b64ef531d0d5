"""Operator descriptors: JSON documents that name a rounding operator and its tensors' layouts.

Each dialect has the names and rules of its specification. Each descriptor resolves to a
:class:`~tensor_round.contract.call.Call`. A new dialect is a file in :mod:`.dialects`, and a
line in :mod:`.registry`, which is imported when one of its names is used: pydantic takes longer to
import than all the rest.
"""
