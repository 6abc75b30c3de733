// SPDX-License-Identifier: Apache-2.0
/** Responses with their requests: the form can change before the response arrives. */

/** A response, and its request as JSON. */
export interface Answered<Answer> {
  readonly request: string;
  readonly answer: Answer;
}

/** The response, if it belongs to the current request; otherwise null. */
export function answerTo<Answer>(request: string, answered: Answered<Answer> | null): Answer | null {
  return answered?.request === request ? answered.answer : null;
}

/** The problem for the current request: force is offered only for the request that was refused. */
export function currentProblem<Problem extends { readonly canForce: boolean }>(
  problem: Problem | null,
  refused: string | null,
  request: string,
): Problem | null {
  return problem?.canForce === true && refused !== request ? null : problem;
}
