// Draws the figure of a sweep from the JSON that the page carries, and chooses what it and the table show.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("runs").textContent);
  const { columns, points, metrics, figures } = data;
  const { escaped, UNITS } = Page;
  const ANY = "any";
  const NONE = "none";

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
    axis: swept.find((at) => columns[at].is_number) ?? [...swept].sort((a, b) => columns[b].values.length - columns[a].values.length)[0] ?? -1,
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
      all.push(select("colours by", "lines", others, chosen.lines, (it) => (chosen.lines = it)));
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
      color: Page.color(at),
      dash: Page.dash(at),
      points: own.sort((a, b) => a.x - b.x),
      // Several points at one place are no line.
      joined: new Set(own.map(({ x }) => x)).size === own.length,
    }));
  }

  function series({ name, color, dash, points, joined }) {
    const line = {
      type: joined ? "line" : "scatter", name, color, symbol: "circle", symbolSize: joined ? 6 : 7,
      data: points.map((it) => ({ value: [it.x, it.figures[1]], point: it.point })),
      lineStyle: { width: 1.8, type: dash }, emphasis: { disabled: true }, z: 3,
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

  // What has no order along an axis has a row each: the mean as a point, the interval as a line through it.
  function dots({ name, color, points, slots }) {
    return [{
      type: "custom", name, color, z: 3, emphasis: { disabled: true },
      data: points.map((it, at) => ({ value: [it.figures[1], it.x, ...(it.figures[3] || [it.figures[1], it.figures[1]])], point: it.point, slot: slots[at] })),
      encode: { x: [0, 2, 3], y: 1 },
      renderItem: ({ dataIndex }, api) => {
        const [of, all] = slots[dataIndex];
        const [x, middle] = api.coord([api.value(0), api.value(1)]);
        const y = middle + ((of + 0.5) / all - 0.5) * api.size([0, 1])[1] * 0.8;
        const [low, high] = [2, 3].map((at) => api.coord([api.value(at), 0])[0]);
        return { type: "group", children: [
          { type: "line", shape: { x1: low, y1: y, x2: high, y2: y }, style: { stroke: color, lineWidth: 2, opacity: 0.6 } },
          { type: "circle", shape: { cx: x, cy: y, r: 4 }, style: { fill: color } },
        ] };
      },
    }];
  }

  // For each point of each line, the place among those of its category, and their number.
  function slotted(all) {
    const used = new Map();
    all.forEach((line) => (line.slots = line.points.map(({ x }) => {
      const slot = [used.get(x) || 0, 0];
      used.set(x, slot[0] + 1);
      return slot;
    })));
    all.forEach(({ points, slots }) => points.forEach(({ x }, at) => (slots[at][1] = used.get(x))));
    return Math.max(1, ...used.values());
  }

  function tell(point) {
    const rows = columns.map(({ name, values }, at) => `<br>${escaped(name)} <b>${escaped(values[points[point][at]])}</b>`);
    const { name, unit } = metrics[chosen.metric];
    const [n, mean, median, ends] = figures[chosen.metric][point];
    const shown = SHOWN[unit];
    const interval = ends ? `<br>95 % <b>${shown(ends[0])}</b> to <b>${shown(ends[1])}</b>` : "";
    return `${escaped(name)}${rows.join("")}<br>mean <b>${shown(mean)}</b>, median <b>${shown(median)}</b>${interval}<br>${n} ${n === 1 ? "run" : "runs"}`;
  }

  const ROW_PX = 14, LETTER_PX = 6.6;

  function draw() {
    const all = lines();
    const look = Page.theme();
    const column = columns[chosen.axis];
    const shown = SHOWN[metrics[chosen.metric].unit];
    const is_number = column && column.is_number;
    const base = (more) => Page.axis(look, { ...more, axisLabel: { hideOverlap: true, ...more.axisLabel } });
    const text = all.flatMap(({ points }) => points.flatMap(({ figures }) => [figures[1], ...(figures[3] || [])]));
    const [low, high] = [Math.min(...text), Math.max(...text)];
    const figure = base({ type: "value", scale: low > 0.3 * high, name: "", axisLabel: { formatter: shown } });
    const wide = document.getElementById("sweep").clientWidth;
    const names = column ? column.values : [metrics[chosen.metric].name];
    const width = Math.min(300, 0.4 * wide, Math.ceil(LETTER_PX * Math.max(...names.map((name) => name.length))) + 4);
    const rows = Math.max(slotted(all), ...names.map((name) => Math.ceil((LETTER_PX * name.length) / width)));
    const axes = is_number
      ? { xAxis: base({ type: "value", scale: true, name: column.name, nameGap: 26, splitLine: { show: false } }), yAxis: figure }
      : { xAxis: figure, yAxis: base({ type: "category", data: names, inverse: true, axisTick: { show: false }, splitLine: { show: true },
          axisLabel: { interval: 0, hideOverlap: false, width, overflow: "break", lineHeight: ROW_PX } }) };
    const said = `${metrics[chosen.metric].name}${column ? ` by ${column.name}` : ""}: the mean of each point, and its interval. The table below has the figures.`;
    const chart = Page.draw("sweep", { height: is_number ? 400 : 52 + names.length * (rows * ROW_PX + 14), renderer: "svg", said }, {
      textStyle: { fontFamily: "inherit", color: look.ink },
      grid: { left: 8, right: 24, top: 12, bottom: is_number ? 30 : 12, containLabel: true },
      legend: { show: false },
      ...axes,
      tooltip: Page.tooltip(look, { trigger: "item", formatter: ({ data }) => (data && data.point !== undefined ? tell(data.point) : "") }),
      series: all.flatMap(is_number ? series : dots),
    });
    Page.legend("sweep-legend", all.map(({ name, color }) => [name, color]),
      (name) => chart.dispatchAction({ type: "legendToggleSelect", name }));
  }

  function rows() {
    for (const row of document.querySelectorAll("#points tbody tr")) {
      row.hidden = Number(row.dataset.metric) !== chosen.metric;
    }
  }

  function show() {
    const focused = document.activeElement.id;
    choices();
    if (focused) document.getElementById(focused)?.focus();
    draw();
    rows();
  }

  show();
  addEventListener("resize", draw);
  Page.darkened(draw);
  document.body.dataset.drawn = "all";
})();
