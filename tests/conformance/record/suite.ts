import { afterAll, beforeAll, describe } from "vitest";
import { admissionSuite } from "./admission.ts";
import { approvalsSuite } from "./approvals.ts";
import type { OpenBench, RecordBench } from "./bench.ts";
import { gatesSuite } from "./gates.ts";
import { inheritanceSuite } from "./inheritance.ts";
import { missedSuite } from "./missed.ts";
import { ownershipSuite } from "./ownership.ts";
import { processesSuite } from "./processes.ts";
import { runtimesSuite } from "./runtimes.ts";

/** Holds a record to what the ports promise. */
export function recordConformance(name: string, open: OpenBench): void {
  describe(`the record: ${name}`, () => {
    let opened: RecordBench | null = null;
    const bench = (): RecordBench => {
      if (opened === null) throw new Error("the bench is not open yet");
      return opened;
    };
    beforeAll(async () => {
      opened = await open();
    });
    afterAll(async () => {
      await opened?.[Symbol.asyncDispose]();
    });
    describe("admission", () => {
      admissionSuite(bench);
    });
    describe("ownership", () => {
      ownershipSuite(bench);
    });
    describe("gates and transcript", () => {
      gatesSuite(bench);
    });
    describe("approvals", () => {
      approvalsSuite(bench);
    });
    describe("what a dead generation leaves", () => {
      inheritanceSuite(bench);
    });
    describe("turns that the transcript lacks", () => {
      missedSuite(bench);
    });
    describe("runtimes", () => {
      runtimesSuite(bench);
    });
    describe("processes", () => {
      processesSuite(bench);
    });
  });
}
