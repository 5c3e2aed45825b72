// Elements in one line each.

type Child = Node | string | null | false;
type Listener = (event: never) => void;
export type Attributes = Readonly<Record<string, string | number | boolean | null | undefined | Listener>>;

const SVG = "http://www.w3.org/2000/svg";

function fill<E extends Element>(element: E, attributes: Attributes, children: readonly Child[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value as unknown as EventListener);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child) element.append(child);
  return element;
}

/** Return an HTML element; attributes that are functions listen to the event of that name. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  return fill(document.createElement(tag), attributes, children);
}

/** Return an SVG element. */
export function s<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

// a notebook may hold several explorers
const session = Math.random().toString(36).slice(2, 7);
let counter = 0;

/** Return an id that no other element has. */
export function fresh(name: string): string {
  return `armagnn-${name}-${session}${++counter}`;
}

/** Return a number for readers: few digits, a true minus sign. */
export function show(value: number, digits = 3): string {
  if (!Number.isFinite(value)) return value > 0 ? "∞" : value < 0 ? "−∞" : "–";
  const size = Math.abs(value);
  const text =
    size !== 0 && (size < 10 ** -digits || size >= 1e5) ? value.toExponential(Math.max(0, digits - 2)) : value.toFixed(digits);
  return (Number(text) === 0 ? text.replace("-", "") : text).replace("e+", "e").replaceAll("-", "−");
}

/** Return whether someone asked for less motion. */
export function calm(): boolean {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}
