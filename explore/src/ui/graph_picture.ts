// A graph with coloured nodes, on a canvas; an image is drawn as its pixels.

import { h, show } from "./dom";
import { saveCanvas, saveText } from "./export";

const STOPS = ["#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#fde725"];
const LEVELS = 128;

/** The colours of a scale from low to high, as CSS colours. */
export const VIRIDIS = Array.from({ length: LEVELS }, (_, k) => {
  const place = (k / (LEVELS - 1)) * (STOPS.length - 1);
  const low = Math.min(Math.floor(place), STOPS.length - 2);
  const mix = [1, 3, 5].map((at) => {
    const from = parseInt(STOPS[low].slice(at, at + 2), 16);
    const to = parseInt(STOPS[low + 1].slice(at, at + 2), 16);
    return Math.round(from + (place - low) * (to - from));
  });
  return `rgb(${mix.join(",")})`;
});
export const GREY = Array.from({ length: LEVELS }, (_, k) => {
  const level = Math.round((255 * k) / (LEVELS - 1));
  return `rgb(${level},${level},${level})`;
});

/** What is drawn: places in the unit square, edges, and for an image the pixels in a row. */
export interface Drawing {
  readonly size: number;
  readonly rows: ArrayLike<number>;
  readonly columns: ArrayLike<number>;
  readonly x: Float32Array;
  readonly y: Float32Array;
  readonly pixels: number;
}

export class GraphPicture {
  readonly element: HTMLElement;
  private readonly canvas = h("canvas", { role: "img" });
  private readonly edges = document.createElement("canvas");
  private readonly low = h("span");
  private readonly high = h("span");
  private readonly bar = h("i");
  private readonly under = h("p", { class: "note", "aria-hidden": "true" });
  private width = 0;
  private drawing: Drawing | null = null;
  private values: Float64Array = new Float64Array();
  private range: [number, number] = [0, 1];
  /** What to say of a node under the pointer. */
  describe: (node: number) => string = (node) => `node ${node}: ${show(this.values[node])}`;

  constructor(
    private readonly title: string,
    name: string,
  ) {
    this.canvas.setAttribute("aria-label", title);
    this.element = h(
      "figure",
      { class: "figure graph" },
      h(
        "figcaption",
        {},
        h("h3", {}, title),
        h(
          "span",
          { class: "save" },
          h("button", { type: "button", "aria-label": `Save “${title}” as PNG`, click: () => saveCanvas(this.canvas, `armagnn-${name}`) }, "PNG"),
          h("button", { type: "button", "aria-label": `Save “${title}” as SVG`, click: () => saveText(this.svg(), "image/svg+xml", `armagnn-${name}.svg`) }, "SVG"),
        ),
      ),
      this.canvas,
      h("div", { class: "scale", "aria-hidden": "true" }, this.low, this.bar, this.high),
      this.under,
    );
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => (this.under.textContent = ""));
    new ResizeObserver(([entry]) => {
      if (Math.abs(entry.contentRect.width - this.width) < 0.5) return;
      this.width = entry.contentRect.width;
      this.layout();
    }).observe(this.canvas);
  }

  /** Take another graph. */
  graph(drawing: Drawing): void {
    this.drawing = drawing;
    this.bar.style.background = `linear-gradient(to right, ${this.colors.filter((_, k) => k % 16 === 0 || k === LEVELS - 1).join(",")})`;
    this.layout();
  }

  /** Colour the nodes. */
  paint(values: Float64Array, range: [number, number], label: string): void {
    this.values = values;
    this.range = range;
    this.low.textContent = show(range[0], 2);
    this.high.textContent = show(range[1], 2);
    if (this.canvas.getAttribute("aria-label") !== label) this.canvas.setAttribute("aria-label", label);
    this.draw();
  }

  private get colors(): string[] {
    return this.drawing?.pixels ? GREY : VIRIDIS;
  }

  private get extent(): [number, number] {
    const { drawing } = this;
    if (!drawing) return [1, 1];
    return [drawing.x.reduce((a, b) => Math.max(a, b), 0.1), drawing.y.reduce((a, b) => Math.max(a, b), 0.1)];
  }

  private layout(): void {
    const { drawing, width } = this;
    if (!drawing || !width) return;
    const ratio = Math.min(devicePixelRatio || 1, 2);
    const [right, bottom] = this.extent;
    const height = Math.min(Math.round((width * bottom) / right), Math.round(width * 1.25));
    for (const canvas of [this.canvas, this.edges]) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    this.canvas.style.height = `${height}px`;
    const pen = this.edges.getContext("2d");
    if (!pen || drawing.pixels) return this.draw();
    const styles = getComputedStyle(this.canvas);
    pen.strokeStyle = styles.getPropertyValue("--axis").trim();
    pen.globalAlpha = drawing.size > 1000 ? 0.35 : 0.8;
    pen.lineWidth = (drawing.size > 1000 ? 0.5 : 1) * ratio;
    pen.beginPath();
    for (let e = 0; e < drawing.rows.length; e++) {
      pen.moveTo(...this.place(drawing.rows[e]));
      pen.lineTo(...this.place(drawing.columns[e]));
    }
    pen.stroke();
    this.draw();
  }

  /** Colours of the page have changed. */
  repaint(): void {
    this.layout();
  }

  private place(node: number): [number, number] {
    const drawing = this.drawing as Drawing;
    const [right, bottom] = this.extentKnown(drawing);
    const { width, height } = this.canvas;
    const margin = 0.025 * width;
    const scale = Math.min((width - 2 * margin) / right, (height - 2 * margin) / bottom);
    return [
      width / 2 + (drawing.x[node] - right / 2) * scale,
      height / 2 + (drawing.y[node] - bottom / 2) * scale,
    ];
  }

  private known: { drawing: Drawing | null; extent: [number, number] } = { drawing: null, extent: [1, 1] };
  private extentKnown(drawing: Drawing): [number, number] {
    if (this.known.drawing !== drawing) this.known = { drawing, extent: this.extent };
    return this.known.extent;
  }

  private level(node: number): number {
    const [low, high] = this.range;
    const share = (this.values[node] - low) / (high - low || 1);
    return Math.round((LEVELS - 1) * Math.min(1, Math.max(0, share || 0)));
  }

  /** Nodes by colour: one change of the pen for each. */
  private levels(): number[][] {
    const found: number[][] = Array.from({ length: LEVELS }, () => []);
    for (let node = 0; node < this.values.length; node++) found[this.level(node)].push(node);
    return found;
  }

  private get dot(): number {
    const count = this.drawing?.size ?? 1;
    return this.canvas.width * (count > 1000 ? 0.0055 : 0.013);
  }

  private draw(): void {
    const pen = this.canvas.getContext("2d");
    const { drawing } = this;
    if (!pen || !drawing || !this.width || this.values.length !== drawing.size) return;
    const { width, height } = this.canvas;
    pen.clearRect(0, 0, width, height);
    if (drawing.pixels) return this.drawPixels(pen, drawing);
    pen.drawImage(this.edges, 0, 0);
    const radius = this.dot;
    this.levels().forEach((nodes, level) => {
      if (!nodes.length) return;
      pen.fillStyle = this.colors[level];
      pen.beginPath();
      for (const node of nodes) {
        const [x, y] = this.place(node);
        pen.moveTo(x + radius, y);
        pen.arc(x, y, radius, 0, 2 * Math.PI);
      }
      pen.fill();
    });
  }

  private drawPixels(pen: CanvasRenderingContext2D, drawing: Drawing): void {
    const lines = drawing.size / drawing.pixels;
    this.edges.width = drawing.pixels;
    this.edges.height = lines;
    const small = this.edges.getContext("2d");
    const image = small?.createImageData(drawing.pixels, lines);
    if (!small || !image) return;
    const [low, high] = this.range;
    for (let node = 0; node < drawing.size; node++) {
      image.data.fill((255 * (this.values[node] - low)) / (high - low || 1), 4 * node, 4 * node + 3);
      image.data[4 * node + 3] = 255;
    }
    small.putImageData(image, 0, 0);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(this.edges, 0, 0, this.canvas.width, this.canvas.height);
  }

  private nearest(event: PointerEvent): number {
    const { drawing } = this;
    if (!drawing) return -1;
    const box = this.canvas.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * this.canvas.width;
    const y = ((event.clientY - box.top) / box.height) * this.canvas.height;
    if (drawing.pixels) {
      const lines = drawing.size / drawing.pixels;
      return Math.floor((y / this.canvas.height) * lines) * drawing.pixels + Math.floor((x / this.canvas.width) * drawing.pixels);
    }
    let best = -1;
    let least = (0.04 * this.canvas.width) ** 2;
    for (let node = 0; node < drawing.size; node++) {
      const [px, py] = this.place(node);
      const far = (px - x) ** 2 + (py - y) ** 2;
      if (far < least) [best, least] = [node, far];
    }
    return best;
  }

  private point(event: PointerEvent): void {
    const node = this.nearest(event);
    this.under.textContent = node >= 0 && node < this.values.length ? this.describe(node) : "";
  }

  private svg(): string {
    const drawing = this.drawing as Drawing;
    const { width, height } = this.canvas;
    const styles = getComputedStyle(this.canvas);
    const parts: string[] = [`<title>${this.title}</title>`];
    if (drawing.pixels) {
      const side = width / drawing.pixels;
      const tall = height / (drawing.size / drawing.pixels);
      for (let node = 0; node < drawing.size; node++) {
        const x = (node % drawing.pixels) * side;
        const y = Math.floor(node / drawing.pixels) * tall;
        parts.push(`<rect x="${x.toFixed(1)}" y="${y.toFixed(1)}" width="${(side + 0.3).toFixed(1)}" height="${(tall + 0.3).toFixed(1)}" fill="${this.colors[this.level(node)]}"/>`);
      }
    } else {
      let lines = "";
      for (let e = 0; e < drawing.rows.length; e++) {
        const [x1, y1] = this.place(drawing.rows[e]);
        const [x2, y2] = this.place(drawing.columns[e]);
        lines += `M${x1.toFixed(1)},${y1.toFixed(1)}L${x2.toFixed(1)},${y2.toFixed(1)}`;
      }
      parts.push(`<path d="${lines}" stroke="${styles.getPropertyValue("--axis").trim()}" stroke-width="0.5" fill="none"/>`);
      for (let node = 0; node < drawing.size; node++) {
        const [x, y] = this.place(node);
        parts.push(`<circle cx="${x.toFixed(1)}" cy="${y.toFixed(1)}" r="${this.dot.toFixed(1)}" fill="${this.colors[this.level(node)]}"/>`);
      }
    }
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">${parts.join("")}</svg>`;
  }
}
