// Marks the changes of a scenario's timeline in the charts over time: a line at the time of each. A pointer near a line
// shows the words. Pages without changes do not have this script, so it lays its lines over charts that others draw.
"use strict";
(() => {
  const NEAR_PX = 4;
  const { runs } = JSON.parse(document.getElementById("runs").textContent);

  // Where in its place a chart has the times `from` to `to`. The edges of the timeline are those of timeline.js, which counts
  // from where the report begins to count.
  function area(place, { from_ns }) {
    const chart = echarts.getInstanceByDom(place);
    if (!chart) {
      const { from, to } = place.dataset;
      return { top: 6, right: 12, bottom: 62, left: Number(place.dataset.left), from: from_ns + Number(from), to: from_ns + Number(to) };
    }
    const { x, y, width, height } = chart.getModel().getComponent("grid").coordinateSystem.getRect();
    const { min: from, max: to } = chart.getOption().xAxis[0];
    return { top: y, right: place.clientWidth - x - width, bottom: place.clientHeight - y - height, left: x, from, to };
  }

  // Lays the marks over a drawn chart. They take the place of those before.
  function lay(place, run) {
    const { top, right, bottom, left, from, to } = area(place, run);
    const marks = document.createElement("div");
    marks.className = "marks";
    marks.style.inset = `${top}px ${right}px ${bottom}px ${left}px`;
    for (const at of new Set(run.changes.map(({ at_ns }) => at_ns))) {
      if (at < from || at > to) continue;
      const [mark, tip] = [document.createElement("i"), document.createElement("span")];
      const share = (at - from) / (to - from);
      mark.style.left = `${100 * share}%`;
      mark.classList.toggle("late", share > 0.5);
      tip.className = "tip";
      tip.hidden = true;
      tip.textContent = run.changes.filter(({ at_ns }) => at_ns === at).map(({ change }) => change).join("; ");
      mark.append(tip);
      marks.append(mark);
    }
    const old = place.querySelector(".marks");
    if (old) old.remove();
    place.append(marks);
  }

  function point(place, x) {
    for (const mark of place.querySelectorAll(".marks > i")) {
      mark.firstChild.hidden = !(Math.abs(mark.getBoundingClientRect().left - x) <= NEAR_PX);
    }
  }

  const marked = [];
  runs.forEach((run, at) => {
    if (!run.changes) return;
    for (const chart of ["utilization", "lanes", "causes", "timeline"]) {
      const place = document.getElementById(`${chart}-${at}`);
      if (!place) continue;
      const draw = () => lay(place, run);
      place.addEventListener("pointermove", ({ clientX }) => point(place, clientX));
      place.addEventListener("pointerleave", () => point(place, NaN));
      if (chart === "timeline") {
        new MutationObserver(draw).observe(place, { attributeFilter: ["data-from", "data-to"] });
      } else {
        draw();
        place.addEventListener("drawn", draw);
        marked.push(draw);
      }
    }
  });
  // The charts are drawn anew before these listeners are called, since those of page.js came first.
  addEventListener("resize", () => marked.forEach((draw) => draw()));
  Page.darkened(() => marked.forEach((draw) => draw()));
})();
