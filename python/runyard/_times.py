"""Spans and moments of a run, in the forms that Python and the language have."""

from __future__ import annotations

import math
from typing import Any, SupportsFloat, Union

#: Seconds, or a text with the unit ``us``, ``ms``, ``s``, ``m`` or ``h``, as ``"10s"``.
Duration = Union[float, str]


def span(time: Duration | None) -> str | None:
    """Returns a time in the form of the command line."""
    return time if time is None or isinstance(time, str) else f"{_micros(time)}us"


def of_language(time: Duration) -> Any:
    """Returns a time in the form of ``global.duration``: whole seconds, or a text."""
    if isinstance(time, str):
        return time
    micros = _micros(time)
    return f"{micros}us" if micros % 1_000_000 else micros // 1_000_000


def _micros(seconds: Any) -> int:
    if not isinstance(seconds, SupportsFloat):
        raise TypeError(f"a time is seconds, or a text as '10s', not {seconds!r}")
    if not 0 <= float(seconds) < math.inf:
        raise ValueError(f"a time is seconds, 0 or more, or a text as '10s', not {seconds!r}")
    return round(float(seconds) * 1_000_000)
