// Fitting poles and residues to a target, as `armagnn.filters.design`: for given poles the best b is a linear problem,
// and the poles move by damped Gauss-Newton steps from several starts. Poles are parameters w in a disk,
// 1 / a = (w + 1 / w) / 2, or a = w for a filter that the recursion can run.

import type { Term } from "./filter";
import { axpy, cholesky, dot, qr, svd, type Columns } from "./linear";

const STABLE_RADIUS = 0.98;
const FREE_RADIUS = 0.998;
/** Directions of b that change the response by less than this are left alone: they only make b huge. */
const CONDITION = 1e-4;
const MOST_STEPS = 200;

interface Fit {
  readonly cost: number;
  readonly residual: Float64Array;
  readonly left: Columns;
  readonly c: Float64Array;
  readonly a: Array<[number, number]>;
}

/** Return the best b for given poles, and the root mean square error that is left. */
export function fitResidues(terms: readonly Term[], mu: Float64Array, target: Float64Array): Term[] {
  const pairs = terms.filter((term) => term.pair);
  const real = terms.filter((term) => !term.pair);
  const a = [...pairs, ...real].map((term): [number, number] => [term.a[0], term.a[1]]);
  const { c } = project(a, pairs.length, mu, target);
  let pair = 0;
  let single = 0;
  const n = pairs.length;
  return terms.map((term) => {
    if (!term.pair) return { ...term, b: [c[2 * n + single++], 0] };
    const k = pair++;
    return { ...term, b: [c[k] / 2, c[n + k] / 2] };
  });
}

/** Return the columns of the basis: real and imaginary parts of pairs, then real terms. */
function basis(a: ReadonlyArray<[number, number]>, pairs: number, mu: Float64Array): Columns {
  const weight = mu.length ** -0.5;
  const columns: Columns = Array.from({ length: a.length + pairs }, () => new Float64Array(mu.length));
  a.forEach(([re, im], k) => {
    const isPair = k < pairs;
    const first = isPair ? columns[k] : columns[pairs + k];
    const second = columns[pairs + k];
    for (let i = 0; i < mu.length; i++) {
      const bottomRe = 1 - re * mu[i];
      const bottomIm = -im * mu[i];
      const square = bottomRe * bottomRe + bottomIm * bottomIm;
      first[i] = (weight * bottomRe) / square;
      if (isPair) second[i] = (weight * bottomIm) / square;
    }
  });
  return columns;
}

/** Return the best coefficients, what they leave of the target, and an orthonormal basis of the columns. */
function project(a: Array<[number, number]>, pairs: number, mu: Float64Array, target: Float64Array): Fit {
  const weight = mu.length ** -0.5;
  const columns = basis(a, pairs, mu);
  const { q, r } = qr(columns);
  const { u, singular, v } = svd(r);
  const most = Math.max(...singular);
  const kept = singular.flatMap((value, k) => (value > CONDITION * most ? [k] : []));
  const residual = target.map((value) => -weight * value);
  const c = new Float64Array(columns.length);
  const left: Columns = [];
  for (const k of kept) {
    const direction = new Float64Array(mu.length);
    for (let j = 0; j < q.length; j++) axpy(u[k][j], q[j], direction);
    let inner = 0;
    for (let i = 0; i < mu.length; i++) inner += direction[i] * weight * target[i];
    axpy(inner, direction, residual);
    axpy(inner / singular[k], v[k], c);
    left.push(direction);
  }
  return { cost: dot(residual, residual), residual, left, c, a };
}

class Problem {
  private readonly radius: number;
  private readonly low: Float64Array;
  private readonly high: Float64Array;

  constructor(
    private readonly mu: Float64Array,
    private readonly value: Float64Array,
    private readonly pairs: number,
    private readonly real: number,
    private readonly stable: boolean,
  ) {
    this.radius = stable ? STABLE_RADIUS : FREE_RADIUS;
    const r = this.radius;
    this.low = Float64Array.from([...Array<number>(2 * pairs).fill(0), ...Array<number>(real).fill(-r)]);
    this.high = Float64Array.from([
      ...Array<number>(pairs).fill(r),
      ...Array<number>(pairs).fill(Math.PI),
      ...Array<number>(real).fill(r),
    ]);
  }

  /** Return w of each pole: of pairs the one in the upper half plane, then the real ones. */
  private disk(theta: Float64Array): Array<[number, number]> {
    const n = this.pairs;
    return Array.from({ length: n + this.real }, (_, k): [number, number] =>
      k < n ? [theta[k] * Math.cos(theta[n + k]), theta[k] * Math.sin(theta[n + k])] : [theta[n + k], 0],
    );
  }

  fit(theta: Float64Array): Fit {
    const a = this.disk(theta).map(([x, y]): [number, number] => {
      if (this.stable) return [x, y];
      // 2 w / (1 + w²)
      const re = 1 + x * x - y * y;
      const im = 2 * x * y;
      const square = re * re + im * im;
      return [(2 * (x * re + y * im)) / square, (2 * (y * re - x * im)) / square];
    });
    return project(a, this.pairs, this.mu, this.value);
  }

  /** Return Kaufman's Jacobian: the part of each column's change that b cannot make up for. */
  private jacobian(theta: Float64Array, fit: Fit): Columns {
    const n = this.pairs;
    const weight = this.mu.length ** -0.5;
    const columns: Columns = Array.from(theta, () => new Float64Array(this.mu.length));
    this.disk(theta).forEach(([x, y], k) => {
      const isPair = k < n;
      let factorRe = isPair ? fit.c[k] : fit.c[n + k];
      let factorIm = isPair ? fit.c[n + k] : 0;
      if (!this.stable) {
        // da / dw = 2 (1 - w²) / (1 + w²)²
        const topRe = 2 * (1 - x * x + y * y);
        const topIm = -4 * x * y;
        const re = 1 + x * x - y * y;
        const im = 2 * x * y;
        const bottomRe = re * re - im * im;
        const bottomIm = 2 * re * im;
        const square = bottomRe * bottomRe + bottomIm * bottomIm;
        const slopeRe = (topRe * bottomRe + topIm * bottomIm) / square;
        const slopeIm = (topIm * bottomRe - topRe * bottomIm) / square;
        [factorRe, factorIm] = [factorRe * slopeRe - factorIm * slopeIm, factorRe * slopeIm + factorIm * slopeRe];
      }
      const angle = isPair ? theta[n + k] : 0;
      const turnRe = Math.cos(angle);
      const turnIm = Math.sin(angle);
      const [re, im] = fit.a[k];
      const radial = isPair ? columns[k] : columns[n + k];
      const around = columns[n + k];
      for (let i = 0; i < this.mu.length; i++) {
        const m = this.mu[i];
        const bottomRe = 1 - re * m;
        const bottomIm = -im * m;
        const square = (bottomRe * bottomRe + bottomIm * bottomIm) ** 2;
        const squareRe = bottomRe * bottomRe - bottomIm * bottomIm;
        const squareIm = 2 * bottomRe * bottomIm;
        const changeRe = (weight * m * (factorRe * squareRe + factorIm * squareIm)) / square;
        const changeIm = (weight * m * (factorIm * squareRe - factorRe * squareIm)) / square;
        const turnedRe = changeRe * turnRe - changeIm * turnIm;
        radial[i] = turnedRe;
        if (isPair) around[i] = -theta[k] * (changeRe * turnIm + changeIm * turnRe);
      }
    });
    for (const column of columns) for (const direction of fit.left) axpy(-dot(direction, column), direction, column);
    return columns;
  }

  /** Return the terms, and twice the mean square error, from this start. */
  solve(start: Float64Array): { cost: number; terms: Term[] } {
    const clip = (theta: Float64Array, margin: number): Float64Array =>
      theta.map((value, k) => Math.min(Math.max(value, this.low[k] + margin), this.high[k] - margin));
    let theta = clip(start, 1e-6);
    let fit = this.fit(theta);
    let damping = 1e-3;
    for (let step = 0; step < MOST_STEPS && fit.cost > 1e-28; step++) {
      const columns = this.jacobian(theta, fit);
      const slope = Float64Array.from(columns, (column) => dot(column, fit.residual));
      // a parameter at its bound, which the slope would push over it, stays
      const free = Array.from(theta.keys()).filter(
        (k) => !((theta[k] <= this.low[k] && slope[k] > 0) || (theta[k] >= this.high[k] && slope[k] < 0)),
      );
      const normal = free.map((j) => Float64Array.from(free, (k) => dot(columns[j], columns[k])));
      const scale = Math.max(...normal.map((column, k) => column[k]), 1e-300);
      let better: { theta: Float64Array; fit: Fit } | null = null;
      while (!better && damping < 1e12) {
        const damped = normal.map((column, k) => {
          const copy = column.slice();
          copy[k] += damping * (column[k] + 1e-9 * scale);
          return copy;
        });
        const move = cholesky(damped, Float64Array.from(free, (k) => -slope[k]));
        if (move) {
          const next = theta.slice();
          free.forEach((k, index) => (next[k] += move[index]));
          const there = clip(next, 0);
          const found = this.fit(there);
          if (found.cost < fit.cost) better = { theta: there, fit: found };
        }
        damping *= better ? 0.2 : 4;
      }
      if (!better) break;
      damping = Math.max(damping, 1e-12);
      const gain = fit.cost - better.fit.cost;
      const moved = Math.max(...better.theta.map((value, k) => Math.abs(value - theta[k])));
      ({ theta, fit } = better);
      if (gain <= 1e-10 * fit.cost || moved <= 1e-10) break;
    }
    const n = this.pairs;
    const terms = fit.a.map((a, k): Term =>
      k < n
        ? { pair: true, a, b: [fit.c[k] / 2, fit.c[n + k] / 2] }
        : { pair: false, a: [a[0], 0], b: [fit.c[n + k], 0] },
    );
    return { cost: fit.cost, terms };
  }

  /** Return where to start: poles spread evenly, from far to near, and poles gathered at the steepest places. */
  starts(): Float64Array[] {
    const n = this.pairs;
    const r = this.radius;
    const even = Array.from({ length: n }, (_, k) => (k + 0.5) * (Math.PI / Math.max(n, 1)));
    const real = Array.from({ length: this.real }, (_, k) =>
      this.real > 1 ? -0.8 + (1.6 * k) / (this.real - 1) : 0.3,
    );
    // the third is turned a little: an even target holds symmetric poles on a saddle
    const out = [[0.25, 0], [0.5, 0], [0.75, 0.1], [0.9, 0]].map(([near, turn]) =>
      Float64Array.from([
        ...Array<number>(n).fill(near * r),
        ...even.map((angle) => angle + turn),
        ...real.map((value) => near * value + turn),
      ]),
    );
    if (n) {
      const steep = this.steepest(n);
      // Newman: poles of the best approximation to a step lie above it, at distances in geometric progression
      const disk = Array.from({ length: n }, (_, k) => {
        const place = steep[k % steep.length];
        const distance = 0.5 * 0.2 ** Math.floor(k / steep.length);
        const [x, y] = this.stable ? invert(place, distance) : toDisk(place, distance);
        return [x, Math.abs(y)];
      });
      out.push(
        Float64Array.from([
          ...disk.map(([x, y]) => Math.min(Math.hypot(x, y), r)),
          ...disk.map(([x, y]) => Math.atan2(y, x)),
          ...real,
        ]),
      );
    }
    return out;
  }

  /** Return up to `most` places, apart from each other, where the target changes fastest. */
  private steepest(most: number): number[] {
    const { mu, value } = this;
    const change = Float64Array.from({ length: mu.length - 1 }, (_, i) => Math.abs(value[i + 1] - value[i]));
    const largest = change.reduce((a, b) => Math.max(a, b), 0);
    const found: number[] = [];
    const ranked = Array.from(change.keys()).sort((i, j) => change[j] - change[i] || i - j);
    for (const k of ranked) {
      if (change[k] < 0.5 * largest || found.length === most) break;
      const middle = (mu[k] + mu[k + 1]) / 2;
      if (found.every((other) => Math.abs(middle - other) > 0.1)) found.push(middle);
    }
    return found.length ? found : [0];
  }
}

function invert(x: number, y: number): [number, number] {
  const square = x * x + y * y;
  return [x / square, -y / square];
}

/** Return the w in the unit disk with (w + 1 / w) / 2 = x + i y. */
function toDisk(x: number, y: number): [number, number] {
  const re = x * x - y * y - 1;
  const im = 2 * x * y;
  const size = Math.hypot(re, im);
  const rootRe = Math.sqrt((size + re) / 2);
  const rootIm = Math.sign(im || 1) * Math.sqrt((size - re) / 2);
  const w: [number, number] = [x + rootRe, y + rootIm];
  return Math.hypot(...w) > 1 ? invert(...w) : w;
}

/** Yield after every start, with the share of the work that is done; return the best terms of order K. */
export function* design(
  mu: Float64Array,
  target: Float64Array,
  order: number,
  stable: boolean,
): Generator<number, Term[], void> {
  // the fit stops by absolute measures, so it sees a target of size one
  const size = target.reduce((most, value) => Math.max(most, Math.abs(value)), 0) || 1;
  const scaled = target.map((value) => value / size);
  const half = Math.floor(order / 2);
  const tasks: Array<[Problem, Float64Array]> = [];
  for (let pairs = half; pairs > Math.max(half - 2, -1); pairs--) {
    const problem = new Problem(mu, scaled, pairs, order - 2 * pairs, stable);
    for (const start of problem.starts()) tasks.push([problem, start]);
  }
  let best: { cost: number; terms: Term[] } | null = null;
  for (const [index, [problem, start]] of tasks.entries()) {
    const found = problem.solve(start);
    if (!best || found.cost < best.cost) best = found;
    yield (index + 1) / tasks.length;
  }
  const terms = (best as { terms: Term[] }).terms;
  return terms.map(({ pair, a, b }) => ({ pair, a, b: [size * b[0], size * b[1]] as const }));
}
