/** RegistryService: a worker announces itself with the join token and is dialled from then on. */
import { createHash, timingSafeEqual } from "node:crypto";
import { PlatformError } from "@signalbox/contract";
import { RegistryService } from "@signalbox/contract/worker-protocol";
import type { ConnectRouter } from "@connectrpc/connect";
import { toConnectError } from "../gates/connect-error.ts";
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
          throw toConnectError(new PlatformError("unauthenticated", "A worker needs the join token of this platform."));
        }
        if (!isAddress(request.address) || request.incarnation === "") {
          const detail = "A worker announces an address such as http://127.0.0.1:4711, and itself.";
          throw toConnectError(new PlatformError("invalid_request", detail));
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

/** Scheme, host and port: nothing that would be sent along with every call. */
function isAddress(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && /^https?:\/\/[^/?#@]+$/.test(text);
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
