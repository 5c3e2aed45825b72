// What the reader has set, and the numbers that follow from it, at most once a frame.

import { chebyshevResponse, chebyshevSeries, CHEBYSHEV_POINTS } from "./core/chebyshev";
import { fitResidues } from "./core/design";
import { midpoints, order, powers, recursion, response, type Term } from "./core/filter";
import { interpolation, NAMED, type Points } from "./core/targets";

export interface State {
  readonly terms: readonly Term[];
  /** T, the steps of the recursion. */
  readonly steps: number;
  /** Draw earlier steps as well. */
  readonly earlier: boolean;
  /** The name of a target, "points" for a drawn one, or "none". */
  readonly target: string;
  readonly points: Points;
  /** Let b follow the poles, as the best fit to the target. */
  readonly follow: boolean;
  /** Design with |a| < 1. */
  readonly stable: boolean;
  /** Show poles 1 / a, or coefficients a. */
  readonly plane: "pole" | "a";
}

export const MU = midpoints();
export const LAMBDA = MU.map((mu) => 1 - mu);

/** Return the target of a state as a function of mu, if it has one. */
export function targetOf(state: State): ((mu: number) => number) | null {
  if (state.target === "none") return null;
  if (state.target !== "points") return NAMED[state.target];
  return state.points.length > 1 ? interpolation(state.points) : null;
}

/** What follows from a state, at the frequencies `MU`. */
export interface Numbers {
  readonly exact: Float64Array;
  readonly steps: Float64Array;
  readonly target: Float64Array | null;
  readonly chebyshev: Float64Array;
}

type Listener = (state: State, numbers: Numbers) => void;

export class Store {
  private listeners: Listener[] = [];
  private past: State[] = [];
  /** Called when a change has ended. */
  onCommit: () => void = () => undefined;
  private future: State[] = [];
  private committed: State;
  private frame = 0;
  private known: { state: State | null; numbers: Numbers | null; chebyshevOf: unknown; powersOf: number } = {
    state: null,
    numbers: null,
    chebyshevOf: null,
    powersOf: -1,
  };
  private powers: Float64Array = new Float64Array();
  private target: { of: State | null; value: Float64Array | null } = { of: null, value: null };

  constructor(public state: State) {
    this.committed = state;
  }

  /** Call a function now and after every change, at most once a frame. */
  subscribe(listener: Listener): void {
    this.listeners.push(listener);
    listener(this.state, this.numbers());
  }

  /** Change the state; `commit` ends a change that can be undone in one step. */
  update(change: Partial<State>, commit = true): void {
    let next = { ...this.state, ...change };
    if (next.follow && (change.terms || change.target || change.points || change.follow)) next = this.followed(next);
    this.state = next;
    if (commit) this.commit();
    this.draw();
  }

  /** End a change: what came before it can be brought back. */
  commit(): void {
    if (this.committed === this.state) return;
    this.past = [...this.past.slice(-99), this.committed];
    this.future = [];
    this.committed = this.state;
    this.onCommit();
    this.draw();
  }

  get canUndo(): boolean {
    return this.past.length > 0;
  }

  get canRedo(): boolean {
    return this.future.length > 0;
  }

  undo(): void {
    const before = this.past.pop();
    if (!before) return;
    this.future.push(this.committed);
    this.committed = this.state = before;
    this.onCommit();
    this.draw();
  }

  redo(): void {
    const after = this.future.pop();
    if (!after) return;
    this.past.push(this.committed);
    this.committed = this.state = after;
    this.onCommit();
    this.draw();
  }

  private followed(state: State): State {
    const target = this.targetValues(state);
    return target ? { ...state, terms: fitResidues(state.terms, MU, target) } : state;
  }

  private draw(): void {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      const numbers = this.numbers();
      for (const listener of this.listeners) listener(this.state, numbers);
    });
  }

  /** Return the target at `MU`. */
  targetValues(state: State = this.state): Float64Array | null {
    const { of } = this.target;
    if (!of || of.target !== state.target || (state.target === "points" && of.points !== state.points)) {
      const target = targetOf(state);
      this.target = { of: state, value: target && MU.map(target) };
    }
    return this.target.value;
  }

  /** Return the numbers of the state as it is. */
  numbers(): Numbers {
    const { state, known } = this;
    if (known.state === state && known.numbers) return known.numbers;
    if (known.powersOf !== state.steps) {
      this.powers = powers(MU, state.steps);
      known.powersOf = state.steps;
    }
    const target = this.targetValues();
    // a Chebyshev filter follows the target, which seldom changes; without one the exact response
    const count = 2 * order(state.terms);
    const source = target ? `${count}` : state.terms;
    const last = known.chebyshevOf as { source: unknown; target: unknown } | null;
    let chebyshev = known.numbers?.chebyshev;
    if (!chebyshev || last?.source !== source || last?.target !== target) {
      const wanted = targetOf(state);
      const values = wanted ? CHEBYSHEV_POINTS.map(wanted) : response(state.terms, CHEBYSHEV_POINTS);
      chebyshev = chebyshevResponse(chebyshevSeries(values, count), MU);
      known.chebyshevOf = { source, target };
    }
    known.state = state;
    known.numbers = {
      exact: response(state.terms, MU),
      steps: recursion(state.terms, MU, state.steps, this.powers),
      target,
      chebyshev,
    };
    return known.numbers;
  }
}
