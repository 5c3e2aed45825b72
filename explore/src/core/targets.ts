// Responses to aim at, as in `armagnn.filters.targets`: functions of mu in [-1, 1], lambda = 1 - mu.

/** A drawn target: points (lambda, h), joined by lines. */
export type Points = ReadonlyArray<readonly [number, number]>;

export const NAMED: Readonly<Record<string, (mu: number) => number>> = {
  "low-pass": (mu) => (mu >= 0 ? 1 : 0),
  "high-pass": (mu) => (mu < 0 ? 1 : 0),
  "band-pass": (mu) => (mu >= -0.5 && mu <= 0.5 ? 1 : 0),
  "band-stop": (mu) => (mu < -0.5 || mu > 0.5 ? 1 : 0),
  comb: (mu) => Math.abs(Math.sin(Math.PI * mu)),
  heat: (mu) => Math.exp(-5 * (1 - mu)),
};

/** Return the function of mu that joins points (lambda, h) by lines; beyond the ends it is constant. */
export function interpolation(points: Points): (mu: number) => number {
  const sorted = [...points].sort((p, q) => p[0] - q[0]);
  const places = sorted.map((p) => p[0]);
  return (mu) => {
    const at = 1 - mu;
    let low = 0;
    let high = places.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (places[middle] <= at) low = middle + 1;
      else high = middle;
    }
    if (low === 0) return sorted[0][1];
    if (low === places.length) return sorted[places.length - 1][1];
    const [x0, y0] = sorted[low - 1];
    const [x1, y1] = sorted[low];
    return y0 + ((y1 - y0) * (at - x0)) / (x1 - x0);
  };
}

/** Return the points of a text such as "0 1, 0.9 1, 1.1 0, 2 0"; an error says what is wrong with it. */
export function parsePoints(text: string): Array<[number, number]> {
  const points = text
    .split(/[,;\n]+/)
    .map((part) => part.trim())
    .filter(Boolean)
    .map((part) => {
      const numbers = part.split(/\s+/).map(Number);
      if (numbers.length !== 2 || !numbers.every(Number.isFinite)) {
        throw new Error(`“${part}” is no point: write λ and h, for example “0.5 1”.`);
      }
      if (numbers[0] < 0 || numbers[0] > 2) throw new Error(`λ = ${numbers[0]} lies outside 0 to 2.`);
      return numbers as [number, number];
    });
  if (points.length < 2) throw new Error("A target needs at least two points.");
  return points.sort((p, q) => p[0] - q[0]);
}

/** How well a response meets a target: root of the mean square error, and the largest error. */
export interface Errors {
  readonly rms: number;
  readonly largest: number;
}

export function errors(value: Float64Array, target: Float64Array): Errors {
  let sum = 0;
  let largest = 0;
  for (let i = 0; i < value.length; i++) {
    const error = Math.abs(value[i] - target[i]);
    sum += error * error;
    largest = Math.max(largest, error);
  }
  return { rms: Math.sqrt(sum / value.length), largest };
}
