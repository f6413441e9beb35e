// Looks at a page that is drawn, as a person would, and writes what it sees into the document.
"use strict";
addEventListener("load", () => {
  const canvasOf = (id) => document.querySelector(`#${id} canvas`);
  const chartOf = (id) => echarts.getInstanceByDom(document.getElementById(id));

  // How much of the lanes of a chart is coloured, how many colours of its legend are among them,
  // and a sum over all of it.
  function pixels(id) {
    const canvas = canvasOf(id);
    const ratio = canvas.width / canvas.clientWidth;
    const area = chartOf(id).getModel().getComponent("grid").coordinateSystem.getRect();
    const sides = [area.x, area.y, area.width, area.height].map((side) => Math.floor(side * ratio));
    const { data } = canvas.getContext("2d").getImageData(...sides);
    const seen = new Map();
    let filled = 0;
    let sum = 0;
    for (let at = 0; at < data.length; at += 4) {
      const color = (data[at] << 16) | (data[at + 1] << 8) | data[at + 2];
      sum = (sum * 31 + color) % 1000000007;
      const gray = Math.max(...data.slice(at, at + 3)) - Math.min(...data.slice(at, at + 3)) < 12;
      if (data[at + 3] > 0 && !gray) {
        filled += 1;
        seen.set(color, (seen.get(color) || 0) + 1);
      }
    }
    const all = data.length / 4;
    const signs = [...document.querySelectorAll(`#${id.replace("-", "-legend-")} i`)];
    const named = signs.map((it) => it.style.backgroundColor.match(/\d+/g).map(Number));
    // Where stretches are narrower than a pixel, colours are mixed: near ones count.
    const near = (a, b) => [16, 8, 0].every((at) => Math.abs(((a >> at) & 255) - ((b >> at) & 255)) <= 4);
    const covers = ([r, g, b]) => {
      const own = (r << 16) | (g << 8) | b;
      const counts = [...seen].filter(([color]) => near(color, own)).map(([, count]) => count);
      return counts.reduce((sum, count) => sum + count, 0) > all / 2000;
    };
    const colors = named.filter(covers).length;
    return { filled: filled / all, colors, sum };
  }

  function look(element) {
    const { id } = element;
    const { left, right, top } = element.getBoundingClientRect();
    const option = chartOf(id).getOption();
    const seen = { series: option.series.length, place: { left, right, top } };
    if (canvasOf(id)) return { ...seen, lanes: option.yAxis[0].data.length, ...pixels(id) };
    const paths = [...element.querySelectorAll("svg path:not(clipPath path)")];
    const lines = paths.filter((it) => it.getAttribute("stroke-width") === "1.8" && it.getTotalLength() > 1);
    const areas = paths.filter((it) => /^(#|rgb)/.test(it.getAttribute("fill") || "") && it.getTotalLength() > 200);
    return {
      ...seen,
      drawn: id === "latency" ? lines.length : new Set(areas.map((it) => it.getAttribute("fill"))).size,
      dashed: lines.filter((it) => it.getAttribute("stroke-dasharray")).length,
      texts: [...element.querySelectorAll("svg text")].map((it) => it.textContent),
    };
  }

  function rows(table) {
    return [...table.tBodies[0].rows].map((row) => ({
      name: row.cells[0].textContent,
      figures: [...row.cells].slice(1).map((it) => it.dataset.value === undefined ? null : Number(it.dataset.value)),
    }));
  }

  // Turns the wheel over the timeline, then presses its buttons.
  function zoom() {
    const canvas = canvasOf("timeline-0");
    if (!canvas) return null;
    const chart = chartOf("timeline-0");
    const range = () => {
      const { startValue, endValue } = chart.getOption().dataZoom[0];
      return [startValue, endValue];
    };
    const text = () => document.getElementById("timeline-range-0").textContent;
    const seen = { whole: range(), text: [text()], pixels: [pixels("timeline-0").sum] };
    const box = canvas.getBoundingClientRect();
    const at = { clientX: box.left + box.width / 2, clientY: box.top + 30, bubbles: true, cancelable: true };
    canvas.dispatchEvent(new MouseEvent("mousemove", at));
    canvas.dispatchEvent(new WheelEvent("wheel", { ...at, deltaY: -240, wheelDeltaY: 240 }));
    chart.getZr().flush();
    setTimeout(() => {
      seen.wheel = range();
      document.getElementById("timeline-in-0").click();
      chart.getZr().flush();
      seen.button = range();
      seen.text.push(text());
      seen.pixels.push(pixels("timeline-0").sum);
      document.getElementById("timeline-all-0").click();
      chart.getZr().flush();
      seen.all = range();
      write({ zoom: seen });
    }, 1000);
    return seen;
  }

  function write(more) {
    const tables = {};
    document.querySelectorAll("table").forEach((table) => (tables[table.id] = rows(table)));
    const charts = {};
    document.querySelectorAll(".chart").forEach((it) => (charts[it.id] = look(it)));
    const titles = [...document.querySelectorAll("#tasks thead [data-sort]")];
    const runtime = titles.find((it) => it.textContent === "runtime");
    let sorted = [];
    if (runtime) {
      runtime.click();
      const column = titles.indexOf(runtime);
      sorted = [...document.getElementById("tasks").tBodies[0].rows].map((row) => Number(row.cells[column].dataset.value));
    }
    const seen = {
      errors: document.getElementById("errors").textContent,
      requests: performance.getEntriesByType("resource").length + window.blocked.length,
      tables, charts, sorted, ...more,
    };
    const place = document.createElement("pre");
    place.id = "probe";
    place.textContent = JSON.stringify(seen);
    document.body.append(place);
  }

  if (!zoom()) write({});
});
