// Draws the figure of a sweep from the JSON that the page carries, and chooses what it and the table show.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("runs").textContent);
  const { columns, points, metrics, figures } = data;
  const style = getComputedStyle(document.documentElement);
  const color = (name, or) => style.getPropertyValue(name).trim() || or;
  const INK = color("--ink", "#1c2430");
  const QUIET = color("--quiet", "#5d6878");
  const LINE = color("--line", "#dfe3e8");
  const GROUND = color("--card", color("--ground", "#ffffff"));
  const PALETTE = [
    "#3f74b5", "#d98032", "#4c9a5f", "#b5475d", "#7d62b0", "#2f9aa0",
    "#a9792b", "#c66aa6", "#6b7f2e", "#5b6fd6", "#a14f33", "#4f8f86",
  ];
  const ANY = "any";
  const NONE = "none";

  const escaped = (text) => String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
  const UNITS = [[1, "ns"], [1e3, "us"], [1e6, "ms"], [1e9, "s"]];
  function span(ns) {
    const size = Math.abs(ns);
    const [unit, name] = UNITS.find(([unit]) => size < 999.5 * unit) || UNITS[3];
    return `${Number((ns / unit).toPrecision(3))} ${name}`;
  }
  const SHOWN = {
    span,
    percent: (it) => `${Number(it.toPrecision(4))} %`,
    share: (it) => `${Number((100 * it).toPrecision(4))} %`,
    number: (it) => String(Number(it.toPrecision(4))),
  };

  // What is chosen: the metric, the column along the axis, the column of the lines, one value of each other column.
  const swept = columns.map((_, at) => at).filter((at) => columns[at].values.length > 1);
  const chosen = {
    metric: 0,
    axis: swept.find((at) => columns[at].is_number) ?? swept[0] ?? -1,
    lines: -1,
    values: columns.map(() => (data.is_grid ? 0 : -1)),
  };
  chosen.lines = data.is_grid ? swept.find((at) => at !== chosen.axis) ?? -1 : -1;

  function select(title, id, options, now, change) {
    const label = document.createElement("label");
    const list = document.createElement("select");
    list.id = id;
    for (const [value, text] of options) {
      const option = document.createElement("option");
      option.value = value;
      option.textContent = text;
      list.append(option);
    }
    list.value = now;
    list.addEventListener("change", () => {
      change(Number(list.value));
      show();
    });
    label.append(title, list);
    return label;
  }

  function choices() {
    const form = document.getElementById("choices");
    const all = [select("metric", "metric", metrics.map(({ name }, at) => [at, name]), chosen.metric,
      (it) => (chosen.metric = it))];
    const names = swept.map((at) => [at, columns[at].name]);
    if (names.length) {
      all.push(select("against", "axis", names, chosen.axis, (it) => {
        if (chosen.lines === it) chosen.lines = chosen.axis;
        chosen.axis = it;
      }));
    }
    if (names.length > 1) {
      const others = [[-1, NONE], ...names.filter(([at]) => at !== chosen.axis)];
      all.push(select("lines by", "lines", others, chosen.lines, (it) => (chosen.lines = it)));
    }
    for (const at of swept.filter((at) => at !== chosen.axis && at !== chosen.lines)) {
      const values = [[-1, ANY], ...columns[at].values.map((value, place) => [place, value])];
      all.push(select(columns[at].name, `value-${at}`, values, chosen.values[at], (it) => (chosen.values[at] = it)));
    }
    form.replaceChildren(...all);
  }

  // The points that are drawn, each line with its points in the order of the axis.
  function lines() {
    const free = (at) => at === chosen.axis || at === chosen.lines || chosen.values[at] < 0;
    const drawn = points.map((values, point) => ({ values, point, figures: figures[chosen.metric][point] }))
      .filter(({ values, figures }) => figures && values.every((value, at) => free(at) || value === chosen.values[at]));
    const x = ({ values }) => {
      if (chosen.axis < 0) return 0;
      const { values: names, is_number } = columns[chosen.axis];
      return is_number ? Number(names[values[chosen.axis]]) : values[chosen.axis];
    };
    const found = new Map();
    for (const it of drawn) {
      const key = chosen.lines < 0 ? -1 : it.values[chosen.lines];
      if (!found.has(key)) found.set(key, []);
      found.get(key).push({ ...it, x: x(it) });
    }
    const sorted = [...found].sort(([a], [b]) => a - b);
    return sorted.map(([key, own], at) => ({
      name: key < 0 ? metrics[chosen.metric].name : columns[chosen.lines].values[key],
      color: PALETTE[at % PALETTE.length],
      points: own.sort((a, b) => a.x - b.x),
      // Several points at one place are no line.
      joined: new Set(own.map(({ x }) => x)).size === own.length,
    }));
  }

  function series({ name, color, points, joined }) {
    const line = {
      type: joined ? "line" : "scatter", name, color, symbol: "circle", symbolSize: joined ? 6 : 7,
      data: points.map((it) => ({ value: [it.x, it.figures[1]], point: it.point })),
      lineStyle: { width: 1.8 }, emphasis: { disabled: true }, z: 3,
    };
    const withEnds = points.filter((it) => it.figures[3]);
    const ends = withEnds.map((it) => [it.x, ...it.figures[3]]);
    if (!ends.length) return [line];
    const band = {
      type: "custom", name, color, silent: true, z: 1, data: ends,
      encode: { x: 0, y: [1, 2] }, clip: true,
      renderItem: ({ dataIndex }, api) => {
        // The first of them draws the band of all; the others are there for the scale.
        if (joined && ends.length > 1) {
          if (dataIndex > 0) return undefined;
          const low = ends.map(([x, low]) => api.coord([x, low]));
          const high = ends.map(([x, , high]) => api.coord([x, high])).reverse();
          return { type: "polygon", shape: { points: low.concat(high) }, style: { fill: color, opacity: 0.16 } };
        }
        const [x, low] = api.coord([api.value(0), api.value(1)]);
        const high = api.coord([api.value(0), api.value(2)])[1];
        return { type: "line", shape: { x1: x, y1: low, x2: x, y2: high }, style: { stroke: color, lineWidth: 2, opacity: 0.5 } };
      },
    };
    return [band, line];
  }

  const place = document.getElementById("sweep");
  place.style.height = "420px";
  const chart = echarts.init(place, null, { renderer: "svg" });
  addEventListener("resize", () => chart.resize());

  function tell(point) {
    const rows = columns.map(({ name, values }, at) => `<br>${escaped(name)} <b>${escaped(values[points[point][at]])}</b>`);
    const { name, unit } = metrics[chosen.metric];
    const [n, mean, median, ends] = figures[chosen.metric][point];
    const shown = SHOWN[unit];
    const interval = ends ? `<br>95 % <b>${shown(ends[0])}</b> to <b>${shown(ends[1])}</b>` : "";
    return `${escaped(name)}${rows.join("")}<br>mean <b>${shown(mean)}</b>, median <b>${shown(median)}</b>${interval}<br>${n} ${n === 1 ? "run" : "runs"}`;
  }

  function draw() {
    const all = lines();
    const column = columns[chosen.axis];
    const shown = SHOWN[metrics[chosen.metric].unit];
    const base = {
      axisLine: { lineStyle: { color: QUIET } }, axisLabel: { color: QUIET, fontSize: 11, hideOverlap: true },
      splitLine: { lineStyle: { color: LINE } }, nameTextStyle: { color: QUIET, fontSize: 11 },
    };
    const text = all.flatMap(({ points }) => points.flatMap(({ figures }) => [figures[1], ...(figures[3] || [])]));
    const [low, high] = [Math.min(...text), Math.max(...text)];
    const axis = column && column.is_number
      ? { type: "value", scale: true }
      : { type: "category", data: column ? column.values : [""], boundaryGap: true };
    chart.setOption({
      animation: false, textStyle: { fontFamily: "inherit", color: INK },
      grid: { left: 8, right: 24, top: 44, bottom: 30, containLabel: true },
      legend: { type: "scroll", top: 0, data: all.map(({ name }) => name), icon: "roundRect", itemWidth: 11, itemHeight: 11,
        textStyle: { color: INK, fontSize: 12 } },
      xAxis: { ...base, ...axis, name: column ? column.name : "", nameLocation: "middle", nameGap: 26, splitLine: { show: false } },
      yAxis: { ...base, type: "value", scale: low > 0.3 * high, name: "", axisLabel: { ...base.axisLabel, formatter: shown } },
      tooltip: { trigger: "item", confine: true, transitionDuration: 0, backgroundColor: GROUND, borderColor: LINE,
        textStyle: { color: INK, fontSize: 12 }, formatter: ({ data }) => (data && data.point !== undefined ? tell(data.point) : "") },
      series: all.flatMap(series),
    }, true);
  }

  function rows() {
    for (const row of document.querySelectorAll("#points tbody tr")) {
      row.hidden = Number(row.dataset.metric) !== chosen.metric;
    }
  }

  function show() {
    choices();
    draw();
    rows();
  }

  // A click on a title sorts by its column: numbers from the greatest, texts from the first.
  function sortable(table) {
    const titles = [...table.tHead.rows[0].cells];
    titles.forEach((title, column) => {
      if (!title.dataset.sort) return;
      title.addEventListener("click", () => {
        const text = title.dataset.sort === "text";
        const [first, last] = text ? ["ascending", "descending"] : ["descending", "ascending"];
        const order = title.getAttribute("aria-sort") === first ? last : first;
        titles.forEach((other) => other.removeAttribute("aria-sort"));
        title.setAttribute("aria-sort", order);
        const sign = order === "ascending" ? 1 : -1;
        const key = (row) => (text ? row.cells[column].textContent : Number(row.cells[column].dataset.value ?? -Infinity));
        const sorted = [...table.tBodies[0].rows].map((row) => [key(row), row]);
        sorted.sort(([a], [b]) => sign * (text ? a.localeCompare(b, "en", { numeric: true }) : a - b));
        table.tBodies[0].append(...sorted.map(([, row]) => row));
      });
    });
  }

  show();
  sortable(document.getElementById("points"));
  document.body.dataset.drawn = "all";
})();
