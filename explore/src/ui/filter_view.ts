// The filter view: response, error, poles, residues, terms, numbers and the Python line.

import { infinite, order, python, radius } from "../core/filter";
import { errors } from "../core/targets";
import { recursion } from "../core/filter";
import { LAMBDA, MU, type Numbers, type State, type Store } from "../store";
import { Controls, knots } from "./controls";
import { h, s, show } from "./dom";
import { copyText } from "./export";
import { Plane } from "./plane";
import { Plot } from "./plot";
import { Terms } from "./terms";

const EARLIER = 7;
const NOTHING = new Float64Array();

export class FilterView {
  readonly element: HTMLElement;
  private readonly response: Plot;
  private readonly error: Plot;
  private readonly planes: Plane[];
  private readonly area = s("path", { fill: "var(--error)", opacity: 0.75 });
  private readonly body = h("tbody");
  private readonly facts = h("p", { class: "note" });
  private readonly code = h("code");
  private drawing = false;
  private last: [number, number] | null = null;

  constructor(private readonly store: Store) {
    this.response = new Plot({
      title: "Response",
      name: "response",
      height: 330,
      x: [0, 2],
      xLabel: "λ  (low frequencies left)",
      yLabel: "h(λ)",
      mu: true,
    });
    this.response.under.append(this.area);
    this.response.onLayout = () => this.shade();
    this.response.add("target", { label: "target", color: "var(--target)", width: 1.8, dash: "2 3" });
    for (let k = 0; k < EARLIER; k++) {
      this.response.add(`step${k}`, { label: "", color: "var(--steps)", width: 1.2, faint: 0.25 + (0.5 * k) / EARLIER, quiet: true });
    }
    this.response.add("chebyshev", { label: "Chebyshev", color: "var(--chebyshev)", width: 1.7, dash: "9 3 2 3" });
    this.response.add("steps", { label: "recursion", color: "var(--steps)", width: 2.2, dash: "7 4" });
    this.response.add("exact", { label: "ARMA, exact", color: "var(--exact)", width: 2.8 });
    this.error = new Plot({
      title: "Error against the target",
      name: "error",
      height: 150,
      x: [0, 2],
      xLabel: "λ",
      yLabel: "error",
    });
    this.error.add("chebyshev", { label: "Chebyshev", color: "var(--chebyshev)", width: 1.5, dash: "9 3 2 3" });
    this.error.add("exact", { label: "ARMA, exact", color: "var(--exact)", width: 2 });

    const controls = new Controls(store);
    controls.onDraw = (on) => {
      this.drawing = on;
      this.response.element.classList.toggle("drawing", on);
    };
    const poles = new Plane(store, "pole", 364);
    const residues = new Plane(store, "b", 190);
    this.planes = [poles, residues];
    const terms = new Terms(store);
    const select = (k: number): void => {
      poles.mark(k);
      residues.mark(k);
      terms.mark(k);
    };
    poles.onSelect = residues.onSelect = terms.onSelect = select;
    const which = h(
      "button",
      { type: "button", class: "small", click: () => store.update({ plane: store.state.plane === "pole" ? "a" : "pole" }) },
      "show a",
    );
    poles.element.querySelector(".save")?.prepend(which);
    store.subscribe((state) => (which.textContent = state.plane === "pole" ? "show a" : "show 1 / a"));

    const errorCard = h("div", { class: "card" }, this.error.element);
    this.element = h(
      "div",
      {},
      controls.element,
      h(
        "div",
        { class: "grid" },
        h("div", { class: "card first" }, this.response.element),
        h("div", { class: "card" }, poles.element),
        h("div", { class: "column" }, errorCard, terms.element, this.pythonCard()),
        h("div", { class: "column" }, h("div", { class: "card" }, residues.element), this.numbersCard()),
      ),
    );
    store.subscribe((state) => (errorCard.hidden = state.target === "none"));
    this.listenToDrawing();
    store.subscribe((state, numbers) => this.draw(state, numbers));
  }

  /** Colours have changed. */
  repaint(): void {
    this.planes.forEach((plane) => plane.repaint());
    this.draw(this.store.state, this.store.numbers());
  }

  private numbersCard(): HTMLElement {
    return h(
      "div",
      { class: "card" },
      h("figcaption", {}, h("h3", {}, "Errors")),
      h(
        "table",
        {},
        h("caption", {}, "Of the response, on 2,000 frequencies"),
        h("thead", {}, h("tr", {}, h("td"), h("th", { scope: "col" }, "RMS error"), h("th", { scope: "col" }, "largest"))),
        this.body,
      ),
      this.facts,
    );
  }

  private pythonCard(): HTMLElement {
    const done = h("span", { class: "status", role: "status" });
    const block = h("pre", { tabindex: 0, role: "region", "aria-label": "Python" }, this.code);
    return h(
      "div",
      { class: "card" },
      h(
        "figcaption",
        {},
        h("h3", {}, "In Python"),
        h(
          "span",
          { class: "save" },
          done,
          h(
            "button",
            {
              type: "button",
              click: async () => {
                done.textContent = (await copyText(this.code)) ? "copied" : "press Ctrl+C";
                setTimeout(() => (done.textContent = ""), 2500);
              },
            },
            "Copy",
          ),
        ),
      ),
      block,
    );
  }

  // ----------------------------------------------------------------------------------------------------------- drawing

  private draw(state: State, numbers: Numbers): void {
    if (this.element.hidden) return;
    const { exact, steps, target, chebyshev } = numbers;
    const { response, error } = this;
    response.range(...span([exact, target ?? NOTHING, chebyshev], response.heights));
    response.set("exact", LAMBDA, exact);
    response.set("steps", LAMBDA, steps);
    response.set("chebyshev", LAMBDA, chebyshev);
    response.set("target", LAMBDA, target ?? NOTHING);
    const some = state.earlier ? earlierSteps(state.steps) : [];
    for (let k = 0; k < EARLIER; k++) {
      response.set(`step${k}`, LAMBDA, k < some.length ? recursion(state.terms, MU, some[k]) : NOTHING);
    }
    this.label("steps", `recursion, T = ${state.steps}`);
    this.label("chebyshev", `Chebyshev, ${2 * order(state.terms)} coefficients`);
    if (target) {
      const off = exact.map((value, i) => value - target[i]);
      const other = chebyshev.map((value, i) => value - target[i]);
      error.range(...span([off, other], error.heights));
      error.set("exact", LAMBDA, off);
      error.set("chebyshev", LAMBDA, other);
      error.describe(`The error of the exact response is largest where the target is steep; RMS ${show(errors(exact, target).rms, 4)}.`);
    }
    this.shade();
    response.describe(
      `The exact response is ${show(exact[MU.length - 1])} at lambda 0, ${show(exact[MU.length / 2])} at 1 and ${show(exact[0])} at 2.`,
    );
    this.fill(state, numbers);
  }

  private label(key: string, text: string): void {
    const node = this.response.element.querySelector(`[data-curve="${key}"]`)?.lastChild;
    if (node && node.textContent !== text) node.textContent = text;
    this.response.rename(key, text);
  }

  /** Shade what lies between the response and the target. */
  private shade(): void {
    const { exact, target } = this.store.numbers();
    if (!target) return this.area.removeAttribute("d");
    const point = (i: number, y: number): string =>
      `${this.response.px(LAMBDA[i]).toFixed(1)},${Math.min(Math.max(this.response.py(y), -50), 500).toFixed(1)}`;
    let forth = "";
    let back = "";
    for (let i = 0; i < exact.length; i += 4) {
      forth += `${i ? "L" : "M"}${point(i, exact[i])}`;
      back = `L${point(i, target[i])}${back}`;
    }
    this.area.setAttribute("d", `${forth}${back}Z`);
  }

  private fill(state: State, { exact, steps, target, chebyshev }: Numbers): void {
    const rows: Array<[string, string, Float64Array, Float64Array | null]> = target
      ? [
          ["ARMA, exact", "--exact", exact, target],
          [`recursion, T = ${state.steps}`, "--steps", steps, target],
          ["Chebyshev", "--chebyshev", chebyshev, target],
        ]
      : [
          [`recursion − exact, T = ${state.steps}`, "--steps", steps, exact],
          ["Chebyshev − exact", "--chebyshev", chebyshev, exact],
        ];
    this.body.replaceChildren(
      ...rows.map(([name, color, value, goal]) => {
        const { rms, largest } = errors(value, goal as Float64Array);
        const huge = rms > 1e3;
        return h(
          "tr",
          {},
          h("th", { scope: "row" }, h("span", { class: "swatch", style: `background:var(${color})` }), name),
          h("td", {}, huge ? "diverges" : show(rms, 4)),
          h("td", {}, huge ? "" : show(largest, 4)),
        );
      }),
    );
    const size = radius(state.terms);
    const bad = infinite(state.terms);
    this.facts.classList.toggle("warning", bad.length > 0);
    this.facts.textContent = bad.length
      ? `The pole of term ${bad.map((k) => k + 1).join(", ")} lies on [−1, 1]: h is infinite there, and ARMAFilter refuses it.`
      : size < 1
        ? `Largest |a| = ${show(size)}: the recursion gains a digit in ${size > 0 ? Math.max(1, Math.ceil(Math.LN10 / -Math.log(size))) : 1} steps.`
        : `Largest |a| = ${show(size)} ≥ 1: the recursion diverges (Eq. 10); method="exact" works.`;
    this.code.textContent = `from armagnn.filters import ARMAFilter\n\nf = ${python(state.terms)}`;
  }

  // --------------------------------------------------------------------------------------------------- drawing a target

  private listenToDrawing(): void {
    const { svg } = this.response;
    svg.addEventListener("pointerdown", (event) => {
      if (!this.drawing) return;
      event.preventDefault();
      svg.setPointerCapture(event.pointerId);
      this.last = this.response.at(event);
      this.paint(this.last);
    });
    svg.addEventListener("pointermove", (event) => {
      if (this.drawing && this.last) this.paint(this.response.at(event));
    });
    for (const end of ["pointerup", "pointercancel"]) {
      svg.addEventListener(end, () => {
        if (!this.last) return;
        this.last = null;
        this.store.commit();
      });
    }
  }

  /** Set the heights between the last place of the pointer and this one. */
  private paint([x, y]: [number, number]): void {
    const [fromX, fromY] = this.last ?? [x, y];
    const [left, right] = x < fromX ? [x, fromX] : [fromX, x];
    const gap = 0.0101;
    const old = this.store.targetValues() ?? new Float64Array(MU.length);
    const now = this.store.state.points;
    const points = knots((at) => {
      if (at >= left - gap && at <= right + gap) {
        const share = right - left < 1e-9 ? 1 : Math.min(1, Math.max(0, (at - fromX) / (x - fromX)));
        return Number((fromY + share * (y - fromY)).toFixed(4));
      }
      const known = now.find((point) => Math.abs(point[0] - at) < 1e-9);
      return known ? known[1] : old[Math.min(old.length - 1, Math.floor(((2 - at) / 2) * old.length))];
    });
    this.last = [x, y];
    this.store.update({ points, target: "points" }, false);
  }
}

/** Return some of the steps before T, the last ones most. */
function earlierSteps(steps: number): number[] {
  const all = Array.from({ length: steps - 1 }, (_, k) => k + 1);
  if (all.length <= EARLIER) return all;
  return [...new Set(Array.from({ length: EARLIER }, (_, k) => Math.round((steps - 1) ** (k / (EARLIER - 1)))))];
}

/** Return heights that show curves; a range that fits is kept, so that axes stand still while one drags. */
export function span(curves: readonly Float64Array[], now: readonly [number, number]): [number, number] {
  let low = 0;
  let high = 0;
  for (const curve of curves) {
    if (!curve.length) continue;
    const some = Float64Array.from({ length: Math.ceil(curve.length / 10) }, (_, k) => curve[10 * k]).sort();
    const at = (share: number): number => some[Math.round(share * (some.length - 1))];
    // a pole near a frequency makes a peak that would press everything else flat
    const room = 4 * Math.max(Math.abs(at(0.08)), Math.abs(at(0.92)), 0.25 * (at(0.92) - at(0.08)), 0.02);
    low = Math.min(low, Math.max(some[0], -room));
    high = Math.max(high, Math.min(some[some.length - 1], room));
  }
  const size = high - low || 1;
  low -= low < 0 ? 0.08 * size : 0;
  high += 0.08 * size;
  const fits = now[0] <= low && now[1] >= high && now[1] - now[0] < 1.5 * (high - low);
  const unit = 10 ** Math.floor(Math.log10(high - low)) / 4;
  return fits ? [now[0], now[1]] : [Math.floor(low / unit) * unit, Math.ceil(high / unit) * unit];
}
