import type { ConnectRouter } from "@connectrpc/connect";
export interface Listener extends AsyncDisposable {
    readonly address: string;
}
export interface ListenOptions {
    readonly routes: (router: ConnectRouter) => void;
    readonly host: string;
    readonly port: number;
}
export declare function listen(options: ListenOptions): Promise<Listener>;
