// Draws the charts of a report. Everything that is read is in the page: the figures in #runs (see data.rs), the tables in
// the document.
"use strict";
(() => {
  const { runs } = JSON.parse(document.getElementById("runs").textContent);
  const { escaped, legend, theme, UNITS } = Page;
  let look = theme();
  const KINDS = [
    { key: "rt_ns", name: "real-time", color: "#c8553d" },
    { key: "normal_ns", name: "normal", color: "#3f74b5" },
    { key: "idle_policy_ns", name: "idle policy", color: "#8fb8a4" },
    { key: "overhead_ns", name: "scheduler", color: look.overhead },
  ];
  const axis = (more) => Page.axis(look, more);
  const time = (run, longest) => axis({
    type: "value", min: run.from_ns, max: run.from_ns + longest, name: "time since the run's start", splitLine: { show: false }, nameGap: 24,
    axisLabel: { formatter: moment, showMaxLabel: false, hideOverlap: true },
  });
  const tooltip = (more) => Page.tooltip(look, more);

  // One colour for a task wherever it is drawn, in both runs.
  const colors = new Map();
  const color = (pool) => {
    if (!colors.has(pool)) colors.set(pool, Page.color(colors.size));
    return colors.get(pool);
  };
  runs.forEach(({ latencies }) => latencies.forEach(({ name }) => color(name)));

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

  const whose = (run) => (runs.length > 1 ? `, ${run.label}` : "");

  // The begin, the end and the width of each step, and for each kind the share of the machine.
  function steps({ history, from_ns, duration_ns, cpus }) {
    const count = history.rt_ns.length;
    const ends = [...Array(count).keys()].map((at) => [
      from_ns + at * history.step_ns,
      from_ns + Math.min((at + 1) * history.step_ns, duration_ns),
    ]);
    const wide = ends.map(([begin, end]) => Math.max(end - begin, 1));
    const shares = KINDS.map(({ key }) => history[key].map((ns, at) => ns / (wide[at] * cpus)));
    return { ends, wide, shares };
  }

  // Layers on each other: `parts` are the heights of each in each step. Each is painted from 0 over those that are above it,
  // so the highest comes first.
  function layers(run, ends, parts) {
    const sums = ends.map(() => 0);
    return parts.map(({ name, color, heights }, nth) => {
      heights.forEach((height, step) => (sums[step] += height));
      const points = ends.map(([begin], step) => [begin, sums[step]]);
      if (points.length) points.push([run.from_ns + run.duration_ns, points[points.length - 1][1]]);
      return {
        type: "line", name, data: points, step: "end", symbol: "none", z: 100 - nth,
        lineStyle: { width: 0 }, areaStyle: { color, opacity: 1 }, emphasis: { disabled: true },
      };
    }).reverse();
  }

  function utilization(run, at, longest) {
    const { ends, shares } = steps(run);
    const series = layers(run, ends, KINDS.map((it, kind) => ({ ...it, heights: shares[kind].map((share) => 100 * share) })));
    const tell = (points) => {
      const step = Math.min(points[0].dataIndex, ends.length - 1);
      const rows = KINDS.map(({ name, color }, kind) =>
        `<br><span style="color:${color}">&#9632;</span> ${name} <b>${percent(shares[kind][step])}</b>`);
      return `${moment(ends[step][0])} to ${moment(ends[step][1])}${rows.reverse().join("")}`;
    };
    Page.draw(`utilization-${at}`, { height: 220, renderer: "svg", said: `The share of CPU time of each kind of work over time${whose(run)}.` }, {
      grid: { left: 58, right: 18, top: 10, bottom: 42 },
      xAxis: time(run, longest),
      yAxis: axis({ type: "value", min: 0, max: 100, name: "share of CPU time", nameGap: 42, axisLabel: { formatter: "{value} %" } }),
      tooltip: tooltip({ trigger: "axis", formatter: tell, axisPointer: { type: "line" } }),
      series,
    });
  }

  // The 99th percentiles of the latencies that ended in each step; a step without one is a gap.
  function course(run, at, longest) {
    if (!document.getElementById(`course-${at}`)) return;
    const title = ({ kind, name }) => (kind === "task" ? name : `${kind} ${name}`);
    const edge = (it, step) => run.from_ns + Math.min(step * it.step_ns, run.duration_ns);
    const series = run.series.map((it) => {
      const points = it.p99_ns.map((ns, step) => [edge(it, step), ns === null ? null : Math.max(ns, 1)]);
      return {
        type: "line", name: title(it), step: "end", symbol: "none", color: color(title(it)), lineStyle: { width: 1.8 },
        data: [...points, [edge(it, points.length), points[points.length - 1][1]]],
      };
    });
    const tell = (points) => {
      const rows = points.map(({ seriesIndex, dataIndex }) => {
        const it = run.series[seriesIndex];
        const step = Math.min(dataIndex, it.count.length - 1);
        const [p50, p99, max] = [it.p50_ns, it.p99_ns, it.max_ns].map((all) => (all[step] === null ? "-" : span(all[step])));
        return `<br>${escaped(title(it))}: p50 <b>${p50}</b>, p99 <b>${p99}</b>, max <b>${max}</b> of ${it.count[step]}`;
      });
      const it = run.series[points[0].seriesIndex];
      const step = Math.min(points[0].dataIndex, it.count.length - 1);
      return `${moment(edge(it, step))} to ${moment(edge(it, step + 1))}${rows.join("")}`;
    };
    const chart = Page.draw(`course-${at}`, { height: 260, renderer: "svg", said: `The 99th percentile over time of ${series.map(({ name }) => name).join(", ")}${whose(run)}.` }, {
      grid: { left: 70, right: 18, top: 10, bottom: 42 },
      legend: { show: false },
      xAxis: time(run, longest),
      yAxis: axis({ type: "log", name: "p99 latency", nameGap: 54, axisLabel: { formatter: moment } }),
      tooltip: tooltip({ trigger: "axis", formatter: tell, axisPointer: { type: "line" } }),
      series,
    });
    legend(`course-legend-${at}`, series.map(({ name, color }) => [name, color]),
      (name) => chart.dispatchAction({ type: "legendToggleSelect", name }));
  }

  // The mean number of waiting tasks in each step, by cause. A cause that is pressed away leaves the pile.
  const causeNames = [...new Set(runs.flatMap(({ history }) => (history?.waits || []).map(({ name }) => name)))];
  const mostWaiting = (run) => {
    const { wide } = steps(run);
    return Math.max(...wide.map((width, step) => run.history.waits.reduce((sum, { ns }) => sum + ns[step], 0) / width));
  };
  function causes(run, at, longest) {
    if (!document.getElementById(`causes-${at}`)) return;
    const { ends, wide } = steps(run);
    const parts = run.history.waits.map(({ name, ns }) =>
      ({ name, ns, color: Page.color(causeNames.indexOf(name)), heights: ns.map((it, step) => it / wide[step]) }));
    const most = Math.max(...runs.map(mostWaiting));
    const hidden = new Set();
    const shown = () => parts.filter(({ name }) => !hidden.has(name));
    const tell = (points) => {
      const step = Math.min(points[0].dataIndex, ends.length - 1);
      const some = shown().filter(({ ns }) => ns[step] > 0);
      const rows = some.map(({ name, color, ns }) =>
        `<br><span style="color:${color}">&#9632;</span> ${escaped(name)} <b>${(ns[step] / 1e6).toFixed(3)} ms</b>`);
      const tasks = some.reduce((sum, { heights }) => sum + heights[step], 0);
      return `${moment(ends[step][0])} to ${moment(ends[step][1])}: ${tasks.toFixed(2)} waiting${rows.reverse().join("")}`;
    };
    const said = `The mean number of waiting tasks over time, by cause: ${parts.map(({ name }) => name).join(", ")}${whose(run)}.`;
    const chart = Page.draw(`causes-${at}`, { height: 240, renderer: "svg", said }, {
      grid: { left: 58, right: 18, top: 10, bottom: 42 },
      xAxis: time(run, longest),
      yAxis: axis({ type: "value", min: 0, name: "waiting tasks", nameGap: 42, ...(runs.length > 1 && { max: most, axisLabel: { showMaxLabel: false } }) }),
      tooltip: tooltip({ trigger: "axis", formatter: tell, axisPointer: { type: "line" } }),
      series: layers(run, ends, parts),
    });
    legend(`causes-legend-${at}`, parts.map(({ name, color }) => [name, color]), (name) => {
      if (!hidden.delete(name)) hidden.add(name);
      chart.setOption({ series: layers(run, ends, shown()) }, { replaceMerge: ["series"] });
    });
  }

  // From the colour of an idle CPU to that of a busy one.
  function shade(share) {
    const [cold, hot] = [Page.parts(look.cold), Page.parts(look.hot)];
    const mix = (at) => Math.round(cold[at] + (hot[at] - cold[at]) * Math.min(share, 1));
    return `rgb(${mix(0)},${mix(1)},${mix(2)})`;
  }

  // How busy each CPU was over time; the CPUs of a large machine are folded, and a fold has their mean.
  const folds = runs.map(({ history, cpus_per_node }) => (history ? Page.groups(history.cpus.length, cpus_per_node) : []));
  function lanes(run, at, longest) {
    const { ends } = steps(run);
    const rows = Page.rows(run.history.cpus.length, folds[at]);
    const data = [];
    rows.forEach(({ first, end }, row) => ends.forEach(([from, to], step) => {
      const own = run.history.cpus.slice(first, end).map((busy) => busy[step] / 1000);
      data.push([row, from, to, own.reduce((sum, share) => sum + share, 0) / own.length]);
    }));
    const nodes = run.cpus > run.cpus_per_node;
    const node = (cpu) => Math.floor(cpu / run.cpus_per_node);
    const begins = ({ first, end }) => nodes && first && first % run.cpus_per_node === 0 && end - first === 1;
    const place = ({ name, first, end }) => (nodes && end - first === 1 ? `node ${node(first)}, ${name}` : name);
    const high = Math.max(6, Math.min(20, 320 / Math.max(rows.length, 1)));
    const each = Math.ceil(13 / high);
    const label = (name, row) => (begins(rows[row]) ? `node ${node(rows[row].first)}  ${name}` : name);
    const edges = rows.flatMap((it, row) => (begins(it) ? [[row]] : []));
    const said = `How busy each of ${run.history.cpus.length} CPUs was over time${whose(run)}.`;
    Page.draw(`lanes-${at}`, { height: 8 + high * rows.length + 42, renderer: "canvas", said }, {
      grid: { left: nodes || folds[at].length ? 96 : 58, right: 18, top: 8, bottom: 42 },
      xAxis: time(run, longest),
      yAxis: axis({ type: "category", inverse: true, data: rows.map(({ name }) => name), axisTick: { show: false },
        axisLabel: { interval: (row) => row % each === 0 || rows[row].end - rows[row].first > 1, formatter: label } }),
      tooltip: tooltip({ formatter: ({ value: [row, begin, end, share] }) =>
        `${place(rows[row])}, ${moment(begin)} to ${moment(end)}<br>busy <b>${(100 * share).toFixed(1)} %</b>` }),
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
      }, {
        // Where a node begins.
        type: "custom", data: edges, silent: true, encode: { y: 0 }, z: 5,
        renderItem: ({ coordSys: { x, width } }, api) => {
          const y = api.coord([0, api.value(0)])[1] - api.size([0, 1])[1] / 2;
          return { type: "line", shape: { x1: x - 40, x2: x + width, y1: y, y2: y }, style: { stroke: look.ink, lineWidth: 1.5 } };
        },
      }],
    });
    document.getElementById(`lanes-${at}`).dispatchEvent(new Event("drawn"));
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

  // The distributions that `of` gives of a run.
  function latency(id, of, { many, name }) {
    if (!document.getElementById(id)) return;
    const series = runs.flatMap((run, at) => of(run).map((it) => ({
      type: "line", name: it.name, data: quantiles(it), symbol: "none", triggerLineEvent: true,
      color: color(it.name), emphasis: { lineStyle: { width: 3 } },
      lineStyle: { width: 1.8, type: at + 1 < runs.length ? [5, 4] : "solid" },
      tooltip: { formatter: () => {
        const names = [["p50", "p50_ns"], ["p90", "p90_ns"], ["p99", "p99_ns"], ["p99.9", "p999_ns"], ["max", "max_ns"]];
        const rows = names.map(([name, key]) => `<br>${name} <b>${it.latency[key] === null ? "-" : span(it.latency[key])}</b>`);
        return `${escaped(it.name)}${runs.length > 1 ? `, ${escaped(run.label)}` : ""}${rows.join("")}`;
      } },
    })));
    const all = series.flatMap(({ data }) => data);
    const right = all.reduce((most, [x]) => Math.max(most, x), 1);
    const marks = [0, HALF, ...Array(Math.floor(right)).keys()].map((at, place) => (place < 2 ? at : at + 1));
    const said = `The ${name} of ${many} at each percentile, of ${[...new Set(series.map((it) => it.name))].join(", ")}.`;
    const chart = Page.draw(id, { height: 340, renderer: "svg", said }, {
      grid: { left: 70, right: 18, top: 12, bottom: 44 },
      legend: { show: false },
      xAxis: axis({ type: "value", min: 0, max: right, interval: 1, axisTick: { customValues: marks },
        name: `share of the ${many} that were no later`, nameGap: 26,
        axisLabel: { customValues: marks, formatter: nineName, hideOverlap: true } }),
      yAxis: axis({ type: "log", name, nameGap: 54, axisLabel: { formatter: moment } }),
      tooltip: tooltip({ trigger: "item" }),
      series,
    });
    const names = [...new Set(series.map(({ name }) => name))];
    legend(`${id}-legend`, names.map((name) => [name, color(name)]),
      (name) => chart.dispatchAction({ type: "legendToggleSelect", name }));
  }

  async function timeline({ timeline: packed, cpus_per_node, from_ns }, at) {
    const place = document.getElementById(`timeline-${at}`);
    if (typeof DecompressionStream === "undefined") {
      place.textContent = "This browser cannot unpack the timeline.";
      return undefined;
    }
    // The timeline counts from where the report begins to count.
    const moment = (ns, width) => momentWithin(from_ns + Math.round(ns), width);
    const words = { color, span, moment };
    const drawn = await Timeline.draw(place, { ...packed, cpus_per_node }, words);
    const pools = [...drawn.pools];
    const more = pools.length > Page.COLORS ? [[`and ${pools.length - Page.COLORS} more`, "transparent"]] : [];
    legend(`timeline-legend-${at}`, pools.slice(0, Page.COLORS).map((pool) => [pool, color(pool)])
      .concat(more, [["the scheduler", look.overhead]]));
    drawn.listen((from, to) => {
      document.getElementById(`timeline-range-${at}`).textContent =
        `${moment(from, to - from)} to ${moment(to, to - from)} is shown`;
    });
    const act = { in: () => drawn.zoom(0.25), out: () => drawn.zoom(4), all: drawn.all };
    for (const [action, does] of Object.entries(act)) {
      document.getElementById(`timeline-${action}-${at}`).addEventListener("click", does);
    }
    return drawn;
  }

  // A click on a wake-up shows its window in the timeline, with as much time again before and after it.
  function jumps(timeline) {
    document.querySelectorAll("tr[data-from]").forEach((row) => {
      const since = (at) => Number(at) - runs[0].from_ns;
      const wait = { from: since(row.dataset.from), to: since(row.dataset.to), cpu: Number(row.dataset.cpu) };
      const button = row.querySelector("button");
      if (!timeline || wait.cpu >= runs[0].timeline.cpus) {
        button.hidden = true;
        return;
      }
      button.addEventListener("click", () => {
        const long = wait.to - wait.from;
        timeline.show(wait.from - long / 2, wait.to + long / 2, wait);
        document.getElementById("timeline-0").scrollIntoView({ block: "center" });
      });
    });
    const whose = document.getElementById("worst-of");
    if (!whose) return;
    const choose = () => document.querySelectorAll("#worst tbody tr").forEach((row) => {
      row.hidden = whose.value ? row.cells[0].textContent !== whose.value : row.dataset.first === undefined;
    });
    whose.addEventListener("change", choose);
    choose();
  }

  // Two runs have one scale, so that one can look from one to the other.
  const longest = Math.max(1, ...runs.map((run) => run.duration_ns));
  function charts() {
    look = theme();
    runs.forEach((run, at) => {
      course(run, at, longest);
      if (!run.history) return;
      utilization(run, at, longest);
      causes(run, at, longest);
      lanes(run, at, longest);
    });
    latency("latency", ({ latencies }) => latencies, { many: "wake-ups", name: "wake-up latency" });
    latency("chain-latency", ({ chains }) => chains, { many: "tokens", name: "latency" });
  }
  charts();
  if (runs.some((run) => run.history)) legend("kinds", KINDS.map(({ name, color }) => [name, color]));
  runs.forEach((run, at) => run.history && Page.folds(document.getElementById(`lanes-${at}`), folds[at], () => lanes(run, at, longest)));

  // A page that becomes wider, or dark.
  const drawn = [];
  addEventListener("resize", () => {
    document.querySelectorAll(".chart").forEach((place) => {
      const chart = echarts.getInstanceByDom(place);
      if (chart) chart.resize();
    });
    drawn.forEach((timeline) => timeline.redraw());
  });
  Page.darkened(() => {
    charts();
    drawn.forEach((timeline) => timeline.dress());
  });

  (async () => {
    for (const [at, run] of runs.entries()) {
      const it = run.timeline && (await timeline(run, at));
      if (it) drawn.push(it);
    }
    jumps(drawn[0]);
    document.body.dataset.drawn = "all";
  })().catch((error) => {
    setTimeout(() => { throw error; });
  });
})();
