// One chart: uPlot, a legend that shows the values under the cursor, and spans
// of alerts shaded and named.
import { h, show } from "./dom.js";
import { number } from "./format.js";

/* global uPlot */

// Lines differ in dash as well as in colour.
const dashes = [[], [9, 4], [2, 3], [10, 3, 2, 3], [16, 4], [5, 5], [2, 6], [14, 3, 2, 3, 2, 3]];

const labelHeight = 17; // CSS pixels for one span's name, above the plot

// colour resolves a CSS variable, light or dark as the page is now.
function colour(name) {
  const probe = document.createElement("span");
  probe.hidden = true;
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const resolved = getComputedStyle(probe).color;
  probe.remove();
  return resolved;
}

// strokes gives a line's look by its role.
function strokeOf(line) {
  switch (line.role) {
    case "pool":
      return { stroke: colour("--line-pool"), width: 2.5, dash: [] };
    case "baseline":
      return { stroke: colour("--line-baseline"), width: 1.5, dash: [6, 5] };
    case "second":
      return { stroke: colour("--line-second"), width: 2, dash: [8, 4] };
    default:
      return { stroke: colour(`--line-${line.index % dashes.length}`), width: 1.25, dash: dashes[line.index % dashes.length] };
  }
}

// Chart keeps one uPlot in a host element. It is made anew only when its lines
// change; new data alone is put into the one that is there.
export class Chart {
  constructor(host, { title, unit, top }) {
    this.unit = unit;
    this.top = top;
    this.title = title;
    this.spans = [];
    this.heading = h("h4", null, title);
    this.plot = h("div", { class: "plot", role: "img" });
    this.legend = h("ul", { class: "legend" });
    host.append(h("figure", null, this.heading, this.plot, this.legend));
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.plot);
  }

  // draw shows lines ({label, role, index, points: Map of time to value}) and
  // spans ({from, to, fired, name, severity}) over a window.
  draw({ lines, spans, times, title }) {
    this.heading.textContent = title ?? this.title;
    this.spans = spans;
    this.times = times;
    this.lines = lines;
    const data = [times, ...lines.map((l) => times.map((t) => l.points.get(t) ?? null))];
    const shape = JSON.stringify([document.documentElement.dataset.theme, matchMedia("(prefers-color-scheme: dark)").matches,
      lines.map((l) => [l.label, l.role, l.index])]);
    if (shape !== this.shape) {
      this.shape = shape;
      this.u?.destroy();
      this.u = new uPlot(this.options(), data, this.plot);
    } else {
      this.u.setData(data, false);
      this.u.setScale("x", { min: times[0], max: times.at(-1) });
      this.u.redraw(true, true);
    }
    this.plot.classList.toggle("nodata", lines.every((l) => l.points.size === 0));
    this.describe(null);
    this.plot.setAttribute("aria-label", this.inWords());
  }

  options() {
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--grid"), width: 1 }, ticks: { stroke: colour("--grid"), size: 4 }, font: "12px system-ui, sans-serif" };
    return {
      width: this.plot.clientWidth || 300,
      height: this.height(),
      padding: [() => 8 + this.spans.filter((s) => s.name).length * labelHeight, 22, 0, 0],
      legend: { show: false },
      cursor: { sync: { key: "fleet" }, drag: { x: false, y: false }, points: { size: 6 } },
      scales: { x: { time: true }, y: { range: (_, low, high) => this.range(low, high) } },
      axes: [
        { ...axis, size: 32, values: [
          [86400, "{D} {MMM}", null, null, null, null, null, null, 1],
          [60, "{HH}:{mm}", null, null, null, null, null, null, 1],
          [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 1],
        ] },
        { ...axis, size: 54, ...(this.unit === "requests" && { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000] }), values: (_, ticks) => ticks.map((v) => number(v, this.unit)) },
      ],
      series: [{}, ...this.lines.map((l) => ({ label: l.label, spanGaps: false, points: { show: false }, ...strokeOf(l) }))],
      hooks: { drawClear: [(u) => this.shade(u)], setCursor: [(u) => this.describe(u.cursor.idx)] },
    };
  }

  range(low, high) {
    if (this.top) return [0, this.top];
    return [0, Math.max(high * 1.12, this.unit === "requests" ? 4 : 0.001)];
  }

  height() {
    return this.plot.clientHeight || 180;
  }

  resize() {
    if (this.u && this.plot.clientWidth > 0) this.u.setSize({ width: this.plot.clientWidth, height: this.height() });
  }

  // shade draws the spans under the lines; each is named above the plot.
  shade(u) {
    const { ctx } = u;
    const { left, top, width, height } = u.bbox;
    const ratio = devicePixelRatio;
    const edge = (t) => Math.min(left + width, Math.max(left, u.valToPos(t, "x", true)));
    let row = 0;
    ctx.save();
    ctx.font = `600 ${12 * ratio}px system-ui, sans-serif`;
    for (const span of this.spans) {
      const [from, to] = [edge(span.from), edge(span.to)];
      ctx.fillStyle = colour(`--span-${span.severity}`);
      ctx.fillRect(from, top, to - from, height);
      ctx.fillStyle = ctx.strokeStyle = colour(`--${span.severity}`);
      ctx.lineWidth = 1.5 * ratio;
      for (const x of [from, to]) {
        if (x <= left || x >= left + width) continue;
        ctx.beginPath();
        ctx.moveTo(x, top - 4 * ratio);
        ctx.lineTo(x, top + height);
        ctx.stroke();
      }
      if (!span.name) continue;
      const wide = ctx.measureText(span.name).width;
      ctx.fillText(span.name, Math.max(left, Math.min(from, left + width - wide)), top - (6 + row * labelHeight) * ratio);
      row += 1;
    }
    ctx.restore();
  }

  // describe fills the legend with the values at the cursor, or else the last ones.
  describe(index) {
    const at = index ?? this.times.length - 1;
    show(this.legend, this.lines.map((l) => h("li", { "data-key": l.label },
      swatch(l), h("span", null, l.label), h("b", null, number(l.points.get(this.times[at]), this.unit)))));
  }

  inWords() {
    const last = this.times.at(-1);
    const parts = this.lines.map((l) => {
      const values = [...l.points.values()];
      return values.length === 0 ? `${l.label}: no data`
        : `${l.label}: now ${number(l.points.get(last), this.unit)}, from ${number(Math.min(...values), this.unit)} to ${number(Math.max(...values), this.unit)}`;
    });
    return `${this.heading.textContent}. ${parts.join("; ")}.`;
  }

  destroy() {
    this.observer.disconnect();
    this.u?.destroy();
  }
}

function swatch(line) {
  const { stroke, dash, width } = strokeOf(line);
  return h("svg", { viewBox: "0 0 24 8", class: "swatch", "aria-hidden": "true" },
    h("path", { d: "M0 4h24", stroke, "stroke-width": width, "stroke-dasharray": dash.join(" ") || null }));
}
