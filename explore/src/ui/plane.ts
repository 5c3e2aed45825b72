// The complex plane with a mark for every term, moved by mouse, finger or keys.

import { inverse, magnitude, type Complex, type Term } from "../core/filter";
import type { Store } from "../store";
import { fresh, h, s, show } from "./dom";
import { savePng, saveSvg } from "./export";

export type Kind = "pole" | "a" | "b";

const TITLES: Record<Kind, string> = { pole: "Poles 1 / a", a: "Coefficients a", b: "Residues b" };
const NEAREST = 0.002;
const FARTHEST = 0.998;

interface Handle {
  group: SVGGElement;
  twin: SVGElement;
  number: SVGTextElement;
}

/** Return a term that was moved so that its pole, a or b is at z; poles keep off [-1, 1], where h is infinite. */
export function moved(term: Term, kind: Kind, [x, y]: Complex): Term {
  if (kind === "b") return { ...term, b: [x, term.pair ? y : 0] };
  if (kind === "a") {
    const re = term.pair ? x : Math.min(Math.max(x, -FARTHEST), FARTHEST);
    const im = term.pair && Math.abs(x) >= 1 && Math.abs(y) < NEAREST ? Math.sign(y || 1) * NEAREST : y;
    return { ...term, a: [re, term.pair ? im : 0] };
  }
  if (!term.pair) return { ...term, a: [1 / (Math.abs(x) < 1 + NEAREST ? Math.sign(x || 1) * (1 + NEAREST) : x), 0] };
  const im = Math.abs(x) <= 1 && Math.abs(y) < NEAREST ? Math.sign(y || 1) * NEAREST : y;
  return { ...term, a: inverse([x, -im]) };
}

export class Plane {
  readonly element: HTMLElement;
  private readonly svg: SVGSVGElement;
  private readonly canvas: HTMLCanvasElement;
  private readonly back: SVGGElement;
  private readonly marks: SVGGElement;
  private readonly title: HTMLElement;
  private readonly note: HTMLElement;
  private handles: Handle[] = [];
  private width = 0;
  private height: number;
  private kind: Kind;
  private scale = 1; // half the width of the plane of residues
  private dragged = -1;
  private terms: readonly Term[] = [];
  private selected = -1;
  /** Called with the number of a term that was chosen. */
  onSelect: (k: number) => void = () => undefined;

  constructor(
    private readonly store: Store,
    kind: Kind,
    private readonly tall: number,
  ) {
    this.kind = kind;
    this.height = tall;
    const id = fresh("plane");
    this.title = h("h3", { id }, TITLES[kind]);
    this.note = h("p", { class: "note" });
    this.back = s("g", { "aria-hidden": "true" });
    this.marks = s("g");
    this.svg = s("svg", { class: "plane", role: "group", "aria-labelledby": id, height: tall }, this.back, this.marks);
    this.canvas = h("canvas", { class: "behind", "aria-hidden": "true" });
    const name = `armagnn-${kind === "b" ? "residues" : "poles"}`;
    this.element = h(
      "figure",
      { class: "figure" },
      h(
        "figcaption",
        {},
        this.title,
        h(
          "span",
          { class: "save" },
          h("button", { type: "button", "aria-label": `Save “${TITLES[kind]}” as PNG`, click: () => void savePng(this.svg, name, TITLES[kind]) }, "PNG"),
          h("button", { type: "button", "aria-label": `Save “${TITLES[kind]}” as SVG`, click: () => saveSvg(this.svg, name, TITLES[kind]) }, "SVG"),
        ),
      ),
      h("div", { class: "canvas" }, this.canvas, this.svg),
      this.note,
    );
    new ResizeObserver(([entry]) => {
      if (Math.abs(entry.contentRect.width - this.width) < 0.5) return;
      this.width = entry.contentRect.width;
      this.height = this.width < 480 ? Math.min(this.tall, 270) : this.tall;
      this.svg.setAttribute("height", String(this.height));
      if (this.kind === "b") this.rescale();
      this.layout();
    }).observe(this.svg);
    store.subscribe((state) => this.draw(state.terms, kind === "b" ? "b" : state.plane));
  }

  /** Colours have changed. */
  repaint(): void {
    this.paint();
  }

  // ------------------------------------------------------------------------------------------------------- coordinates

  /** Half the width and half the height of the plane. */
  private get half(): [number, number] {
    const reach = this.kind === "b" ? this.scale : this.kind === "a" ? 1.35 : 2.05;
    const vertical = (reach * this.height) / Math.max(this.width, 1);
    if (this.kind !== "a") return [reach, vertical];
    return vertical < 1.15 ? [(1.15 * this.width) / this.height, 1.15] : [reach, vertical];
  }

  private px(x: number): number {
    const sign = this.kind === "pole" ? -1 : 1; // to the right lambda = 1 - mu grows
    return this.width / 2 + (sign * x * this.width) / (2 * this.half[0]);
  }

  private py(y: number): number {
    return this.height / 2 - (y * this.height) / (2 * this.half[1]);
  }

  private place(term: Term): Complex {
    if (this.kind !== "pole") return this.kind === "b" ? term.b : term.a;
    const [x, y] = inverse(term.a);
    return [x, -y]; // of a pair the pole above the frequencies, as its a is
  }

  private at(event: PointerEvent): Complex {
    const box = this.svg.getBoundingClientRect();
    const sign = this.kind === "pole" ? -1 : 1;
    return [
      (sign * (event.clientX - box.left - this.width / 2) * 2 * this.half[0]) / this.width,
      ((this.height / 2 - event.clientY + box.top) * 2 * this.half[1]) / this.height,
    ];
  }

  // ----------------------------------------------------------------------------------------------------------- drawing

  private draw(terms: readonly Term[], kind: Kind): void {
    const structure = terms.length !== this.terms.length || terms.some((term, k) => term.pair !== this.terms[k].pair);
    const changed = kind !== this.kind;
    this.terms = terms;
    this.kind = kind;
    if (structure) this.rebuild();
    if (kind === "b" && this.rescale()) return this.layout();
    if (changed) {
      this.title.textContent = TITLES[kind];
      return this.layout();
    }
    this.move();
    this.paint();
  }

  /** Let the plane of residues hold them all; not while one is dragged. Return whether it has changed. */
  private rescale(): boolean {
    if (this.dragged >= 0 || !this.width) return false;
    const flat = this.width / this.height;
    const most = this.terms.reduce((size, { b }) => Math.max(size, Math.abs(b[0]), Math.abs(b[1]) * flat), 0.05);
    if (most <= 0.92 * this.scale && most >= 0.35 * this.scale) return false;
    this.scale = most * 1.3;
    return true;
  }

  private rebuild(): void {
    this.handles = this.terms.map((term, k) => {
      const twin = this.shape(true);
      const number = s("text", { x: 11, y: -9, "font-size": 12, "font-weight": 600, fill: "var(--text)", "aria-hidden": "true" }, String(k + 1));
      const group = s(
        "g",
        {
          role: "slider",
          tabindex: 0,
          class: "handle",
          "data-term": k,
          "aria-label": `${this.kind === "b" ? "Residue" : "Pole"} of ${term.pair ? "pair" : "term"} ${k + 1}`,
          pointerdown: (event: PointerEvent) => this.grab(event, k),
          pointermove: (event: PointerEvent) => this.drag(event, k),
          pointerup: () => this.release(),
          pointercancel: () => this.release(),
          keydown: (event: KeyboardEvent) => this.key(event, k),
          focus: () => this.select(k),
        },
        s("circle", { r: 20, fill: "transparent", "data-screen": "" }),
        this.shape(false),
        number,
      );
      return { group, twin, number };
    });
    this.marks.replaceChildren(...this.handles.map(({ twin }) => twin), ...this.handles.map(({ group }) => group));
  }

  private shape(faint: boolean): SVGElement {
    const look = {
      fill: "none",
      stroke: this.kind === "b" ? "var(--residue)" : "var(--pole)",
      "stroke-width": faint ? 2 : 3,
      "stroke-linecap": "round",
      opacity: faint ? 0.55 : null,
      class: faint ? "" : "mark",
    };
    return this.kind === "b"
      ? s("path", { d: "M0,-7L7,0L0,7L-7,0Z", ...look, fill: faint ? "none" : "var(--surface)" })
      : s("path", { d: "M-6,-6L6,6M-6,6L6,-6", ...look });
  }

  private move(): void {
    const [halfX, halfY] = this.half;
    this.terms.forEach((term, k) => {
      const { group, twin, number } = this.handles[k];
      const [x, y] = this.place(term);
      const beyond = Math.abs(x) > halfX || Math.abs(y) > halfY;
      const px = Math.min(Math.max(this.px(x), 9), this.width - 9);
      const py = Math.min(Math.max(this.py(y), 9), this.height - 9);
      group.setAttribute("transform", `translate(${px.toFixed(1)},${py.toFixed(1)})`);
      group.classList.toggle("beyond", beyond);
      number.setAttribute("x", px > this.width - 26 ? "-19" : "11");
      twin.setAttribute("transform", `translate(${px.toFixed(1)},${(this.height - py).toFixed(1)})`);
      twin.style.display = term.pair ? "" : "none";
      const size = Math.hypot(term.a[0], term.a[1]);
      group.classList.toggle("diverges", this.kind !== "b" && size >= 1);
      group.setAttribute("aria-valuenow", x.toFixed(4));
      const imaginary = term.pair ? `, imaginary part ${show(y)}` : "";
      group.setAttribute(
        "aria-valuetext",
        this.kind === "b"
          ? `b: ${show(x)}${imaginary}`
          : this.kind === "a"
            ? `a: ${show(x)}${imaginary}, size ${show(size)}`
            : `at lambda ${show(1 - x)}${imaginary}; size of a ${show(size)}${size >= 1 ? ", the recursion diverges" : ""}`,
      );
    });
    if (this.kind === "b") return;
    const diverging = this.terms.flatMap((term, k) => (Math.hypot(term.a[0], term.a[1]) >= 1 ? [k + 1] : []));
    const text =
      `Hatched: |a| ≥ 1, where the recursion diverges (Eq. 10). ` +
      (diverging.length ? `There: ${diverging.join(", ")}.` : "No pole is there.");
    if (this.note.textContent !== text) this.note.textContent = text;
  }

  private layout(): void {
    if (!this.width) return;
    const { width, height, kind } = this;
    const [halfX, halfY] = this.half;
    const hatch = fresh("hatch");
    const parts: SVGElement[] = [
      s("defs", {}, s("pattern", { id: hatch, width: 7, height: 7, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, s("rect", { width: 7, height: 7, fill: "var(--diverges)", opacity: 0.1 }), s("line", { y2: 7, stroke: "var(--diverges)", "stroke-width": 2, opacity: 0.38 }))),
    ];
    const radius = width / (2 * halfX);
    const circle = { cx: this.px(0), cy: this.py(0), r: radius };
    if (kind === "pole") parts.push(s("circle", { ...circle, fill: `url(#${hatch})`, stroke: "var(--diverges)", "stroke-width": 1.2 }));
    if (kind === "a") {
      const { cx, cy, r } = circle;
      const disk = `M${cx - r},${cy}a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0Z`;
      parts.push(s("path", { d: `M0,0H${width}V${height}H0Z${disk}`, "fill-rule": "evenodd", fill: `url(#${hatch})` }));
      parts.push(s("circle", { ...circle, fill: "none", stroke: "var(--diverges)", "stroke-width": 1.2 }));
    }
    parts.push(s("line", { x1: 0, x2: width, y1: this.py(0), y2: this.py(0), stroke: "var(--axis)" }));
    parts.push(s("line", { x1: this.px(0), x2: this.px(0), y1: 0, y2: height, stroke: kind === "pole" ? "var(--grid)" : "var(--axis)" }));
    const text = (x: number, y: number, value: string, anchor = "middle"): void => {
      parts.push(s("text", { x, y, "text-anchor": anchor, "font-size": 12, fill: "var(--text)", stroke: "var(--surface)", "stroke-width": 3, "paint-order": "stroke" }, value));
    };
    const label = (value: number): string => String(Number(value.toPrecision(2))).replace("-", "−");
    if (kind === "pole") {
      // the frequencies, which poles must keep off
      parts.push(s("line", { x1: this.px(1), x2: this.px(-1), y1: this.py(0), y2: this.py(0), stroke: "var(--text)", "stroke-width": 4, "stroke-linecap": "round" }));
      for (const mu of [2, 1, 0, -1, -2].filter((value) => Math.abs(value) < halfX - 0.15)) text(this.px(mu), this.py(0) + 19, label(1 - mu));
      text(width - 8, height - 9, "λ = 1 − Re 1/a", "end");
      text(8, 17, "Im 1/a", "start");
    } else {
      const unit = kind === "a" ? 1 : nice(halfX);
      for (const x of [-unit, unit]) if (Math.abs(x) < halfX) text(this.px(x), this.py(0) + 17, label(x));
      for (const y of [-unit, unit]) if (Math.abs(y) < halfY) text(this.px(0) + 7, this.py(y) + 4, label(y), "start");
      text(width - 8, this.py(0) - 7, `Re ${kind}`, "end");
      text(this.px(0) + 7, 15, `Im ${kind}`, "start");
    }
    this.back.replaceChildren(...parts);
    this.move();
    this.paint();
  }

  /** Paint |h| behind the poles, in steps, so that its contours can be seen. */
  private paint(): void {
    const context = this.canvas.getContext("2d");
    if (!context || !this.width || this.kind !== "pole") {
      this.canvas.hidden = true;
      return;
    }
    this.canvas.hidden = false;
    const cell = 4;
    const columns = Math.ceil(this.width / cell);
    const rows = Math.ceil(this.height / 2 / cell); // the lower half plane mirrors the upper
    if (this.canvas.width !== columns || this.canvas.height !== 2 * rows) {
      this.canvas.width = columns;
      this.canvas.height = 2 * rows;
    }
    const styles = getComputedStyle(this.svg);
    const color = (name: string): number[] => [1, 3, 5].map((k) => parseInt(styles.getPropertyValue(name).trim().slice(k, k + 2), 16));
    const low = color("--surface");
    const high = color("--glow");
    const [halfX, halfY] = this.half;
    const image = context.createImageData(columns, 2 * rows);
    for (let row = 0; row < rows; row++) {
      const y = halfY * (1 - (row + 0.5) / rows);
      for (let column = 0; column < columns; column++) {
        const x = -halfX * ((2 * (column + 0.5)) / columns - 1);
        const size = magnitude(this.terms, x, y);
        const share = Math.floor((14 * size) / (size + 1.2)) / 14;
        for (const at of [row, 2 * rows - 1 - row]) {
          const place = 4 * (at * columns + column);
          for (let k = 0; k < 3; k++) image.data[place + k] = low[k] + share * (high[k] - low[k]);
          image.data[place + 3] = 255;
        }
      }
    }
    context.putImageData(image, 0, 0);
  }

  // ------------------------------------------------------------------------------------------------------------ moving

  private change(k: number, z: Complex, commit: boolean): void {
    const terms = this.store.state.terms.map((term, j) => (j === k ? moved(term, this.kind, z) : term));
    this.store.update({ terms, ...(this.kind === "b" ? { follow: false } : {}) }, commit);
  }

  private grab(event: PointerEvent, k: number): void {
    event.preventDefault();
    const { group } = this.handles[k];
    group.setPointerCapture(event.pointerId);
    group.focus({ preventScroll: true });
    this.dragged = k;
    this.select(k);
    this.svg.classList.add("dragging");
  }

  private drag(event: PointerEvent, k: number): void {
    if (this.dragged === k) this.change(k, this.at(event), false);
  }

  private release(): void {
    if (this.dragged < 0) return;
    this.dragged = -1;
    this.svg.classList.remove("dragging");
    this.store.commit();
    this.draw(this.terms, this.kind);
  }

  private key(event: KeyboardEvent, k: number): void {
    const moves: Record<string, Complex> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    const size = (event.shiftKey ? 0.1 : 0.01) * (this.kind === "b" ? this.scale : 1);
    const sign = this.kind === "pole" ? -1 : 1;
    const [x, y] = this.place(this.store.state.terms[k]);
    const crossed = this.kind === "pole" && !this.terms[k].pair && Math.abs(x) <= 1 + 2 * NEAREST && Math.sign(sign * move[0]) !== Math.sign(x);
    // a real pole jumps over the frequencies, from one end to the other
    if (crossed && Math.abs(x) < 1 + 1.5 * NEAREST) return this.change(k, [-x, y], true);
    this.change(k, [x + sign * move[0] * size, y + move[1] * size], true);
  }

  private select(k: number): void {
    if (this.selected === k) return;
    this.mark(k);
    this.onSelect(k);
  }

  /** Show which term is chosen. */
  mark(k: number): void {
    this.selected = k;
    this.handles.forEach(({ group }, j) => group.classList.toggle("selected", j === k));
  }
}

function nice(size: number): number {
  const unit = 10 ** Math.floor(Math.log10(0.7 * size));
  return ([5, 2, 1].find((f) => f * unit <= 0.7 * size) ?? 1) * unit;
}
