// The signal view: a signal on a graph before and after the filter, and its components.

import { order, response } from "../core/filter";
import { decompose, filtered, missing, normal, normalized, type Components, type Sparse } from "../core/lanczos";
import { LAMBDA, type Numbers, type State, type Store } from "../store";
import { h, show } from "./dom";
import { span } from "./filter_view";
import { GraphPicture, type Drawing } from "./graph_picture";
import { Plane } from "./plane";
import { Plot } from "./plot";

/** A graph and a signal as a page carries them: numbers in base64, little-endian. */
export interface GraphContent {
  readonly name: string;
  readonly note: string;
  readonly size: number;
  /** Ends of edges, each edge once, uint16; an image has none, its pixels are a grid. */
  readonly rows: string;
  readonly columns: string;
  /** Entries of the operator, float64; without them D^-1/2 A D^-1/2 of edges of weight one. */
  readonly values?: string;
  /** The signal, float32. */
  readonly x: string;
  /** Places, uint16, x and y of each node. */
  readonly pos: string;
  /** Of an image: how many pixels are in a row. */
  readonly pixels?: number;
  /** The size of the noise that a reader can add. */
  readonly noise?: number;
  /** Colour the result by its own range. */
  readonly stretch?: boolean;
}

interface Graph extends Drawing {
  readonly matrix: Sparse;
  readonly signal: Float64Array;
}

const STEPS = 200;
const BANDS = 40;

function bytes(text: string): ArrayBuffer {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer;
}

export function unpack(content: GraphContent): Graph {
  const { size } = content;
  const pos = new Uint16Array(bytes(content.pos));
  let rows: ArrayLike<number> = new Uint16Array(bytes(content.rows));
  let columns: ArrayLike<number> = new Uint16Array(bytes(content.columns));
  if (content.pixels) {
    const width = content.pixels;
    const pairs = Array.from({ length: size }, (_, node) => [
      ...((node + 1) % width ? [[node, node + 1]] : []),
      ...(node + width < size ? [[node, node + width]] : []),
    ]).flat();
    rows = pairs.map((pair) => pair[0]);
    columns = pairs.map((pair) => pair[1]);
  }
  const matrix = content.values
    ? { size, rows, columns, values: new Float64Array(bytes(content.values)) }
    : normalized(size, rows, columns);
  return {
    size,
    rows,
    columns,
    matrix,
    pixels: content.pixels ?? 0,
    signal: Float64Array.from(new Float32Array(bytes(content.x))),
    x: Float32Array.from({ length: size }, (_, k) => pos[2 * k] / 65535),
    y: Float32Array.from({ length: size }, (_, k) => pos[2 * k + 1] / 65535),
  };
}

export class SignalView {
  readonly element: HTMLElement;
  private readonly before = new GraphPicture("Signal", "signal");
  private readonly after = new GraphPicture("Filtered", "filtered");
  private readonly components: Plot;
  private readonly response: Plot;
  private readonly plane: Plane;
  private readonly note = h("p", { class: "note" });
  private readonly status = h("span", { class: "status", role: "status", "aria-live": "polite" });
  private readonly body = h("tbody");
  private readonly noise = h("input", { type: "checkbox", change: () => void this.load() });
  private readonly stretch = h("input", { type: "checkbox", change: () => this.draw() });
  private readonly choice = h("select", { "aria-label": "Graph", class: "wide" });
  private graph: Graph | null = null;
  private readonly kept = new Map<string, Components>();
  private found: Components | null = null;
  private noisy: Float64Array = new Float64Array();
  private out: Float64Array = new Float64Array();
  private loading = 0;
  private shown = -1;

  constructor(
    private readonly store: Store,
    private readonly contents: readonly GraphContent[],
  ) {
    this.components = new Plot({
      title: "Components of the signal",
      name: "components",
      height: 250,
      x: [0, 2],
      xLabel: "λ  (low frequencies left)",
      yLabel: "size, in bands",
      mu: true,
      log: true,
    });
    this.components.add("before", { label: "signal", color: "var(--target)", width: 1.8 });
    this.components.add("after", { label: "filtered", color: "var(--exact)", width: 2.4 });
    this.response = new Plot({ title: "Response", name: "response", height: 200, x: [0, 2], xLabel: "λ", yLabel: "h(λ)" });
    this.response.add("exact", { label: "ARMA, exact", color: "var(--exact)", width: 2 });
    this.response.add("points", { label: "at frequencies of the signal", color: "var(--pole)", style: "points" });
    this.plane = new Plane(store, "pole", 400);
    contents.forEach((content, k) => this.choice.append(h("option", { value: k }, content.name)));
    this.choice.addEventListener("change", () => {
      this.noise.checked = false;
      void this.load();
    });
    this.before.describe = (node) => `node ${node}: ${show(this.noisy[node])}, filtered ${show(this.out[node])}`;
    this.after.describe = this.before.describe;
    this.element = h(
      "div",
      {},
      h(
        "div",
        { class: "card bar", role: "group", "aria-label": "Signal" },
        h("label", {}, "Graph ", this.choice),
        h("label", {}, this.noise, "add noise"),
        h("label", { title: "Colour the filtered signal by its own lowest and highest value" }, this.stretch, "own colours for the result"),
        this.status,
      ),
      h(
        "div",
        { class: "grid" },
        h("div", { class: "card first" }, h("div", { class: "graphs" }, this.before.element, this.after.element), this.note),
        h("div", { class: "card" }, this.plane.element),
        h("div", { class: "card" }, this.components.element),
        h("div", { class: "column" }, h("div", { class: "card" }, this.response.element), this.table()),
      ),
    );
    store.subscribe((state, numbers) => this.follow(state, numbers));
  }

  private table(): HTMLElement {
    return h(
      "div",
      { class: "card" },
      h("figcaption", {}, h("h3", {}, "What the filter does")),
      h("table", {}, h("caption", {}, "The signal before and after the filter"), h("thead", {}, h("tr", {}, h("td"), h("th", { scope: "col" }, "signal"), h("th", { scope: "col" }, "filtered"))), this.body),
    );
  }

  /** The view is shown, perhaps with other colours. */
  repaint(): void {
    if (this.shown < 0) void this.load();
    this.before.repaint();
    this.after.repaint();
    this.plane.repaint();
    this.follow(this.store.state, this.store.numbers());
  }

  private async load(): Promise<void> {
    const turn = ++this.loading;
    const number = Number(this.choice.value);
    const content = this.contents[number];
    const graph = unpack(content);
    this.noise.disabled = !content.noise;
    if (number !== this.shown) this.stretch.checked = content.stretch ?? false;
    this.shown = number;
    const extra = this.noise.checked && content.noise ? normal(graph.size).map((value) => value * (content.noise ?? 0)) : null;
    const noisy = extra ? graph.signal.map((value, k) => value + extra[k]) : graph.signal;
    const known = `${number} ${this.noise.checked}`;
    this.found = null;
    this.graph = graph;
    this.noisy = noisy;
    this.note.textContent = content.note;
    this.before.graph(graph);
    this.after.graph(graph);
    this.before.paint(noisy, extremes(graph.signal), this.words("The signal", noisy));
    this.found = this.kept.get(known) ?? (await this.decomposed(graph, noisy, turn));
    if (!this.found) return;
    this.kept.set(known, this.found);
    this.out = new Float64Array(graph.size);
    this.draw();
  }

  /** Compute in slices, so that the page stays alive; null if another graph was chosen meanwhile. */
  private async decomposed(graph: Graph, noisy: Float64Array, turn: number): Promise<Components | null> {
    const work = decompose(graph.matrix, noisy, graph.size <= 2 * STEPS ? graph.size : STEPS);
    let rested = performance.now();
    let step = work.next();
    while (!step.done) {
      if (performance.now() - rested > 25) {
        this.status.textContent = `Computing the frequencies of the signal … ${Math.round(100 * step.value)} %`;
        await new Promise((resolve) => setTimeout(resolve));
        rested = performance.now();
        if (turn !== this.loading) return null;
      }
      step = work.next();
    }
    this.status.textContent = "";
    return step.value;
  }

  private follow(state: State, { exact }: Numbers): void {
    if (this.element.hidden) return;
    this.response.range(...span([exact], this.response.heights));
    this.response.set("exact", LAMBDA, exact);
    this.response.describe(`Response of the filter of order ${order(state.terms)}.`);
    this.draw();
  }

  private draw(): void {
    const { graph, found, noisy, out } = this;
    if (!graph || !found || this.element.hidden) return;
    const h_ = response(this.store.state.terms, found.mu);
    filtered(found, h_, out);
    const range = extremes(graph.signal); // noise shall not wash the colours out
    this.before.paint(noisy, range, this.words("The signal", noisy));
    this.after.paint(out, this.stretch.checked ? extremes(out) : range, this.words("The filtered signal", out));
    const lambda = found.mu.map((mu) => 1 - mu);
    this.response.set("points", lambda, h_);
    const sizes = [found.sizes, found.sizes.map((size, j) => size * Math.abs(h_[j]))];
    const [x, before, after] = [bandEdges(), ...sizes.map((values) => bands(lambda, values))];
    const known = [...before, ...after].filter((value) => value > 0);
    const high = Math.ceil(Math.log10(Math.max(...known)) + 0.05);
    const low = Math.max(Math.floor(Math.log10(Math.min(...known))), high - 7);
    this.components.range(low, high);
    this.components.set("before", x, steps(before));
    this.components.set("after", x, steps(after));
    this.components.describe("The size of the signal in bands of frequency, before and after the filter.");
    const lost = missing(found, h_);
    this.status.textContent = lost > 2e-3 ? `About ${show(100 * lost, 1)} % of the result is missing: a pole is too near to the frequencies for ${found.mu.length} Lanczos steps.` : "";
    this.fill(found, h_, noisy, out);
  }

  private words(name: string, values: Float64Array): string {
    const [low, high] = extremes(values);
    return `${name} on the graph: ${values.length} nodes, from ${show(low)} to ${show(high)}.`;
  }

  private fill(found: Components, h_: Float64Array, noisy: Float64Array, out: Float64Array): void {
    const graph = this.graph as Graph;
    const energy = (gain: boolean, weight: boolean): number =>
      found.sizes.reduce((sum, size, j) => sum + (gain ? h_[j] * size : size) ** 2 * (weight ? 1 - found.mu[j] : 1), 0);
    const rows: Array<[string, number, number]> = [
      ["energy ‖x‖²", energy(false, false), energy(true, false)],
      ["roughness xᵀLx / ‖x‖²", energy(false, true) / energy(false, false), energy(true, true) / energy(true, false)],
      ["mean", mean(noisy), mean(out)],
      ["lowest", extremes(noisy)[0], extremes(out)[0]],
      ["highest", extremes(noisy)[1], extremes(out)[1]],
    ];
    if (noisy !== graph.signal) rows.push(["RMS error against the clean signal", distance(noisy, graph.signal), distance(out, graph.signal)]);
    this.body.replaceChildren(
      ...rows.map(([name, first, second]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, show(first)), h("td", {}, show(second)))),
    );
  }
}

function extremes(values: Float64Array): [number, number] {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}

function mean(values: Float64Array): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function distance(x: Float64Array, y: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < x.length; i++) sum += (x[i] - y[i]) ** 2;
  return Math.sqrt(sum / x.length);
}

/** Return the length of the signal in each band of lambda. */
function bands(lambda: Float64Array, sizes: Float64Array): Float64Array {
  const out = new Float64Array(BANDS);
  lambda.forEach((at, j) => (out[Math.min(BANDS - 1, Math.max(0, Math.floor((at / 2) * BANDS)))] += sizes[j] ** 2));
  return out.map(Math.sqrt);
}

/** Return both ends of every band, so that a line becomes steps. */
function bandEdges(): Float64Array {
  return Float64Array.from({ length: 2 * BANDS }, (_, k) => (2 * Math.floor((k + 1) / 2)) / BANDS);
}

function steps(values: Float64Array): Float64Array {
  return Float64Array.from({ length: 2 * values.length }, (_, k) => values[k >> 1]);
}
