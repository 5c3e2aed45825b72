// What a filter does to a signal on a graph: h(M) x = sum_j h(theta_j) c_j, from the Krylov space of x.
//
// Lanczos gives V with orthonormal columns, V^T M V = S diag(theta) S^T, and x = |x| V e_1. Of as many steps as the
// signal has frequencies this is the signal's spectrum; of fewer it is the quadrature that is exact for polynomials of
// twice their number, and |c_j|² is the energy of x about the frequency theta_j.

import { axpy, dot } from "./linear";

/** A symmetric sparse matrix by its entries (i, j, value), i <= j; each stands for (j, i) as well. */
export interface Sparse {
  readonly size: number;
  readonly rows: ArrayLike<number>;
  readonly columns: ArrayLike<number>;
  readonly values: Float64Array;
}

/** Parts of a signal, one for each frequency; their sum is the signal. */
export interface Components {
  readonly mu: Float64Array;
  readonly parts: Float64Array[];
  /** The length of each part, with which the energy of the signal is the sum of their squares. */
  readonly sizes: Float64Array;
  /** The share of each part in the last Lanczos vector; zeros if the steps have found all frequencies of the signal. */
  readonly tail: Float64Array;
}

/** Return D^-1/2 A D^-1/2 of a graph with edges (i, j), all of weight one, each listed once. */
export function normalized(size: number, rows: ArrayLike<number>, columns: ArrayLike<number>): Sparse {
  const degree = new Float64Array(size);
  for (let e = 0; e < rows.length; e++) {
    degree[rows[e]]++;
    if (rows[e] !== columns[e]) degree[columns[e]]++;
  }
  const values = Float64Array.from({ length: rows.length }, (_, e) => 1 / Math.sqrt(degree[rows[e]] * degree[columns[e]]));
  return { size, rows, columns, values };
}

/** Return M x. */
export function times({ size, rows, columns, values }: Sparse, x: Float64Array): Float64Array {
  const out = new Float64Array(size);
  for (let e = 0; e < values.length; e++) {
    const i = rows[e];
    const j = columns[e];
    out[i] += values[e] * x[j];
    if (i !== j) out[j] += values[e] * x[i];
  }
  return out;
}

/** Yield now and then, with the share of the work that is done; return the components of x. */
export function* decompose(matrix: Sparse, x: Float64Array, steps: number): Generator<number, Components, void> {
  const size = Math.sqrt(dot(x, x));
  const most = Math.min(steps, matrix.size);
  const basis: Float64Array[] = [];
  const diagonal: number[] = [];
  const beside: number[] = [];
  let exact = size === 0;
  let next: Float64Array = x.map((value) => value / (size || 1));
  while (!exact && basis.length < most) {
    const now = next;
    basis.push(now);
    next = times(matrix, now);
    diagonal.push(dot(now, next));
    axpy(-diagonal[diagonal.length - 1], now, next);
    if (basis.length > 1) axpy(-beside[beside.length - 1], basis[basis.length - 2], next);
    // rounding would let the columns lose their right angles
    for (const other of basis) axpy(-dot(other, next), other, next);
    const length = Math.sqrt(dot(next, next));
    exact = length < 1e-10 || basis.length === matrix.size;
    for (let i = 0; i < next.length; i++) next[i] /= length || 1;
    if (!exact && basis.length < most) beside.push(length);
    if (basis.length % 8 === 0) yield (0.6 * basis.length) / most;
  }
  const { values, vectors } = tridiagonal(Float64Array.from(diagonal), Float64Array.from(beside));
  const parts: Float64Array[] = [];
  for (let j = 0; j < values.length; j++) {
    const part = new Float64Array(matrix.size);
    for (let i = 0; i < basis.length; i++) axpy(size * vectors[j][0] * vectors[j][i], basis[i], part);
    parts.push(part);
    if (j % 16 === 0) yield 0.65 + (0.35 * j) / values.length;
  }
  const sizes = Float64Array.from(vectors, (vector) => size * Math.abs(vector[0]));
  const last = basis.length - 1;
  const tail = Float64Array.from(vectors, (vector) => (exact ? 0 : size * vector[0] * vector[last]));
  return { mu: values, parts, sizes, tail };
}

/** Return sum_j h_j c_j: the filtered signal, for the filter's response at the components' frequencies. */
export function filtered({ parts }: Components, h: ArrayLike<number>, out: Float64Array): Float64Array {
  out.fill(0);
  parts.forEach((part, j) => axpy(h[j], part, out));
  return out;
}

/** Return about which share of the filtered signal is missing for want of more steps. */
export function missing({ sizes, tail }: Components, h: ArrayLike<number>): number {
  let whole = 0;
  let end = 0;
  for (let j = 0; j < sizes.length; j++) {
    whole += (h[j] * sizes[j]) ** 2;
    end += h[j] * tail[j];
  }
  return Math.abs(end) / Math.sqrt(whole || 1);
}

/** Return the eigenvalues and eigenvectors of a symmetric tridiagonal matrix, by the implicit QL method. */
export function tridiagonal(diagonal: Float64Array, beside: Float64Array): { values: Float64Array; vectors: Float64Array[] } {
  const n = diagonal.length;
  const d = diagonal.slice();
  const e = new Float64Array(n);
  e.set(beside);
  // row j of z is the j-th eigenvector
  const z = Array.from({ length: n }, (_, k) => Float64Array.from({ length: n }, (__, i) => Number(i === k)));
  for (let l = 0; l < n; l++) {
    for (let turn = 0; turn < 60; turn++) {
      let m = l;
      while (m < n - 1 && Math.abs(e[m]) > Number.EPSILON * (Math.abs(d[m]) + Math.abs(d[m + 1]))) m++;
      if (m === l) break;
      let g = (d[l + 1] - d[l]) / (2 * e[l]);
      let r = Math.hypot(g, 1);
      g = d[m] - d[l] + e[l] / (g + (g >= 0 ? r : -r));
      let sine = 1;
      let cosine = 1;
      let p = 0;
      let i = m - 1;
      for (; i >= l; i--) {
        const f = sine * e[i];
        const b = cosine * e[i];
        r = Math.hypot(f, g);
        e[i + 1] = r;
        if (r === 0) {
          d[i + 1] -= p;
          e[m] = 0;
          break;
        }
        sine = f / r;
        cosine = g / r;
        g = d[i + 1] - p;
        r = (d[i] - g) * sine + 2 * cosine * b;
        p = sine * r;
        d[i + 1] = g + p;
        g = cosine * r - b;
        const upper = z[i + 1];
        const lower = z[i];
        for (let k = 0; k < n; k++) {
          const kept = upper[k];
          upper[k] = sine * lower[k] + cosine * kept;
          lower[k] = cosine * lower[k] - sine * kept;
        }
      }
      if (r === 0 && i >= l) continue;
      d[l] -= p;
      e[l] = g;
      e[m] = 0;
    }
  }
  return { values: d, vectors: z };
}

/** Return a seeded sequence of numbers from the normal distribution. */
export function normal(count: number, seed = 1): Float64Array {
  let state = seed;
  const uniform = (): number => {
    // mulberry32
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return (((t ^ (t >>> 14)) >>> 0) + 0.5) / 4294967296;
  };
  return Float64Array.from({ length: count }, () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform()));
}
