// Who had which CPU, for any window of the whole run, on a canvas. The spans come packed (see stretches.rs). A column of
// pixels in which one span is seen has its colour; one in which there are several is a stack of their shares, so the whole
// run looks like its utilization, and any part of it like what happened.
"use strict";
const Timeline = (() => {
  const IDLE = 0, FORCED = 1, SCHEDULER = 2, TASKS = 3;
  const LEAST_NS = 1000;
  const AXIS_PX = 36, OVERVIEW_PX = 26;

  async function inflate(text) {
    const binary = atob(text);
    const bytes = new Uint8Array(binary.length);
    for (let at = 0; at < bytes.length; at += 1) bytes[at] = binary.charCodeAt(at);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  // Numbers of seven bits a byte, the lowest first.
  function reader(bytes) {
    let at = 0;
    return () => {
      let number = 0, scale = 1, byte;
      do {
        byte = bytes[at++];
        number += (byte & 0x7f) * scale;
        scale *= 128;
      } while (byte & 0x80);
      return number;
    };
  }

  // The lanes, each with the ends of its spans, whose they are, and what folded ones were made of.
  async function unpack(packed) {
    const bytes = await inflate(packed.data);
    let from = 0;
    const columns = packed.columns.map((size) => bytes.subarray(from, (from += size)));
    const names = JSON.parse(new TextDecoder().decode(columns[0]));
    const [who, idle, scheduler, tasks, folded] = columns.slice(1).map(reader);
    const lanes = packed.spans.map((count) => {
      const lane = { ends: new Float64Array(count), who: new Int32Array(count), folded: new Map() };
      let now = 0;
      for (let at = 0; at < count; at += 1) {
        const code = who();
        const number = Math.floor(code / 2);
        now += number < SCHEDULER ? idle() : number === SCHEDULER ? scheduler() : tasks();
        lane.ends[at] = now * packed.quantum_ns;
        lane.who[at] = number;
        if (code % 2) lane.folded.set(at, { parts: folded(), busy: folded() * packed.quantum_ns });
      }
      return lane;
    });
    while (lanes.length < packed.cpus) lanes.push({ ends: new Float64Array(0), who: new Int32Array(0), folded: new Map() });
    return { lanes: lanes.slice(0, packed.cpus), names };
  }

  // The place of the first end after `time`.
  function after(ends, time) {
    let low = 0, high = ends.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (ends[middle] > time) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  // The pixels of one lane: `columns` columns of the times from `begin` on, `step` apart.
  function paintLane(lane, view, paint) {
    const { begin, step, columns } = view;
    const { sums, full, stack } = paint;
    const touched = [];
    let column = 0, spans = 0, striped = false;
    const add = (who, ns) => {
      if (ns <= 0) return;
      if (sums[who] === 0) touched.push(who);
      sums[who] += ns;
    };
    const flush = () => {
      if (touched.length) {
        // Where one span ends and another begins the greater has the column.
        if (touched.length === 1 || spans <= 2) {
          const most = touched.reduce((best, who) => (sums[who] > sums[best] ? who : best));
          if (most !== IDLE) full(column, column + 1, most, striped);
        } else {
          stack(column, touched.sort((a, b) => a - b), striped);
        }
        for (const who of touched) sums[who] = 0;
        touched.length = 0;
      }
      spans = 0;
      striped = false;
    };
    const end = begin + step * columns;
    let at = after(lane.ends, begin);
    let from = begin;
    for (; at < lane.ends.length && from < end; at += 1) {
      const to = Math.min(lane.ends[at], end);
      const who = lane.who[at];
      const folded = lane.folded.size ? lane.folded.get(at) : undefined;
      const long = folded ? lane.ends[at] - (at ? lane.ends[at - 1] : 0) : 0;
      const put = (ns) => {
        spans += 1;
        if (!folded) return add(who, ns);
        striped = true;
        const busy = (ns * folded.busy) / long;
        add(who < SCHEDULER ? SCHEDULER : who, busy);
        add(IDLE, ns - busy);
        spans += 2;
      };
      const last = Math.min(Math.floor((to - begin) / step), columns - 1);
      if (last > column) {
        put(begin + (column + 1) * step - from);
        flush();
        if (!folded) {
          if (who !== IDLE && last > column + 1) full(column + 1, last, who, false);
        } else {
          for (column += 1; column < last; column += 1) { put(step); flush(); }
        }
        column = last;
        put(to - (begin + last * step));
      } else {
        put(to - from);
      }
      from = to;
    }
    flush();
  }

  const rgba = (css) => {
    const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    probe.fillStyle = css;
    probe.fillRect(0, 0, 1, 1);
    const [r, g, b] = probe.getImageData(0, 0, 1, 1).data;
    return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
  };
  const lighter = (color, ground) => {
    const mix = (shift) => (((color >> shift) & 255) + ((ground >> shift) & 255)) >> 1;
    return ((255 << 24) | (mix(16) << 16) | (mix(8) << 8) | mix(0)) >>> 0;
  };

  // Draws into `place`. `look` has colours and words of the page: color(pool), span(ns), moment(ns, width).
  async function draw(place, packed, look) {
    const { lanes, names } = await unpack(packed);
    const nodes = Math.ceil(packed.cpus / packed.cpus_per_node);
    const groups = Page.groups(lanes.length, packed.cpus_per_node);
    const total = Math.max(packed.end_ns, LEAST_NS);
    const canvas = document.createElement("canvas");
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", "Who had which CPU when. The keys + and - zoom, the arrows move.");
    place.append(canvas, tip);
    const context = canvas.getContext("2d");
    const left = groups.length ? 84 : nodes > 1 ? 72 : 56, right = 12, top = 6;
    place.dataset.left = left;
    // The rows, each with its top and its height: CPUs, and groups of CPUs that are closed.
    let rows, plotHeight, height;
    function arrange() {
      rows = Page.rows(lanes.length, groups);
      const high = (row, most) => Math.max(row.end - row.first > 1 || rows.length <= 32 ? 13 : 9, Math.min(most, Math.floor(520 / rows.length)));
      plotHeight = 0;
      for (const row of rows) {
        row.top = plotHeight;
        row.height = high(row, row.end - row.first > 1 ? 34 : 26);
        plotHeight += row.height;
      }
      height = top + plotHeight + AXIS_PX + OVERVIEW_PX;
      place.style.height = `${height}px`;
    }
    arrange();
    const rowAt = (py) => rows.find((row) => py >= top + row.top && py < top + row.top + row.height);
    const rowOf = (cpu) => rows.find((row) => cpu >= row.first && cpu < row.end);
    let from = 0, to = total, mark = null, width = 0, overview = null, queued = false, listener = () => {};

    const name = (who) => (who < TASKS ? ["idle", "forced idle", "the scheduler"][who] : names.tasks[who - TASKS][0]);
    const pool = (who) => names.pools[names.tasks[who - TASKS][1]];
    let colors, stripes, theme;
    // Tasks of one thread have one colour, and are one band of a column.
    const bands = [IDLE, FORCED, SCHEDULER, ...names.tasks.map(([, pool]) => pool + TASKS)];
    const count = names.pools.length + TASKS;
    function dress() {
      theme = Page.theme();
      const ground = rgba(theme.lane);
      const own = [ground, lighter(rgba(theme.quiet), ground), rgba(theme.overhead)];
      colors = Uint32Array.from([...own, ...names.pools.map((pool) => rgba(look.color(pool)))]);
      stripes = colors.map((color) => lighter(color, ground));
      overview = null;
    }

    function paint(ratio) {
      const columns = Math.max(1, Math.floor((width - left - right) * ratio));
      const tall = Math.max(1, Math.round(plotHeight * ratio));
      const image = context.createImageData(columns, tall);
      const pixels = new Uint32Array(image.data.buffer);
      pixels.fill(rgba(theme.paper));
      const sums = new Float64Array(bands.length);
      const view = { begin: from, step: (to - from) / columns, columns };
      const wide = [];
      for (const row of rows) {
        const first = Math.round(row.top * ratio), after = Math.round((row.top + row.height - 2) * ratio);
        for (let y = first; y < after; y += 1) pixels.fill(colors[IDLE], y * columns, (y + 1) * columns);
        // A column as a pile of its bands, `all` high; the scheduler is above the tasks.
        const pile = (x, shares, all, striped) => {
          let y = after;
          for (const [band, ns] of shares.sort(([a], [b]) => b - a)) {
            // A task that is seen at all is seen.
            const share = (ns / all) * (after - first);
            let deep = Math.min(band >= TASKS ? Math.max(Math.round(share), Math.round(ratio)) : Math.round(share), y - first);
            for (; deep > 0; deep -= 1) {
              y -= 1;
              pixels[y * columns + x] = striped && (x + y) & 4 ? stripes[band] : colors[band];
            }
          }
        };
        if (row.end - row.first === 1) {
          const full = (begin, end, who, striped) => {
            const band = bands[who];
            for (let y = first; y < after; y += 1) {
              if (striped) {
                for (let x = begin; x < end; x += 1) pixels[y * columns + x] = (x + y) & 4 ? colors[band] : stripes[band];
              } else pixels.fill(colors[band], y * columns + begin, y * columns + end);
            }
            if (end - begin > 24 * ratio && who >= TASKS) wide.push([begin / ratio, end / ratio, row, who]);
          };
          const stack = (x, touched, striped) => {
            const shares = new Map();
            for (const who of touched) if (who !== IDLE) shares.set(bands[who], (shares.get(bands[who]) || 0) + sums[who]);
            pile(x, [...shares], touched.reduce((all, who) => all + sums[who], 0), striped);
          };
          paintLane(lanes[row.first], view, { sums, full, stack });
          continue;
        }
        // The CPUs of a group are one pile.
        const shares = new Float32Array(columns * count);
        const full = (begin, end, who) => { for (let x = begin; x < end; x += 1) shares[x * count + bands[who]] += view.step; };
        const stack = (x, touched) => { for (const who of touched) shares[x * count + bands[who]] += sums[who]; };
        for (let cpu = row.first; cpu < row.end; cpu += 1) paintLane(lanes[cpu], view, { sums, full, stack });
        for (let x = 0; x < columns; x += 1) {
          const own = [];
          for (let band = FORCED; band < count; band += 1) if (shares[x * count + band] > 0) own.push([band, shares[x * count + band]]);
          pile(x, own, view.step * (row.end - row.first), false);
        }
      }
      context.putImageData(image, Math.round(left * ratio), Math.round(top * ratio));
      return wide;
    }

    // Ticks a round number apart, about a hundred pixels.
    function ticks() {
      const rough = (to - from) / Math.max((width - left - right) / 110, 1);
      const power = 10 ** Math.floor(Math.log10(rough));
      const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
      const found = [];
      for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(at);
      return found;
    }

    const x = (time) => left + ((time - from) / (to - from)) * (width - left - right);
    const timeAt = (px) => from + ((px - left) / (width - left - right)) * (to - from);

    function busiest() {
      const columns = Math.max(1, Math.floor(width - left - right));
      const busy = new Float64Array(columns);
      const step = total / columns;
      const sums = new Float64Array(bands.length);
      for (const lane of lanes) {
        paintLane(lane, { begin: 0, step, columns }, {
          sums,
          full: (begin, end, who) => { if (who > FORCED) for (let at = begin; at < end; at += 1) busy[at] += 1; },
          stack: (at, touched) => touched.forEach((who) => { if (who > FORCED) busy[at] += sums[who] / step; }),
        });
      }
      return busy.map((sum) => Math.min(sum / Math.max(lanes.length, 1), 1));
    }

    function frame() {
      queued = false;
      const ratio = window.devicePixelRatio || 1;
      width = place.clientWidth;
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
      context.setTransform(1, 0, 0, 1, 0, 0);
      const wide = paint(ratio);
      context.scale(ratio, ratio);
      context.font = `11px ${getComputedStyle(document.body).fontFamily}`;
      context.textBaseline = "middle";
      labels(wide);
      axis();
      marked();
      overviewStrip();
      Object.assign(place.dataset, { from, to });
      listener(from, to);
    }

    const middle = (row) => top + row.top + row.height / 2 - 1;

    function labels(wide) {
      context.textAlign = "left";
      for (const [begin, end, row, who] of wide.filter(([, , row]) => row.height >= 13)) {
        const text = name(who);
        context.fillStyle = Page.letters(look.color(pool(who)));
        if (context.measureText(text).width < end - begin - 6) context.fillText(text, left + begin + 4, middle(row));
      }
      context.textAlign = "right";
      context.fillStyle = theme.quiet;
      let free = 0;
      for (const row of rows) {
        if (row.end - row.first > 1 || row.top >= free) {
          context.fillText(row.name, left - 6, middle(row));
          free = row.top + 12;
        }
      }
      // The nodes of which the CPUs are seen.
      if (nodes < 2) return;
      for (let node = 0; node < nodes; node += 1) {
        const first = rowOf(node * packed.cpus_per_node);
        if (!first || first.end - first.first > 1) continue;
        const last = rowOf(Math.min((node + 1) * packed.cpus_per_node, lanes.length) - 1);
        const [begin, end] = [top + first.top, top + last.top + last.height];
        context.save();
        context.translate(9, (begin + end) / 2);
        context.rotate(-Math.PI / 2);
        context.textAlign = "center";
        context.fillText(end - begin > 38 ? `node ${node}` : node, 0, 0);
        context.restore();
        context.strokeStyle = theme.axis;
        context.beginPath();
        context.moveTo(20.5, begin + 1);
        context.lineTo(20.5, end - 3);
        if (node) {
          context.moveTo(20, begin - 1);
          context.lineTo(width - right, begin - 1);
        }
        context.stroke();
      }
    }

    function axis() {
      const y = top + plotHeight + 2;
      context.strokeStyle = theme.axis;
      context.fillStyle = theme.quiet;
      context.beginPath();
      context.moveTo(left, y + 0.5);
      context.lineTo(width - right, y + 0.5);
      for (const at of ticks()) {
        context.moveTo(x(at), y);
        context.lineTo(x(at), y + 4);
      }
      context.stroke();
      context.textAlign = "center";
      for (const at of ticks()) {
        const text = look.moment(at, to - from);
        const half = context.measureText(text).width / 2;
        if (x(at) - half >= left - 10 && x(at) + half <= width - right + 8) context.fillText(text, x(at), y + 12);
      }
      context.fillText("time since the run's start", left + (width - left - right) / 2, y + 27);
    }

    // A wait: from when to when a task of this CPU was to run.
    function marked() {
      if (!mark) return;
      const [begin, end] = [Math.max(x(mark.from), left), Math.min(x(mark.to), width - right)];
      if (end <= begin) return;
      const row = rowOf(mark.cpu);
      const y = top + row.top - 1.5;
      context.strokeStyle = theme.worse;
      context.lineWidth = 2;
      context.strokeRect(begin, y, end - begin, row.height);
      context.lineWidth = 1;
      context.setLineDash([3, 3]);
      context.beginPath();
      for (const at of [begin, end]) {
        context.moveTo(at, top);
        context.lineTo(at, top + plotHeight);
      }
      context.stroke();
      context.setLineDash([]);
    }

    function overviewStrip() {
      const columns = Math.max(1, Math.floor(width - left - right));
      if (!overview || overview.length !== columns) overview = busiest();
      const y = height - 20, tall = 16;
      context.fillStyle = theme.lane;
      context.fillRect(left, y, columns, tall);
      context.fillStyle = theme.overhead;
      overview.forEach((share, at) => context.fillRect(left + at, y + tall * (1 - share), 1, tall * share));
      const begin = left + (from / total) * columns;
      const wide = Math.max(((to - from) / total) * columns, 2);
      context.strokeStyle = theme.accent;
      context.lineWidth = 2;
      context.strokeRect(begin + 1, y - 1, Math.max(wide - 2, 1), tall + 2);
      context.lineWidth = 1;
      context.textAlign = "right";
      context.fillStyle = theme.quiet;
      context.fillText("all", left - 6, y + tall / 2);
    }

    const redraw = () => {
      if (queued) return;
      queued = true;
      // A page that nobody sees gets no frames.
      const draw = () => queued && frame();
      requestAnimationFrame(draw);
      setTimeout(draw, 100);
    };

    function show(begin, end, wait) {
      const long = Math.min(Math.max(end - begin, LEAST_NS), total);
      from = Math.min(Math.max(begin - (long - (end - begin)) / 2, 0), total - long);
      to = from + long;
      if (wait !== undefined) mark = wait;
      const closed = wait && groups.find((it) => !it.open && wait.cpu >= it.first && wait.cpu < it.end);
      if (closed) {
        closed.open = true;
        closed.opened();
        arrange();
      }
      redraw();
    }
    // Zooms about a moment, which stays where it is.
    const zoom = (part, about = (from + to) / 2) => {
      const long = Math.min(Math.max((to - from) * part, LEAST_NS), total);
      const begin = about - ((about - from) / (to - from)) * long;
      show(begin, begin + long);
    };

    // What so many CPUs did within one and a half pixels of a moment: the number of spans, and the time of each occupant.
    function near(row, time, step) {
      const [first, last] = [Math.max(time - 1.5 * step, 0), time + 1.5 * step];
      const shares = new Map();
      let spans = 0;
      for (const { ends, who } of lanes.slice(row.first, row.end)) {
        for (let at = after(ends, first), start = first; at < ends.length && start < last; at += 1) {
          const stop = Math.min(ends[at], last);
          shares.set(who[at], (shares.get(who[at]) || 0) + stop - start);
          start = stop;
          spans += 1;
        }
      }
      const told = [...shares].sort((a, b) => b[1] - a[1]).slice(0, 6)
        .map(([who, ns]) => `<br>${Page.escaped(name(who))} <b>${look.span(ns)}</b>`);
      return `${spans} spans on ${row.name} within ${look.span(last - first)} at ${look.moment(time, to - from)}${told.join("")}`;
    }

    // What is at a place: a span, or several if they are narrower than three pixels.
    function tell(row, px) {
      const time = timeAt(px);
      const step = (to - from) / (width - left - right);
      if (row.end - row.first > 1) return near(row, time, step);
      const lane = lanes[row.first];
      const at = after(lane.ends, time);
      if (at >= lane.ends.length) return "idle";
      const begin = at ? lane.ends[at - 1] : 0;
      const end = lane.ends[at];
      const folded = lane.folded.get(at);
      const when = `for ${look.span(end - begin)} from ${look.moment(begin, to - from)}`;
      if (folded) return `<b>${folded.parts} spans, merged</b> on ${row.name}<br>${when}<br>busy ${((100 * folded.busy) / (end - begin)).toFixed(0)} %, most of it ${Page.escaped(name(lane.who[at]))}`;
      if (end - begin >= 3 * step) return `<b>${Page.escaped(name(lane.who[at]))}</b> on ${row.name}<br>${when}`;
      return near(row, time, step);
    }

    const place_of = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    const pointers = new Map();
    let dragged = "";
    function hover(px, py) {
      const row = rowAt(py);
      tip.hidden = !row || px < left || px > width - right;
      if (tip.hidden) return;
      tip.innerHTML = tell(row, px);
      const { offsetWidth: w, offsetHeight: h } = tip;
      tip.style.left = `${Math.max(0, Math.min(px + 14, width - w))}px`;
      tip.style.top = `${py + 18 + h > height ? py - h - 8 : py + 18}px`;
    }
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const [px] = place_of(event);
      const long = to - from;
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) show(from + (event.deltaX / width) * long, to + (event.deltaX / width) * long);
      else zoom(1.0016 ** Math.max(-600, Math.min(event.deltaY, 600)), Math.min(Math.max(timeAt(px), from), to));
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      const [px, py] = place_of(event);
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, px);
      dragged = py > height - OVERVIEW_PX ? "overview" : "plot";
      if (dragged === "overview") centre(px);
    });
    const centre = (px) => {
      const half = (to - from) / 2;
      const middle = ((px - left) / (width - left - right)) * total;
      show(middle - half, middle + half);
    };
    canvas.addEventListener("pointermove", (event) => {
      const [px, py] = place_of(event);
      if (!pointers.has(event.pointerId)) return hover(px, py);
      tip.hidden = true;
      const was = pointers.get(event.pointerId);
      const others = [...pointers].filter(([id]) => id !== event.pointerId);
      pointers.set(event.pointerId, px);
      if (dragged === "overview") return centre(px);
      if (others.length) {
        const other = others[0][1];
        return zoom(Math.max(Math.abs(was - other), 8) / Math.max(Math.abs(px - other), 8), timeAt((px + other) / 2));
      }
      const moved = ((was - px) / (width - left - right)) * (to - from);
      show(from + moved, to + moved);
    });
    for (const kind of ["pointerup", "pointercancel"]) canvas.addEventListener(kind, (event) => pointers.delete(event.pointerId));
    canvas.addEventListener("pointerleave", () => (tip.hidden = true));
    canvas.addEventListener("dblclick", (event) => zoom(0.25, timeAt(place_of(event)[0])));
    canvas.addEventListener("keydown", (event) => {
      const long = to - from;
      const moves = { ArrowLeft: -0.2, ArrowRight: 0.2 };
      if (event.key in moves) show(from + moves[event.key] * long, to + moves[event.key] * long);
      else if (event.key === "+" || event.key === "=") zoom(0.5);
      else if (event.key === "-") zoom(2);
      else if (event.key === "0") show(0, total);
      else return;
      event.preventDefault();
    });
    Page.folds(place, groups, () => {
      arrange();
      redraw();
    });
    dress();
    frame();
    return {
      pools: names.pools, show, zoom, redraw, frame,
      all: () => show(0, total, null),
      dress: () => { dress(); redraw(); },
      listen: (to_whom) => { listener = to_whom; listener(from, to); },
    };
  }

  return { draw };
})();
