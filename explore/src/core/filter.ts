// The ARMA filter h(mu) = Re sum_k b_k / (1 - a_k mu) (Eq. 13), as `armagnn.filters.ARMAFilter` has it.

/** A real and an imaginary part. */
export type Complex = readonly [number, number];

/** One first-order term; a pair stands for two terms, (a, b) and their conjugates, and gives 2 Re b / (1 - a mu). */
export interface Term {
  readonly pair: boolean;
  readonly a: Complex;
  readonly b: Complex;
}

/** Frequencies at which a response is measured: midpoints of equal cells of [-1, 1], as `armagnn.filters.targets.GRID`. */
export const GRID = 2000;

/** Return the midpoints of `count` equal cells of [-1, 1]. */
export function midpoints(count: number = GRID): Float64Array {
  return Float64Array.from({ length: count }, (_, i) => (i + 0.5) * (2 / count) - 1);
}

/** Return K, the number of first-order terms; a pair counts as two. */
export function order(terms: readonly Term[]): number {
  return terms.reduce((sum, term) => sum + (term.pair ? 2 : 1), 0);
}

/** Return h at the frequencies `mu`. */
export function response(terms: readonly Term[], mu: ArrayLike<number>): Float64Array {
  const out = new Float64Array(mu.length);
  for (const { pair, a, b } of terms) {
    const factor = pair ? 2 : 1;
    for (let i = 0; i < mu.length; i++) {
      const re = 1 - a[0] * mu[i];
      const im = -a[1] * mu[i];
      // with no imaginary part this is b / (1 - a mu) to the last bit
      out[i] += im === 0 ? (factor * b[0]) / re : (factor * (b[0] * re + b[1] * im)) / (re * re + im * im);
    }
  }
  return out;
}

/** Return the powers mu^(steps + 1) that `recursion` takes. */
export function powers(mu: ArrayLike<number>, steps: number): Float64Array {
  return Float64Array.from({ length: mu.length }, (_, i) => mu[i] ** (steps + 1));
}

/**
 * Return the response after T steps of X(t + 1) = a M X(t) + b X (Eq. 8) from X(0) = b X, the sum
 * b (1 + a mu + ... + (a mu)^T) of Eq. 10.
 */
export function recursion(
  terms: readonly Term[],
  mu: ArrayLike<number>,
  steps: number,
  known: Float64Array = powers(mu, steps),
): Float64Array {
  const out = new Float64Array(mu.length);
  for (const { pair, a, b } of terms) {
    const factor = pair ? 2 : 1;
    const size = Math.hypot(a[0], a[1]) ** (steps + 1);
    const angle = Math.atan2(a[1], a[0]) * (steps + 1);
    const powerRe = a[1] === 0 ? a[0] ** (steps + 1) : size * Math.cos(angle);
    const powerIm = a[1] === 0 ? 0 : size * Math.sin(angle);
    for (let i = 0; i < mu.length; i++) {
      const re = 1 - a[0] * mu[i];
      const im = -a[1] * mu[i];
      const square = re * re + im * im;
      let sumRe: number;
      let sumIm: number;
      if (square < 1e-6) {
        // the closed form would divide zero by zero
        [sumRe, sumIm] = geometric(a[0] * mu[i], a[1] * mu[i], steps);
      } else {
        const topRe = 1 - powerRe * known[i];
        const topIm = -powerIm * known[i];
        sumRe = (topRe * re + topIm * im) / square;
        sumIm = (topIm * re - topRe * im) / square;
      }
      out[i] += factor * (b[0] * sumRe - b[1] * sumIm);
    }
  }
  return out;
}

function geometric(re: number, im: number, steps: number): [number, number] {
  let sumRe = 1;
  let sumIm = 0;
  for (let t = 0; t < steps; t++) [sumRe, sumIm] = [1 + re * sumRe - im * sumIm, re * sumIm + im * sumRe];
  return [sumRe, sumIm];
}

/** Return |h(z)| of the filter as a function of complex z, at one point. */
export function magnitude(terms: readonly Term[], x: number, y: number): number {
  let re = 0;
  let im = 0;
  const add = (a0: number, a1: number, b0: number, b1: number): void => {
    const bottomRe = 1 - (a0 * x - a1 * y);
    const bottomIm = -(a0 * y + a1 * x);
    const square = bottomRe * bottomRe + bottomIm * bottomIm || 1e-300;
    re += (b0 * bottomRe + b1 * bottomIm) / square;
    im += (b1 * bottomRe - b0 * bottomIm) / square;
  };
  for (const { pair, a, b } of terms) {
    add(a[0], a[1], b[0], b[1]);
    if (pair) add(a[0], -a[1], b[0], -b[1]);
  }
  return Math.hypot(re, im);
}

/** Return the largest |a|: the recursion converges for every graph if it is below 1 (Eq. 10). */
export function radius(terms: readonly Term[]): number {
  return terms.reduce((most, { a }) => Math.max(most, Math.hypot(a[0], a[1])), 0);
}

/** Return the terms whose pole 1 / a lies on [-1, 1], where the response is infinite. */
export function infinite(terms: readonly Term[]): number[] {
  return terms.flatMap(({ a }, k) => (a[1] === 0 && Math.abs(a[0]) >= 1 ? [k] : []));
}

/** Return 1 / z; of zero, a far point on the real line. */
export function inverse([re, im]: Complex): Complex {
  const square = re * re + im * im;
  return square < 1e-18 ? [1e9, 0] : [re / square, -im / square];
}

/** Return a and b as `ARMAFilter` lists them: a pair as two numbers, the one in the upper half plane first. */
export function coefficients(terms: readonly Term[]): { a: Complex[]; b: Complex[] } {
  const a: Complex[] = [];
  const b: Complex[] = [];
  for (const term of terms) {
    a.push(term.a);
    b.push(term.b);
    if (term.pair) {
      a.push([term.a[0], -term.a[1]]);
      b.push([term.b[0], -term.b[1]]);
    }
  }
  return { a, b };
}

/** Return the terms of lists as `ARMAFilter` has them; a complex term without its conjugate is half of a pair. */
export function fromCoefficients(a: readonly Complex[], b: readonly Complex[]): Term[] {
  const left = a.map((_, k) => k);
  const terms: Term[] = [];
  while (left.length) {
    const k = left.shift() as number;
    if (a[k][1] === 0) {
      terms.push({ pair: false, a: [a[k][0], 0], b: [b[k][0], 0] });
      continue;
    }
    const twin = left.findIndex(
      (j) => a[j][0] === a[k][0] && a[j][1] === -a[k][1] && b[j][0] === b[k][0] && b[j][1] === -b[k][1],
    );
    if (twin >= 0) left.splice(twin, 1);
    const share = twin >= 0 ? 1 : 0.5;
    terms.push({ pair: true, a: a[k], b: [share * b[k][0], share * b[k][1]] });
  }
  return terms;
}

/** Return the Python expression that makes this filter. */
export function python(terms: readonly Term[]): string {
  const { a, b } = coefficients(terms);
  const real = a.every((v) => v[1] === 0) && b.every((v) => v[1] === 0);
  const list = (values: Complex[]): string => `[${values.map((v) => (real ? number(v[0]) : complex(v))).join(", ")}]`;
  const line = `ARMAFilter(a=${list(a)}, b=${list(b)})`;
  return line.length < 80 ? line : `ARMAFilter(\n    a=${list(a)},\n    b=${list(b)},\n)`;
}

function number(value: number): string {
  return Number.isInteger(value) && Math.abs(value) < 1e15 ? value.toFixed(1) : String(value);
}

function complex([re, im]: Complex): string {
  return `${number(re)}${im < 0 || Object.is(im, -0) ? "-" : "+"}${number(Math.abs(im))}j`;
}
