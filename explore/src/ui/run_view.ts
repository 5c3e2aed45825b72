// The run view: what every stack of every layer of a trained run does to the spectrum.

import type { Complex } from "../core/filter";
import type { Store } from "../store";
import { h, show } from "./dom";
import { Plot } from "./plot";

type Numbers = ReadonlyArray<number | null>;

interface Stack {
  readonly title: string;
  readonly lambda: Numbers;
  readonly response: Numbers;
  readonly gain: Numbers;
  readonly points: { readonly lambda: Numbers; readonly response: Numbers };
}

interface Layer {
  readonly name: string;
  readonly kind: string;
  readonly stacks: readonly Stack[];
  readonly energy: { readonly lambda: Numbers; readonly before: Numbers; readonly after: Numbers };
  readonly norms?: Numbers;
  readonly residuals?: ReadonlyArray<readonly number[]>;
  readonly filter?: { readonly a: readonly Complex[]; readonly b: readonly Complex[] };
}

export interface RunContent {
  readonly title: string;
  readonly facts: ReadonlyArray<readonly [string, string]>;
  readonly layers: readonly Layer[];
}

const COLORS = ["--exact", "--steps", "--chebyshev", "--residue", "--pole", "--target"];
const DASHES = ["", "7 4", "9 3 2 3", "2 3", "12 4", "4 2"];

function line(values: Numbers): Float64Array {
  return Float64Array.from(values, (value) => value ?? NaN);
}

export class RunView {
  readonly element: HTMLElement;

  /** `take` is called with a layer's filter, and `open` when the filter view should be shown. */
  constructor(
    private readonly store: Store,
    run: RunContent,
    private readonly open: () => void,
    private readonly take: (filter: NonNullable<Layer["filter"]>) => void,
  ) {
    this.element = h(
      "div",
      {},
      h(
        "div",
        { class: "card bar" },
        h("h3", {}, run.title),
        h("p", { class: "facts" }, ...run.facts.map(([name, value]) => h("span", {}, `${name} `, h("b", {}, value)))),
      ),
      ...run.layers.map((layer) => this.layer(layer)),
    );
  }

  repaint(): void {
    // plots take their colours from the page
  }

  private layer(layer: Layer): HTMLElement {
    const panels = layer.stacks.map((stack) => this.stack(layer, stack));
    return h(
      "section",
      { class: "layer", "aria-label": layer.name },
      h(
        "div",
        { class: "card bar", style: "margin:0" },
        h("h3", {}, layer.name),
        h("code", {}, layer.kind),
        layer.filter
          ? h("button", { type: "button", click: () => this.take(layer.filter as NonNullable<Layer["filter"]>) }, "Open its filter")
          : null,
        layer.norms ? this.norms(layer.norms) : null,
      ),
      h("div", { class: "panels" }, ...panels, this.energy(layer), layer.residuals ? this.residuals(layer) : null),
    );
  }

  private norms(norms: Numbers): HTMLElement {
    const most = Math.max(...norms.map((value) => value ?? Infinity));
    return h(
      "span",
      { class: "facts" },
      h("span", {}, "norm ‖W‖₂ of the stacks ", h("b", {}, norms.map((value) => (value === null ? "∞" : show(value))).join(", "))),
      h("span", {}, most < 1 ? "below 1: every stack converges (Theorem 1)" : "not all below 1: Theorem 1 does not say that it converges"),
    );
  }

  private stack(layer: Layer, stack: Stack): HTMLElement {
    const title = `${layer.name}, ${stack.title}`;
    const plot = new Plot({
      title,
      name: title.replace(/\W+/g, "-"),
      height: 230,
      x: [0, 2],
      xLabel: "λ  (low frequencies left)",
      yLabel: "response",
    });
    plot.add("points", { label: "Eq. 20", color: "var(--axis)", style: "points", faint: 0.45 });
    plot.add("gain", { label: "gain of energy", color: "var(--steps)", width: 2, dash: "7 4" });
    plot.add("response", { label: "Eq. 20, in bands", color: "var(--exact)", width: 2.4 });
    const response = line(stack.response);
    const gain = line(stack.gain);
    plot.range(...whole([...response, ...gain]));
    plot.set("points", line(stack.points.lambda), line(stack.points.response));
    plot.set("gain", line(stack.lambda), gain);
    plot.set("response", line(stack.lambda), response);
    const known = stack.lambda.flatMap((at, k) => (at === null || stack.response[k] === null ? [] : [[at, stack.response[k]] as [number, number]]));
    known.sort((p, q) => p[0] - q[0]);
    plot.describe(
      known.length
        ? `Learned response of ${title}: ${show(known[0][1])} at lambda ${show(known[0][0], 2)}, ${show(known[known.length - 1][1])} at ${show(known[known.length - 1][0], 2)}.`
        : `The input of ${title} is silent.`,
    );
    const button = h(
      "button",
      {
        type: "button",
        class: "small",
        disabled: known.length < 2,
        "aria-label": `Use the response of ${title} as target`,
        click: () => {
          this.store.update({ target: "points", points: known });
          this.open();
        },
      },
      "as target",
    );
    plot.element.querySelector(".save")?.prepend(button);
    return h("div", { class: "card" }, plot.element);
  }

  private energy(layer: Layer): HTMLElement {
    const title = `${layer.name}, energy per band`;
    const plot = new Plot({ title, name: title.replace(/\W+/g, "-"), height: 230, x: [0, 2], xLabel: "λ", yLabel: "share of the energy", log: true });
    plot.add("before", { label: "input", color: "var(--target)", width: 2, dash: "7 4" });
    plot.add("after", { label: "output", color: "var(--exact)", width: 2.4 });
    const [before, after] = [line(layer.energy.before), line(layer.energy.after)];
    plot.range(...decades([...before, ...after]));
    plot.set("before", line(layer.energy.lambda), before);
    plot.set("after", line(layer.energy.lambda), after);
    plot.describe(`Shares of the energy of input and output of ${layer.name} in bands of frequency.`);
    return h("div", { class: "card" }, plot.element);
  }

  private residuals(layer: Layer): HTMLElement {
    const traces = layer.residuals ?? [];
    const longest = Math.max(2, ...traces.map((trace) => trace.length));
    const title = `${layer.name}, residuals`;
    const plot = new Plot({ title, name: title.replace(/\W+/g, "-"), height: 230, x: [1, longest], xLabel: "step", yLabel: "‖X(t+1) − X(t)‖", log: true });
    plot.range(...decades(traces.flat()));
    traces.forEach((trace, k) => {
      plot.add(`stack${k}`, { label: `stack ${k + 1}`, color: `var(${COLORS[k % 6]})`, dash: DASHES[k % 6] });
      plot.set(`stack${k}`, trace.map((_, step) => step + 1), trace);
    });
    plot.describe(`How the residual of each stack of ${layer.name} falls, step by step.`);
    return h("div", { class: "card" }, plot.element);
  }
}

/** Return heights that show all of the numbers, and zero. */
function whole(values: readonly number[]): [number, number] {
  const known = [0, ...values.filter(Number.isFinite)];
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const margin = 0.08 * (high - low || 1);
  return [low < 0 ? low - margin : 0, high > 0 ? high + margin : 0.1];
}

/** Return the powers of ten around positive numbers, eight at most. */
function decades(values: readonly number[]): [number, number] {
  const known = values.filter((value) => value > 0 && Number.isFinite(value)).map(Math.log10);
  if (!known.length) return [-1, 0];
  const high = Math.ceil(Math.max(...known) + 0.02);
  return [Math.max(Math.floor(Math.min(...known)), high - 8), high];
}
