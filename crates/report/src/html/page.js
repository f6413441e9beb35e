// Draws the charts of a report and sorts its tables. Everything that is read is in the page: the
// figures in #runs (see data.rs), the tables in the document.
"use strict";
(() => {
  const { runs } = JSON.parse(document.getElementById("runs").textContent);
  const INK = "#1c2430";
  const QUIET = "#5d6878";
  const LINE = "#dfe3e8";
  const OVERHEAD = "#8b95a3";
  const KINDS = [
    { key: "rt_ns", name: "real-time", color: "#c8553d" },
    { key: "normal_ns", name: "normal", color: "#3f74b5" },
    { key: "idle_policy_ns", name: "idle policy", color: "#8fb8a4" },
    { key: "overhead_ns", name: "scheduler", color: OVERHEAD },
  ];
  const PALETTE = [
    "#3f74b5", "#d98032", "#4c9a5f", "#b5475d", "#7d62b0", "#2f9aa0",
    "#a9792b", "#c66aa6", "#6b7f2e", "#5b6fd6", "#a14f33", "#4f8f86",
  ];
  const AXIS = {
    axisLine: { lineStyle: { color: "#b9c1cb" } },
    axisLabel: { color: QUIET, fontSize: 11 },
    splitLine: { lineStyle: { color: "#eef0f3" } },
    nameTextStyle: { color: QUIET, fontSize: 11 },
  };
  const TOOLTIP = {
    confine: true,
    transitionDuration: 0,
    borderColor: LINE,
    textStyle: { color: INK, fontSize: 12 },
  };

  // One colour for a task wherever it is drawn, in both runs.
  const colors = new Map();
  for (const { latencies, timeline } of runs) {
    const pools = latencies.map((it) => it.name);
    for (const pool of pools.concat(timeline ? timeline.tasks.map((it) => it.pool) : [])) {
      if (!colors.has(pool)) colors.set(pool, PALETTE[colors.size % PALETTE.length]);
    }
  }

  const escaped = (text) =>
    text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

  const UNITS = [[1, "ns"], [1e3, "us"], [1e6, "ms"], [1e9, "s"]];

  // A span of time in three digits, as the tables have it.
  function span(ns) {
    const [unit, name] = UNITS.find(([unit]) => ns < 999.5 * unit) || UNITS[3];
    const value = ns / unit;
    const digits = unit === 1 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    return `${value.toFixed(digits)} ${name}`;
  }

  // A moment, as short as it can be said and be told from others within `width`.
  function momentWithin(ns, width) {
    if (ns < 1) return "0";
    const [unit, name] = UNITS.findLast(([unit]) => ns >= unit);
    const digits = Math.max(0, Math.min(9, Math.ceil(Math.log10(unit / width)) + 3));
    return `${Number((ns / unit).toFixed(digits))} ${name}`;
  }

  const moment = (ns) => momentWithin(ns, ns);

  const percent = (part) => `${(100 * part).toFixed(2)} %`;

  function draw(id, height, renderer, option) {
    const place = document.getElementById(id);
    place.style.height = `${height}px`;
    const chart = echarts.init(place, null, { renderer });
    chart.setOption({ animation: false, textStyle: { fontFamily: "inherit" }, ...option });
    addEventListener("resize", () => chart.resize());
    return chart;
  }

  function legend(id, entries) {
    const list = document.getElementById(id);
    for (const [name, color] of entries) {
      const entry = document.createElement("li");
      const sign = document.createElement("i");
      sign.style.background = color;
      entry.append(sign, name);
      list.append(entry);
    }
  }

  // The begin and the end of each step, and for each kind the share of the machine.
  function steps({ history, duration_ns, cpus }) {
    const count = history.rt_ns.length;
    const ends = [...Array(count).keys()].map((at) => [
      at * history.step_ns,
      Math.min((at + 1) * history.step_ns, duration_ns),
    ]);
    const wide = ends.map(([begin, end]) => Math.max(end - begin, 1));
    const shares = KINDS.map(({ key }) => history[key].map((ns, at) => ns / (wide[at] * cpus)));
    return { ends, wide, shares };
  }

  function utilization(run, at, longest) {
    const { ends, shares } = steps(run);
    const sums = ends.map(() => 0);
    // Each kind is painted from 0 over those that are above it, so the highest comes first.
    const series = KINDS.map(({ name, color }, kind) => {
      shares[kind].forEach((share, step) => (sums[step] += share));
      const points = ends.map(([begin], step) => [begin, 100 * sums[step]]);
      if (points.length) points.push([run.duration_ns, points[points.length - 1][1]]);
      return {
        type: "line", name, data: points, step: "end", symbol: "none", z: 10 - kind,
        lineStyle: { width: 0 }, areaStyle: { color, opacity: 1 }, emphasis: { disabled: true },
      };
    }).reverse();
    const tell = (points) => {
      const step = Math.min(points[0].dataIndex, ends.length - 1);
      const rows = KINDS.map(({ name, color }, kind) =>
        `<br><span style="color:${color}">&#9632;</span> ${name} <b>${percent(shares[kind][step])}</b>`);
      return `${moment(ends[step][0])} to ${moment(ends[step][1])}${rows.reverse().join("")}`;
    };
    draw(`utilization-${at}`, 220, "svg", {
      grid: { left: 56, right: 22, top: 12, bottom: 28 },
      xAxis: { type: "value", min: 0, max: longest, ...AXIS, splitLine: { show: false },
        axisLabel: { ...AXIS.axisLabel, formatter: moment, showMaxLabel: false } },
      yAxis: { type: "value", min: 0, max: 100, ...AXIS,
        axisLabel: { ...AXIS.axisLabel, formatter: "{value} %" } },
      tooltip: { trigger: "axis", ...TOOLTIP, formatter: tell, axisPointer: { type: "line" } },
      series,
    });
  }

  // From the colour of the page to that of work.
  function shade(share) {
    const mix = (from, to) => Math.round(from + (to - from) * Math.min(share, 1));
    return `rgb(${mix(240, 38)},${mix(243, 84)},${mix(247, 140)})`;
  }

  function lanes(run, at, longest) {
    const { ends, wide } = steps(run);
    const rows = run.history.cpus;
    const data = [];
    rows.forEach(({ busy_ns }, row) => busy_ns.forEach((ns, step) => {
      if (step < ends.length) data.push([row, ends[step][0], ends[step][1], ns / wide[step]]);
    }));
    const high = Math.max(6, Math.min(20, 320 / Math.max(rows.length, 1)));
    draw(`lanes-${at}`, 20 + high * rows.length + 24, "canvas", {
      grid: { left: 56, right: 22, top: 8, bottom: 24 },
      xAxis: { type: "value", min: 0, max: longest, ...AXIS, splitLine: { show: false },
        axisLabel: { ...AXIS.axisLabel, formatter: moment, showMaxLabel: false } },
      yAxis: { type: "category", inverse: true, data: rows.map(({ cpu }) => `CPU ${cpu}`), ...AXIS,
        axisTick: { show: false } },
      tooltip: { ...TOOLTIP, formatter: ({ value: [row, begin, end, share] }) =>
        `CPU ${rows[row].cpu}, ${moment(begin)} to ${moment(end)}<br>busy <b>${percent(share)}</b>` },
      series: [{
        type: "custom", data, clip: true, encode: { x: [1, 2], y: 0 }, progressive: 0,
        renderItem: (_, api) => {
          const [left, middle] = api.coord([api.value(1), api.value(0)]);
          const right = api.coord([api.value(2), api.value(0)])[0];
          const height = api.size([0, 1])[1];
          const gap = height > 8 ? 1 : 0;
          return {
            type: "rect",
            shape: { x: left, y: middle - height / 2, width: right - left + 0.5, height: height - gap },
            style: { fill: shade(api.value(3)) },
          };
        },
      }],
    });
  }

  // Percentiles on a scale on which 90, 99 and 99.9 % are equally far apart.
  const nines = (below, count) => -Math.log10(Math.max(1 - below / count, 0.5 / count));

  function quantiles({ points }) {
    const count = points.reduce((sum, [, n]) => sum + n, 0);
    let below = 0;
    return points.flatMap(([ns, n]) => {
      const from = nines(below, count);
      below += n;
      return [[from, Math.max(ns, 1)], [nines(below, count), Math.max(ns, 1)]];
    });
  }

  const HALF = Math.log10(2);
  const nineName = (at) => {
    const rounded = Math.round(at);
    if (Math.abs(at - HALF) < 1e-6) return "50 %";
    return rounded < 2 ? ["0 %", "90 %"][rounded] : `99${rounded > 2 ? "." : ""}${"9".repeat(rounded - 2)} %`;
  };

  function latency() {
    if (!document.getElementById("latency")) return;
    const series = runs.flatMap(({ latencies, label }, at) => latencies.map((it) => ({
      type: "line", name: it.name, data: quantiles(it), symbol: "none", triggerLineEvent: true,
      color: colors.get(it.name), emphasis: { lineStyle: { width: 3 } },
      lineStyle: { width: 1.8, type: at + 1 < runs.length ? [5, 4] : "solid" },
      tooltip: { formatter: () => {
        const names = [["p50", "p50_ns"], ["p90", "p90_ns"], ["p99", "p99_ns"], ["p99.9", "p999_ns"], ["max", "max_ns"]];
        const rows = names.map(([name, key]) => `<br>${name} <b>${it.wakeup_latency[key] === null ? "-" : span(it.wakeup_latency[key])}</b>`);
        return `${escaped(it.name)}${runs.length > 1 ? `, ${escaped(label)}` : ""}${rows.join("")}`;
      } },
    })));
    const all = series.flatMap(({ data }) => data);
    const right = all.reduce((most, [x]) => Math.max(most, x), 1);
    const marks = [0, HALF, ...Array(Math.floor(right)).keys()].map((at, place) => (place < 2 ? at : at + 1));
    draw("latency", 340, "svg", {
      grid: { left: 66, right: 22, top: 44, bottom: 44 },
      legend: { type: "scroll", top: 0, left: 56, icon: "roundRect", itemWidth: 11, itemHeight: 11, itemGap: 16, textStyle: { color: INK, fontSize: 12 } },
      xAxis: { type: "value", min: 0, max: right, interval: 1, ...AXIS, axisTick: { customValues: marks }, name: "share of the wake-ups that were no later",
        nameLocation: "middle", nameGap: 26, axisLabel: { ...AXIS.axisLabel, customValues: marks, formatter: nineName } },
      yAxis: { type: "log", ...AXIS, axisLabel: { ...AXIS.axisLabel, formatter: moment } },
      tooltip: { trigger: "item", ...TOOLTIP },
      series,
    });
  }

  function timeline({ timeline: drawn }, at) {
    const lanes = [...Array(drawn.cpus).keys()];
    const high = Math.max(12, Math.min(26, 520 / Math.max(lanes.length, 1)));
    const color = (who) => (who < 0 ? OVERHEAD : colors.get(drawn.tasks[who].pool));
    const name = (who) => (who < 0 ? "the scheduler" : drawn.tasks[who].name);
    const pools = [...new Set(drawn.tasks.map(({ pool }) => pool))];
    legend(`timeline-legend-${at}`, pools.slice(0, PALETTE.length).map((pool) => [pool, colors.get(pool)])
      .concat([["the scheduler", OVERHEAD]]));
    let width = drawn.end_ns;
    const chart = draw(`timeline-${at}`, 16 + high * lanes.length + 70, "canvas", {
      grid: { left: 56, right: 22, top: 8, bottom: 66 },
      xAxis: { type: "value", min: 0, max: drawn.end_ns, ...AXIS, splitLine: { show: true, ...AXIS.splitLine },
        axisLabel: { ...AXIS.axisLabel, hideOverlap: true, formatter: (ns) => momentWithin(ns, width),
          showMinLabel: false, showMaxLabel: false } },
      yAxis: { type: "category", inverse: true, data: lanes.map((cpu) => `CPU ${cpu}`), ...AXIS,
        axisTick: { show: false }, splitLine: { show: false } },
      dataZoom: [
        { type: "inside", filterMode: "weakFilter", minValueSpan: 1000 },
        { type: "slider", filterMode: "weakFilter", minValueSpan: 1000, height: 20, bottom: 8,
          borderColor: LINE, labelFormatter: (ns) => moment(ns), showDataShadow: false },
      ],
      tooltip: { ...TOOLTIP, formatter: ({ value: [cpu, begin, end, who] }) =>
        `<b>${escaped(name(who))}</b> on CPU ${cpu}<br>for ${span(end - begin)} from ${momentWithin(begin, width)}` },
      series: [{
        type: "custom", data: drawn.stretches, clip: true, encode: { x: [1, 2], y: 0 }, progressive: 0,
        renderItem: (params, api) => {
          const [left, middle] = api.coord([api.value(1), api.value(0)]);
          const right = api.coord([api.value(2), api.value(0)])[0];
          const height = Math.max(api.size([0, 1])[1] - 3, 4);
          const who = api.value(3);
          // Outside the grid nothing is drawn. A task that is shorter than a pixel still leaves a
          // trace; the scheduler does not, or it would cover the tasks between which it works.
          if (who < 0 && right - left < 0.5) return;
          const from = Math.max(left, params.coordSys.x);
          const to = Math.min(Math.max(right, left + 0.6), params.coordSys.x + params.coordSys.width);
          if (to <= from) return;
          const shape = { x: from, y: middle - height / 2, width: to - from, height };
          // A name is there if all of it has room: a digit takes six pixels, at most seven.
          const fits = who >= 0 && height >= 11 && to - from > 7 * name(who).length + 6;
          const text = fits ? name(who) : "";
          return {
            type: "rect", shape, style: { fill: color(who) },
            textConfig: { position: "inside" },
            textContent: text && { style: { text, fill: "#fff", fontSize: 11 } },
          };
        },
      }],
    });
    const zoom = () => {
      const { startValue, endValue } = chart.getOption().dataZoom[0];
      width = Math.max(endValue - startValue, 1);
      document.getElementById(`timeline-range-${at}`).textContent =
        `${momentWithin(startValue, width)} to ${momentWithin(endValue, width)} is shown`;
    };
    chart.on("datazoom", zoom);
    zoom();
    const to = (part) => {
      const { start, end } = chart.getOption().dataZoom[0];
      const half = Math.min(((end - start) / 2) * part, 50);
      const middle = Math.min(Math.max((start + end) / 2, half), 100 - half);
      chart.dispatchAction({ type: "dataZoom", start: middle - half, end: middle + half });
    };
    for (const [action, part] of [["in", 0.25], ["out", 4], ["all", 1e9]]) {
      document.getElementById(`timeline-${action}-${at}`).addEventListener("click", () => to(part));
    }
  }

  // A click on a title sorts by its column: numbers from the greatest, texts from the first.
  function sortable(table) {
    const titles = [...table.querySelectorAll("thead [data-sort]")];
    for (const [column, title] of titles.entries()) {
      title.addEventListener("click", () => {
        const text = title.dataset.sort === "text";
        const first = text ? "ascending" : "descending";
        const last = text ? "descending" : "ascending";
        const order = title.getAttribute("aria-sort") === first ? last : first;
        titles.forEach((other) => other.removeAttribute("aria-sort"));
        title.setAttribute("aria-sort", order);
        const key = (row) => {
          const cell = row.cells[column];
          return text ? cell.textContent : Number(cell.dataset.value ?? -1);
        };
        const sign = order === "ascending" ? 1 : -1;
        const rows = [...table.tBodies[0].rows].map((row) => [key(row), row]);
        rows.sort(([a], [b]) => sign * (text ? a.localeCompare(b, "en", { numeric: true }) : a - b));
        table.tBodies[0].append(...rows.map(([, row]) => row));
      });
    }
  }

  // Two runs have one scale, so that one can look from one to the other.
  const longest = Math.max(1, ...runs.map((run) => run.duration_ns));
  runs.forEach((run, at) => {
    if (run.history) {
      utilization(run, at, longest);
      lanes(run, at, longest);
    }
    if (run.timeline) timeline(run, at);
  });
  if (runs.some((run) => run.history)) legend("kinds", KINDS.map(({ name, color }) => [name, color]));
  latency();
  document.querySelectorAll("table").forEach(sortable);
  document.body.dataset.drawn = "all";
})();
