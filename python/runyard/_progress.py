"""A bar for long work: tqdm's, in a notebook or a terminal, if there is tqdm and somebody looks."""

from __future__ import annotations

import sys
import warnings


class Progress:
    """Shows how many of ``total`` runs there have been."""

    def __init__(self, total: int, shown: bool | None) -> None:
        self._bar = None
        if shown is None:
            shown = "ipykernel" in sys.modules or sys.stderr.isatty()
        if not shown:
            return
        try:
            with warnings.catch_warnings():
                # A notebook without ipywidgets has a bar of text, which is no reason for a warning.
                warnings.filterwarnings("ignore", "IProgress not found")
                from tqdm.auto import tqdm  # type: ignore[import-untyped, unused-ignore]
        except ImportError:
            return
        self._bar = tqdm(total=total, unit="run", delay=1)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def __call__(self, done: int) -> None:
        """There have been ``done`` runs."""
        if self._bar is not None:
            self._bar.update(done - self._bar.n)
