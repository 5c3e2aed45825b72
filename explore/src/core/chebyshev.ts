// The Chebyshev filter h(mu) = sum_k c_k T_k(mu) (Eq. 4), as `armagnn.filters.ChebyshevFilter` designs it.

const POINTS = 4096;
const COSINES = Float64Array.from({ length: 4 * POINTS }, (_, i) => Math.cos((Math.PI * i) / (2 * POINTS)));

/** Chebyshev points mu = cos((j + 1/2) pi / 4096), at which a function is read. */
export const CHEBYSHEV_POINTS = Float64Array.from({ length: POINTS }, (_, j) => COSINES[2 * j + 1]);

/** Return the first coefficients of the Chebyshev series of a function given at `CHEBYSHEV_POINTS`. */
export function chebyshevSeries(values: Float64Array, count: number): Float64Array {
  const c = new Float64Array(count);
  for (let k = 0; k < count; k++) {
    let sum = 0;
    for (let j = 0, at = k; j < POINTS; j++, at = (at + 2 * k) % (4 * POINTS)) sum += COSINES[at] * values[j];
    c[k] = ((k ? 2 : 1) * sum) / POINTS;
  }
  return c;
}

/** Return sum_k c_k T_k at the frequencies `mu`, by Clenshaw's recurrence. */
export function chebyshevResponse(c: Float64Array, mu: ArrayLike<number>): Float64Array {
  const out = new Float64Array(mu.length);
  for (let i = 0; i < mu.length; i++) {
    let later = 0;
    let next = 0;
    for (let k = c.length - 1; k > 0; k--) [next, later] = [c[k] + 2 * mu[i] * next - later, next];
    out[i] = c[0] + mu[i] * next - later;
  }
  return out;
}
