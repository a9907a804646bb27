// SPDX-License-Identifier: Apache-2.0
"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const tip = document.getElementById("tip");
  const MINUS = "\u2212";

  // ---- Small things.

  function made(name, attributes = {}, parent = null, text = null) {
    const svg = ["svg", "g", "path", "rect", "line", "circle", "text", "title", "polyline"].includes(name);
    const node = svg ? document.createElementNS(SVG, name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== null) node.textContent = text;
    if (parent) parent.append(node);
    return node;
  }

  function number(value, digits = 4) {
    if (value === null || value === undefined) return "-";
    if (typeof value !== "number") return String(value);
    if (value !== 0 && (Math.abs(value) >= 1e7 || Math.abs(value) < 1e-4)) return value.toExponential(3).replace("-", MINUS);
    const places = Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(value) || 1)));
    return value.toLocaleString("en", { maximumFractionDigits: Math.min(places, 12) }).replaceAll(",", "\u202f").replace("-", MINUS);
  }

  const SCALES = {
    s: [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]],
    "µs": [[1e6, "s"], [1e3, "ms"], [1, "µs"], [1e-3, "ns"]],
    "B/s": [[1e12, "TB/s"], [1e9, "GB/s"], [1e6, "MB/s"], [1, "B/s"]],
    B: [[1 << 30, "GiB"], [1 << 20, "MiB"], [1 << 10, "KiB"], [1, "B"]],
    Hz: [[1e9, "GHz"], [1e6, "MHz"], [1, "Hz"]],
  };

  function scaleOf(unit, largest) {
    for (const [scale, name] of SCALES[unit] || []) if (Math.abs(largest) >= scale) return { scale, unit: name };
    const last = (SCALES[unit] || [[1, unit]]).at(-1);
    return { scale: last[0], unit: last[1] };
  }

  function withUnit(value, unit) {
    if (value === null || typeof value !== "number") return number(value);
    const of = scaleOf(unit, value);
    return `${number(value / of.scale)} ${of.unit}`.trim();
  }

  // Names of keys and metrics end with their units, which values are shown with.
  const titled = (name) => name.replace(/_(bytes_per_s|bytes|s|percent|hz)$/, "").replaceAll("_", " ");

  function ticks(low, high, most) {
    const span = high - low || 1, rough = span / Math.max(1, most);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough * 0.999);
    const found = [];
    for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-6; at += step) found.push(Math.abs(at) < step * 1e-6 ? 0 : at);
    return found;
  }

  function show(text, x, y) {
    tip.textContent = text;
    tip.hidden = false;
    const room = document.documentElement.clientWidth;
    const wide = tip.offsetWidth, high = tip.offsetHeight;
    tip.style.left = `${Math.max(4, Math.min(x + 12, room - wide - 4)) + window.scrollX}px`;
    tip.style.top = `${(y - high - 10 < 0 ? y + 16 : y - high - 10) + window.scrollY}px`;
  }
  const hide = () => { tip.hidden = true; };
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });

  const pen = document.createElement("canvas").getContext("2d");
  pen.font = "12px system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif";
  const widthOf = (text) => pen.measureText(text).width * 1.03;

  function cut(text, room) {
    if (widthOf(text) <= room) return text;
    let most = Math.min(text.length, Math.floor(room / 4));
    while (most > 2 && widthOf(text.slice(0, most) + "…") > room) most -= 1;
    return most < 3 ? "" : text.slice(0, most) + "…";
  }

  function legend(parent, entries) {
    const list = made("ul", { class: "legend" }, parent);
    for (const [name, colour] of entries) {
      const item = made("li", {}, list);
      made("span", { style: `background:${colour}` }, item);
      item.append(name);
    }
  }

  function tools(parent, buttons) {
    const bar = made("div", { class: "bar-of-tools" }, parent);
    for (const [label, title, action] of buttons) {
      const button = made("button", { type: "button", title, "aria-label": title }, bar, label);
      button.addEventListener("click", action);
    }
    return bar;
  }

  // ---- Timeline: lanes of bars, moved and zoomed.

  function timeline(root, data) {
    let from = 0, to = data.end || 1, focused = null;
    const LANE = 24, TOP = 26;
    const label = (seconds, span) => {
      const of = scaleOf("µs", span);
      return `${number(seconds / of.scale, 6)} ${of.unit}`;
    };
    const where = made("output", { "aria-live": "polite" });
    const bar = tools(root, [
      ["+", "Zoom in", () => zoom(0.5)], [MINUS, "Zoom out", () => zoom(2)],
      ["←", "Earlier", () => move(-0.25)], ["→", "Later", () => move(0.25)], ["All", "Show all", all],
    ]);
    bar.append(where);
    const svg = made("svg", { tabindex: 0, role: "img", "aria-label": "Bars of what an NPU does; arrow keys move, + and - zoom, 0 shows all" }, root);
    const present = new Set(data.lanes.flatMap((lane) => lane.bars.map((each) => each[3])));
    const names = { compute: "compute", communication: "communication", chunk: "chunks", link: "transfers" };
    legend(root, Object.entries(names).filter(([key]) => present.has(key)).map(([key, name]) => [name, `var(--${key})`]));

    function set(a, b) {
      const span = Math.min(data.end, Math.max(b - a, data.end * 1e-7));
      from = Math.max(0, Math.min(a, data.end - span));
      to = from + span;
      draw();
    }
    function zoom(factor, at = (from + to) / 2) { set(at - (at - from) * factor, at + (to - at) * factor); }
    function move(share) { set(from + share * (to - from), to + share * (to - from)); }
    function all() { focused = null; set(0, data.end); }

    function geometry() {
      const wide = root.clientWidth || 600;
      return { wide, left: wide < 600 ? 0 : 132 };
    }
    function draw() {
      const { wide, left } = geometry(), narrow = left === 0;
      const lane = narrow ? LANE + 16 : LANE, height = TOP + data.lanes.length * lane + 4;
      svg.replaceChildren();
      svg.setAttribute("viewBox", `0 0 ${wide} ${height}`);
      svg.style.height = `${height}px`;
      const across = (time) => left + (time - from) / (to - from) * (wide - left);
      const unit = scaleOf("µs", to);
      const least = unit.scale;
      for (const at of ticks(from / least, to / least, Math.max(2, (wide - left) / 110))) {
        const x = across(at * least);
        made("line", { class: "grid", x1: x, x2: x, y1: TOP - 6, y2: height }, svg);
        const text = `${number(at, 7)} ${unit.unit}`, room = widthOf(text);
        if (x + room < wide) made("text", { x: x + 3, y: 12 }, svg, text);
      }
      data.lanes.forEach((each, row) => {
        const y = TOP + row * lane + (narrow ? 16 : 0);
        if (narrow) made("text", { class: "strong", x: 2, y: y - 4 }, svg, each.name);
        else made("text", { class: "strong", x: 0, y: y + 15 }, svg, cut(each.name, left - 6));
        let last = -1, reached = -1;
        // Bars that overlap have no texts, which would lie on one another.
        const crowded = each.bars.some(([start, length]) => {
          const over = start < reached - length * 1e-6;
          reached = Math.max(reached, start + length);
          return over;
        });
        each.bars.forEach(([start, length, text, colour], index) => {
          if (start + length < from || start > to) return;
          const x1 = Math.max(left, across(start)), x2 = Math.min(wide, across(start + length));
          if (x2 - x1 < 0.7 && x1 - last < 0.7) return;
          last = x2;
          const light = ["even", "odd", "communication"].includes(colour);
          const block = made("rect", { x: x1, y: y + 1, width: Math.max(0.7, x2 - x1), height: LANE - 4, style: `fill:var(--${colour})`, "data-bar": `${row} ${index}` }, svg);
          if (focused && focused[0] === row && focused[1] === index) block.setAttribute("stroke", "var(--ink)");
          const inside = x2 - x1 > 40 && !crowded ? cut(text, x2 - x1 - 8) : "";
          if (inside) {
            const on = ["even", "odd"].includes(colour) ? "--ink" : light ? "--on-light" : "--on-dark";
            made("text", { x: x1 + 4, y: y + 15, style: `fill:var(${on});pointer-events:none` }, svg, inside);
          }
        });
      });
      where.textContent = `${label(from, to)} to ${label(to, to)}`;
    }
    function named(event) {
      const bar = event.target.dataset && event.target.dataset.bar;
      if (!bar) return null;
      const [row, index] = bar.split(" ").map(Number);
      return { row, index, bar: data.lanes[row].bars[index] };
    }
    const words = ([start, length, text]) => `${text}\n${withUnit(length, "µs")}, from ${withUnit(start, "µs")}`;
    let drag = null, moved = false;
    svg.addEventListener("pointerdown", (event) => { drag = { x: event.clientX, from, to }; moved = false; });
    window.addEventListener("pointerup", () => { drag = null; });
    svg.addEventListener("pointermove", (event) => {
      const { wide, left } = geometry();
      if (drag && Math.abs(event.clientX - drag.x) > 3) {
        moved = true;
        const by = (drag.x - event.clientX) / (wide - left) * (drag.to - drag.from);
        set(drag.from + by, drag.to + by);
        return hide();
      }
      const found = named(event);
      if (found) show(words(found.bar), event.clientX, event.clientY); else hide();
    });
    svg.addEventListener("pointerleave", hide);
    svg.addEventListener("click", (event) => {
      const found = named(event);
      if (!found || moved) return;
      focused = [found.row, found.index];
      set(found.bar[0] - found.bar[1] * 0.05, found.bar[0] + found.bar[1] * 1.05);
    });
    svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && document.activeElement !== svg) return; // the page scrolls until it has the focus
      event.preventDefault();
      const { wide, left } = geometry(), box = svg.getBoundingClientRect();
      const at = from + (event.clientX - box.left - left) / (wide - left) * (to - from);
      zoom(event.deltaY > 0 ? 1.25 : 0.8, at);
    }, { passive: false });
    function step(rows, bars) {
      const row = Math.min(data.lanes.length - 1, Math.max(0, (focused ? focused[0] : 0) + rows));
      const of = data.lanes[row].bars;
      let index = 0;
      if (focused && !rows) index = Math.min(of.length - 1, Math.max(0, focused[1] + bars));
      else index = Math.max(0, of.findIndex((each) => each[0] + each[1] > from));
      focused = [row, index];
      const [start, length] = of[index];
      if (start < from || start + length > to) set(start, start + to - from); else draw();
      const mark = svg.querySelector("[stroke='var(--ink)']");
      if (mark) { const box = mark.getBoundingClientRect(); show(words(of[index]), box.left, box.top); }
    }
    svg.addEventListener("keydown", (event) => {
      const does = {
        ArrowLeft: () => move(-0.25), ArrowRight: () => move(0.25), ArrowUp: () => step(-1, 0), ArrowDown: () => step(focused ? 1 : 0, 0),
        "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: all, Home: all,
        n: () => step(0, 1), p: () => step(0, -1),
        Enter: () => { if (focused) { const [start, length] = data.lanes[focused[0]].bars[focused[1]]; set(start - length * 0.05, start + length * 1.05); } },
      }[event.key];
      if (does) { event.preventDefault(); does(); }
    });
    svg.addEventListener("blur", hide);
    return draw;
  }

  // ---- Network: places and links, coloured by use.

  const SHADES = [1, 20, 40, 60, 80];
  const shade = (busy) => SHADES.filter((each) => busy >= each).length;

  function network(root, data) {
    legend(root, [["idle", "var(--u0)"], ...[1, 2, 3, 4, 5].map((n) => [`${n === 1 ? "to" : `${SHADES[n - 1]} to`} ${n * 20} %`, `var(--u${n})`])]);
    const dimensions = [...new Set(data.links.map((link) => link[2]))].sort((a, b) => a - b);
    let only = null;
    if (dimensions.length > 1) {
      const bar = made("div", { class: "bar-of-tools" }, root);
      const box = made("label", {}, bar, "Links of ");
      const select = made("select", {}, box);
      made("option", { value: "" }, select, "all dimensions");
      for (const each of dimensions) made("option", { value: each }, select, `dimension ${each}`);
      select.addEventListener("change", () => { only = select.value === "" ? null : Number(select.value); draw(); });
    }
    const frame = made("div", { class: "scroll" }, root);
    const svg = made("svg", { role: "img", "aria-label": "NPUs, switches and links; colours say how busy a link is" }, frame);
    const xs = data.places.map((place) => place[0]), ys = data.places.map((place) => place[1]);
    // Links within a row are arcs: above it of switches, below it of NPUs.
    for (const [source, , , , , rise] of data.links) if (rise) ys.push(data.places[source][1] - rise * 1.1);
    const x0 = Math.min(...xs), y0 = Math.min(...ys), x1 = Math.max(...xs), y1 = Math.max(...ys);
    function draw() {
      const room = root.clientWidth || 600;
      const cell = Math.max(24, Math.min(70, (room - 50) / (x1 - x0 + 1.2)));
      const wide = Math.max(room, (x1 - x0 + 1.2) * cell), high = (y1 - y0 + 1.4) * cell;
      const left = (wide - (x1 - x0) * cell) / 2, top = 0.7 * cell;
      svg.replaceChildren();
      svg.setAttribute("viewBox", `0 0 ${wide} ${high}`);
      svg.style.width = `${wide}px`;
      svg.style.height = `${high}px`;
      const at = (place) => [left + (place[0] - x0) * cell, top + (place[1] - y0) * cell];
      const order = [...data.links].sort((a, b) => a[3] - b[3]);
      for (const [source, target, dimension, busy, lanes, rise, out] of order) {
        if (only !== null && dimension !== only) continue;
        const [ax, ay] = at(data.places[source]), [bx, by] = at(data.places[target]);
        const dx = bx - ax, dy = by - ay, long = Math.hypot(dx, dy) || 1, px = -dy / long, py = dx / long;
        // Each direction keeps to its side; what reaches further than a neighbour bends away from the grid,
        // but for the links of switches to what is below them.
        const hangs = ay !== by && (data.places[source][3] || data.places[target][3]);
        const bend = long > 1.6 * cell && !hangs ? Math.min(0.34 * cell, 0.08 * long) : 0, side = Math.min(3, cell / 12);
        const stroke = 0.38 * cell * out;
        const arc = 2 * cell * (dx < 0 ? 1.05 : 1) * rise;
        const path = out ? `M${ax},${ay}l${stroke},${-stroke}` : rise
          ? `M${ax},${ay}Q${(ax + bx) / 2},${ay - arc} ${bx},${by}` : bend
          ? `M${ax + px * side},${ay + py * side}Q${(ax + bx) / 2 + px * bend},${(ay + by) / 2 + py * bend} ${bx + px * side},${by + py * side}`
          : `M${ax + px * side},${ay + py * side}L${bx + px * side},${by + py * side}`;
        const line = made("path", { d: path, fill: "none", "stroke-width": busy >= 80 ? 3 : 2, style: `stroke:var(--u${shade(busy)})` }, svg);
        line.addEventListener("pointermove", (event) => show(
          `${data.places[source][2]} → ${data.places[target][2]}\ndimension ${dimension}${lanes > 1 ? `, ${lanes} lanes` : ""}: ${number(busy)} % busy`, event.clientX, event.clientY));
        line.addEventListener("pointerleave", hide);
      }
      const size = Math.max(4, Math.min(12, cell / 3.2));
      const room_of_text = data.places.every((place) => 2 * size >= place[2].split(" ").pop().length * 7 + 1);
      for (const place of data.places) {
        const [x, y] = at(place), mark = place[3]
          ? made("rect", { x: x - size, y: y - size, width: 2 * size, height: 2 * size, rx: 2, style: "fill:var(--panel);stroke:var(--ink)" }, svg)
          : made("circle", { cx: x, cy: y, r: size, style: "fill:var(--panel);stroke:var(--soft)" }, svg);
        const short = place[2].split(" ").pop();
        if (room_of_text) made("text", { class: "strong", x, y: y + 4, "text-anchor": "middle", style: "pointer-events:none;font-size:11px" }, svg, short);
        mark.addEventListener("pointermove", (event) => show(place[2], event.clientX, event.clientY));
        mark.addEventListener("pointerleave", hide);
      }
    }
    return draw;
  }

  // ---- Lines with a cursor.

  function lines(root, data) {
    const svg = made("svg", { tabindex: 0, role: "img", "aria-label": "Curves; arrow keys move along them" }, root);
    const colours = data.lines.map((line, n) => `var(--${line.colour || `l${n % 7}`})`), dashes = ["", "6 3", "2 3", "8 3 2 3"];
    if (data.lines.length > 1 || data.lines[0].name) {
      legend(root, data.lines.slice(0, 40).map((line, n) => [line.name + (n >= 7 ? ` (${["", "dashed", "dotted", "mixed"][Math.floor(n / 7) % 4]})` : ""), colours[n]]));
    }
    const xs = data.names ? data.names.map((_, n) => n) : data.x || [...new Set(data.lines.flatMap((line) => line.x))].sort((a, b) => a - b);
    const values = data.lines.flatMap((line) => line.y).filter((y) => y !== null);
    const log = data.log_x && xs[0] > 0, high = data.most || Math.max(...values, 0), positive = values.filter((y) => y > 0);
    const logY = data.log_y && positive.length === values.length && Math.max(...positive) > 20 * Math.min(...positive);
    let at = null;
    const start = data.names ? -0.5 : xs[0], end = data.names ? xs.length - 0.5 : data.end || xs.at(-1);
    const low = logY ? Math.min(...positive) : Math.min(0, ...values);
    const ofX = scaleOf(data.x_unit, end), ofY = scaleOf(data.y_unit, high);
    let across, up, box;
    function draw() {
      const wide = root.clientWidth || 600, height = 250, left = 62, right = 14, top = 12, bottom = 48;
      svg.replaceChildren();
      svg.setAttribute("viewBox", `0 0 ${wide} ${height}`);
      svg.style.height = `${height}px`;
      box = { left, right: wide - right, top, bottom: height - bottom };
      const share = (value, a, b, by) => by ? Math.log(value / a) / (Math.log(b / a) || 1) : (value - a) / (b - a || 1);
      across = (x) => left + share(x, start, end, log) * (wide - left - right);
      up = (y) => box.bottom - Math.max(0, share(y, low, high || 1, logY)) * (box.bottom - top);
      const tickY = logY ? powers(low / ofY.scale, high / ofY.scale) : ticks(low / ofY.scale, high / ofY.scale, 5);
      for (const tick of tickY) {
        const y = up(tick * ofY.scale);
        if (y < top - 1 || y > box.bottom + 1) continue;
        made("line", { class: "grid", x1: left, x2: wide - right, y1: y, y2: y }, svg);
        made("text", { x: left - 6, y: y + 4, "text-anchor": "end" }, svg, number(tick));
      }
      let last = -1e9;
      const tickX = data.names ? xs : log ? (xs.length <= 12 ? xs.map((x) => x / ofX.scale) : powers(start / ofX.scale, end / ofX.scale)) : ticks(start / ofX.scale, end / ofX.scale, wide / 110);
      for (const tick of tickX) {
        const x = across(data.names ? tick : tick * ofX.scale), text = data.names ? cut(data.names[tick], (wide - left) / xs.length) : log ? withUnit(tick * ofX.scale, data.x_unit) : number(tick);
        const half = widthOf(text) / 2, middle = Math.min(x, wide - half - 1);
        if (middle - half < last + 8 || middle - half < 0) continue;
        last = middle + half;
        made("text", { x: middle, y: box.bottom + 20, "text-anchor": "middle" }, svg, text);
        made("line", { class: "grid", x1: x, x2: x, y1: box.bottom, y2: box.bottom + 4 }, svg);
      }
      const named = (label, unit) => unit ? `${label} (${unit})` : label;
      made("text", { class: "strong", x: (left + wide - right) / 2, y: height - 6, "text-anchor": "middle" }, svg, cut(named(data.x_label, data.names || log ? "" : ofX.unit), wide - left));
      made("text", { class: "strong", x: -(box.bottom + top) / 2, y: 12, transform: "rotate(-90)", "text-anchor": "middle" }, svg, cut(named(data.y_label, ofY.unit), box.bottom - top));
      data.lines.forEach((line, n) => {
        const points = [];
        line.y.forEach((y, index) => {
          if (y === null) return;
          const x = (line.x || xs)[index];
          points.push([across(x), up(y)]);
          if (data.step) points.push([across(index + 1 < xs.length ? xs[index + 1] : end), up(y)]);
        });
        const alone = data.names && !data.step;
        if (!alone) made("polyline", { points: points.map((each) => each.map((v) => v.toFixed(1)).join(",")).join(" "), fill: "none", "stroke-width": 1.7, "stroke-dasharray": dashes[line.dash ?? Math.floor(n / 7) % 4], style: `stroke:${colours[n]}` }, svg);
        if (!data.step) for (const [x, y] of points) made("circle", { cx: x, cy: y, r: 3.2, style: `fill:${colours[n]}` }, svg);
      });
      if (at !== null) {
        const x = across(xs[at]);
        made("line", { class: "cursor", x1: x, x2: x, y1: top, y2: box.bottom }, svg);
      }
    }
    function powers(low, high) {
      const found = [];
      for (let n = Math.floor(Math.log10(low)); n <= Math.ceil(Math.log10(high)); n += 1) for (const m of high / low > 200 ? [1] : [1, 2, 5]) found.push(m * 10 ** n);
      return found;
    }
    function tell(x, y) {
      const head = data.names ? data.names[xs[at]] : `${data.x_label} ${withUnit(xs[at], data.x_unit)}`;
      const rows = data.lines.map((line) => {
        const index = line.x ? line.x.indexOf(xs[at]) : at;
        return index < 0 || line.y[index] === null || line.y[index] === undefined ? null : `${line.name || data.y_label}: ${withUnit(line.y[index], data.y_unit)}`;
      }).filter((each) => each !== null);
      show([head, ...rows.slice(0, 14), ...(rows.length > 14 ? [`and ${rows.length - 14} more`] : [])].join("\n"), x, y);
    }
    svg.addEventListener("pointermove", (event) => {
      const x = event.clientX - svg.getBoundingClientRect().left;
      at = xs.reduce((best, each, index) => {
        const far = data.step ? (across(each) <= x ? x - across(each) : 1e9) : Math.abs(across(each) - x);
        return far < best[0] ? [far, index] : best;
      }, [1e9, 0])[1];
      draw();
      tell(event.clientX, event.clientY);
    });
    svg.addEventListener("pointerleave", () => { at = null; draw(); hide(); });
    svg.addEventListener("blur", () => { at = null; draw(); hide(); });
    svg.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by) return;
      event.preventDefault();
      at = at === null ? 0 : Math.max(0, Math.min(xs.length - 1, at + by));
      draw();
      const place = svg.getBoundingClientRect();
      tell(place.left + across(xs[at]), place.top + 40);
    });
    return draw;
  }

  // ---- A sweep: curves of the metric that is chosen.

  function sweep(root, data) {
    const bar = made("div", { class: "bar-of-tools" }, root);
    const chosen = {};
    for (const [key, label, names] of [["y", "Show ", data.metrics], ["x", "over ", data.keys]]) {
      const select = made("select", {}, made("label", {}, bar, label));
      for (const each of names) made("option", { value: each }, select, titled(each));
      select.value = chosen[key] = data[key];
      select.addEventListener("change", () => { chosen[key] = select.value; update(); });
    }
    const area = made("div", { class: "drawing" }, root);
    let draw = () => {};
    function update() {
      area.replaceChildren();
      const place = data.columns.indexOf(chosen.x), up = data.columns.indexOf(chosen.y);
      const numeric = data.rows.every((row) => row[place] === null || typeof row[place] === "number");
      const names = numeric ? null : [...new Set(data.rows.map((row) => String(row[place])))];
      const others = data.keys.filter((key) => key !== chosen.x && new Set(data.rows.map((row) => String(row[data.columns.indexOf(key)]))).size > 1);
      const curves = new Map();
      for (const row of data.rows) {
        if (typeof row[up] !== "number" || row[place] === null) continue;
        const name = others.map((key) => `${titled(key.split(".").pop())} ${withUnit(row[data.columns.indexOf(key)], data.units[key] || "")}`).join(", ");
        if (!curves.has(name)) curves.set(name, []);
        curves.get(name).push([names ? names.indexOf(String(row[place])) : row[place], row[up]]);
      }
      const found = [...curves].slice(0, 28).map(([name, points]) => {
        points.sort((a, b) => a[0] - b[0]);
        return { name, x: points.map((each) => each[0]), y: points.map((each) => each[1]) };
      });
      if (!found.length) { made("p", { class: "note" }, area, "No point has this number."); draw = () => {}; return; }
      const xs = found.flatMap((line) => line.x);
      draw = lines(area, {
        lines: found, names, x_label: titled(chosen.x), y_label: titled(chosen.y), x_unit: data.units[chosen.x] || "", y_unit: data.units[chosen.y] || "",
        log_x: !names && Math.max(...xs) >= 8 * Math.min(...xs), log_y: true,
      });
      if (curves.size > found.length) made("p", { class: "note" }, area, `The first ${found.length} of ${curves.size} curves.`);
      draw();
    }
    update();
    return () => draw();
  }

  // ---- Bars on top of one another.

  function bars(root, data) {
    legend(root, data.parts.map((part) => [part.name, `var(--${part.colour})`]));
    const svg = made("svg", { role: "img", "aria-label": "A bar per row; the table below has the numbers" }, root);
    function draw() {
      const wide = root.clientWidth || 600, narrow = wide < 600, row = narrow ? 38 : 22, left = narrow ? 0 : 170, right = 84;
      const most = Math.max(...data.rows.map((each) => each.slice(1).reduce((a, b) => a + b, 0)), 1e-30);
      const height = data.rows.length * row + 4;
      svg.replaceChildren();
      svg.setAttribute("viewBox", `0 0 ${wide} ${height}`);
      svg.style.height = `${height}px`;
      data.rows.forEach(([name, ...parts], index) => {
        const y = index * row + (narrow ? 18 : 3);
        made("text", { class: "strong", x: narrow ? 0 : left - 8, y: narrow ? y - 4 : y + 12, ...(narrow ? {} : { "text-anchor": "end" }) }, svg, cut(name, narrow ? wide : left - 12));
        let x = left;
        parts.forEach((part, n) => {
          const length = part / most * (wide - left - right);
          const block = made("rect", { x, y, width: Math.max(0, length), height: 16, style: `fill:var(--${data.parts[n].colour})` }, svg);
          block.addEventListener("pointermove", (event) => show(`${name}\n${data.parts[n].name}: ${withUnit(part, data.unit)}`, event.clientX, event.clientY));
          block.addEventListener("pointerleave", hide);
          x += length;
        });
        made("text", { x: x + 6, y: y + 12 }, svg, withUnit(parts.reduce((a, b) => a + b, 0), data.unit));
      });
    }
    return draw;
  }

  // ---- Tables that sort.

  function sortable(table) {
    const rows = [...table.rows], head = rows.shift();
    if (!head) return;
    head.querySelectorAll("th").forEach((cell, column) => {
      cell.setAttribute("scope", "col");
      const button = made("button", { type: "button" });
      button.append(...cell.childNodes);
      cell.append(button);
      button.addEventListener("click", () => {
        const up = cell.getAttribute("aria-sort") !== "ascending";
        head.querySelectorAll("th").forEach((each) => each.removeAttribute("aria-sort"));
        cell.setAttribute("aria-sort", up ? "ascending" : "descending");
        const value = (row) => {
          const text = row.cells[column].textContent, plain = Number(text.replaceAll(/[\s\u202f]/g, ""));
          return text === "-" ? null : Number.isNaN(plain) ? text : plain;
        };
        const sign = up ? 1 : -1;
        rows.sort((a, b) => {
          const [x, y] = [value(a), value(b)];
          if (x === null || y === null) return (x === null) - (y === null);
          return sign * (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y)));
        });
        rows.forEach((row) => row.parentNode.append(row));
      });
    });
    for (const row of rows) for (const cell of row.cells) if (cell.textContent.length > 48) cell.classList.add("long");
    if (rows.length > 12) filter(table, rows);
  }

  function filter(table, rows) {
    const bar = made("div", { class: "bar-of-tools" }), label = made("label", {}, bar, "Rows with ");
    const input = made("input", { type: "search" }, label), count = made("output", {}, bar);
    input.addEventListener("input", () => {
      const text = input.value.toLowerCase();
      let kept = 0;
      for (const row of rows) { row.hidden = !row.textContent.toLowerCase().includes(text); kept += !row.hidden; }
      count.textContent = text ? `${kept} of ${rows.length}` : "";
    });
    table.closest(".scroll").before(bar);
  }

  // ---- The page.

  const kinds = { timeline, network, lines, sweep, bars }, drawn = [];
  for (const figure of document.querySelectorAll(".chart")) {
    const data = JSON.parse(figure.querySelector("script").textContent);
    const draw = kinds[figure.dataset.kind](figure.querySelector(".drawing"), data);
    drawn.push(draw);
    draw();
  }
  document.querySelectorAll("table").forEach(sortable);
  let waiting = 0;
  window.addEventListener("resize", () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(() => drawn.forEach((draw) => draw())); });
})();
