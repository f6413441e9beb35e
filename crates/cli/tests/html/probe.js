// Inspects a drawn page through its pixels, and writes the findings into the document.
"use strict";
addEventListener("load", () => {
  const canvasOf = (id) => document.querySelector(`#${id} canvas`);
  const chartOf = (id) => echarts.getInstanceByDom(document.getElementById(id));

  // Returns the coloured share of a chart's lanes, the number of legend colours in them, and a checksum of the
  // pixels.
  function pixels(id) {
    const canvas = canvasOf(id);
    const ratio = canvas.width / canvas.clientWidth;
    const chart = chartOf(id);
    const { clientWidth: width, clientHeight: height } = canvas;
    const area = chart ? chart.getModel().getComponent("grid").coordinateSystem.getRect() : { x: 60, y: 6, width: width - 72, height: height - 70 };
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
    // Spans narrower than a pixel have mixed colours, so similar colours count.
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
    const place = { left, right, top };
    if (id.startsWith("timeline")) return { place, ...pixels(id) };
    const option = chartOf(id).getOption();
    const seen = { series: option.series.length, place, marks: marks(id), area: chartOf(id).getModel().getComponent("grid")?.coordinateSystem.getRect() };
    if (canvasOf(id)) return { ...seen, lanes: option.yAxis[0].data.length, ...pixels(id) };
    const paths = [...element.querySelectorAll("svg path:not(clipPath path)")];
    const lines = paths.filter((it) => it.getAttribute("stroke-width") === "1.8" && it.getTotalLength() > 1);
    const areas = paths.filter((it) => /^(#|rgb)/.test(it.getAttribute("fill") || "") && it.getTotalLength() > 200);
    return {
      ...seen,
      drawn: id === "latency" ? lines.length : new Set(areas.map((it) => it.getAttribute("fill"))).size,
      lines: lines.length,
      dashed: lines.filter((it) => it.getAttribute("stroke-dasharray")).length,
      texts: [...element.querySelectorAll("svg text")].map((it) => it.textContent),
    };
  }

  function rows(table) {
    return [...table.tBodies].flatMap((body) => [...body.rows]).map((row) => ({
      name: (row.cells[0].querySelector("span") || row.cells[0]).textContent,
      figures: [...row.cells].slice(1).map((it) => it.dataset.value === undefined ? null : Number(it.dataset.value)),
    }));
  }

  // Returns the marks of a chart: where they are in the window, and their words.
  const marks = (id) =>
    [...document.querySelectorAll(`#${id} .marks > i`)].map((it) => ({ x: it.getBoundingClientRect().left, words: it.textContent, shown: !it.firstChild.hidden }));

  // Returns where in the window the last busy pixel of the second of two lanes is.
  function edge(id) {
    const canvas = canvasOf(id);
    const ratio = canvas.width / canvas.clientWidth;
    const { data } = canvas.getContext("2d").getImageData(0, Math.round(44 * ratio), canvas.width, 1);
    let last = 0;
    for (let x = 60 * ratio; x < canvas.width - 12 * ratio; x += 1) {
      const [r, g, b] = data.slice(4 * x, 4 * x + 3);
      if (Math.max(r, g, b) - Math.min(r, g, b) > 40) last = x;
    }
    return canvas.getBoundingClientRect().left + (last + 1) / ratio;
  }

  // Turns the wheel over the timeline, presses its buttons, and asks for the window of the latest wake-up.
  async function zoom() {
    const canvas = canvasOf("timeline-0");
    if (!canvas) return null;
    const place = document.getElementById("timeline-0");
    const range = () => [Number(place.dataset.from), Number(place.dataset.to)];
    const text = () => document.getElementById("timeline-range-0").textContent;
    const drawn = () => new Promise((go) => setTimeout(go, 1000));
    const seen = { whole: range(), text: [text()], pixels: [pixels("timeline-0").sum], marks: [marks("timeline-0")], edge: [edge("timeline-0")] };
    const box = canvas.getBoundingClientRect();
    const at = { clientX: box.left + box.width / 2, clientY: box.top + 12, bubbles: true, cancelable: true };
    canvas.dispatchEvent(new WheelEvent("wheel", { ...at, deltaY: -240 }));
    await drawn();
    seen.wheel = range();
    document.getElementById("timeline-in-0").click();
    await drawn();
    seen.button = range();
    seen.text.push(text());
    seen.pixels.push(pixels("timeline-0").sum);
    seen.marks.push(marks("timeline-0"));
    seen.edge.push(edge("timeline-0"));
    canvas.dispatchEvent(new PointerEvent("pointermove", at));
    seen.tip = place.querySelector(".tip").textContent;
    document.getElementById("timeline-all-0").click();
    await drawn();
    seen.all = range();
    for (const { x } of marks("timeline-0").slice(0, 1)) {
      canvas.dispatchEvent(new PointerEvent("pointermove", { ...at, clientX: x + 2 }));
      seen.near = marks("timeline-0");
    }
    const row = document.querySelector("#worst tbody tr:not([hidden])");
    if (row) {
      row.querySelector("button").click();
      await drawn();
      seen.worst = { wait: [row.dataset.from, row.dataset.to].map(Number), shown: range() };
    }
    return seen;
  }

  // Chooses another metric and another axis on the page of a sweep.
  function choose() {
    const list = (id) => document.getElementById(id);
    if (!list("metric")) return null;
    const rows = () => [...document.querySelectorAll("#points tbody tr:not([hidden])")].map((row) => row.dataset.metric);
    const options = (id) => (list(id) ? [...list(id).options].map((it) => it.textContent) : []);
    const look = () => ({
      rows: rows(), axis: list("axis").selectedOptions[0].textContent, lines: list("lines").selectedOptions[0].textContent,
      series: chartOf("sweep").getOption().series.map(({ type, data }) => [type, data.length]),
      dots: [...document.querySelectorAll("#sweep svg circle, #sweep svg path")].map((it) => it.getBBox())
        .filter(({ width, height }) => Math.abs(width - 8) < 0.5 && Math.abs(height - 8) < 0.5).length,
    });
    const choose = (id, value) => {
      list(id).value = value;
      list(id).dispatchEvent(new Event("change"));
    };
    const seen = { metrics: options("metric"), first: look() };
    choose("metric", "1");
    choose("axis", list("axis").options[1].value);
    seen.second = look();
    choose("lines", "-1");
    seen.third = look();
    return seen;
  }

  // Opens the first name of several tasks, and counts the rows that are seen before and after.
  function unfold() {
    const seen = () => [...document.querySelectorAll("#tasks tbody tr")].filter((row) => !row.hidden).length;
    const button = document.querySelector("button.fold");
    const closed = seen();
    if (button) button.click();
    return [closed, seen()];
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
      const names = [...document.getElementById("tasks").tBodies].filter((body) => body.rows.length);
      sorted = names.map(({ rows: [row] }) => Number(row.cells[column].dataset.value));
    }
    const seen = {
      errors: document.getElementById("errors").textContent,
      requests: performance.getEntriesByType("resource").length + window.blocked.length,
      tables, charts, sorted, chosen: choose(), unfolded: unfold(), ...more,
      overflow: document.documentElement.scrollWidth - innerWidth,
      paper: getComputedStyle(document.querySelector("section")).backgroundColor,
    };
    const place = document.createElement("pre");
    place.id = "probe";
    place.textContent = JSON.stringify(seen);
    document.body.append(place);
  }

  // The timeline is unpacked some time after the page is loaded.
  const wait = setInterval(async () => {
    if (document.body.dataset.drawn !== "all") return;
    clearInterval(wait);
    write({ zoom: await zoom() });
  }, 50);
});
