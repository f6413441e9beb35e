"""A progress bar for long work, drawn by tqdm if it is installed."""

from __future__ import annotations

import sys
import warnings


class Progress:
    """A bar with the number of finished runs among ``total``.

    ``shown`` is None for a bar in a notebook or a terminal only.
    """

    def __init__(self, total: int, shown: bool | None) -> None:
        self._bar = None
        if shown is None:
            shown = "ipykernel" in sys.modules or sys.stderr.isatty()
        if not shown:
            return
        try:
            with warnings.catch_warnings():
                # A notebook without ipywidgets shows a bar of text, so tqdm's warning is dropped.
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
        """Moves the bar to ``done`` finished runs."""
        if self._bar is not None:
            self._bar.update(done - self._bar.n)
