/** One thing the doctor looked at. */
export interface HealthCheck {
  readonly name: string;
  readonly state: "ok" | "warn" | "fail";
  readonly found: string;
  /** What to do about it; `null` when nothing is wrong. */
  readonly advice: string | null;
}

export const ok = (name: string, found: string): HealthCheck => ({ name, state: "ok", found, advice: null });
export const warn = (name: string, found: string, advice: string): HealthCheck => ({
  name,
  state: "warn",
  found,
  advice,
});
export const fail = (name: string, found: string, advice: string): HealthCheck => ({
  name,
  state: "fail",
  found,
  advice,
});
