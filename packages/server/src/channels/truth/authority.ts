/** Whether this process may authorise anything under an incarnation: it holds its presence and was not declared dead. */
export interface Authority {
  holds(process: number): boolean;
}
