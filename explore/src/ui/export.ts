// Pictures and text to take away.

import { h } from "./dom";

function save(content: Blob, name: string): void {
  const url = URL.createObjectURL(content);
  const link = h("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Return a drawing as an SVG file: variables of the page are replaced by their values, and no style is needed. */
export function standalone(svg: SVGSVGElement, title: string): string {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const { width, height } = svg.getBoundingClientRect();
  const styles = getComputedStyle(svg);
  copy.querySelectorAll("[data-screen]").forEach((part) => part.remove());
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", String(Math.round(width)));
  copy.setAttribute("height", String(Math.round(height)));
  copy.setAttribute("viewBox", `0 0 ${Math.round(width)} ${Math.round(height)}`);
  copy.setAttribute("font-family", "system-ui, sans-serif");
  copy.setAttribute("font-size", "12");
  copy.removeAttribute("style");
  const background = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  background.setAttribute("width", "100%");
  background.setAttribute("height", "100%");
  background.setAttribute("fill", "var(--surface)");
  copy.prepend(background);
  const name = document.createElementNS("http://www.w3.org/2000/svg", "title");
  name.textContent = title;
  copy.prepend(name);
  const text = new XMLSerializer().serializeToString(copy);
  return text.replace(/var\((--[\w-]+)\)/g, (_, variable: string) => styles.getPropertyValue(variable).trim());
}

/** Save text as a file. */
export function saveText(text: string, type: string, name: string): void {
  save(new Blob([text], { type }), name);
}

export function saveSvg(svg: SVGSVGElement, name: string, title: string): void {
  saveText(standalone(svg, title), "image/svg+xml", `${name}.svg`);
}

/** Save a drawing as a PNG of twice its size on the screen. */
export async function savePng(svg: SVGSVGElement, name: string, title: string): Promise<void> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(standalone(svg, title))}`;
  await image.decode();
  const { width, height } = svg.getBoundingClientRect();
  const canvas = h("canvas", { width: Math.round(2 * width), height: Math.round(2 * height) });
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  saveCanvas(canvas, name);
}

export function saveCanvas(canvas: HTMLCanvasElement, name: string): void {
  canvas.toBlob((blob) => blob && save(blob, `${name}.png`), "image/png");
}

/** Copy text; where a page may not, select it so that the reader can. */
export async function copyText(source: HTMLElement): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(source.textContent ?? "");
    return true;
  } catch {
    getSelection()?.selectAllChildren(source);
    return document.execCommand("copy");
  }
}
