"""Ready scenarios, each with a question, and a sweep that answers it.

Each of them is a file for whoever takes a path:

>>> import runyard
>>> from runyard import scenarios
>>> report = runyard.simulate(scenarios.web_tier, duration="100ms")
>>> scenarios.web_tier.title
'A web tier with background work'

A few seconds answer its question, in which ``.sweep`` is the specification: ``runyard.sweep(scenarios.web_tier.sweep)``.
In a notebook a scenario shows what it is about, and :data:`ALL` has all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

__all__ = [
    "ALL",
    "Ready",
    "batch_beside_latency",
    "build_farm",
    "frame_pipeline",
    "noisy_neighbour",
    "tenants",
    "web_tier",
]

# The folders lie beside each other, as a specification names its scenario from its own folder.
_GALLERY = Path(__file__).resolve().parent / "gallery"

_QUESTION = "The question: "


@dataclass(frozen=True)
class Ready:
    """A scenario that comes with Runyard: the path of a file (:func:`os.fspath`), and what it is about."""

    #: As in the name of the file, ``"web-tier"``.
    name: str

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"runyard.scenarios.{self.name.replace('-', '_')}"

    @property
    def path(self) -> Path:
        """The file of the scenario."""
        return _GALLERY / "scenarios" / f"{self.name}.json"

    @property
    def sweep(self) -> Path:
        """The file of the specification whose sweep answers the question."""
        return _GALLERY / "sweeps" / f"{self.name}.json"

    @property
    def title(self) -> str:
        """What it is, in a few words."""
        return self._paragraphs[0].removesuffix(".")

    @property
    def about(self) -> str:
        """What the tasks do and on which machine, in numbers, and where these come from."""
        return "\n\n".join(self._paragraphs[1:-1])

    @property
    def question(self) -> str:
        """What the sweep answers."""
        question = self._paragraphs[-1].removeprefix(_QUESTION)
        return question[:1].upper() + question[1:]

    def _repr_markdown_(self) -> str:
        return f"**{self.title}** (`{self.name}`)\n\n{self.about}\n\n*{self.question}*"

    @cached_property
    def _paragraphs(self) -> list[str]:
        """Those of the comment with which the file opens, each without its line breaks."""
        text = self.path.read_text(encoding="utf-8")
        comment = text[text.index("/*") + 2 : text.index("*/")]
        lines = (line.strip().removeprefix("*").strip() for line in comment.splitlines())
        paragraphs = "\n".join(lines).strip().split("\n\n")
        return [" ".join(paragraph.split()) for paragraph in paragraphs]


#: Requests, beside compaction and a garbage collector.
web_tier = Ready("web-tier")

#: An app's frames, beside other work.
frame_pipeline = Ready("frame-pipeline")

#: Three tenants who behave, and one who takes all that there is.
tenants = Ready("tenants")

#: Sound, beside the encoder of a video.
batch_beside_latency = Ready("batch-beside-latency")

#: Two users' builds on one machine.
build_farm = Ready("build-farm")

#: A database, and a container that computes.
noisy_neighbour = Ready("noisy-neighbour")

#: All of them.
ALL: tuple[Ready, ...] = (
    web_tier,
    frame_pipeline,
    tenants,
    batch_beside_latency,
    build_farm,
    noisy_neighbour,
)


def __dir__() -> list[str]:
    return sorted(__all__)
