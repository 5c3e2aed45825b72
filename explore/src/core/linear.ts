// Small dense linear algebra. A matrix is an array of columns.

export type Columns = Float64Array[];

export function dot(x: Float64Array, y: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < x.length; i++) sum += x[i] * y[i];
  return sum;
}

/** Add a multiple of x to y. */
export function axpy(factor: number, x: Float64Array, y: Float64Array): void {
  for (let i = 0; i < x.length; i++) y[i] += factor * x[i];
}

/** Return Q (orthonormal columns) and R (columns, upper triangular) with A = Q R, by Gram-Schmidt, twice. */
export function qr(columns: Columns): { q: Columns; r: Columns } {
  const n = columns.length;
  const q: Columns = [];
  const r: Columns = columns.map(() => new Float64Array(n));
  for (let k = 0; k < n; k++) {
    const v = columns[k].slice();
    for (let pass = 0; pass < 2; pass++) {
      for (let j = 0; j < k; j++) {
        const share = dot(q[j], v);
        r[k][j] += share;
        axpy(-share, q[j], v);
      }
    }
    const size = Math.sqrt(dot(v, v));
    r[k][k] = size;
    if (size > 0) for (let i = 0; i < v.length; i++) v[i] /= size;
    q.push(v);
  }
  return { q, r };
}

/** Return U, the singular values and V (columns) of a small square matrix, by one-sided Jacobi rotations. */
export function svd(matrix: Columns): { u: Columns; singular: number[]; v: Columns } {
  const n = matrix.length;
  const u = matrix.map((column) => column.slice());
  const v = matrix.map((_, k) => Float64Array.from({ length: n }, (__, i) => Number(i === k)));
  for (let sweep = 0; sweep < 60; sweep++) {
    let turned = false;
    for (let p = 0; p < n - 1; p++) {
      for (let q = p + 1; q < n; q++) {
        const pp = dot(u[p], u[p]);
        const qq = dot(u[q], u[q]);
        const pq = dot(u[p], u[q]);
        if (Math.abs(pq) <= 1e-15 * Math.sqrt(pp * qq) || pq === 0) continue;
        turned = true;
        const zeta = (qq - pp) / (2 * pq);
        const tangent = Math.sign(zeta || 1) / (Math.abs(zeta) + Math.sqrt(1 + zeta * zeta));
        const cosine = 1 / Math.sqrt(1 + tangent * tangent);
        const sine = cosine * tangent;
        rotate(u[p], u[q], cosine, sine);
        rotate(v[p], v[q], cosine, sine);
      }
    }
    if (!turned) break;
  }
  const singular = u.map((column) => Math.sqrt(dot(column, column)));
  u.forEach((column, k) => singular[k] > 0 && column.forEach((value, i) => (column[i] = value / singular[k])));
  return { u, singular, v };
}

function rotate(x: Float64Array, y: Float64Array, cosine: number, sine: number): void {
  for (let i = 0; i < x.length; i++) [x[i], y[i]] = [cosine * x[i] - sine * y[i], sine * x[i] + cosine * y[i]];
}

/** Return the solution of A x = y for a symmetric positive definite A, or null if it is not. */
export function cholesky(matrix: Columns, y: Float64Array): Float64Array | null {
  const n = y.length;
  const low = matrix.map((column) => column.slice()); // low[j][i] = L_ij, i >= j
  for (let j = 0; j < n; j++) {
    for (let k = 0; k < j; k++) for (let i = j; i < n; i++) low[j][i] -= low[k][i] * low[k][j];
    if (!(low[j][j] > 0)) return null;
    const root = Math.sqrt(low[j][j]);
    for (let i = j; i < n; i++) low[j][i] /= root;
  }
  const x = y.slice();
  for (let j = 0; j < n; j++) {
    x[j] /= low[j][j];
    for (let i = j + 1; i < n; i++) x[i] -= low[j][i] * x[j];
  }
  for (let j = n - 1; j >= 0; j--) {
    for (let i = j + 1; i < n; i++) x[j] -= low[j][i] * x[i];
    x[j] /= low[j][j];
  }
  return x;
}
