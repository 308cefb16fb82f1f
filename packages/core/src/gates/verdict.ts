import type { ErrorCode } from "@signalbox/contract";

/** What is said of a call before the policy is asked, whose own answer is a `CallVerdict`. `ask`: a person must decide. */
export type Verdict<Allowed> =
  | { readonly kind: "allow"; readonly value: Allowed }
  /** `reason` is written for the model, and safe to show. */
  | { readonly kind: "deny"; readonly code: ErrorCode; readonly reason: string }
  | { readonly kind: "ask"; readonly reason: string };

export function allow<Allowed>(value: Allowed): Verdict<Allowed> {
  return { kind: "allow", value };
}

export function deny(code: ErrorCode, reason: string): Verdict<never> {
  return { kind: "deny", code, reason };
}
