// The table of terms: a and b as numbers to type, and what each term is.

import { inverse, order, type Term } from "../core/filter";
import type { Store } from "../store";
import { h, show } from "./dom";

export const MOST = 16;

export class Terms {
  readonly element: HTMLElement;
  private readonly body = h("tbody");
  private readonly add: HTMLButtonElement[];
  private terms: readonly Term[] = [];
  private chosen = -1;
  onSelect: (k: number) => void = () => undefined;

  constructor(private readonly store: Store) {
    this.add = [
      h("button", { type: "button", click: () => this.append({ pair: false, a: [0.5, 0], b: [0.1, 0] }) }, "Add a real term"),
      h("button", { type: "button", click: () => this.append({ pair: true, a: [0, 0.5], b: [0.1, 0] }) }, "Add a pair"),
    ];
    this.element = h(
      "div",
      { class: "card" },
      h("figcaption", {}, h("h3", {}, "Terms b / (1 − a μ)")),
      h(
        "table",
        { class: "terms" },
        h("caption", {}, "The terms of the filter"),
        h("thead", {}, h("tr", {}, ...["", "Kind", "a", "b", "Pole", ""].map((name, k) => (k % 5 ? h("th", { scope: "col" }, name) : h("td"))))),
        this.body,
      ),
      h("p", { class: "group", style: "margin-top:8px" }, ...this.add),
    );
    store.subscribe((state) => this.draw(state.terms));
  }

  private append(term: Term): void {
    this.store.update({ terms: [...this.store.state.terms, term] });
  }

  private change(k: number, change: Partial<Term>): void {
    const terms = this.store.state.terms.map((term, j) => (j === k ? { ...term, ...change } : term));
    this.store.update({ terms, ...(change.b && !change.a ? { follow: false } : {}) });
  }

  private draw(terms: readonly Term[]): void {
    const same = terms.length === this.terms.length && terms.every((term, k) => term.pair === this.terms[k].pair);
    this.terms = terms;
    const full = order(terms);
    this.add[0].disabled = full >= MOST;
    this.add[1].disabled = full > MOST - 2;
    if (!same) this.body.replaceChildren(...terms.map((term, k) => this.row(term, k)));
    terms.forEach((term, k) => this.fill(term, k));
    this.mark(this.chosen);
  }

  private row(term: Term, k: number): HTMLElement {
    const noun = `${term.pair ? "pair" : "term"} ${k + 1}`;
    const kind = h(
      "select",
      {
        "aria-label": `Kind of ${noun}`,
        change: () => {
          const pair = kind.value === "pair";
          const { a, b } = this.store.state.terms[k];
          // a real term has half the weight of a pair
          this.change(k, pair ? { pair, a: [a[0], a[1] || 0.2], b: [b[0] / 2, 0] } : { pair, a: [Math.max(-0.99, Math.min(0.99, a[0])), 0], b: [2 * b[0], 0] });
        },
      },
      h("option", { value: "real" }, "real"),
      h("option", { value: "pair" }, "pair"),
    );
    kind.value = term.pair ? "pair" : "real";
    kind.querySelector<HTMLOptionElement>("[value=pair]")!.disabled = !term.pair && order(this.terms) >= MOST;
    const input = (name: "a" | "b", part: 0 | 1): HTMLInputElement => {
      const field = h("input", {
        type: "number",
        step: "any",
        "data-field": `${name}${part}`,
        "aria-label": `${part ? "Imaginary" : "Real"} part of ${name} of ${noun}`,
        focus: () => this.onSelect(k),
        input: () => (field.dataset.typing = ""),
        change: () => {
          delete field.dataset.typing;
          const value = Number(field.value);
          const bad = field.value.trim() === "" || !Number.isFinite(value);
          field.setAttribute("aria-invalid", String(bad));
          if (bad) return;
          const now = this.store.state.terms[k][name];
          this.change(k, { [name]: part ? [now[0], value] : [value, now[1]] });
        },
      });
      return field;
    };
    const numbers = (name: "a" | "b"): HTMLElement =>
      term.pair
        ? h("td", { class: "numbers", "data-name": name }, input(name, 0), h("span", { class: "sign" }, " ± i "), input(name, 1))
        : h("td", { class: "numbers", "data-name": name }, input(name, 0));
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, String(k + 1)),
      h("td", {}, kind),
      numbers("a"),
      numbers("b"),
      h("td", { class: "where" }),
      h(
        "td",
        {},
        h("button", { type: "button", class: "small", "aria-label": `Remove ${noun}`, disabled: this.terms.length < 2, click: () => this.store.update({ terms: this.store.state.terms.filter((_, j) => j !== k) }) }, "✕"),
      ),
    );
  }

  private fill(term: Term, k: number): void {
    const row = this.body.children[k];
    row.querySelectorAll<HTMLInputElement>("input").forEach((field) => {
      if ("typing" in field.dataset) return; // do not take away what somebody is about to enter
      const [name, part] = [...(field.dataset.field ?? "a0")] as ["a" | "b", string];
      const value = term[name][Number(part)];
      // the field shows six digits, and the number that was typed as it was
      if (Number(field.value) !== value || field.value === "") field.value = String(Number(value.toPrecision(6)));
    });
    const [x, y] = inverse(term.a);
    const size = Math.hypot(term.a[0], term.a[1]);
    const where = row.querySelector(".where") as HTMLElement;
    const lambda = Math.abs(x) > 1e6 ? "far away" : `λ = ${show(1 - x, 2)}${term.pair ? ` ± ${show(Math.abs(y), 2)} i` : ""}`;
    where.textContent = lambda;
    where.style.color = term.a[1] === 0 && size >= 1 ? "var(--bad)" : "";
  }

  /** Show which term is chosen. */
  mark(k: number): void {
    this.chosen = k;
    Array.from(this.body.children).forEach((row, j) => row.classList.toggle("chosen", j === k));
  }
}
