// The bar of controls above the filter: target, order, design, steps.

import { design } from "../core/design";
import { order, type Term } from "../core/filter";
import { NAMED, parsePoints, type Points } from "../core/targets";
import { MU, type State, type Store } from "../store";
import { fresh, h, show } from "./dom";
import { MOST } from "./terms";

/** `ARMAFilter.design("low-pass", order=4)`: what an explorer without a filter shows first. */
export const FIRST: readonly Term[] = [
  { pair: true, a: [0.4786180910353657, 0.8785319246123394], b: [0.2351125029390776, -0.3762818664250943] },
  { pair: true, a: [0.5516707362681305, 17.457268360621157], b: [0.014318945623521762, -0.5442581976909382] },
];

type Example = readonly [string, Partial<State>];

const real = (a: number, b: number): Term => ({ pair: false, a: [a, 0], b: [b, 0] });

const EXAMPLES: readonly Example[] = [
  ["Figure 2: a = 0.99, b = 0.1", { terms: [real(0.99, 0.1)], target: "none", steps: 3, earlier: true, follow: false }],
  ["Figure 2: a = 0.7, b = 0.15", { terms: [real(0.7, 0.15)], target: "none", steps: 3, earlier: true, follow: false }],
  ["Label propagation, α = 0.9", { terms: [real(0.9, 0.1)], target: "none", steps: 10, earlier: false, follow: false }],
  [
    "A pair that resonates",
    { terms: [{ pair: true, a: [0.4, 0.85], b: [0.1, 0.02] }], target: "none", steps: 20, earlier: false, follow: false },
  ],
];

/** Run a design in slices, so that the page stays alive; report the share that is done. */
export async function runDesign(store: Store, report: (share: number) => void): Promise<boolean> {
  const target = store.targetValues();
  if (!target) return false;
  const { terms, stable } = store.state;
  const steps = design(MU, target, order(terms), stable);
  let rested = performance.now();
  for (;;) {
    const step = steps.next();
    if (step.done) {
      store.update({ terms: step.value });
      return true;
    }
    report(step.value);
    if (performance.now() - rested > 12) {
      await new Promise((resolve) => setTimeout(resolve));
      rested = performance.now();
    }
  }
}

export class Controls {
  readonly element: HTMLElement;
  private busy = false;
  private readonly status = h("span", { class: "status", role: "status", "aria-live": "polite" });
  private readonly problem = h("span", { class: "warning", role: "alert" });
  /** Called when drawing begins or ends. */
  onDraw: (on: boolean) => void = () => undefined;
  private readonly drawButton: HTMLButtonElement;

  constructor(private readonly store: Store) {
    const target = h(
      "select",
      { "aria-label": "Target", change: () => this.choose(target.value) },
      h("option", { value: "none" }, "none"),
      ...Object.keys(NAMED).map((name) => h("option", { value: name }, name)),
      h("option", { value: "points" }, "drawn"),
    );
    this.drawButton = h("button", { type: "button", "aria-pressed": "false", click: () => this.draw(this.drawButton.getAttribute("aria-pressed") !== "true") }, "✎ Draw");
    const points = h("input", {
      type: "text",
      id: fresh("points"),
      spellcheck: "false",
      change: () => this.type(points),
    });
    const pointsRow = h("div", { class: "group points" }, h("label", { for: points.id }, "Points λ h of the target"), points);
    const terms = h("input", {
      type: "number",
      class: "short",
      min: 1,
      max: MOST,
      step: 1,
      id: fresh("order"),
      change: () => this.resize(Number(terms.value)),
    });
    const stable = checkbox(() => store.update({ stable: stable.checked }));
    const follow = checkbox(() => store.update({ follow: follow.checked }));
    const designButton = h("button", { type: "button", class: "primary", click: () => void this.design() }, "Design");
    const steps = h("input", {
      type: "range",
      min: 1,
      max: 60,
      step: 1,
      id: fresh("steps"),
      input: () => store.update({ steps: Number(steps.value) }, false),
      change: () => store.commit(),
    });
    const output = h("output", { for: steps.id });
    const earlier = checkbox(() => store.update({ earlier: earlier.checked }));
    const examples = h(
      "select",
      {
        "aria-label": "Examples",
        change: () => {
          const found = EXAMPLES[Number(examples.value)];
          examples.value = "";
          if (found) store.update(found[1]);
        },
      },
      h("option", { value: "" }, "Examples …"),
      ...EXAMPLES.map(([name], k) => h("option", { value: k }, name)),
    );
    const undo = h("button", { type: "button", "aria-label": "Undo", title: "Undo", click: () => store.undo() }, "↶");
    const redo = h("button", { type: "button", "aria-label": "Redo", title: "Redo", click: () => store.redo() }, "↷");
    this.element = h(
      "div",
      { class: "card bar", role: "group", "aria-label": "Filter" },
      h("span", { class: "group" }, h("label", {}, "Target ", target), this.drawButton),
      h(
        "span",
        { class: "group" },
        h("label", { for: terms.id }, "K"),
        terms,
        designButton,
        h("label", { title: "Keep |a| < 1, so that the recursion converges" }, stable, "stable"),
        h("label", { title: "Let b follow the poles: the best fit to the target" }, follow, "best b"),
      ),
      h("span", { class: "group" }, h("label", { for: steps.id }, "Steps T"), steps, output, h("label", {}, earlier, "earlier steps")),
      h("span", { class: "group push" }, examples, undo, redo),
      pointsRow,
      this.status,
      this.problem,
    );
    store.subscribe((state) => {
      target.value = state.target;
      pointsRow.hidden = state.target !== "points";
      if (document.activeElement !== points) points.value = pointsText(state.points);
      if (document.activeElement !== terms) terms.value = String(order(state.terms));
      stable.checked = state.stable;
      follow.checked = state.follow;
      follow.disabled = designButton.disabled = state.target === "none";
      steps.value = String(state.steps);
      output.textContent = String(state.steps);
      earlier.checked = state.earlier;
      undo.disabled = !store.canUndo;
      redo.disabled = !store.canRedo;
    });
  }

  private choose(target: string): void {
    this.problem.textContent = "";
    if (target !== "points") {
      this.draw(false);
      return this.store.update({ target });
    }
    this.draw(true);
  }

  /** Begin or end drawing a target; a first one starts as the target that was chosen. */
  private draw(on: boolean): void {
    this.drawButton.setAttribute("aria-pressed", String(on));
    if (on && this.store.state.target !== "points") {
      const values = this.store.targetValues();
      const known = this.store.state.points;
      const points: Points = values
        ? knots((at) => values[Math.min(values.length - 1, Math.floor(((2 - at) / 2) * values.length))])
        : known.length > 1
          ? known
          : [[0, 1], [2, 0]];
      this.store.update({ target: "points", points });
    }
    this.status.textContent = on ? "Draw the target in the plot with the mouse or a finger, or type its points." : "";
    this.onDraw(on);
  }

  private type(field: HTMLInputElement): void {
    try {
      this.store.update({ points: parsePoints(field.value), target: "points" });
      this.problem.textContent = "";
      field.setAttribute("aria-invalid", "false");
    } catch (error) {
      this.problem.textContent = (error as Error).message;
      field.setAttribute("aria-invalid", "true");
    }
  }

  private resize(wanted: number): void {
    if (!Number.isInteger(wanted) || wanted < 1 || wanted > MOST) {
      this.problem.textContent = `K is a whole number from 1 to ${MOST}.`;
      return;
    }
    this.problem.textContent = "";
    let terms = [...this.store.state.terms];
    while (order(terms) > wanted) {
      const last = terms[terms.length - 1];
      terms = terms.slice(0, -1);
      // half of a pair is one real term
      if (last.pair && order(terms) < wanted) terms.push({ pair: false, a: [Math.max(-0.95, Math.min(0.95, last.a[0])), 0], b: [last.b[0], 0] });
    }
    while (order(terms) < wanted) {
      const count = wanted - order(terms);
      terms.push(count > 1 ? { pair: true, a: [0.3 - 0.6 * Math.random(), 0.6], b: [0.01, 0] } : real(0.2, 0.05));
    }
    this.store.update({ terms });
    if (this.store.state.target !== "none") void this.design();
  }

  private async design(): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    this.element.setAttribute("aria-busy", "true");
    try {
      const done = await runDesign(this.store, (share) => (this.status.textContent = `Designing … ${Math.round(100 * share)} %`));
      if (!done) return;
      const { exact, target } = this.store.numbers();
      let sum = 0;
      if (target) exact.forEach((value, i) => (sum += (value - target[i]) ** 2));
      this.status.textContent = `Designed K = ${order(this.store.state.terms)}: RMS error ${show(Math.sqrt(sum / exact.length), 4)}.`;
    } finally {
      this.busy = false;
      this.element.removeAttribute("aria-busy");
    }
  }
}

function checkbox(change: () => void): HTMLInputElement {
  return h("input", { type: "checkbox", change });
}

/** Places at which a drawn target has a height. */
export const KNOTS = 101;

/** Return the points of a function of lambda at the knots. */
export function knots(height: (lambda: number) => number): Array<[number, number]> {
  return Array.from({ length: KNOTS }, (_, k) => {
    const at = (2 * k) / (KNOTS - 1);
    return [at, height(at)];
  });
}

/** Return points as text, without those on a line between others. */
function pointsText(points: Points): string {
  const kept = points.filter(([x, y], k) => {
    if (k === 0 || k === points.length - 1) return true;
    const [x0, y0] = points[k - 1];
    const [x1, y1] = points[k + 1];
    return Math.abs(y0 + ((y1 - y0) * (x - x0)) / (x1 - x0) - y) > 1e-6;
  });
  return kept.map(([x, y]) => `${Number(x.toFixed(3))} ${Number(y.toFixed(3))}`).join(", ");
}
