/** RegistryService: a worker announces itself with the join token and is dialled from then on. */
import { createHash, timingSafeEqual } from "node:crypto";
import { RegistryService } from "@signalbox/contract/worker-protocol";
import { Code, ConnectError, type ConnectRouter } from "@connectrpc/connect";
import type { ConnectedWorkers } from "./pool.ts";

export interface RegistryOptions {
  readonly joinToken: string;
  /** Told to workers: how long they may hear from no supervisor before they end their engines. */
  readonly leaseMs: number;
  readonly workers: ConnectedWorkers;
}

export function registryRoutes(options: RegistryOptions): (router: ConnectRouter) => void {
  const expected = digest(`Bearer ${options.joinToken}`);
  return (router) => {
    router.service(RegistryService, {
      register(request, context) {
        if (!timingSafeEqual(digest(context.requestHeader.get("authorization") ?? ""), expected)) {
          throw new ConnectError("A worker needs the join token of this platform.", Code.Unauthenticated);
        }
        if (!/^https?:\/\/[^/]+$/.test(request.address) || request.incarnation === "") {
          throw new ConnectError("A worker announces an address and an incarnation.", Code.InvalidArgument);
        }
        options.workers.announce({
          address: request.address,
          incarnation: request.incarnation,
          room: request.room,
          runtimes: request.runtimes,
        });
        return { leaseMs: options.leaseMs };
      },
    });
  };
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
