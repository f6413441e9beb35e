"""Ready scenarios, each with a question, and a sweep that answers it.

Each of them can be used wherever a path is accepted:

>>> import runyard
>>> from runyard import scenarios
>>> report = runyard.simulate(scenarios.web_tier, duration="100ms")
>>> scenarios.web_tier.title
'A web tier with background work'

``.sweep`` is the specification of the sweep that answers the question in a few seconds:
``runyard.sweep(scenarios.web_tier.sweep)``. A notebook shows a scenario with its description and question. :data:`ALL`
contains all of them.
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

# The two folders are neighbours, since a specification names its scenario relative to its own folder.
_GALLERY = Path(__file__).resolve().parent / "gallery"

_QUESTION = "The question: "


@dataclass(frozen=True)
class Ready:
    """A scenario that comes with Runyard: the path of a file (:func:`os.fspath`), a description, and a question."""

    #: The name of the file without its extension, as ``"web-tier"``.
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
        """The title of the scenario, a few words long."""
        return self._paragraphs[0].removesuffix(".")

    @property
    def about(self) -> str:
        """The description of the tasks and the machine, with numbers and their sources."""
        return "\n\n".join(self._paragraphs[1:-1])

    @property
    def question(self) -> str:
        """The question that the sweep answers."""
        question = self._paragraphs[-1].removeprefix(_QUESTION)
        return question[:1].upper() + question[1:]

    def _repr_markdown_(self) -> str:
        return f"**{self.title}** (`{self.name}`)\n\n{self.about}\n\n*{self.question}*"

    @cached_property
    def _paragraphs(self) -> list[str]:
        """The paragraphs of the comment at the top of the file, each without its line breaks."""
        text = self.path.read_text(encoding="utf-8")
        comment = text[text.index("/*") + 2 : text.index("*/")]
        lines = (line.strip().removeprefix("*").strip() for line in comment.splitlines())
        paragraphs = "\n".join(lines).strip().split("\n\n")
        return [" ".join(paragraph.split()) for paragraph in paragraphs]


#: A web tier's requests beside compaction and a garbage collector.
web_tier = Ready("web-tier")

#: An app's frames beside other work.
frame_pipeline = Ready("frame-pipeline")

#: Three tenants with a bounded load, and one that takes all the CPU time it can get.
tenants = Ready("tenants")

#: Sound playback beside a video encoder.
batch_beside_latency = Ready("batch-beside-latency")

#: The builds of two users on one machine.
build_farm = Ready("build-farm")

#: A database beside a container that computes.
noisy_neighbour = Ready("noisy-neighbour")

#: All scenarios of the gallery.
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
