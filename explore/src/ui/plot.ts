// A plot of curves over lambda: axes, legend, readout under the pointer, a table behind it, and pictures to save.

import { fresh, h, s, show } from "./dom";
import { savePng, saveSvg } from "./export";

export interface Curve {
  readonly label: string;
  readonly color: string;
  readonly width?: number;
  readonly dash?: string;
  /** Opacity of the line. */
  readonly faint?: number;
  /** Left out of legend, readout and table. */
  readonly quiet?: boolean;
  /** Draw bars from zero, or points, in place of a line. */
  readonly style?: "line" | "points" | "steps";
}

interface Drawn extends Curve {
  label: string;
  x: ArrayLike<number>;
  y: ArrayLike<number>;
  path: SVGPathElement;
  shown: boolean;
}

export interface PlotOptions {
  /** What the plot shows, a heading. */
  readonly title: string;
  readonly name: string;
  readonly height: number;
  readonly x: readonly [number, number];
  readonly xLabel: string;
  readonly yLabel: string;
  /** Draw a second axis at the top, mu = 1 - lambda. */
  readonly mu?: boolean;
  /** Heights are powers of ten. */
  readonly log?: boolean;
}

const MARGIN = { left: 58, right: 14, bottom: 40, top: 12, topMu: 36 };

/** Return round numbers between two ends. */
export function ticks(low: number, high: number, count: number): number[] {
  const raw = (high - low) / Math.max(1, count);
  const unit = 10 ** Math.floor(Math.log10(raw));
  const step = unit * ([1, 2, 2.5, 5, 10].find((f) => f * unit >= raw) ?? 10);
  const out: number[] = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) out.push(k * step);
  return out;
}

export class Plot {
  readonly element: HTMLElement;
  readonly svg: SVGSVGElement;
  /** What is drawn below the curves, by the owner: bands, areas. */
  readonly under: SVGGElement;
  private readonly curves = new Map<string, Drawn>();
  private readonly frame: SVGGElement;
  private readonly lines: SVGGElement;
  private readonly cursor: SVGGElement;
  private readonly clip: SVGRectElement;
  private readonly legend: HTMLElement;
  private readonly readout: HTMLElement;
  private readonly table: HTMLDetailsElement;
  private readonly description: SVGDescElement;
  private y: [number, number] = [0, 1];
  private width = 600;
  private height: number;
  /** Called when the size or the domain has changed. */
  onLayout: () => void = () => undefined;

  constructor(private readonly options: PlotOptions) {
    this.height = options.height;
    const clip = fresh("clip");
    const title = fresh("title");
    const description = fresh("description");
    this.clip = s("rect");
    this.frame = s("g", { "aria-hidden": "true" });
    this.under = s("g", { "clip-path": `url(#${clip})` });
    this.lines = s("g", { "clip-path": `url(#${clip})`, fill: "none", "stroke-linejoin": "round" });
    this.cursor = s("g", { "data-screen": "", "aria-hidden": "true" });
    this.description = s("desc", { id: description });
    this.svg = s(
      "svg",
      { role: "img", "aria-labelledby": title, "aria-describedby": description, class: "plot" },
      this.description,
      s("defs", {}, s("clipPath", { id: clip }, this.clip)),
      this.frame,
      this.under,
      this.lines,
      this.cursor,
    );
    this.legend = h("div", { class: "legend", role: "group", "aria-label": `Curves of: ${options.title}` });
    this.readout = h("p", { class: "readout", "aria-hidden": "true" });
    this.table = h("details", { class: "table" }, h("summary", {}, "Table"));
    this.table.addEventListener("toggle", () => this.fillTable());
    this.element = h(
      "figure",
      { class: "figure" },
      h("figcaption", {}, h("h3", { id: title }, options.title), this.buttons()),
      this.legend,
      h("div", { class: "canvas" }, this.svg, this.readout),
      this.table,
    );
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => this.leave());
    new ResizeObserver(([entry]) => this.resize(entry.contentRect.width)).observe(this.svg);
  }

  private buttons(): HTMLElement {
    const { name, title } = this.options;
    return h(
      "span",
      { class: "save" },
      h("button", { type: "button", "aria-label": `Save “${title}” as PNG`, click: () => void savePng(this.svg, `armagnn-${name}`, title) }, "PNG"),
      h("button", { type: "button", "aria-label": `Save “${title}” as SVG`, click: () => saveSvg(this.svg, `armagnn-${name}`, title) }, "SVG"),
    );
  }

  private resize(width: number): void {
    if (!width || Math.abs(width - this.width) < 0.5) return;
    this.width = width;
    this.height = width < 480 ? Math.min(this.options.height, 230) : this.options.height;
    this.layout();
  }

  /** Add a curve; call `set` to give it numbers. */
  add(key: string, curve: Curve, before?: string): void {
    const points = curve.style === "points";
    const path = s("path", {
      stroke: curve.color,
      "stroke-width": points ? 3.5 : (curve.width ?? 2),
      "stroke-dasharray": curve.dash,
      "stroke-linecap": points ? "round" : null,
      opacity: curve.faint,
    });
    this.lines.insertBefore(path, (before && this.curves.get(before)?.path) || null);
    const drawn: Drawn = { ...curve, x: [], y: [], path, shown: true };
    this.curves.set(key, drawn);
    if (curve.quiet) return;
    const sample = s("svg", { width: 26, height: 10, "aria-hidden": "true" }, s("path", {
      d: points ? "M13,5h.01" : "M1,5H25",
      stroke: curve.color,
      "stroke-width": points ? 5 : (curve.width ?? 2),
      "stroke-dasharray": curve.dash,
      "stroke-linecap": points ? "round" : null,
      fill: "none",
    }));
    const button = h(
      "button",
      {
        type: "button",
        "aria-pressed": "true",
        "data-curve": key,
        click: () => {
          drawn.shown = !drawn.shown;
          button.setAttribute("aria-pressed", String(drawn.shown));
          path.style.display = drawn.shown ? "" : "none";
          this.fillTable();
        },
      },
      sample,
      curve.label,
    );
    this.legend.append(button);
  }

  /** Give a curve its numbers; empty lists hide it, in the legend as well. */
  set(key: string, x: ArrayLike<number>, y: ArrayLike<number>): void {
    const curve = this.curves.get(key);
    if (!curve) return;
    curve.x = x;
    curve.y = y;
    const button = this.legend.querySelector<HTMLElement>(`[data-curve="${key}"]`);
    if (button && button.hidden !== (y.length === 0)) button.hidden = y.length === 0;
    this.draw(curve);
  }

  /** Give a curve another name. */
  rename(key: string, label: string): void {
    const curve = this.curves.get(key);
    if (curve) curve.label = label;
  }

  /** Return the numbers of a curve. */
  get(key: string): { x: ArrayLike<number>; y: ArrayLike<number> } | undefined {
    return this.curves.get(key);
  }

  /** Show these heights. */
  range(low: number, high: number): void {
    if (low === this.y[0] && high === this.y[1]) return;
    this.y = [low, high];
    this.layout();
  }

  get heights(): readonly [number, number] {
    return this.y;
  }

  /** Say in a sentence what a reader who cannot see the plot should know. */
  describe(text: string): void {
    if (this.description.textContent !== text) this.description.textContent = text;
    if (this.table.open) this.fillTable();
  }

  private get box(): { left: number; right: number; top: number; bottom: number } {
    const top = this.options.mu ? MARGIN.topMu : MARGIN.top;
    return { left: MARGIN.left + (this.options.log ? 12 : 0), right: this.width - MARGIN.right, top, bottom: this.height - MARGIN.bottom };
  }

  /** Return the place of x and of y on the drawing. */
  px(x: number): number {
    const { left, right } = this.box;
    const [low, high] = this.options.x;
    return left + ((x - low) / (high - low)) * (right - left);
  }

  py(y: number): number {
    const { top, bottom } = this.box;
    const at = this.options.log ? Math.log10(Math.max(y, 1e-300)) : y;
    return bottom - ((at - this.y[0]) / (this.y[1] - this.y[0])) * (bottom - top);
  }

  /** Return x and y of a place on the screen. */
  at(event: PointerEvent): [number, number] {
    const { left, right, top, bottom } = this.box;
    const rectangle = this.svg.getBoundingClientRect();
    const [low, high] = this.options.x;
    return [
      low + ((event.clientX - rectangle.left - left) / (right - left)) * (high - low),
      this.y[0] + ((bottom - event.clientY + rectangle.top) / (bottom - top)) * (this.y[1] - this.y[0]),
    ];
  }

  private layout(): void {
    const { left, right, top, bottom } = this.box;
    const { xLabel, yLabel, mu, log } = this.options;
    this.svg.setAttribute("height", String(this.height));
    for (const [name, value] of Object.entries({ x: left, y: top, width: Math.max(1, right - left), height: bottom - top })) {
      this.clip.setAttribute(name, String(value));
    }
    const parts: SVGElement[] = [];
    const line = (x1: number, y1: number, x2: number, y2: number, color: string): void => {
      parts.push(s("line", { x1, y1, x2, y2, stroke: `var(--${color})`, "stroke-width": 1 }));
    };
    const label = (x: number, y: number, value: string, anchor: string, more: Record<string, string> = {}): void => {
      parts.push(s("text", { x, y, "text-anchor": anchor, fill: "var(--muted)", "font-size": 12, ...more }, value));
    };
    const [low, high] = this.y;
    const levels = log
      ? Array.from({ length: Math.floor(high) - Math.ceil(low) + 1 }, (_, k) => Math.ceil(low) + k).filter(
          (_, k, all) => k % Math.ceil(all.length / 6) === 0,
        )
      : ticks(low, high, (bottom - top) / (this.height < 200 ? 24 : 36));
    for (const level of levels) {
      const y = this.py(log ? 10 ** level : level);
      line(left, y, right, y, level === 0 && !log ? "axis" : "grid");
      if (log) parts.push(exponent(left - 8, y + 4, level));
      else label(left - 8, y + 4, tickLabel(level), "end");
    }
    for (const place of ticks(...this.options.x, (right - left) / 90)) {
      const x = this.px(place);
      line(x, top, x, bottom, "grid");
      label(x, bottom + 17, tickLabel(place), "middle");
      if (mu) label(x, top - 7, tickLabel(1 - place), "middle");
    }
    line(left, bottom, right, bottom, "axis");
    line(left, top, left, bottom, "axis");
    const middle = (left + right) / 2;
    label(middle, this.height - 6, xLabel, "middle", { fill: "var(--text)" });
    if (mu) label(middle, 13, "μ = 1 − λ", "middle", { fill: "var(--text)" });
    const height = (top + bottom) / 2;
    label(14, height, yLabel, "middle", { fill: "var(--text)", transform: `rotate(-90 14 ${height})` });
    this.frame.replaceChildren(...parts);
    for (const curve of this.curves.values()) this.draw(curve);
    this.onLayout();
  }

  private draw(curve: Drawn): void {
    const { x, y, style } = curve;
    const { top, bottom } = this.box;
    const lowest = bottom + 50;
    const highest = top - 50;
    let path = "";
    let pen = "M";
    for (let i = 0; i < y.length; i++) {
      const value = y[i];
      if (!(Math.abs(value) < Infinity) || (this.options.log && value <= 0)) {
        pen = "M";
        continue;
      }
      const px = Math.round(this.px(x[i]) * 10) / 10;
      const py = Math.round(Math.min(Math.max(this.py(value), highest), lowest) * 10) / 10;
      if (style === "points") path += `M${px},${py}h.01`;
      else {
        path += `${pen}${px},${py}`;
        pen = "L";
      }
    }
    curve.path.setAttribute("d", path);
  }

  // ------------------------------------------------------------------------------------------------------- reading off

  private visible(): Drawn[] {
    return [...this.curves.values()].filter((curve) => curve.shown && !curve.quiet && curve.y.length > 0);
  }

  private point(event: PointerEvent): void {
    const { left, right, top, bottom } = this.box;
    const [place] = this.at(event);
    const [low, high] = this.options.x;
    if (place < low || place > high) return this.leave();
    const x = Math.min(Math.max(this.px(place), left), right);
    const parts: SVGElement[] = [s("line", { x1: x, x2: x, y1: top, y2: bottom, stroke: "var(--muted)", "stroke-dasharray": "3 3" })];
    const words = [`λ ${show(place)}`];
    for (const curve of this.visible()) {
      const value = valueAt(curve, place);
      if (!Number.isFinite(value)) continue;
      words.push(`${curve.label} ${show(value, 4)}`);
      const y = this.py(value);
      if (y >= top && y <= bottom) {
        parts.push(s("circle", { cx: x, cy: y, r: 4, fill: curve.color, stroke: "var(--surface)", "stroke-width": 1.5 }));
      }
    }
    this.cursor.replaceChildren(...parts);
    this.readout.textContent = words.join("   ");
  }

  private leave(): void {
    this.cursor.replaceChildren();
    this.readout.textContent = "";
  }

  private fillTable(): void {
    if (!this.table.open) return;
    const curves = this.visible();
    const [low, high] = this.options.x;
    const few = curves.every((curve) => curve.y.length <= 64) && curves.length > 0;
    const places = few
      ? [...new Set(curves.flatMap((curve) => Array.from(curve.x)))].sort((p, q) => p - q)
      : Array.from({ length: 21 }, (_, k) => low + ((high - low) * k) / 20);
    const head = h("tr", {}, h("th", { scope: "col" }, this.options.xLabel.split(" ")[0]), ...curves.map((curve) => h("th", { scope: "col" }, curve.label)));
    const rows = places.map((place) =>
      h("tr", {}, h("th", { scope: "row" }, show(place, 2)), ...curves.map((curve) => h("td", {}, show(valueAt(curve, place), 4)))),
    );
    const scroll = h(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": `Numbers of: ${this.options.title}` },
      h("table", {}, h("caption", {}, this.options.title), h("thead", {}, head), h("tbody", {}, ...rows)),
    );
    this.table.querySelector(".scroll")?.remove();
    this.table.append(scroll);
  }
}

/** Return a curve's height at x, between two of its points. */
function valueAt(curve: Drawn, place: number): number {
  const { x, y } = curve;
  const rising = x.length < 2 || x[x.length - 1] > x[0];
  let low = 0;
  let high = x.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (x[middle] <= place === rising) low = middle;
    else high = middle;
  }
  if (x.length === 0) return NaN;
  if (x.length === 1) return y[0];
  const share = Math.min(1, Math.max(0, (place - x[low]) / (x[high] - x[low])));
  if (share === 0) return y[low];
  return share === 1 ? y[high] : y[low] + share * (y[high] - y[low]);
}

function tickLabel(value: number): string {
  return String(Number(value.toPrecision(6))).replace("-", "−");
}

function exponent(x: number, y: number, power: number): SVGTextElement {
  const raised = s("tspan", { dy: -5, "font-size": 9 }, String(power).replace("-", "−"));
  return s("text", { x, y, "text-anchor": "end", fill: "var(--muted)", "font-size": 12 }, "10", raised);
}
