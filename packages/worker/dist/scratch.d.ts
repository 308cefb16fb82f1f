export interface Scratch extends AsyncDisposable {
    readonly path: string;
}
export declare function makeScratch(root?: string): Promise<Scratch>;
