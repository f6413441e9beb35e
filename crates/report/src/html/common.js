// What the scripts of all pages share: colours, texts, groups of CPUs, charts, legends, and tables that sort and open.
"use strict";
const Page = (() => {
  const PALETTE = [
    "#3f74b5", "#d98032", "#4c9a5f", "#b5475d", "#7d62b0", "#2f9aa0",
    "#a9792b", "#c66aa6", "#6b7f2e", "#5b6fd6", "#a14f33", "#4f8f86",
  ];
  // After one round of the palette comes a lighter one, then a darker one, then a pale one; lines have another dash in each.
  const ROUNDS = [
    { to: 0, part: 0, dash: "solid" },
    { to: 255, part: 0.42, dash: [7, 3] },
    { to: 0, part: 0.38, dash: [2, 2] },
    { to: 128, part: 0.6, dash: [9, 3, 2, 3] },
  ];
  const COLORS = PALETTE.length * ROUNDS.length;
  const parts = (color) => color.match(/[0-9a-f]{2}/gi).map((part) => parseInt(part, 16));
  const round = (nth) => ROUNDS[Math.floor(nth / PALETTE.length) % ROUNDS.length];
  const dash = (nth) => round(nth).dash;
  const color = (nth) => {
    const { to, part } = round(nth);
    const mixed = parts(PALETTE[nth % PALETTE.length]).map((own) => Math.round(own + (to - own) * part));
    return `#${mixed.map((it) => it.toString(16).padStart(2, "0")).join("")}`;
  };
  // The colour of letters on a ground of this colour.
  const letters = (ground) => {
    const [r, g, b] = parts(ground);
    return 0.3 * r + 0.59 * g + 0.11 * b > 150 ? "#14181e" : "#ffffff";
  };

  // The colours of the page, which are the style sheet's, as they are now: light or dark.
  const theme = () => {
    const style = getComputedStyle(document.documentElement);
    const names = ["ink", "quiet", "line", "axis", "grid", "paper", "lane", "cold", "hot", "overhead", "accent", "worse"];
    return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  };
  const darkened = (does) => matchMedia("(prefers-color-scheme: dark)").addEventListener("change", does);

  const escaped = (text) => String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
  const UNITS = [[1, "ns"], [1e3, "us"], [1e6, "ms"], [1e9, "s"]];

  const axis = (look, more) => ({
    axisLine: { lineStyle: { color: look.axis } },
    splitLine: { lineStyle: { color: look.grid } },
    nameTextStyle: { color: look.quiet, fontSize: 11 },
    nameLocation: "middle",
    ...more,
    axisLabel: { color: look.quiet, fontSize: 11, ...more.axisLabel },
  });
  const tooltip = (look, more) => ({
    confine: true, transitionDuration: 0, backgroundColor: look.paper, borderColor: look.line,
    textStyle: { color: look.ink, fontSize: 12 }, ...more,
  });

  // Draws a chart in place of the one before. `said` is what it shows, for those who hear the page.
  function draw(id, { height, renderer, said }, option) {
    const place = document.getElementById(id);
    place.style.height = `${height}px`;
    place.setAttribute("role", "img");
    place.setAttribute("aria-label", said);
    const old = echarts.getInstanceByDom(place);
    if (old) old.dispose();
    const chart = echarts.init(place, null, { renderer });
    chart.setOption({ animation: false, textStyle: { fontFamily: "inherit" }, ...option });
    return chart;
  }

  // A button that is pressed or not.
  function toggle(content, pressed, does) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...content);
    button.setAttribute("aria-pressed", pressed);
    button.addEventListener("click", () => {
      const now = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", now);
      does(now);
    });
    return button;
  }

  // The entries of a legend: names and colours. Each calls `pressed` if there is such a thing.
  function legend(id, entries, pressed) {
    document.getElementById(id).replaceChildren(...entries.map(([name, color]) => {
      const entry = document.createElement("li");
      const sign = document.createElement("i");
      sign.style.background = color;
      if (pressed) entry.append(toggle([sign, name], true, () => pressed(name)));
      else entry.append(sign, name);
      return entry;
    }));
  }

  // CPUs that fold to one row: those of a node, or of several where there are many nodes; on a large machine without
  // nodes, so many neighbours. A small machine has no groups.
  const GROUPS = 64, BLOCK = 32, SMALL = 32;
  function groups(cpus, per_node) {
    const nodes = Math.ceil(cpus / per_node);
    if (cpus <= SMALL || (nodes < 2 && cpus <= 2 * BLOCK)) return [];
    let size = nodes > 1 ? per_node : BLOCK;
    while (Math.ceil(cpus / size) > GROUPS) size *= 2;
    const name = (first, end) => {
      if (nodes < 2) return `CPUs ${first}-${end - 1}`;
      const [from, to] = [first / per_node, Math.ceil(end / per_node) - 1];
      return from === to ? `node ${from}` : `nodes ${from}-${to}`;
    };
    return [...Array(Math.ceil(cpus / size)).keys()].map((nth) => {
      const [first, end] = [nth * size, Math.min((nth + 1) * size, cpus)];
      return { name: name(first, end), first, end, open: false };
    });
  }

  // The rows of a chart of CPUs: closed groups, and CPUs.
  function rows(cpus, groups) {
    const alone = (first, end) => [...Array(end - first).keys()].map((at) => ({ name: `CPU ${first + at}`, first: first + at, end: first + at + 1 }));
    return groups.length ? groups.flatMap((it) => (it.open ? alone(it.first, it.end) : [it])) : alone(0, cpus);
  }

  // The buttons before `place` that open and close its groups.
  function folds(place, groups, changed) {
    if (!groups.length) return;
    const bar = document.createElement("div");
    bar.className = "folds";
    bar.append("Show the CPUs of ", ...groups.map((it) => {
      const button = toggle([it.name], it.open, (open) => {
        it.open = open;
        changed();
      });
      it.opened = () => button.setAttribute("aria-pressed", it.open);
      return button;
    }));
    place.before(bar);
  }

  // A click on a title sorts by its column: numbers from the greatest, texts from the first. What opens stays together.
  function sortable(table) {
    const heads = [...table.tHead.rows].at(-1);
    const titles = [...heads.cells].filter((title) => title.dataset.sort);
    for (const title of titles) {
      const column = title.cellIndex;
      const button = document.createElement("button");
      button.append(...title.childNodes);
      title.append(button);
      title.addEventListener("click", () => {
        const text = title.dataset.sort === "text";
        const [first, last] = text ? ["ascending", "descending"] : ["descending", "ascending"];
        const order = title.getAttribute("aria-sort") === first ? last : first;
        titles.forEach((other) => other.removeAttribute("aria-sort"));
        title.setAttribute("aria-sort", order);
        const sign = order === "ascending" ? 1 : -1;
        const key = ({ cells }) => (text ? cells[column].textContent : Number(cells[column].dataset.value ?? -Infinity));
        const compare = ([a], [b]) => sign * (text ? a.localeCompare(b, "en", { numeric: true }) : a - b);
        const sort = (all, whole) => all.map((it) => [key(whole(it)), it]).sort(compare).map(([, it]) => it);
        for (const body of table.tBodies) {
          const [name, ...parts] = body.rows;
          if (parts.length && parts[0].className === "part") body.append(name, ...sort(parts, (row) => row));
          else body.append(...sort([...body.rows], (row) => row));
        }
        const named = [...table.tBodies].filter((body) => body.rows.length);
        if (named.length > 1) table.append(...sort(named, (body) => body.rows[0]));
      });
    }
  }

  // A click on the number of a name's tasks shows their rows.
  function opens(table) {
    table.querySelectorAll("button.fold").forEach((button) => button.addEventListener("click", () => {
      const open = button.getAttribute("aria-expanded") !== "true";
      button.setAttribute("aria-expanded", open);
      button.closest("tbody").querySelectorAll("tr.part").forEach((row) => (row.hidden = !open));
    }));
  }
  document.querySelectorAll("table").forEach((table) => {
    sortable(table);
    opens(table);
  });

  return { COLORS, UNITS, axis, color, dash, darkened, draw, escaped, folds, groups, legend, letters, parts, rows, theme, tooltip };
})();
