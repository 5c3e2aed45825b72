// The explorer: `mount` puts it on a page, `widget` into a notebook.

import { chebyshevResponse, chebyshevSeries, CHEBYSHEV_POINTS } from "./core/chebyshev";
import { design, fitResidues } from "./core/design";
import { coefficients, fromCoefficients, midpoints, python, recursion, response, type Complex } from "./core/filter";
import { decompose, filtered, missing } from "./core/lanczos";
import { NAMED } from "./core/targets";
import { Store, type State } from "./store";
import style from "./style.css";
import { FIRST } from "./ui/controls";
import { fresh, h } from "./ui/dom";
import { FilterView } from "./ui/filter_view";
import { RunView, type RunContent } from "./ui/run_view";
import { SignalView, unpack, type GraphContent } from "./ui/signal_view";

/** What a page is made with. */
export interface Content {
  readonly a?: readonly Complex[];
  readonly b?: readonly Complex[];
  readonly target?: string;
  readonly points?: ReadonlyArray<readonly [number, number]>;
  readonly steps?: number;
  readonly graphs?: readonly GraphContent[];
  readonly run?: RunContent;
  /** The explorer is a page by itself, so that its headings begin at the first level. */
  readonly page?: boolean;
}

interface Mounted {
  readonly store: Store;
  readonly element: HTMLElement;
}

interface View {
  readonly name: string;
  readonly element: HTMLElement;
  repaint(): void;
}

const THEMES = ["auto", "light", "dark"] as const;

/** Put the explorer into an element. */
export function mount(host: HTMLElement, content: Content = {}): Mounted {
  const own = content.a && content.b ? fromCoefficients(content.a, content.b) : null;
  const state: State = {
    terms: own ?? FIRST,
    steps: content.steps ?? 10,
    earlier: false,
    target: content.target ?? (content.points ? "points" : own ? "none" : "low-pass"),
    points: content.points ?? [],
    follow: false,
    stable: false,
    plane: "pole",
  };
  const store = new Store(state);
  const filter = new FilterView(store);
  const views: View[] = [{ name: "Filter", element: filter.element, repaint: () => filter.repaint() }];
  if (content.graphs?.length) {
    const signal = new SignalView(store, content.graphs);
    views.push({ name: "Signal", element: signal.element, repaint: () => signal.repaint() });
  }
  if (content.run) {
    const run = new RunView(
      store,
      content.run,
      () => show(0),
      ({ a, b }) => {
        store.update({ terms: fromCoefficients(a, b), target: "none" });
        show(0);
      },
    );
    views.push({ name: "Run", element: run.element, repaint: () => run.repaint() });
  }
  const root = h("div", { class: "armagnn-explorer", lang: "en" });
  const tabs = views.map((view, k) => {
    view.element.id = fresh("view");
    const tab = fresh("tab");
    view.element.setAttribute("role", "tabpanel");
    view.element.setAttribute("aria-labelledby", tab);
    return h(
      "button",
      { type: "button", role: "tab", id: tab, "aria-controls": view.element.id, click: () => show(k) },
      view.name,
    );
  });
  const list = h("div", { class: "tabs", role: "tablist", "aria-label": "Views" }, ...tabs);
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = (tabs.indexOf(document.activeElement as HTMLButtonElement) + step + tabs.length) % tabs.length;
    show(next);
    tabs[next].focus();
  });
  const show = (chosen: number): void => {
    views.forEach((view, k) => {
      view.element.hidden = k !== chosen;
      tabs[k].setAttribute("aria-selected", String(k === chosen));
      tabs[k].tabIndex = k === chosen ? 0 : -1;
    });
    views[chosen].repaint();
  };
  const theme = themeButton(root, () => views.forEach((view) => !view.element.hidden && view.repaint()));
  root.append(
    h("style", {}, style),
    h(
      "div",
      { class: "inner" },
      h("header", {}, h("h2", {}, "ARMA explorer", h("small", {}, "move the poles of a graph filter")), list, theme),
      ...views.map((view) => view.element),
    ),
  );
  root.addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "z" || event.target instanceof HTMLInputElement) return;
    event.preventDefault();
    if (event.shiftKey) store.redo();
    else store.undo();
  });
  if (content.page) {
    root.classList.add("page");
    root.querySelectorAll("h2, h3").forEach((heading) => heading.setAttribute("aria-level", heading.tagName === "H2" ? "1" : "2"));
  }
  host.replaceChildren(root);
  show(content.run ? views.length - 1 : 0);
  return { store, element: root };
}

function themeButton(root: HTMLElement, changed: () => void): HTMLElement {
  let chosen = 0;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const button = h("button", {
    type: "button",
    click: () => {
      chosen = (chosen + 1) % THEMES.length;
      apply();
    },
  });
  const apply = (): void => {
    const theme = THEMES[chosen];
    root.classList.toggle("dark", theme === "dark" || (theme === "auto" && dark.matches));
    button.replaceChildren({ auto: "◐", light: "☀", dark: "☾" }[theme], h("span", { class: "theme" }, ` ${theme}`));
    button.setAttribute("aria-label", `Colours: ${theme}`);
    changed();
  };
  dark.addEventListener("change", apply);
  queueMicrotask(apply);
  root.classList.toggle("dark", dark.matches);
  return button;
}

/** What a notebook's widget shares with Python. */
interface Model {
  get(name: string): unknown;
  set(name: string, value: unknown): void;
  save_changes(): void;
  on(event: string, listener: () => void): void;
  off(event: string, listener: () => void): void;
}

interface Coefficients {
  readonly a: readonly Complex[];
  readonly b: readonly Complex[];
}

/** Show the explorer in a notebook (anywidget); the filter goes to Python and comes from there. */
export function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const { store } = mount(el, { ...(model.get("content") as Content), ...(model.get("coefficients") as Coefficients) });
  const shown = (): string => JSON.stringify(coefficients(store.state.terms));
  const known = (): string => {
    const { a, b } = model.get("coefficients") as Coefficients;
    return JSON.stringify({ a, b });
  };
  store.onCommit = () => {
    if (shown() === known()) return;
    model.set("coefficients", JSON.parse(shown()));
    model.save_changes();
  };
  const take = (): void => {
    if (shown() === known()) return;
    const { a, b } = model.get("coefficients") as Coefficients;
    store.update({ terms: fromCoefficients(a, b) });
  };
  model.on("change:coefficients", take);
  return () => model.off("change:coefficients", take);
}

/** What the tests compare with Python. */
export const core = {
  CHEBYSHEV_POINTS,
  FIRST,
  NAMED,
  chebyshevResponse,
  chebyshevSeries,
  coefficients,
  decompose,
  missing,
  design,
  filtered,
  fitResidues,
  fromCoefficients,
  midpoints,
  python,
  recursion,
  response,
  unpack,
};
