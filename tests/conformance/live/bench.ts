/** What a live channel must bring to be held to the promises of its ports: one channel as two processes have it. */
import type { LiveChannel, LiveHearing } from "@signalbox/core";

export type Live = LiveChannel & LiveHearing;

export interface LiveBench extends AsyncDisposable {
  readonly near: Live;
  /** The channel in another process, or `near` again where it does not leave its process. */
  readonly far: Live;
  /** Does to `far` what loses bells, where any can be lost, and resolves when it hears again. */
  interrupt(): Promise<void>;
}

export type OpenLiveBench = () => Promise<LiveBench>;
